"""The last layer computed only where the classifier reads: the same outputs, and left alone where they would not be."""

from __future__ import annotations

import contextlib
import dataclasses

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from didact.models.hidden import hidden_layers
from didact.models.last_layer import shortened
from didact.models.load import load_model
from didact.models.network import NetworkModel
from didact.testing.tiny import tiny_model
from didact.types import Example

TEXTS = ("a good film that was not bad at all", "bad")
KNOWN = ("bert", "roberta", "xlm-roberta", "electra", "distilbert")


class Rows(TorchFunctionMode):
    """How many rows every linear map gets."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[int] = []

    def __torch_function__(self, function, types, given=(), named=None):  # type: ignore[no-untyped-def]
        if function is nn.functional.linear:
            self.seen.append(given[0].shape[:-1].numel())
        return function(*given, **(named or {}))


def whole(model: NetworkModel) -> NetworkModel:
    """The same model, every layer of which is computed at all positions."""
    same = NetworkModel(model.network, model.reader, model.head)
    same._traits = dataclasses.replace(model.traits, reads_first_alone=False)
    return same


def last(model: NetworkModel) -> nn.Module:
    layers = hidden_layers(model.network)
    assert layers is not None
    return layers[-1]


@pytest.fixture(params=KNOWN)
def model(request: pytest.FixtureRequest) -> NetworkModel:
    network, tokenizer = tiny_model(request.param)
    made = load_model((network.double(), tokenizer))
    assert isinstance(made, NetworkModel)
    return made


def test_variants_and_gradients_are_those_of_whole_passes(model: NetworkModel) -> None:
    assert model.traits.reads_first_alone
    full = whole(model)
    units = model.units([Example(text) for text in TEXTS])
    targets = [model.target(None, one, "logit") for one in model.predict([unit.example for unit in units])]
    keep = [np.concatenate([np.eye(len(unit)), 1 - np.eye(len(unit))]).astype(bool) for unit in units]
    for absence in ("mask", "drop", "delete"):
        for short, plain in zip(
            model.score(units, targets, keep, absence), full.score(units, targets, keep, absence), strict=True
        ):
            np.testing.assert_allclose(short, plain, atol=1e-12)
    points, weights = [own[None] for own in model.embed(units)], [np.ones(1)] * len(units)
    for (value, gradient), (other, expected) in zip(
        model.gradients(units, targets, points, weights), full.gradients(units, targets, points, weights), strict=True
    ):
        np.testing.assert_allclose(value, other, atol=1e-12)
        torch.testing.assert_close(gradient, expected, atol=1e-12, rtol=1e-10)


def test_the_last_layer_gets_one_row_per_text(model: NetworkModel) -> None:
    units = model.units([Example(TEXTS[0])])
    targets = [model.target(None, one, "logit") for one in model.predict([Example(TEXTS[0])])]
    keep = [np.ones((1, len(units[0])), dtype=bool)]
    with Rows() as rows:
        model.score(units, targets, keep)
    with Rows() as full:
        whole(model).score(units, targets, keep)
    assert len(rows.seen) == len(full.seen)
    shorter = [number for number, pair in enumerate(zip(rows.seen, full.seen, strict=True)) if pair[0] < pair[1]]
    assert len(shorter) == 4  # query, output, and both maps of the feed-forward block
    assert {rows.seen[number] for number in shorter} == {1}


def test_the_network_is_left_as_it_was(model: NetworkModel) -> None:
    with contextlib.suppress(KeyError), shortened(model.network) as short:
        assert short
        assert "forward" in vars(last(model))
        raise KeyError
    assert "forward" not in vars(last(model))


def test_what_is_hooked_into_the_layer_sees_all_of_it(model: NetworkModel) -> None:
    seen: list[Tensor] = []
    assert model.traits.reads_first_alone
    inner = last(model).get_submodule("attention")
    handle = inner.register_forward_hook(lambda module, given, out: seen.append(out[0]))
    units = model.units([Example(TEXTS[0])])
    targets = [model.target(None, one, "logit") for one in model.predict([Example(TEXTS[0])])]
    seen.clear()
    model.score(units, targets, [np.ones((1, len(units[0])), dtype=bool)])
    handle.remove()
    assert [own.shape[1] for own in seen] == [len(model.reader.encode([Example(TEXTS[0])])[0])]


class MeanPooler(nn.Module):
    """Reads all positions."""

    def forward(self, states: Tensor) -> Tensor:
        return states.mean(1)


def test_a_classifier_that_reads_other_positions_has_whole_passes() -> None:
    network, tokenizer = tiny_model("bert")
    network.get_submodule("bert").pooler = MeanPooler()
    found = load_model((network, tokenizer))
    assert isinstance(found, NetworkModel)
    assert not found.traits.reads_first_alone


def test_the_embedded_network_computes_its_first_position_too() -> None:
    model = load_model()
    assert isinstance(model, NetworkModel)
    assert model.traits.reads_first_alone
    units = model.units([Example(text) for text in TEXTS])
    targets = [model.target(None, one, "logit") for one in model.predict([unit.example for unit in units])]
    keep = [np.eye(len(unit)).astype(bool) for unit in units]
    for short, plain in zip(model.score(units, targets, keep), whole(model).score(units, targets, keep), strict=True):
        np.testing.assert_allclose(short, plain, atol=1e-5)


@pytest.mark.parametrize("family", ["modernbert", "albert", "gpt2"])
def test_layers_that_are_built_otherwise_are_whole(family: str) -> None:
    found = load_model(tiny_model(family))
    assert isinstance(found, NetworkModel)
    assert not found.traits.reads_first_alone
