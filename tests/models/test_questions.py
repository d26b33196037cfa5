"""Questions about a passage: answers, windows, given spans, and what is refused; against passes made by hand."""

from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch

import didact
from didact.attribution.base import ATTRIBUTIONS
from didact.errors import CapabilityError, InputError, TargetError
from didact.models.compose import compose
from didact.models.heads._spans import ABSENT
from didact.models.load import load_model
from didact.models.network import NetworkModel
from didact.models.readers.base import ReaderOptions
from didact.models.readers.question import QuestionReader
from didact.models.tokens.windows import MOST
from didact.testing.models import applicable, check
from didact.testing.tiny import TEXTS, tiny_model
from didact.types import Example, Explanation, Span, Target

QUESTION = "is it good food"
SHORT = Example(QUESTION, TEXTS[3])
LONG = Example(QUESTION, f"{TEXTS[2]} {TEXTS[3]} {TEXTS[0]}")
EXAMPLES = [LONG, Example("dull", TEXTS[1]), Example(QUESTION, f"{TEXTS[1]} {TEXTS[1]} {TEXTS[0]}")]


@cache
def answering(architecture: str = "bert", limit: int | None = None, max_truncated: float = 0.5) -> NetworkModel:
    network, tokenizer = tiny_model(architecture, ("start", "end"), auto_class="AutoModelForQuestionAnswering")
    return compose(network, tokenizer, options=ReaderOptions(limit, max_truncated))


WINDOWED = [(name, architecture) for architecture in ("bert", "gpt2") for name in applicable(answering(architecture))]


@pytest.mark.parametrize(("name", "architecture"), WINDOWED)
def test_windows_pass_the_checks_of_every_reader(name: str, architecture: str) -> None:
    model = answering(architecture, 24)
    if name.startswith("the_network_is_left"):
        pytest.skip("it uses attention, which is refused over several windows")
    if name == "heads_score_every_unit":
        with pytest.raises(CapabilityError, match=r"is read in \d windows of 24 tokens"):
            check(name, model, EXAMPLES)
        return
    assert max(int(code.passes.max()) for code in model.reader.encode(EXAMPLES)) > 0
    check(name, model, EXAMPLES)


def scores_by_hand(model: NetworkModel, example: Example) -> dict[tuple[int, int], list[tuple[float, float]]]:
    """Start and end scores of each passage token, by its characters, from one plain pass per window."""
    reader = model.reader
    assert isinstance(reader, QuestionReader)
    whole = model.tokenizer(example.text, example.text_pair, return_offsets_mapping=True)
    fields, offsets = whole.encodings[0].sequence_ids, whole["offset_mapping"]
    passage = [place for place, field in enumerate(fields) if field == 1]
    limit = reader.options.max_length or 0
    room = limit - (len(fields) - len(passage))
    step = room - min(128, room // 2) if len(fields) > limit else len(passage)
    starts = [0]
    while starts[-1] + room < len(passage) and len(fields) > limit:
        starts.append(starts[-1] + step)
    found: dict[tuple[int, int], list[tuple[float, float]]] = {(-1, -1): []}
    for at in starts:
        end = at + room if len(fields) > limit else len(passage)
        places = [*range(passage[0]), *passage[at:end], *range(passage[-1] + 1, len(fields))]
        ids = torch.tensor([[whole["input_ids"][place] for place in places]])
        types = torch.tensor([[whole["token_type_ids"][place] for place in places]])
        with torch.inference_mode():
            result = model.network(input_ids=ids, token_type_ids=types)
        ends = list(zip(result.start_logits[0].tolist(), result.end_logits[0].tolist(), strict=True))
        found[-1, -1].append(ends[0])
        for column, place in enumerate(places):
            if fields[place] == 1:
                found.setdefault(tuple(offsets[place]), []).append(ends[column])
    return found


@pytest.mark.parametrize(("example", "limit", "windows"), [(SHORT, None, 1), (LONG, None, 1), (LONG, 24, 4)])
def test_answers_are_those_of_passes_made_by_hand(example: Example, limit: int | None, windows: int) -> None:
    model = answering(limit=limit)
    (code,) = model.reader.encode([example])
    scores = scores_by_hand(model, example)
    assert int(code.passes.max()) + 1 == len(scores[-1, -1]) == windows
    none = min(scores.pop((-1, -1)), key=sum)
    sums = [np.logaddexp.reduce([pair[end] for own in scores.values() for pair in own] + [none[end]]) for end in (0, 1)]
    (prediction,) = model.predict([example])
    assert prediction.outputs[1] == pytest.approx(sum(none) - sum(sums), abs=1e-4)
    assert isinstance(prediction.extract, Span)
    target = Span(scores_at(scores, 2)[0], scores_at(scores, 3)[1], 1)
    (wanted,) = model.predict([example], about=[target])
    first, last = list(scores.values())[2], list(scores.values())[3]
    together = np.logaddexp.reduce([s[0] + e[1] for s, e in zip(first, last, strict=True)])
    assert wanted.labels == ("answer", "no answer", "given answer")
    assert wanted.outputs[2] == pytest.approx(together - sum(sums), abs=1e-4)
    assert wanted.outputs[:2] == pytest.approx(prediction.outputs)


def scores_at(scores: dict[tuple[int, int], list[tuple[float, float]]], number: int) -> tuple[int, int]:
    return list(scores)[number]


def test_a_word_is_absent_in_all_windows_or_in_none() -> None:
    model = answering(limit=24)
    (units,) = model.units([LONG])
    (code,) = model.reader.encode([LONG])
    texts = [LONG.texts[span.field][span.start : span.end] for span in units.spans]
    assert [text for text, span in zip(texts, units.spans, strict=True) if span.field == 0] == QUESTION.split()
    for span, positions in zip(units.spans, units.positions, strict=True):
        if span.field == 0:  # the question stands in every window
            assert {int(code.passes[place]) for place in positions} == set(code.passes.tolist())
    assert sorted(place for own in units.positions for place in own) == np.flatnonzero(code.fields >= 0).tolist()
    assert units.truncated == 0


@pytest.mark.parametrize("limit", [None, 24])
def test_question_and_passage_apart(limit: int | None) -> None:
    model = answering(limit=limit)
    (both,), (question,), (passage,) = (model.units([LONG], level) for level in ("word", "question", "passage"))
    assert {span.field for span in question.spans} == {0}
    assert {span.field for span in passage.spans} == {1}
    assert (*question.regions, *passage.regions) == both.regions
    whole = didact.explain(LONG, model, "occlusion")
    part = didact.explain(LONG, model, "occlusion", level="question")
    assert part.scores == pytest.approx(whole.scores[: len(part.scores)], abs=1e-4)


def best(model: NetworkModel, example: Example) -> Span:
    span = model.predict([example])[0].extract
    assert isinstance(span, Span)
    return span


def test_a_given_answer_is_explained_in_place_of_the_predicted_one() -> None:
    model, span = answering(), Span(0, 4, 1)
    made = didact.explain(SHORT, model, "occlusion", target=span)
    assert made.target == Target(2, "given answer", "log_probability", span)
    assert made.prediction.extract == best(model, SHORT) != span
    again = Explanation.from_json(made.to_json())
    assert (again.target, again.prediction) == (made.target, made.prediction)
    assert didact.explain(SHORT, model, "occlusion", target=made.target).scores == made.scores
    share = didact.explain(SHORT, model, "occlusion", target=span, scale="probability")
    assert np.log(share.prediction.value(share.target)) == pytest.approx(made.prediction.value(made.target), abs=1e-4)
    predicted = didact.explain(SHORT, model, "occlusion", target=best(model, SHORT))
    assert predicted.target == didact.explain(SHORT, model, "occlusion").target
    nothing = didact.explain(SHORT, model, "occlusion", target="no answer")
    assert (nothing.target.index, nothing.target.answer) == (1, None)


@pytest.mark.parametrize(
    ("span", "message"),
    [
        (Span(0, 4000, 1), r"characters 0 to 4000 are given .* field 1 has 53 characters; give a span inside"),
        (Span(4, 4, 1), "not empty"),
        (Span(-2, 4, 1), "characters -2 to 4"),
        (Span(0, 4, 2), "field 2 of the example is no text"),
        (Span(0, 2, 0), r"an answer lies in field 1, the passage, .* give Span\(start, end, 1\)"),
        (Span(4, 5, 1), "the model reads no token there"),
    ],
)
def test_an_answer_outside_of_the_passage_is_refused(span: Span, message: str) -> None:
    with pytest.raises(TargetError, match=message):
        didact.explain(SHORT, answering(), "occlusion", target=span)


def test_classifiers_refuse_spans() -> None:
    network, tokenizer = tiny_model("bert")
    for model in (compose(network, tokenizer), lambda texts: np.full((len(texts), 2), 0.5)):
        with pytest.raises(TargetError, match="unknown label"):
            didact.explain("a good film", model, "occlusion", target=Span(0, 1))


def test_a_question_without_a_passage_is_refused() -> None:
    with pytest.raises(InputError, match=r"only one text was given; give \(question, passage\)"):
        didact.explain(QUESTION, answering())


def test_a_question_that_leaves_no_room_is_refused() -> None:
    with pytest.raises(InputError, match="no room for the passage; shorten the question"):
        didact.explain((TEXTS[3] + TEXTS[2], TEXTS[0]), answering(limit=24))


def test_a_passage_longer_than_all_windows_is_refused_or_reported() -> None:
    endless = Example(QUESTION, " ".join(TEXTS * 30))
    with pytest.raises(InputError, match=rf"the {MOST} windows of 16 tokens .* leave out 9\d% .*--truncate"):
        didact.explain(endless, answering(limit=16), "gradient_norm")
    made = didact.explain(endless, answering(limit=16, max_truncated=1.0), "gradient_norm", level="question")
    assert 0.85 < made.units.truncated < 0.95


def test_methods_that_look_into_one_pass_refuse_several_windows() -> None:
    model = answering(limit=24)
    for method in ("attention", "attention_rollout", "attention_x_gradient", "layer_conductance"):
        with pytest.raises(CapabilityError, match=r"read in 4 windows of 24 tokens, .* looks into a single pass"):
            didact.explain(LONG, model, method)
        assert len(didact.explain(SHORT, answering(), method).scores) > 0


def test_no_answer_is_predicted_where_it_is_more_probable() -> None:
    model = answering()
    network = model.network
    kept = network.qa_outputs.bias.detach().clone(), network.qa_outputs.weight.detach().clone()
    (states,) = model.states([SHORT])
    try:
        with torch.no_grad():  # the first position's own state as the weights of both ends
            network.qa_outputs.weight.copy_(states[0, 0].expand(2, -1))
        (prediction,) = model.predict([SHORT])
        assert (prediction.label, prediction.extract, prediction.answer) == ("no answer", Span(0, 0, 1), Span(0, 0, 1))
        assert didact.explain(SHORT, model, "occlusion").target == Target(1, "no answer", "log_probability")
        with pytest.raises(TargetError, match="predicts that there is no answer; give the span"):
            didact.explain(SHORT, model, "occlusion", target="answer")
        assert didact.explain(SHORT, model, "occlusion", target=Span(0, 4, 1)).target.label == "given answer"
    finally:
        with torch.no_grad():
            network.qa_outputs.bias.copy_(kept[0])
            network.qa_outputs.weight.copy_(kept[1])


def test_an_answer_that_was_taken_out_is_improbable() -> None:
    model, span = answering(), Span(0, 4, 1)
    units = model.units([SHORT])
    keep = np.array([[own != span for own in units[0].spans], [True] * len(units[0])])
    (values,) = model.score(units, [Target(2, "given answer", "log_probability", span)], [keep], "delete")
    assert values[0] == pytest.approx(ABSENT)
    assert values[1] > ABSENT


@pytest.mark.parametrize("name", [card.name for card in ATTRIBUTIONS.cards() if not card.needs_rationale])
def test_every_method_explains_answers_or_declares_why_not(name: str) -> None:
    model, card = answering(), ATTRIBUTIONS.card(name)
    example = Example("dull food", "good food")
    if card.needs <= model.capabilities:
        assert len(didact.explain(example, model, name).scores) == 4
    else:
        with pytest.raises(CapabilityError, match=f"{name} needs a model that is"):
            didact.explain(example, model, name)


def test_a_trained_network_answers_short_and_long_passages(shared: Path) -> None:
    model = load_model(shared / "weights" / "minilm-squad", max_length=96)
    passage = "Frankenstein was written by Mary Shelley in 1818. Bram Stoker wrote Dracula in 1897."
    around = "The weather was fine, and people walked along the river for hours. " * 12
    for text in (passage, around + passage + around):
        (prediction,) = model.predict([Example("Who wrote Frankenstein?", text)])
        assert isinstance(prediction.extract, Span)
        assert text[prediction.extract.start : prediction.extract.end] == "Mary Shelley"
