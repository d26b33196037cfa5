"""Labels of words: which word is explained, and its first token's outputs."""

from functools import cache

import numpy as np
import pytest
import torch
from transformers import pipeline

import didact
from didact.attribution.base import ATTRIBUTIONS
from didact.errors import CapabilityError, TargetError
from didact.models.compose import compose
from didact.models.load import load_model
from didact.models.network import NetworkModel
from didact.testing.tiny import TEXTS, tiny_model
from didact.types import Example, Span, Target

LABELS = ("O", "B-PER", "B-LOC")
TEXT = TEXTS[0]


@cache
def tagger(architecture: str = "bert", labels: tuple[str, ...] = LABELS) -> NetworkModel:
    network, tokenizer = tiny_model(architecture, labels, auto_class="AutoModelForTokenClassification")
    return compose(network, tokenizer)


def by_hand(model: NetworkModel, text: str) -> dict[Span, torch.Tensor]:
    """Probabilities at the first token of every word, from a plain pass."""
    batch = model.tokenizer(text, return_tensors="pt")
    with torch.inference_mode():
        shares = model.network(**batch).logits[0].softmax(-1)
    (units,) = model.units([Example(text)])
    return {span: shares[own[0]] for span, own in zip(units.spans, units.positions, strict=True)}


@pytest.mark.parametrize("architecture", ["bert", "roberta"])
def test_the_word_with_the_most_probable_entity_is_explained(architecture: str) -> None:
    model = tagger(architecture)
    shares = by_hand(model, TEXT)
    made = didact.explain(TEXT, model, "occlusion")
    word = max(shares, key=lambda span: float(shares[span][1:].max()))
    assert made.prediction.extract == made.target.answer == word
    assert made.prediction.kind == "class"
    assert made.prediction.probabilities == pytest.approx(shares[word].tolist(), abs=1e-5)
    assert made.prediction.answer == made.target.label == LABELS[int(shares[word].argmax())]


def test_any_word_and_label_may_be_explained() -> None:
    model = tagger()
    for word, shares in by_hand(model, TEXT).items():
        made = didact.explain(TEXT, model, "occlusion", target=word)
        assert (made.target.answer, made.target.index) == (word, int(shares.argmax()))
        other = Target(2, "B-LOC", "probability", word)
        made = didact.explain(TEXT, model, "occlusion", target=other, scale="probability")
        assert made.target == other
        assert made.prediction.value(made.target) == pytest.approx(float(shares[2]), abs=1e-5)
    named = didact.explain(TEXT, model, "occlusion", target="B-LOC")
    assert (named.target.label, named.target.answer) == ("B-LOC", named.prediction.extract)


def test_a_word_that_was_taken_out_has_no_label() -> None:
    model = tagger()
    units = model.units([Example(TEXT)])
    keep = np.array([[number != 1 for number in range(len(units[0]))]])
    target = Target(1, "B-PER", "probability", units[0].spans[1])
    assert model.score(units, [target], [keep], "delete")[0] == pytest.approx([1 / 3])


def test_a_pipeline_of_labels_of_words() -> None:
    network, tokenizer = tiny_model("bert", LABELS, auto_class="AutoModelForTokenClassification")
    made = load_model(pipeline("token-classification", model=network, tokenizer=tokenizer))
    assert didact.explain(TEXT, made, "occlusion").scores == didact.explain(TEXT, tagger(), "occlusion").scores


def test_wrong_words_and_labels_are_refused() -> None:
    with pytest.raises(TargetError, match="characters 3 to 400"):
        didact.explain(TEXT, tagger(), "occlusion", target=Span(3, 400))
    with pytest.raises(TargetError, match="unknown label 'B-ORG'"):
        didact.explain(TEXT, tagger(), "occlusion", target="B-ORG")


def test_without_a_label_for_the_rest_the_most_certain_word_is_explained() -> None:
    model = tagger(labels=("NOUN", "VERB"))
    shares = by_hand(model, TEXT)
    made = didact.explain(TEXT, model, "occlusion")
    assert made.target.answer == max(shares, key=lambda span: float(shares[span].max()))


@pytest.mark.parametrize("name", [card.name for card in ATTRIBUTIONS.cards() if not card.needs_rationale])
def test_every_method_explains_labels_of_words_or_declares_why_not(name: str) -> None:
    model, card = tagger(), ATTRIBUTIONS.card(name)
    if card.needs <= model.capabilities:
        assert len(didact.explain("a dull plot", model, name).scores) == 3
    else:
        with pytest.raises(CapabilityError, match=f"{name} needs a model that is"):
            didact.explain("a dull plot", model, name)
