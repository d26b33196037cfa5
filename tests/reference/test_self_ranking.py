"""Lists of words as language models write them, with invented words, numbers, quotes and repetitions."""

import numpy as np
import pytest

import didact
from didact.attribution.self_ranking import SelfRanking, find_listed, ranked
from didact.errors import CapabilityError
from didact.models.load import load_model
from didact.models.network import NetworkModel
from didact.models.prompting.prompts import Prompt
from didact.testing.tiny import tiny_language_model, tiny_model
from didact.types import Span

TEXT = "A warm film, warm and wise."


@pytest.mark.parametrize(
    ("answer", "words", "invented"),
    [
        ("warm, film", ["warm", "film"], 0),
        ("1. Warm\n2. wise\n3. banana", ["warm", "wise"], 1),
        ('- "film"\n- **wise**', ["film", "wise"], 0),
        ("warm film", ["warm", "film"], 0),
        ("warm, warm, warm", ["warm", "warm"], 0),
        ("war, fil, wis", [], 3),
        ("I cannot say.", [], 3),
        ("", [], 0),
    ],
)
def test_words_of_the_text_are_looked_up_and_others_counted(answer: str, words: list[str], invented: int) -> None:
    places, missing = find_listed(answer, TEXT)
    assert [TEXT[place.start : place.end].lower() for place in places] == words
    assert missing == invented
    assert len(set(places)) == len(places)


def test_scores_fall_with_the_place_in_the_list() -> None:
    regions = [Span(0, 1), Span(2, 6), Span(7, 11), Span(13, 17)]
    np.testing.assert_allclose(ranked(regions, [Span(7, 11), Span(2, 6), Span(7, 9)]), [0, 0.75, 1, 0])


def prompted(monkeypatch: pytest.MonkeyPatch, answer: str | None = None) -> NetworkModel:
    prompt = Prompt("Review: {text}\nIt is", ["good", "dull"], instruction="Judge it.", chat=True)
    model = load_model(tiny_language_model(), prompt=prompt)
    assert isinstance(model, NetworkModel)
    if answer is not None:
        monkeypatch.setattr(model.reader, "answers", lambda requests, length: [answer] * len(requests))
    return model


def test_a_list_is_an_explanation_on_every_level(monkeypatch: pytest.MonkeyPatch) -> None:
    model = prompted(monkeypatch, "wonderful, splendid, film")
    words = didact.explain("a wonderful film", model, "self_ranking")
    assert words.scores == pytest.approx((0, 1, 2 / 3))
    assert words.details == {"listed": 2, "invented": 1}
    tokens = didact.explain("a wonderful film", model, "self_ranking", level="token")
    assert max(tokens.scores) == 1
    assert tokens.scores[0] == 0


def test_an_answer_without_words_of_the_text_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    explained = didact.explain("a wonderful film", prompted(monkeypatch, "None at all"), "self_ranking")
    assert not any(explained.scores)
    assert "lists no word of the text; it writes 'None at all'" in explained.warnings[0]


def test_the_network_itself_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    model = prompted(monkeypatch)
    first, second = (model.generate(["List the words of: a film", "Say it"], 5) for _ in range(2))
    assert first == second
    assert first[0] != first[1]
    explained = didact.explain("a wonderful film", model, SelfRanking(length=5))
    assert explained.cost.forwards == 2


def test_a_classifier_writes_nothing() -> None:
    with pytest.raises(CapabilityError, match="self_ranking needs a model that is generative"):
        didact.explain("a film", load_model(tiny_model()), "self_ranking")
