"""Hidden states of chosen layers, batched."""

import numpy as np
import pytest
import torch

from didact.errors import CapabilityError, ParameterError
from didact.meter import metered
from didact.models.compose import compose
from didact.models.load import load_model
from didact.models.network import NetworkModel
from didact.testing.tiny import TEXTS, tiny_model
from didact.types import Example

EXAMPLES = [Example(text) for text in TEXTS]


@pytest.mark.parametrize("architecture", ["bert", "roberta", "distilbert", "modernbert", "llama", "gpt2"])
def test_states_are_the_networks_own(architecture: str) -> None:
    network, tokenizer = tiny_model(architecture)
    model = compose(network, tokenizer)
    for example, states in zip(EXAMPLES, model.states(EXAMPLES, layers=(0, -1, 1)), strict=True):
        with torch.no_grad():
            plain = network(**tokenizer(example.text, return_tensors="pt"), output_hidden_states=True).hidden_states
        assert states.shape == (3, *plain[0].shape[1:])
        torch.testing.assert_close(states[0], plain[1][0], rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(states[1], plain[-1][0], rtol=1e-4, atol=1e-5)
        assert torch.equal(states[1], states[2])  # the last layer, by either number
        assert not states.requires_grad


def test_only_what_is_reduced_is_kept_and_passes_are_counted() -> None:
    model = compose(*tiny_model("bert"))
    whole = model.states(EXAMPLES)
    with metered() as meter:
        means = model.states(EXAMPLES, reduce=lambda states: states[-1].mean(0))
    assert (meter.forwards, meter.backwards) == (len(EXAMPLES), 0)
    for mean, states in zip(means, whole, strict=True):
        torch.testing.assert_close(mean, states[-1].mean(0), rtol=1e-5, atol=1e-6)


def test_states_can_be_learnt_from() -> None:
    (states,) = compose(*tiny_model("bert")).states(EXAMPLES[:1])
    weights = torch.zeros(states.shape[-1], requires_grad=True)
    (states[0] @ weights).sum().backward()
    np.testing.assert_allclose(weights.grad, states[0].sum(0), rtol=1e-5)


def test_layers_that_do_not_exist_and_models_without_a_list_of_layers() -> None:
    model = compose(*tiny_model("bert"))
    with pytest.raises(ParameterError, match="layer 2 does not exist; the model has 2 layers"):
        model.states(EXAMPLES, layers=(2,))
    shared = compose(*tiny_model("albert"))
    assert shared.states(EXAMPLES)[0].shape[0] == 1
    with pytest.raises(CapabilityError, match="does not keep its layers in one list"):
        shared.states(EXAMPLES, layers=(0,))


def test_the_embedded_network_shows_its_states() -> None:
    model = load_model()
    assert isinstance(model, NetworkModel)
    (states,) = model.states([Example("good")], layers=(0, -1))
    assert states.shape[0] == 2
    assert not torch.allclose(states[0], states[1])
