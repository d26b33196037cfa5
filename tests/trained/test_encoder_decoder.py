"""Explainers are learned for encoder-decoders, or refused with what to do."""

import pytest

import didact
from didact.errors import CapabilityError
from didact.models.load import load_model
from didact.testing.tiny import TEXTS, tiny_model

WORDS = "good film with a warm heart and old cinema".split()  # noqa: SIM905


def test_a_network_learns_the_scores_of_another_explainer() -> None:
    model = load_model(tiny_model("bart"))
    texts = [f"{text} {word}" for text in TEXTS for word in WORDS]
    explainer = didact.train("l2e", texts, model, "occlusion", epochs=1, progress=False)
    assert len(didact.explain(TEXTS[0], model, explainer).scores) == len(TEXTS[0].split())
    with pytest.raises(
        CapabilityError, match="is an encoder-decoder, of which no encoder can be copied; give backbone="
    ):
        didact.train("aml", texts, model, epochs=1, progress=False)
