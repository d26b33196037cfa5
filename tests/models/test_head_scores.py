"""Head scores are the attention logits' means over the units' queries, without the matrices."""

import warnings

import numpy as np
import pytest
import torch
from torch import Tensor

from didact.errors import CapabilityError, ParameterError
from didact.meter import metered
from didact.models.compose import compose
from didact.models.fused_attention import HeadTap
from didact.models.head_scores import watched
from didact.models.load import load_model
from didact.models.network import NetworkModel
from didact.models.prompting.prompts import Prompt
from didact.models.readers.base import ReaderOptions
from didact.ops.heads import HIDDEN_BELOW, mean_query_logits
from didact.protocols import HEADS, Heads
from didact.testing.tiny import (
    TEXTS,
    keyword_predict,
    tiny_image_model,
    tiny_images,
    tiny_language_model,
    tiny_model,
)
from didact.types import Example, Units

with warnings.catch_warnings():  # DeBERTa-v2 scripts functions when it is imported, which torch calls deprecated
    warnings.simplefilter("ignore", DeprecationWarning)
    import transformers.models.deberta_v2.modeling_deberta_v2  # noqa: F401

EXAMPLES = [Example(text) for text in (TEXTS[0], "dull", *TEXTS[1:])]
TEXTUAL = ["bert", "roberta", "electra", "albert", "distilbert", "modernbert", "llama", "mistral", "gpt2"]


def slow(model: NetworkModel, units: Units) -> Tensor:
    """The same from all attention logits: mean over the units' queries that see a key, then over a unit's positions."""
    ((_, logits),) = model.attention([units], "all", "logits")  # (layers, heads, queries, keys)
    covered = [place for own in units.positions for place in own]
    rows = logits[:, :, covered]
    seen = rows > HIDDEN_BELOW
    mean = torch.where(seen, rows, 0).sum(2) / seen.sum(2).clamp(min=1)
    return torch.stack([mean[..., list(own)].mean(-1) for own in units.positions], -1).flatten(0, 1)


def check(model: NetworkModel, examples: list[Example]) -> None:
    units = model.units(examples)
    made = model.head_scores(units)
    for own, scores in zip(units, made, strict=True):
        assert scores.dtype == torch.float32
        assert scores.shape == (model.head_grid[0] * model.head_grid[1], len(own))
        torch.testing.assert_close(scores, slow(model, own), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("architecture", TEXTUAL)
def test_they_are_the_means_of_attention_logits(architecture: str) -> None:
    model = compose(*tiny_model(architecture))
    assert isinstance(model, Heads)
    assert model.head_grid == (2, 4)  # also where layers share weights, and where keys serve several heads
    check(model, EXAMPLES)


@pytest.mark.parametrize("architecture", ["bert", "roberta"])
def test_pairs(architecture: str) -> None:
    check(compose(*tiny_model(architecture), inputs="pair"), [Example(TEXTS[0], "dull"), Example("warm", TEXTS[2])])


def test_images() -> None:
    check(compose(*tiny_image_model()), tiny_images())


def test_prompts() -> None:
    prompt = Prompt("Review: {text}\nIt is", ["good", "dull"], absence="token:.")
    check(compose(*tiny_language_model("llama"), options=ReaderOptions(prompt=prompt)), EXAMPLES)


def test_the_embedded_network() -> None:
    model = load_model()
    assert isinstance(model, NetworkModel)
    check(model, EXAMPLES)


@pytest.mark.parametrize("architecture", ["bert", "modernbert", "llama"])
def test_neither_padding_nor_neighbours_change_them(architecture: str) -> None:
    model = compose(*tiny_model(architecture))
    units = model.units(EXAMPLES, "token")
    alone = [model.head_scores([own])[0] for own in units]
    for together, single in zip(model.head_scores(units), alone, strict=True):
        torch.testing.assert_close(together, single, rtol=1e-4, atol=1e-5)


def test_chosen_layers_in_the_given_order() -> None:
    model = compose(*tiny_model("bert"))
    units = model.units(EXAMPLES)
    both, turned, last = (model.head_scores(units, layers)[0] for layers in (None, (1, 0), (-1,)))
    assert torch.equal(turned, torch.cat([both[4:], both[:4]]))
    assert torch.equal(last, both[4:])


def test_one_counted_pass_that_leaves_the_network_as_it_was() -> None:
    network, tokenizer = tiny_model("bert")
    model = compose(network.train(), tokenizer)
    units = model.units(EXAMPLES)
    _ = model.capabilities
    before = network.config._attn_implementation
    with metered() as meter:
        (scores, *_) = model.head_scores(units)
    assert (meter.forwards, meter.backwards) == (len(EXAMPLES), 0)
    assert network.config._attn_implementation == before
    assert network.training
    weights = torch.zeros(len(scores), requires_grad=True)
    (weights @ scores).sum().backward()  # they can be learnt from
    np.testing.assert_allclose(weights.grad, scores.sum(1), rtol=1e-4, atol=1e-5)


def test_the_network_comes_back_after_a_failure() -> None:
    network, _ = tiny_model("bert")
    before = network.config._attn_implementation
    with pytest.raises(RuntimeError), watched(network, HeadTap(torch.ones(1, 3))):  # the share does not fit
        network(input_ids=torch.ones(1, 5, dtype=torch.long))
    assert network.config._attn_implementation == before


def test_layers_that_do_not_exist_are_refused() -> None:
    model = compose(*tiny_model("bert"))
    units = model.units(EXAMPLES[:1])
    with pytest.raises(ParameterError, match="layer 2 does not exist; the model has 2 layers, numbered 0 to 1"):
        model.head_scores(units, (0, 2))
    with pytest.raises(ParameterError, match="no layer was chosen"):
        model.head_scores(units, ())


@pytest.mark.parametrize("architecture", ["deberta-v2", "longformer"])
def test_networks_outside_of_the_interface_do_not_offer_them(architecture: str) -> None:
    model = compose(*tiny_model(architecture))
    assert HEADS not in model.capabilities
    with pytest.raises(CapabilityError, match="does not show queries and keys"):
        model.head_scores(model.units(EXAMPLES[:1]))
    assert HEADS not in load_model(keyword_predict, labels=("negative", "positive")).capabilities


@pytest.mark.parametrize(("cap", "offered"), [(None, True), (0.05, False)])
def test_attention_that_is_more_than_products_of_queries_and_keys_is_not_offered(
    cap: float | None, offered: bool
) -> None:
    from transformers import AutoConfig, AutoModelForSequenceClassification

    _, tokenizer = tiny_model("llama")
    config = AutoConfig.for_model(
        "gemma2",
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        intermediate_size=48,
        vocab_size=len(tokenizer),
        pad_token_id=tokenizer.pad_token_id,
        attn_logit_softcapping=cap,
        initializer_range=0.3,
        num_labels=2,
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = AutoModelForSequenceClassification.from_config(config, attn_implementation="eager").eval()
    assert (HEADS in compose(network, tokenizer).capabilities) == offered


def test_the_mean_query_has_second_derivatives() -> None:
    generator = torch.Generator().manual_seed(0)

    def drawn(*sizes: int) -> Tensor:
        return torch.randn(*sizes, generator=generator, dtype=torch.float64).requires_grad_()

    query, key = drawn(2, 4, 3, 5), drawn(2, 2, 3, 5)
    share = torch.tensor([[0.0, 1.0, 1.0], [0.0, 1.0, 0.0]])
    for seen in (None, torch.ones(1, 3, 3, dtype=torch.bool).tril()):

        def logits(q: Tensor, k: Tensor, seen: Tensor | None = seen) -> Tensor:
            return mean_query_logits(q, k, share, 0.5, seen)

        assert torch.autograd.gradgradcheck(logits, (query, key))
