"""Vectors of whole texts."""

import numpy as np
import pytest
import torch

from didact.models.load import load_model
from didact.models.network import NetworkModel
from didact.models.text_vectors import sentence_vectors
from didact.testing.tiny import TEXTS, tiny_model
from didact.types import Example

EXAMPLES = [Example(text) for text in TEXTS]


@pytest.mark.parametrize("architecture", ["bert", "roberta", "albert", "gpt2"])
def test_they_are_the_mean_of_the_last_states(architecture: str) -> None:
    network, tokenizer = tiny_model(architecture)
    found = sentence_vectors(load_model((network, tokenizer)), EXAMPLES)
    for example, vector in zip(EXAMPLES, found, strict=True):
        with torch.inference_mode():
            states = network.base_model(**tokenizer(example.text, return_tensors="pt")).last_hidden_state[0]
        np.testing.assert_allclose(vector, states.mean(0).numpy(), rtol=1e-4, atol=1e-5)


def test_the_embedded_model_has_them_too() -> None:
    good, like, other = sentence_vectors(
        load_model(), [Example("A wonderful film."), Example("A wonderful movie."), Example("Dull and far too long.")]
    )
    assert np.linalg.norm(good - like) < np.linalg.norm(good - other)


def test_a_pair_is_read_as_a_pair() -> None:
    network, tokenizer = tiny_model("bert")
    model = load_model((network, tokenizer), inputs="pair")
    (both,) = sentence_vectors(model, [Example(TEXTS[0], TEXTS[1])])
    with torch.inference_mode():
        states = network.base_model(**tokenizer(TEXTS[0], TEXTS[1], return_tensors="pt")).last_hidden_state[0]
    np.testing.assert_allclose(both, states.mean(0).numpy(), rtol=1e-4, atol=1e-5)


def test_the_model_comes_back_as_it_was() -> None:
    model = load_model()
    assert isinstance(model, NetworkModel)
    model.network.train()
    sentence_vectors(model, EXAMPLES[:1])
    assert model.network.training
    assert not any(module._forward_hooks for module in model.network.modules())
    model.network.eval()
