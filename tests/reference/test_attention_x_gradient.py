"""Attention times gradient against Transformers' eager maps and autograd by hand, and against nudged attention."""

import numpy as np
import pytest
import torch
from torch import Tensor

from didact.attribution.attention_x_gradient import AttentionXGradient
from didact.errors import ParameterError
from didact.models.network import NetworkModel
from didact.types import Example, Target
from tests.reference.plain import TEXT, eager, encoded, per_unit, read, special, text_model, word_vectors

ENCODERS = ["bert", "roberta", "xlm-roberta", "electra", "albert", "distilbert", "modernbert", "deberta-v2"]
DECODERS = ["llama", "gpt2"]


def by_hand(model: NetworkModel, index: int, scale: str = "logit") -> Tensor:
    """Attention times its gradient: (layers, heads, queries, keys)."""
    network = model.network if model.network.config.model_type == "deberta-v2" else eager(model.network)
    inputs = encoded(model, TEXT)
    vectors = word_vectors(model, inputs.pop("input_ids")).requires_grad_(True)
    result = network(inputs_embeds=vectors, **inputs, output_attentions=True)
    gradients = torch.autograd.grad(read(result.logits, index, scale).sum(), result.attentions)
    return torch.stack([(a * g)[0].detach() for a, g in zip(result.attentions, gradients, strict=True)])


@pytest.mark.parametrize("scale", ["logit", "log_probability", "probability"])
@pytest.mark.parametrize("architecture", ENCODERS + DECODERS)
def test_default_is_the_last_layers_pooled_row_averaged_over_heads(architecture: str, scale: str) -> None:
    model = text_model(architecture)
    row = -1 if architecture in DECODERS else 0
    for index in (0, 1):
        wanted = by_hand(model, index, scale)[-1, :, row].mean(0)
        (words,) = AttentionXGradient(scale=scale).explain(model, [TEXT], [index])
        (tokens,) = AttentionXGradient(scale=scale, level="token").explain(model, [TEXT], [index])
        np.testing.assert_allclose(words.array, per_unit(words.units, wanted), atol=1e-5)
        if architecture in ENCODERS:
            np.testing.assert_allclose(tokens.array, wanted[~special(model, TEXT)].numpy(), atol=1e-5)
        assert np.abs(words.array).max() > 1e-3


@pytest.mark.parametrize("architecture", ["bert", "gpt2", "deberta-v2"])
def test_layers_heads_and_rows_can_be_chosen(architecture: str) -> None:
    model = text_model(architecture)
    seen = by_hand(model, 1)
    row = -1 if architecture == "gpt2" else 0
    wanted = {
        AttentionXGradient(layer="all"): seen[:, :, row].mean((0, 1)),
        AttentionXGradient(layer=0): seen[0, :, row].mean(0),
        AttentionXGradient(head=2): seen[-1, 2, row],
        AttentionXGradient(rows="mean", layer=0): seen[0].mean((0, 1)),
        AttentionXGradient(rows="mean", layer="all", head=1): seen[:, 1].mean((0, 1)),
    }
    for method, tokens in wanted.items():
        (found,) = method.explain(model, [TEXT], [1])
        np.testing.assert_allclose(found.array, per_unit(found.units, tokens), atol=1e-5, err_msg=repr(method))


def test_the_gradient_is_the_slope_when_one_entry_of_the_map_is_nudged(monkeypatch: pytest.MonkeyPatch) -> None:
    model = text_model("bert")
    model.network.double()
    units = model.units([Example(TEXT)])
    ((_, seen),) = model.attention_times_gradient(units, [Target(1, "positive")], "all")
    network = eager(model.network)
    inputs = encoded(model, TEXT)
    with torch.no_grad():
        maps = network(**inputs, output_attentions=True).attentions
    softmax = torch.nn.functional.softmax
    layer, head, query, key, step = 0, 3, 0, 4, 1e-5

    def nudged(size: float) -> float:
        calls = 0

        def spy(logits: Tensor, *args: object, **options: object) -> Tensor:
            nonlocal calls
            found: Tensor = softmax(logits, *args, **options)  # type: ignore[arg-type]
            if logits.ndim == 4:
                if calls == layer:
                    found = found.clone()
                    found[0, head, query, key] += size
                calls += 1
            return found

        with monkeypatch.context() as patch, torch.no_grad():
            patch.setattr(torch.nn.functional, "softmax", spy)
            return float(network(**inputs).logits[0, 1])

    slope = (nudged(step) - nudged(-step)) / (2 * step)
    assert float(seen[layer, head, query, key]) == pytest.approx(
        slope * float(maps[layer][0, head, query, key]), rel=1e-5
    )


def test_weights_that_need_no_gradient_change_nothing() -> None:
    model = text_model("bert")
    (plain,) = AttentionXGradient().explain(model, [TEXT])
    model.network.requires_grad_(False)
    (found,) = AttentionXGradient().explain(model, [TEXT])
    assert found.scores == plain.scores
    assert not any(parameter.requires_grad for parameter in model.network.parameters())


def test_a_layer_that_is_not_there_is_named() -> None:
    with pytest.raises(ParameterError, match=r"layer 2 .* 2 layers"):
        AttentionXGradient(layer=2).explain(text_model("bert"), [TEXT])
