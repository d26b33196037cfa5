"""Comparisons with human rationales, by hand and against scikit-learn."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, roc_auc_score

from didact.errors import InputError, ParameterError
from didact.metrics.base import BaseMetric
from didact.metrics.plausibility._helpers import ENGLISH
from didact.metrics.plausibility.rationale_auc import RationaleAuc
from didact.metrics.plausibility.rationale_average_precision import RationaleAveragePrecision
from didact.metrics.plausibility.rationale_f1 import RationaleF1
from didact.metrics.plausibility.rationale_iou import RationaleIou
from didact.metrics.plausibility.rationale_recall_at_k import RationaleRecallAtK
from didact.protocols import Evidence
from didact.types import Box, Example, Explanation, Image, Prediction, Span, Target, Units
from tests.metrics.made import NEGATIVE, POSITIVE, explained, marked, value, values

TEXT = "a dull plot with wonderful songs"
ALL: list[BaseMetric] = [
    RationaleAuc(),
    RationaleAveragePrecision(),
    RationaleRecallAtK(),
    RationaleF1(),
    RationaleIou(),
]


def review(*scores: float) -> Explanation:
    """The rationale is "dull plot"."""
    return explained(Example(TEXT, rationale=(Span(2, 11),)), scores)


# a .1, dull .9, plot .2, with .2, wonderful .5, songs 0; the rationale is dull and plot.
WORKED = review(0.1, 0.9, 0.2, 0.2, 0.5, 0.0)


def test_auc_by_hand() -> None:
    # dull beats all 4 others; plot beats a and songs, ties with "with", loses to wonderful: (4 + 2.5) / (2 * 4).
    assert value(RationaleAuc(), WORKED) == pytest.approx(6.5 / 8)


def test_average_precision_by_hand() -> None:
    # Recall 1/2 at dull, precision 1; wonderful adds nothing; plot enters with "with": recall 1, precision 2/4.
    assert value(RationaleAveragePrecision(), WORKED) == pytest.approx(0.5 * 1 + 0.5 * 2 / 4)


def test_recall_at_k_by_hand() -> None:
    # K = 2, the size of the rationale: dull and wonderful are highest, so one of two is found.
    assert value(RationaleRecallAtK(), WORKED) == pytest.approx(1 / 2)
    # K = 3: plot and "with" are tied for the third place, each gets half of it.
    assert value(RationaleRecallAtK(k=3), WORKED) == pytest.approx(1.5 / 2)
    assert value(RationaleRecallAtK(k=100), WORKED) == 1.0


def test_f1_by_hand() -> None:
    # Half of six words are dull, wonderful and half each of plot and "with": 1.5 hits, 3 selected, 2 in the rationale.
    (grade,) = RationaleF1(share=0.5).measure(Evidence([WORKED]))
    assert grade.parts == {"precision": 1.5 / 3, "recall": 1.5 / 2, "hits": 1.5, "selected": 3.0, "gold": 2.0}
    assert grade.value == pytest.approx(2 * 0.5 * 0.75 / 1.25)
    # 30 % of six words are two, as many as the rationale has: the three are one number.
    (same,) = RationaleF1().measure(Evidence([WORKED]))
    assert same.value == same.parts["precision"] == same.parts["recall"] == 0.5


def test_no_two_metrics_are_one_number_under_two_names() -> None:
    rng = np.random.default_rng(0)
    texts = [" ".join(f"w{number}" for number in range(rng.integers(4, 30))) for _ in range(20)]
    marks = [tuple(f"w{number}" for number in rng.permutation(4)[: rng.integers(1, 4)]) for _ in texts]
    examples = [Example(text, rationale=marked(text, *words)) for text, words in zip(texts, marks, strict=True)]
    explanations = [explained(example, rng.normal(size=len(example.text.split())).tolist()) for example in examples]
    graded = [values(metric, explanations) for metric in ALL]
    for number, first in enumerate(graded):
        assert not any(np.allclose(first, second) for second in graded[:number])


@pytest.mark.parametrize("metric", ALL, ids=lambda metric: metric.card.name)
def test_explanations_of_another_label_do_not_count(metric: BaseMetric) -> None:
    """The rationale is evidence for the gold label, and these scores are evidence for another one."""
    right, wrong, unknown, foreign = (
        explained(Example(TEXT, rationale=(Span(2, 11),), label=label), WORKED.scores, prediction=prediction)
        for label, prediction in (("Negative", NEGATIVE), ("negative", POSITIVE), (None, POSITIVE), ("pos", POSITIVE))
    )
    grades = metric.measure(Evidence([right, wrong, unknown, foreign]))
    as_before = grades[2].value
    assert grades[0].value == grades[3].value == as_before
    assert math.isnan(grades[1].value)
    assert grades[0].parts["gold label explained"] == as_before
    assert grades[1].parts == {"another label explained": as_before}
    everything = type(metric)(explained="any")  # type: ignore[call-arg]
    (counted,) = everything.measure(Evidence([wrong]))
    assert counted.value == counted.parts["another label explained"] == as_before


def test_gold_labels_may_be_numbers() -> None:
    for label, counts in ((0, False), (1, True), (7, True)):  # 7 is none of the model's labels: nothing is known
        example = Example(TEXT, rationale=(Span(2, 11),), label=label)
        assert math.isfinite(value(RationaleAuc(), explained(example, WORKED.scores))) is counts


def test_iou_by_hand() -> None:
    # K = 2: dull is in both, wonderful and plot are in one of them.
    assert value(RationaleIou(), WORKED) == pytest.approx(1 / 3)
    # K = 1: dull alone, of dull and plot.
    assert value(RationaleIou(k=1), WORKED) == pytest.approx(1 / 2)


@pytest.mark.parametrize("metric", ALL, ids=lambda metric: metric.card.name)
def test_a_perfect_explanation_has_one(metric: BaseMetric) -> None:
    assert value(metric, review(0, 2, 1, 0, -1, 0)) == 1.0


@pytest.mark.parametrize("metric", [RationaleAuc(), RationaleRecallAtK(), RationaleF1()])
def test_the_place_of_tied_words_does_not_matter(metric: BaseMetric) -> None:
    # Constant scores are worth what chance is: 1/2 of the pairs, or 2 of 6 words (30 % of six are two).
    assert value(metric, review(*[3] * 6)) == pytest.approx(0.5 if isinstance(metric, RationaleAuc) else 2 / 6)


@pytest.mark.parametrize("metric", ALL, ids=lambda metric: metric.card.name)
def test_all_or_nothing_in_the_rationale_is_undefined(metric: BaseMetric) -> None:
    nothing = explained(Example(TEXT, rationale=()), range(6))
    everything = explained(Example(TEXT, rationale=(Span(0, len(TEXT)),)), range(6))
    assert all(math.isnan(found) for found in values(metric, [nothing, everything]))


@pytest.mark.parametrize("metric", ALL, ids=lambda metric: metric.card.name)
def test_only_what_the_model_saw_of_a_truncated_text_counts(metric: BaseMetric) -> None:
    # Seen: a, dull, plot, with. Of the rationale "dull ... songs" only dull is left; it has the highest score.
    cut = explained(Example(TEXT, rationale=marked(TEXT, "dull", "songs")), [0, 3, 1, 2])
    # 30 % of four words are two: dull and one too many.
    assert value(metric, cut) == (pytest.approx(2 / 3) if isinstance(metric, RationaleF1) else 1.0)
    # Nothing of the rationale was seen.
    assert math.isnan(value(metric, explained(Example(TEXT, rationale=marked(TEXT, "songs")), [0, 3, 1, 2])))


def test_tokens_are_summed_into_words() -> None:
    # won + der + ful = 1.2 is above dull = 1.0, though none of the pieces is.
    pieces = [Span(0, 4), Span(5, 8), Span(8, 11), Span(11, 14)]
    example = Example("dull wonderful", rationale=(Span(5, 14),))
    assert value(RationaleAuc(), explained(example, [1.0, 0.4, 0.4, 0.4], tokens=pieces)) == 1.0
    assert value(RationaleAuc(), explained(example, [1.0, 0.4, 0.4, -0.4], tokens=pieces)) == 0.0


def test_several_annotators_are_averaged() -> None:
    # First: dull plot, 6.5 / 8 as above. Second: songs, which has the lowest score: 0. Third marked nothing.
    example = Example(TEXT, rationale=(Span(2, 11),), annotators=((Span(2, 11),), marked(TEXT, "songs"), ()))
    (grade,) = RationaleAuc().measure(Evidence([explained(example, WORKED.scores)]))
    assert grade.value == pytest.approx((6.5 / 8 + 0) / 2)
    assert [grade.parts[f"annotator {i}"] for i in (1, 2)] == [pytest.approx(6.5 / 8), 0.0]
    assert math.isnan(grade.parts["annotator 3"])


def test_parts_of_several_annotators_are_means() -> None:
    # K = 1 is dull: precision 1 and recall 1/2 for the first annotator, 0 and 0 for the second.
    example = Example(TEXT, rationale=(), annotators=((Span(2, 11),), marked(TEXT, "songs")))
    (grade,) = RationaleF1(k=1).measure(Evidence([explained(example, WORKED.scores)]))
    assert (grade.parts["precision"], grade.parts["recall"]) == (0.5, 0.25)
    assert grade.value == pytest.approx((2 / 3 + 0) / 2)


def test_one_text_of_a_pair_can_be_judged_alone() -> None:
    pair = Example("dull plot", "dull songs", rationale=(Span(0, 4, 0), Span(5, 10, 1)))
    found = explained(pair, [4, 3, 2, 1])
    # Rationale: 4 and 1 against 3 and 2; in the first text 4 against 3, in the second 1 against 2.
    assert value(RationaleAuc(), found) == 0.5
    assert value(RationaleAuc(field=0), found) == 1.0
    assert value(RationaleAuc(field=1), found) == 0.0


def test_stop_words_leave_before_words_are_chosen() -> None:
    # L2E's script chose K words first and dropped stop words then, so that some explainers had fewer words left.
    # Without a and with, K = ceil(0.5 * 4) = 2 of dull, plot, wonderful and songs.
    found = review(9, 2, 1, 9, 0, 0)
    (grade,) = RationaleF1(share=0.5, stop_words="english").measure(Evidence([found]))
    assert (grade.parts["selected"], grade.parts["hits"], grade.value) == (2.0, 2.0, 1.0)
    # With them, K = 3: a, with and dull.
    assert value(RationaleF1(share=0.5), found) == pytest.approx(2 * 1 / (3 + 2))
    assert value(RationaleF1(share=0.5, stop_words=("A", "with")), found) == 1.0


def test_stop_words_leave_the_rationale_too() -> None:
    found = explained(Example(TEXT, rationale=(Span(0, 6),)), [0, 1, 0, 0, 0, 0])  # "a dull"
    assert value(RationaleF1(k=1), found) == pytest.approx(2 * 1 / (1 + 2))
    assert value(RationaleF1(k=1, stop_words="english"), found) == 1.0


def test_negations_are_no_stop_words() -> None:
    assert not ENGLISH & {"no", "not", "nor", "never", "n't", "don't", "but not"}


def test_the_mean_over_texts_is_macro_and_the_counts_give_micro() -> None:
    # L2E's script printed the one under the name of the other.
    text = "one two three four five"
    first = explained(Example(text, rationale=marked(text, "one")), [1, 0, 0, 0, 0])
    second = explained(Example(text, rationale=marked(text, "one", "two", "three")), [0, 0, 1, 2, 3])
    grades = RationaleF1(k=2).measure(Evidence([first, second]))
    assert [grade.value for grade in grades] == [pytest.approx(2 / 3), 0.0]
    hits, selected, gold = (sum(grade.parts[name] for grade in grades) for name in ("hits", "selected", "gold"))
    assert np.mean([grade.value for grade in grades]) == pytest.approx(1 / 3)  # macro
    assert 2 * hits / (selected + gold) == pytest.approx(2 * 1 / (4 + 4))  # micro


SCORED = st.lists(st.tuples(st.integers(-3, 3), st.booleans()), min_size=2, max_size=40).filter(
    lambda rows: len({inside for _, inside in rows}) == 2
)


@given(SCORED)
def test_auc_and_average_precision_are_those_of_scikit_learn(rows: list[tuple[int, bool]]) -> None:
    text = " ".join(f"w{number}" for number in range(len(rows)))
    found = explained(text, [score / 7 for score, _ in rows])
    spans = tuple(span for span, (_, inside) in zip(found.units.spans, rows, strict=True) if inside)
    example = Example(text, rationale=spans)
    found = replace(found, units=replace(found.units, example=example))
    gold = [inside for _, inside in rows]
    assert value(RationaleAuc(), found) == pytest.approx(roc_auc_score(gold, found.scores), abs=1e-12)
    expected = average_precision_score(gold, found.scores)
    assert value(RationaleAveragePrecision(), found) == pytest.approx(expected, abs=1e-12)


def test_a_text_without_rationale_is_refused() -> None:
    with pytest.raises(InputError, match=r"human rationales.*has none"):
        RationaleAuc().measure(Evidence([explained("no rationale", [1, 2])]))


@pytest.mark.parametrize("settings", [{"k": 0}, {"share": 0.0}, {"share": 1.5}, {"k": 3, "share": 0.1}])
def test_impossible_selections_are_refused(settings: dict[str, object]) -> None:
    with pytest.raises(ParameterError, match="rationale_f1"):
        RationaleF1.configured(**settings)


def test_settings_may_come_from_a_file() -> None:
    assert RationaleF1.configured(stop_words=["the"]) == RationaleF1(stop_words=("the",))
    with pytest.raises(ParameterError, match="'english'"):
        RationaleF1.configured(stop_words="german")


# Evidence against the explained number: words that make a translation bad, where its quality is explained.


def quality(signed: bool, *scores: float) -> Explanation:
    """A translation in which "dull" (field 0) and "alte" (field 1) are tagged BAD."""
    example = Example("a dull plot", "die alte Handlung", label=1, rationale=(Span(2, 6), Span(4, 8, 1)))
    return replace(explained(example, scores, prediction=Prediction(("quality",), (0.3,))), signed=signed)


def test_evidence_against_is_a_low_signed_score() -> None:
    # Source: dull -.5 below a .1, above plot -.9. Translation: alte -.2 above Handlung -.3, below die .4.
    given = quality(True, 0.1, -0.5, -0.9, 0.4, -0.2, -0.3)
    assert value(RationaleAuc(field=0), given) == 0.5
    assert value(RationaleAuc(field=0, evidence="against"), given) == 0.5
    assert value(RationaleAuc(field=0, evidence="either"), given) == 0.5
    marked = quality(True, 0.1, -0.5, -0.2, 0.4, -0.2, -0.1)
    assert value(RationaleAuc(field=0), marked) == 0.0
    assert value(RationaleAuc(field=0, evidence="against"), marked) == 1.0
    assert value(RationaleAuc(field=1, evidence="either"), marked) == 0.5
    assert value(RationaleAuc(evidence="against"), marked) == pytest.approx(7.5 / 8)  # both sides together


def test_scores_without_sign_have_no_direction() -> None:
    given = quality(False, 0.1, 0.5, 0.9, 0.4, 0.6, 0.3)
    for evidence in ("for", "against", "either"):
        assert value(RationaleAuc(field=1, evidence=evidence), given) == 1.0


def test_a_number_is_no_gold_label() -> None:
    (grade,) = RationaleAuc().measure(Evidence([quality(True, 1, 2, 3, 4, 5, 6)]))
    assert not math.isnan(grade.value)
    assert grade.parts == {}


def test_evidence_is_checked() -> None:
    with pytest.raises(ParameterError, match="evidence of rationale_auc must be 'for', 'against' or 'either'"):
        RationaleAuc(evidence="beside")  # type: ignore[arg-type]


# Images: a patch is in the rationale when it overlaps what was marked.


def test_patches_against_marked_boxes() -> None:
    image = Image(np.zeros((4, 4, 3), dtype=np.uint8))
    boxes = (Box(0, 0, 2, 2), Box(2, 0, 4, 2), Box(0, 2, 2, 4), Box(2, 2, 4, 4))
    units = Units(Example(image, rationale=(Box(0, 1, 2, 4),)), "patch", boxes)
    given = Explanation("made", units, (0.4, 0.3, 0.2, 0.1), Target(1, "positive"), POSITIVE)
    assert value(RationaleAuc(), given) == 0.75  # the first beats both others, the third one of them
    assert value(RationaleF1(k=1), given) == pytest.approx(2 / 3)
