"""Watching attention changes nothing, sees everything, and leaves the model as it was."""

import copy
import warnings
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor
from transformers import (
    AutoConfig,
    AutoModelForSequenceClassification,
    PreTrainedModel,
    ViTConfig,
    ViTForImageClassification,
)

from didact.attribution.attention import Attention
from didact.errors import CapabilityError
from didact.models.attention import NAME, goes_through_interface, observed
from didact.models.load import load_model
from didact.models.network import NetworkModel
from didact.models.precision import multiplying
from didact.testing.tiny import ARCHITECTURES, TEXTS, tiny_model
from didact.types import Example

with warnings.catch_warnings():  # DeBERTa-v2 scripts functions when it is imported, which torch calls deprecated
    warnings.simplefilter("ignore", DeprecationWarning)
    import transformers.models.deberta_v2.modeling_deberta_v2  # noqa: F401

OWN_ATTENTION = ("deberta-v2", "longformer")
DECODERS = ("llama", "mistral", "gpt2")
WATCHED = [*(name for name in ARCHITECTURES if name not in OWN_ATTENTION), "vit"]
TEXTUAL = WATCHED[:-1]

Batch = dict[str, Tensor]


def vit() -> PreTrainedModel:
    config = ViTConfig(
        image_size=12,
        patch_size=4,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=48,
        num_labels=3,
        initializer_range=0.3,
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return ViTForImageClassification(config).eval()


def case(name: str) -> tuple[PreTrainedModel, Batch]:
    """A model and a batch of two, the shorter text padded on the right."""
    if name == "vit":
        return vit(), {"pixel_values": torch.rand(2, 3, 12, 12, generator=torch.Generator().manual_seed(0))}
    model, tokenizer = tiny_model(name)
    return model, dict(tokenizer([TEXTS[0], "warm heart"], padding=True, padding_side="right", return_tensors="pt"))


def watch(model: PreTrainedModel, batch: Batch) -> tuple[Tensor, list[Tensor], list[Tensor]]:
    """Outputs, attention logits and attention probabilities of an observed pass."""
    logits: list[Tensor] = []
    probabilities: list[Tensor] = []

    def keep(raw: Tensor, shares: Tensor) -> None:
        logits.append(raw)
        probabilities.append(shares)

    with observed(model, keep):
        outputs = model(**batch).logits
    return outputs, logits, probabilities


def eager(model: PreTrainedModel) -> PreTrainedModel:
    twin = copy.deepcopy(model)
    twin.set_attn_implementation("eager")
    return twin


@pytest.mark.parametrize("name", WATCHED)
@torch.no_grad()
def test_outputs_and_maps_are_those_of_eager_attention(name: str) -> None:
    model, batch = case(name)
    assert goes_through_interface(model)
    outputs, logits, probabilities = watch(model, batch)
    twin = eager(model)
    theirs = twin(**batch, output_attentions=True)
    torch.testing.assert_close(outputs, theirs.logits, atol=1e-6, rtol=0)
    torch.testing.assert_close(outputs, twin(**batch).logits, atol=1e-6, rtol=0)
    torch.testing.assert_close(outputs, model(**batch).logits, atol=1e-4, rtol=0)  # a fused kernel rounds differently
    tokens = batch["input_ids"].shape[1] if name != "vit" else 10
    assert [tuple(seen.shape) for seen in probabilities] == [(2, 4, tokens, tokens)] * 2
    assert [tuple(seen.shape) for seen in logits] == [(2, 4, tokens, tokens)] * 2
    for seen, wanted in zip(probabilities, theirs.attentions, strict=True):
        torch.testing.assert_close(seen, wanted, atol=1e-6, rtol=0)
    for raw, shares in zip(logits, probabilities, strict=True):
        torch.testing.assert_close(raw.softmax(-1), shares, atol=1e-6, rtol=0)
        torch.testing.assert_close(shares.sum(-1), torch.ones(2, 4, tokens), atol=1e-5, rtol=0)


@pytest.mark.parametrize("name", TEXTUAL)
@torch.no_grad()
def test_real_tokens_do_not_look_at_padding_nor_decoders_ahead(name: str) -> None:
    model, batch = case(name)
    _, _, probabilities = watch(model, batch)
    length = int(batch["attention_mask"][1].sum())
    assert length < batch["attention_mask"].shape[1]
    ahead = torch.ones_like(probabilities[0][0, 0]).triu(1).bool()
    for seen in probabilities:
        assert float(seen[1, :, :length, length:].abs().max()) == 0.0
        seen_ahead = float(seen[0, :, ahead].max())
        assert (seen_ahead == 0.0) == (name in DECODERS)


@pytest.mark.parametrize("name", ["modernbert", "mistral"])
@torch.no_grad()
def test_a_local_window_is_respected(name: str) -> None:
    model, batch = case(name)
    _, _, probabilities = watch(model, batch)
    far = {"modernbert": 5, "mistral": 8}[name]  # 8 tokens wide: 4 to either side, or itself and 7 before
    distance = (torch.arange(probabilities[0].shape[-1])[:, None] - torch.arange(probabilities[0].shape[-1])).abs()
    assert bool((distance >= far).any())
    local = [float(seen[0][:, distance >= far].max()) == 0.0 for seen in probabilities]
    assert local == ([False, True] if name == "modernbert" else [True, True])  # ModernBERT's first layer is global


@pytest.mark.parametrize("before", ["sdpa", "eager"])
@pytest.mark.parametrize("name", WATCHED)
def test_the_model_uses_again_what_it_used_before(name: str, before: str) -> None:
    model, batch = case(name)
    model.set_attn_implementation(before)
    with torch.no_grad():
        plain = model(**batch).logits
        calls = []
        with observed(model, lambda *seen: calls.append(1)):
            assert implementations(model) == {NAME}
            model(**batch)
        assert implementations(model) == {before}
        with pytest.raises(KeyError, match="planted"), observed(model, planted):
            model(**batch)
        assert implementations(model) == {before}
        assert torch.equal(model(**batch).logits, plain)
    assert len(calls) == 2  # nobody is called after the block


def test_observers_nest_and_the_outer_one_comes_back() -> None:
    model, batch = case("bert")
    outer: list[Tensor] = []
    inner: list[Tensor] = []
    with torch.no_grad(), observed(model, lambda _, shares: outer.append(shares)):
        model(**batch)
        with observed(model, lambda _, shares: inner.append(shares)):
            model(**batch)
        assert (len(outer), len(inner)) == (2, 2)
        with pytest.raises(KeyError, match="planted"), observed(model, planted):
            model(**batch)
        model(**batch)
        assert (len(outer), len(inner)) == (4, 2)
    assert implementations(model) == {"sdpa"}


def test_two_models_at_once_restore_their_own() -> None:
    (first, batch), (second, _) = case("bert"), case("bert")
    first.set_attn_implementation("eager")
    with torch.no_grad(), observed(first, lambda *_: None), observed(second, lambda *_: None):
        assert torch.equal(first(**batch).logits, second(**batch).logits)
    assert (implementations(first), implementations(second)) == ({"eager"}, {"sdpa"})


@pytest.mark.parametrize("name", ["bert", "distilbert", "modernbert", "llama", "vit"])
def test_it_can_be_differentiated_twice(name: str) -> None:
    model, batch = case(name)

    def meta_gradient(network: PreTrainedModel, run: Callable[[], Tensor]) -> list[Tensor]:
        weights = [p for n, p in network.named_parameters() if "layer" in n and n.endswith("weight") and p.ndim == 2]
        first = torch.autograd.grad(run().pow(2).sum(), weights, create_graph=True)
        return list(torch.autograd.grad(sum((g * g).sum() for g in first), weights))  # type: ignore[arg-type]

    twin = eager(model)
    found = meta_gradient(model, lambda: watch(model, batch)[0])
    wanted = meta_gradient(twin, lambda: twin(**batch).logits)
    assert len(found) >= 8
    for got, want in zip(found, wanted, strict=True):
        assert float(want.abs().max()) > 0
        torch.testing.assert_close(got, want, rtol=1e-3, atol=1e-4 * float(want.abs().max()))


def test_gradients_reach_the_parameters_through_what_was_seen() -> None:
    model, batch = case("bert")
    query = model.base_model.encoder.layer[0].attention.self.query.weight
    seen: list[Tensor] = []
    with observed(model, lambda raw, _: seen.append(raw)):
        model(**batch)
    (first,) = torch.autograd.grad(seen[-1].softmax(-1).pow(2).sum(), query, create_graph=True)
    (second,) = torch.autograd.grad(first.pow(2).sum(), query)
    assert float(first.detach().abs().max()) > 0
    assert float(second.abs().max()) > 0
    assert bool(torch.isfinite(second).all())


@torch.no_grad()
def test_logits_are_scaled_products_plus_mask_and_their_mean_needs_no_matrix() -> None:
    model, batch = case("bert")
    attention = model.base_model.encoder.layer[0].attention.self
    states: dict[str, Tensor] = {}
    hooks = [
        getattr(attention, part).register_forward_hook(
            lambda _, __, out, part=part: states.update({part: out.view(*out.shape[:2], 4, 8).transpose(1, 2)})
        )
        for part in ("query", "key")
    ]
    _, logits, _ = watch(model, batch)
    for hook in hooks:
        hook.remove()
    q, k = states["query"], states["key"]  # (batch, heads, tokens, dim)
    products = q @ k.transpose(-1, -2) / 8**0.5
    length = int(batch["attention_mask"][1].sum())
    torch.testing.assert_close(logits[0][0], products[0], atol=1e-5, rtol=0)
    torch.testing.assert_close(logits[0][1, ..., :length], products[1, ..., :length], atol=1e-5, rtol=0)
    assert float(logits[0][1, ..., length:].max()) < -1e30
    cheap = (k[0] @ q[0].mean(1)[..., None])[..., 0] / 8**0.5  # SMaT's head score: (mean q)·k, per key
    torch.testing.assert_close(logits[0][0].mean(1), cheap, atol=1e-5, rtol=0)


@pytest.mark.parametrize("kind", ["probabilities", "logits"])
@pytest.mark.parametrize("rows", ["all", "mean", "pooled"])
def test_the_text_model_gives_the_rows_asked_for(rows: str, kind: str) -> None:
    model = text_model("bert")
    units = model.units([Example(text) for text in TEXTS[:2]])
    for text, (prediction, seen) in zip(TEXTS[:2], model.attention(units, rows, kind), strict=True):
        batch = dict(model.tokenizer(text, return_tensors="pt"))
        with torch.no_grad():
            outputs, logits, probabilities = watch(model.network, batch)
        whole = torch.stack([layer[0] for layer in (logits if kind == "logits" else probabilities)])
        wanted = {"all": whole, "mean": whole.mean(2), "pooled": whole[:, :, 0]}[rows]
        torch.testing.assert_close(seen, wanted, atol=1e-6, rtol=0)
        np.testing.assert_allclose(prediction.outputs, outputs[0].tolist(), atol=1e-6)


def test_deberta_is_read_through_its_own_maps() -> None:
    model = text_model("deberta-v2")
    assert not goes_through_interface(model.network)
    assert "attentive" in model.capabilities
    units = model.units([Example(TEXTS[0])])
    ((prediction, seen),) = model.attention(units, "all", "probabilities")
    with torch.no_grad():
        theirs = model.network(**model.tokenizer(TEXTS[0], return_tensors="pt"), output_attentions=True)
    torch.testing.assert_close(seen, torch.stack(theirs.attentions)[:, 0], atol=1e-6, rtol=0)
    np.testing.assert_allclose(prediction.outputs, theirs.logits[0].tolist(), atol=1e-6)
    with pytest.raises(CapabilityError, match=r"logits cannot; use kind='probabilities'"):
        model.attention(units, "all", "logits")


def test_longformer_says_that_its_attention_cannot_be_seen_and_what_works() -> None:
    model = text_model("longformer")
    assert not goes_through_interface(model.network)
    assert "attentive" not in model.capabilities
    with pytest.raises(
        CapabilityError, match=r"LongformerForSequenceClassification shows no attention maps .* full maps"
    ):
        model.attention(model.units([Example(TEXTS[0])]))
    with pytest.raises(
        CapabilityError, match=r"attentive.*methods that work with it: .*kernel_shap.*occlusion"
    ) as told:
        Attention().explain(model, [TEXTS[0]])
    works = str(told.value).partition("work with it: ")[2].split(", ")
    assert "attention" not in works
    assert "lime" in works


def test_half_and_double_precision_stay_what_they_are() -> None:
    model, batch = case("bert")
    for dtype in (torch.float64, torch.bfloat16):
        with multiplying(model.to(dtype)):
            outputs, _, probabilities = watch(model, batch)
        assert outputs.dtype == dtype
        assert {seen.dtype for seen in probabilities} == {dtype}


@torch.no_grad()
def test_double_precision_is_kept_to_the_last_digits() -> None:
    model, batch = case("bert")
    model.double()
    torch.testing.assert_close(watch(model, batch)[0], eager(model)(**batch).logits, atol=1e-12, rtol=0)


@torch.no_grad()
def test_a_model_with_attention_sinks_keeps_its_outputs_or_is_refused() -> None:
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
    config = AutoConfig.for_model(
        "gpt_oss",
        **sizes,
        vocab_size=20,
        num_key_value_heads=2,
        head_dim=8,
        num_local_experts=2,
        num_experts_per_tok=1,
        pad_token_id=0,
        initializer_range=0.3,
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = AutoModelForSequenceClassification.from_config(config).eval()
    batch = {"input_ids": torch.arange(1, 9)[None]}
    if goes_through_interface(model):
        torch.testing.assert_close(watch(model, batch)[0], model(**batch).logits, atol=1e-4, rtol=1e-4)


def text_model(architecture: str) -> NetworkModel:
    model = load_model(tiny_model(architecture))
    assert isinstance(model, NetworkModel)
    return model


def implementations(model: PreTrainedModel) -> set[str]:
    return {part.config._attn_implementation for part in model.modules() if isinstance(part, PreTrainedModel)}


def planted(*_: Tensor) -> None:
    raise KeyError("planted")
