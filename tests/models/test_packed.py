"""Networks of 8-bit layers: every method works or is refused, and no row depends on the rows beside it."""

import warnings
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from torch import nn

import didact
from didact.attribution.base import ATTRIBUTIONS
from didact.errors import CapabilityError
from didact.models.load import load_model
from didact.models.network import NetworkModel
from didact.models.packed import is_packed
from didact.protocols import DIFFERENTIABLE
from didact.testing.tiny import TEXTS, tiny_model
from didact.types import Example, Span


@pytest.fixture(autouse=True)
def engine() -> Iterator[None]:
    """The default one is made for processors that not every machine has."""
    before = torch.backends.quantized.engine
    torch.backends.quantized.engine = "onednn"
    yield
    torch.backends.quantized.engine = before


def quantised(architecture: str, seed: int = 0) -> NetworkModel:
    network, tokenizer = tiny_model(architecture, seed=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch moves quantisation to another package
        packed = torch.ao.quantization.quantize_dynamic(network, {nn.Linear}, dtype=torch.qint8)
    model = load_model((packed, tokenizer))
    assert isinstance(model, NetworkModel)
    return model


@pytest.mark.parametrize("architecture", ["bert", "distilbert", "gpt2"])
def test_every_method_works_or_is_refused(architecture: str) -> None:
    model = quantised(architecture)
    assert is_packed(model.network)
    example = Example("a good film", rationale=(Span(2, 6),))  # short: rows go through one by one
    worked = set()
    for card in ATTRIBUTIONS.cards():
        if card.needs <= model.capabilities:
            quick = {"rounds": 20} if card.name == "reagent" else {}
            assert np.isfinite(didact.explain(example, model, card.name, progress=False, **quick).array).all()
            worked.add(card.name)
        else:
            with pytest.raises(CapabilityError, match="methods that work with it"):
                didact.explain(example, model, card.name, progress=False)
    assert {"occlusion", "lime", "kernel_shap", "shapley_sampling", "partition_shap"} <= worked
    assert "integrated_gradients" not in worked
    assert DIFFERENTIABLE not in model.capabilities


def test_what_else_is_explained_changes_nothing() -> None:
    model = quantised("bert")
    together = didact.explain(list(TEXTS), model, "occlusion", progress=False)
    for text, explanation in zip(TEXTS, together, strict=True):
        assert didact.explain(text, model, "occlusion", progress=False).scores == explanation.scores


def test_a_layer_that_is_not_quantised_does_not_make_it_differentiable() -> None:
    network, tokenizer = tiny_model("bert")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        inner = torch.ao.quantization.quantize_dynamic(
            network, {"bert.encoder.layer.0.intermediate.dense"}, dtype=torch.qint8
        )
    assert is_packed(inner)  # gradients would flow past that layer, and be wrong
    with pytest.raises(CapabilityError, match="needs a model that is differentiable"):
        didact.explain(TEXTS[0], (inner, tokenizer), "gradient_norm", progress=False)


def test_packed_weights_are_part_of_the_fingerprint() -> None:
    assert quantised("bert").fingerprint() == quantised("bert").fingerprint()
    assert quantised("bert").fingerprint() != quantised("bert", seed=1).fingerprint()
