"""The attention method against Transformers' own eager attention maps."""

import numpy as np
import pytest
import torch
from torch import Tensor

from didact.attribution.attention import Attention
from didact.errors import ParameterError
from didact.models.network import NetworkModel
from didact.testing.tiny import TEXTS
from didact.types import Example
from tests.reference.plain import TEXT, eager, encoded, per_unit, special, text_model

ENCODERS = ["bert", "roberta", "xlm-roberta", "electra", "albert", "distilbert", "modernbert", "deberta-v2"]
DECODERS = ["llama", "mistral", "gpt2"]


def maps(model: NetworkModel, text: str) -> Tensor:
    """Attention probabilities (layers, heads, queries, keys) as Transformers returns them."""
    network = model.network if model.network.config.model_type == "deberta-v2" else eager(model.network)
    with torch.no_grad():
        seen = network(**encoded(model, text), output_attentions=True).attentions
    return torch.stack([layer[0] for layer in seen])


@pytest.mark.parametrize("architecture", ENCODERS)
def test_default_is_the_last_layers_first_row_averaged_over_heads(architecture: str) -> None:
    model = text_model(architecture)
    wanted = maps(model, TEXT)[-1, :, 0].mean(0)
    (words,) = Attention().explain(model, [TEXT])
    (tokens,) = Attention(level="token").explain(model, [TEXT])
    np.testing.assert_allclose(words.array, per_unit(words.units, wanted), atol=1e-6)
    np.testing.assert_allclose(tokens.array, wanted[~special(model, TEXT)].numpy(), atol=1e-6)
    assert any(len(positions) > 1 for positions in words.units.positions)


@pytest.mark.parametrize("architecture", DECODERS)
def test_a_decoder_is_read_at_its_last_token(architecture: str) -> None:
    model = text_model(architecture)
    (found,) = Attention().explain(model, [TEXT])
    seen = maps(model, TEXT)[-1]
    np.testing.assert_allclose(found.array, per_unit(found.units, seen[:, -1].mean(0)), atol=1e-6)
    assert np.abs(found.array - per_unit(found.units, seen[:, 0].mean(0))).max() > 0.1


@pytest.mark.parametrize("architecture", ["bert", "distilbert", "gpt2", "deberta-v2"])
def test_layers_heads_and_rows_can_be_chosen(architecture: str) -> None:
    model = text_model(architecture)
    seen = maps(model, TEXT)
    row = -1 if architecture == "gpt2" else 0
    wanted = {
        Attention(layer="all"): seen[:, :, row].mean((0, 1)),
        Attention(layer=0): seen[0, :, row].mean(0),
        Attention(layer=-2): seen[0, :, row].mean(0),
        Attention(head=2): seen[-1, 2, row],
        Attention(head=-1, layer="all"): seen[:, -1, row].mean(0),
        Attention(rows="mean"): seen[-1].mean((0, 1)),
        Attention(rows="mean", layer=0, head=1): seen[0, 1].mean(0),
    }
    for method, tokens in wanted.items():
        (found,) = method.explain(model, [TEXT])
        np.testing.assert_allclose(found.array, per_unit(found.units, tokens), atol=1e-6, err_msg=repr(method))


def test_mean_pooling_reads_the_mean_of_rows() -> None:
    model = text_model("modernbert")
    (first,) = Attention().explain(model, [TEXT])
    model.network.config.classifier_pooling = "mean"
    (mean,) = Attention().explain(model, [TEXT])
    seen = maps(model, TEXT)[-1]
    np.testing.assert_allclose(mean.array, per_unit(mean.units, seen.mean((0, 1))), atol=1e-6)
    assert np.abs(mean.array - first.array).max() > 1e-3


def test_scores_are_shares_and_the_target_plays_no_part() -> None:
    model = text_model("bert")
    (found,) = Attention().explain(model, [TEXTS[1]], [0])
    (other,) = Attention().explain(model, [TEXTS[1]], [1])
    assert found.scores == other.scores
    assert min(found.scores) >= 0
    assert sum(found.scores) < 1  # the special tokens have their share and are not scored


@pytest.mark.parametrize(
    ("chosen", "complaint"), [({"layer": 2}, "layer 2 .* 2 layers"), ({"head": -5}, "head -5 .* 4 heads")]
)
def test_a_layer_or_head_that_is_not_there_is_named(chosen: dict[str, int], complaint: str) -> None:
    with pytest.raises(ParameterError, match=complaint):
        Attention(**chosen).explain(text_model("bert"), [TEXT])  # type: ignore[arg-type]


def logits_by_hand(model: NetworkModel, text: str) -> Tensor:
    """Scaled products of queries and keys (layers, heads, queries, keys), from BERT's own projections."""
    found = []
    with torch.no_grad():
        states = model.network(**encoded(model, text), output_hidden_states=True).hidden_states
        for layer, given in zip(model.network.base_model.encoder.layer, states, strict=False):
            own = layer.attention.self
            query, key = (part(given)[0].unflatten(-1, (4, 8)).transpose(0, 1) for part in (own.query, own.key))
            found.append(query @ key.transpose(-1, -2) / 8**0.5)
    return torch.stack(found)


def test_logits_equal_the_models_own_projections() -> None:
    model = text_model("bert")
    seen = logits_by_hand(model, TEXT)
    wanted = {
        Attention(kind="logits"): seen[-1, :, 0].mean(0),
        Attention(kind="logits", layer="all", rows="mean"): seen.mean((0, 1, 2)),
        Attention(kind="logits", layer=0, head=3, rows="mean"): seen[0, 3].mean(0),
        Attention(kind="logits", layer=0, head=1): seen[0, 1, 0],
    }
    for method, tokens in wanted.items():
        (found,) = method.explain(model, [TEXT])
        np.testing.assert_allclose(found.array, per_unit(found.units, tokens), atol=1e-4, err_msg=repr(method))


@pytest.mark.parametrize("architecture", DECODERS)
def test_logits_of_a_decoder_are_averaged_over_the_rows_that_see_the_token(architecture: str) -> None:
    """Which rows see a token is read off the probabilities of Transformers' own maps."""
    model = text_model(architecture)
    units = model.units([Example(TEXT)])
    ((_, seen),) = model.attention(units, "all", "logits")
    wanted = torch.zeros(seen.shape[-1])
    for key in range(seen.shape[-1]):
        rows = [row for row in range(seen.shape[-1]) if float(maps(model, TEXT)[0, 0, row, key]) > 0]
        assert rows[0] == key
        wanted[key] = seen[0, :, rows, key].mean()
    (found,) = Attention(kind="logits", rows="mean", layer=0).explain(model, [TEXT])
    np.testing.assert_allclose(found.array, per_unit(found.units, wanted), atol=1e-4)
    assert np.abs(found.array).max() < 1000


def test_logits_that_the_pooled_row_does_not_have_are_refused() -> None:
    model = text_model("modernbert")  # its first position sees eight neighbours in the second layer
    with pytest.raises(ParameterError, match=r"does not see all tokens .* rows='mean'"):
        Attention(kind="logits").explain(model, [TEXTS[3]])
    (mean,) = Attention(kind="logits", rows="mean").explain(model, [TEXTS[3]])
    assert np.abs(mean.array).max() < 1000
