"""Variants of a prompt with the common beginning read once: the numbers of plain passes, over fewer positions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from didact.errors import ParameterError
from didact.models.load import load_model
from didact.models.network import NetworkModel
from didact.models.prompting.prompts import Prompt
from didact.testing.tiny import tiny_language_model
from didact.types import Example, Floats

TEXTS = [Example("a truly wonderful film with a warm heart"), Example("dull"), Example("the plot is dull, the acting")]
WORDS = {"token": ["good", "dull"], "tree": {"a": " wonderful film", "b": " wonderful heart", "c": " good food"}}


def prompted(architecture: str, words: str = "token", template: str = "Review: {text}\nIt is") -> NetworkModel:
    labels = WORDS[words]
    prompt = Prompt(template, labels, instruction="Judge it.", shots=[("a warm heart", next(iter(labels)))])
    model = load_model(tiny_language_model(architecture), prompt=prompt)
    assert isinstance(model, NetworkModel)
    return model


def scores(model: NetworkModel, level: str, absence: str, *, reuse: bool) -> Floats:
    units = model.units(TEXTS, level)
    rng = np.random.default_rng(0)
    keep = [rng.random((7, len(own))) < 0.6 for own in units]
    keep[0][0] = True
    targets = [model.target(None, own, "logit") for own in model.predict(TEXTS)]
    assert model.traits.reuses_prefix
    model._traits = replace(model.traits, reuses_prefix=reuse)
    made = np.concatenate(model.score(units, targets, keep, absence))
    model._traits = replace(model.traits, reuses_prefix=True)
    return made


@pytest.mark.parametrize("architecture", ["llama", "gpt2"])
@pytest.mark.parametrize("words", WORDS)
@pytest.mark.parametrize("absence", ["token:unk", "delete", "drop", "sample:3"])
def test_scores_are_those_of_plain_passes(architecture: str, words: str, absence: str) -> None:
    model = prompted(architecture, words)
    for level in ("word", "shot"):
        plain, reused = (scores(model, level, absence, reuse=reuse) for reuse in (False, True))
        np.testing.assert_allclose(reused, plain, atol=1e-4)


def test_a_slot_at_the_very_beginning() -> None:
    model = prompted("gpt2", template="{text}\nIt is")
    np.testing.assert_allclose(
        scores(model, "word", "delete", reuse=True), scores(model, "word", "delete", reuse=False), atol=1e-4
    )


def test_the_common_beginning_is_read_once() -> None:
    model = prompted("llama")
    units = model.units(TEXTS)
    seen: list[int] = []
    hook = model.network.get_input_embeddings().register_forward_hook(lambda _, ids, __: seen.append(ids[0].numel()))
    try:
        scores(model, "word", "token:unk", reuse=False)
        plain, before = sum(seen), len(seen)
        scores(model, "word", "token:unk", reuse=True)
    finally:
        hook.remove()
    rest = max(len(code) - min(own.positions[0]) for code, own in zip(model.reader.encode(TEXTS), units, strict=True))
    predicted = sum(seen[:1])
    assert sum(seen[before:]) - predicted < 22 * rest + 100 < plain / 2


def test_networks_that_cannot_are_evaluated_plainly() -> None:
    """A network that attends to a window keeps no whole cache; one whose cache is wrong is not trusted with it."""
    assert not prompted("mistral").traits.reuses_prefix
    with pytest.raises(ParameterError, match="attends to a window of positions"):
        prompted("mistral", "tree")
    model = prompted("llama")
    network = model.network
    forward = network.forward

    def forgetful(
        *args: object, past_key_values: object = None, position_ids: object = None, **given: object
    ) -> object:
        return forward(*args, **given)

    network.forward = forgetful
    model._traits = None
    assert not model.traits.reuses_prefix


def test_the_network_keeps_nothing() -> None:
    model = prompted("llama")
    before = {name: value.clone() for name, value in model.network.state_dict().items()}
    scores(model, "word", "delete", reuse=True)
    assert all(torch.equal(value, before[name]) for name, value in model.network.state_dict().items())
    assert model.network.config.use_cache
