"""The closed-form student: against slow solutions, what hints do to it, and that students do not disturb each other."""

import dataclasses
import math
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from sklearn.linear_model import Ridge as SlowRidge

from didact.data.corpus import generate
from didact.errors import CapabilityError, InputError, ParameterError
from didact.ops.units import word_spans
from didact.stats.crossed import crossed_gain
from didact.students import bag_of_words, frozen_features
from didact.students.base import (
    CHANNELS,
    STUDENTS,
    Channel,
    Hint,
    LabelledExample,
    StudentOutcome,
    StudentRun,
    TaskSetup,
)
from didact.students.channels.attention import AttentionChannel
from didact.students.channels.prior import PriorChannel
from didact.students.kinds.ridge import PENALTIES, Ridge, fit
from didact.students.matching import reaches
from didact.types import Example, Floats, Span

CORPUS = generate(700, seed=3)
SETUP = TaskSetup(channel=PriorChannel())
DOUBT = 10.0


def labelled(examples: Sequence[Example]) -> list[LabelledExample]:
    """The corpus with its labels as the teacher's classes."""
    return [LabelledExample(example, int(example.label == "positive")) for example in examples]


def human(example: Example) -> Hint:
    """What was planted."""
    assert example.rationale is not None
    return Hint(example.rationale, np.ones(len(example.rationale)))


def chance(example: Example, rng: np.random.Generator) -> Hint:
    """As many words as were planted, anywhere."""
    assert example.rationale is not None
    words = tuple(word_spans(example.text))
    return Hint(words, (rng.permutation(len(words)) < len(example.rationale)).astype(float))


def run(places: Sequence[int], hints: Sequence[Hint | None] = (), weight: float = 0.0, seed: int = 0) -> StudentRun:
    return StudentRun(np.array(places, dtype=np.int64), hints or [None] * len(places), weight, seed)


def features(train: Sequence[str], asked: Sequence[str], least: int = 1) -> tuple[Floats, Floats, list[str]]:
    """Tf-idf of plain lower-case texts by the definition, word by word."""
    documents = [text.split() for text in train]
    known = sorted({word for words in documents for word in words})
    known = [word for word in known if sum(word in words for words in documents) >= least]

    def row(words: list[str]) -> Floats:
        values = [
            (1 + math.log(words.count(word))) * math.log(len(train) / sum(word in other for other in documents))
            if word in words
            else 0.0
            for word in known
        ]
        length = math.sqrt(sum(value * value for value in values))
        return np.array(values) / (length or 1.0)

    return np.stack([row(words) for words in documents]), np.stack([row(text.split()) for text in asked]), known


def made_up(count: int, seed: int) -> list[str]:
    """Texts of random words, some of them twice."""
    rng = np.random.default_rng(seed)
    return [" ".join(f"w{k}" for k in rng.integers(0, 30, size=rng.integers(4, 12))) for _ in range(count)]


def slow(x: Floats, y: Floats, asked: Floats, penalty: float, variances: Floats | None = None) -> Floats:
    """Generalised ridge by the primal normal equations."""
    variances = np.ones(x.shape[1]) if variances is None else variances
    centred = x - x.mean(axis=0)
    alpha = penalty * np.mean((centred**2 * variances).sum(axis=1))
    weights = np.linalg.solve(centred.T @ centred + alpha * np.diag(1 / variances), centred.T @ (y - y.mean()))
    return np.asarray((asked - x.mean(axis=0)) @ weights + y.mean())


def answers(outcomes: Sequence[StudentOutcome]) -> Floats:
    return np.stack([outcome.answers for outcome in outcomes])


@pytest.mark.parametrize("least", [1, 3])
def test_without_hints_it_is_ordinary_ridge(least: int) -> None:
    texts, asked = made_up(40, 0), made_up(15, 1)
    y = np.random.default_rng(2).normal(size=40)
    pool = [LabelledExample(Example(text), float(value)) for text, value in zip(texts, y, strict=True)]
    student = Ridge(penalty=0.3, least=least)
    setup = TaskSetup(kind="number", outputs=1, channel=PriorChannel())
    (found,) = student.train_and_predict(pool, [run(range(40))], [Example(text) for text in asked], setup)
    x, z, _ = features(texts, asked, least)
    alpha = 0.3 * np.mean(((x - x.mean(axis=0)) ** 2).sum(axis=1))
    assert found.answers == pytest.approx(SlowRidge(alpha=alpha).fit(x, y).predict(z), abs=1e-9)
    assert slow(x, y, z, 0.3) == pytest.approx(found.answers, abs=1e-9)


def test_hints_are_prior_variances() -> None:
    # Each hint names one word; its share is 1, which counts as the number of words of its text.
    texts, asked = made_up(30, 3), made_up(10, 4)
    y = np.random.default_rng(5).normal(size=30)
    hints, named = [], []
    for text in texts:
        span = word_spans(text)[1]
        hints.append(Hint((span,), np.array([2.5])))
        named.append(text[span.start : span.end])
    pool = [LabelledExample(Example(text), float(value)) for text, value in zip(texts, y, strict=True)]
    setup = TaskSetup(kind="number", outputs=1, channel=PriorChannel(doubt=DOUBT))
    taught = Ridge(penalty=0.3, least=1).train_and_predict(
        pool, [run(range(30), hints, weight) for weight in (0.0, 0.5, 1.0)], [Example(text) for text in asked], setup
    )
    x, z, known = features(texts, asked)
    told, seen = np.zeros(len(known)), np.zeros(len(known))
    for text, word in zip(texts, named, strict=True):
        told[known.index(word)] += len(text.split())
        for other in text.split():
            seen[known.index(other)] += 1
    for outcome, weight in zip(taught, (0.0, 0.5, 1.0), strict=True):
        variances = ((told + DOUBT) / (seen + DOUBT)) ** weight
        assert outcome.answers == pytest.approx(slow(x, y, z, 0.3, variances), abs=1e-9)


def test_leave_one_out_is_leaving_one_out() -> None:
    rng = np.random.default_rng(6)
    x, y = rng.normal(size=(12, 20)), rng.normal(size=(12, 2))
    kernel = torch.from_numpy(x @ x.T)[None]
    scale = np.mean(((x - x.mean(axis=0)) ** 2).sum(axis=1))
    tried = np.array([0.01, 0.1, 1.0, 10.0])
    errors = []
    for penalty in tried:
        left = []
        for out in range(12):
            kept = np.delete(np.arange(12), out)
            guess = SlowRidge(alpha=penalty * scale).fit(x[kept], y[kept]).predict(x[out : out + 1])
            left.append(((guess - y[out]) ** 2).mean())
        errors.append(float(np.mean(left)))
        found = fit(kernel, torch.from_numpy(y)[None], np.array([penalty]))
        assert float(found.errors[0]) == pytest.approx(errors[-1])
    best = fit(kernel, torch.from_numpy(y)[None], tried)
    assert float(best.penalties[0]) == tried[int(np.argmin(errors))]
    assert float(best.errors[0]) == pytest.approx(min(errors))


def test_many_classes_are_as_many_regressions() -> None:
    texts, asked = made_up(60, 7), made_up(40, 8)
    labels = np.random.default_rng(9).integers(0, 3, size=60)
    pool = [LabelledExample(Example(text), int(label)) for text, label in zip(texts, labels, strict=True)]
    test = [Example(text) for text in asked]
    (found,) = Ridge(penalty=0.3, least=1).train_and_predict(pool, [run(range(60))], test, TaskSetup(outputs=3))
    x, z, _ = features(texts, asked)
    scores = [slow(x, np.where(labels == label, 1.0, -1.0), z, 0.3) for label in range(3)]
    assert found.answers.tolist() == np.argmax(scores, axis=0).tolist()
    assert set(found.answers.tolist()) == {0, 1, 2}

    # Two classes are one regression: the same answers as with two, mirrored.
    two = [LabelledExample(item.example, int(item.answer == 1)) for item in pool]
    (found,) = Ridge(penalty=0.3, least=1).train_and_predict(two, [run(range(60))], test, TaskSetup())
    assert found.answers.tolist() == (slow(x, np.where(labels == 1, 1.0, -1.0), z, 0.3) > 0).astype(int).tolist()


def test_planted_rationales_teach_and_random_words_do_not() -> None:
    pool, test = labelled(CORPUS[:400]), CORPUS[400:]
    truth = np.array([item.answer for item in labelled(test)])
    rng = np.random.default_rng(10)
    runs = []
    for subset in range(12):
        places = np.random.default_rng(subset).permutation(400)[:100]
        examples = [CORPUS[place] for place in places]
        runs += [
            run(places.tolist()),
            run(places.tolist(), [human(example) for example in examples], 1.0),
            run(places.tolist(), [chance(example, rng) for example in examples], 1.0),
        ]
    right = (answers(Ridge().train_and_predict(pool, runs, test, SETUP)) == truth).astype(float)
    none, told, random = right[0::3], right[1::3], right[2::3]
    gain = crossed_gain(told, none)
    assert gain.low > 0.04  # seen: 0.088 (0.071 to 0.104), from 0.697 to 0.785
    assert crossed_gain(random, none).high < 0.01  # seen: -0.007 (-0.020 to 0.005)


def test_outcomes_do_not_depend_on_the_others() -> None:
    pool, test = labelled(CORPUS[:150]), CORPUS[150:200]
    rng = np.random.default_rng(11)
    runs = []
    for size in (40, 60, 40):
        places = rng.permutation(150)[:size].tolist()
        runs += [run(places), run(places, [human(CORPUS[place]) for place in places], 1.0)]
    together = Ridge().train_and_predict(pool, runs, test, SETUP)
    alone = [Ridge().train_and_predict(pool, [one], test, SETUP)[0] for one in runs]
    for other in (alone, Ridge().train_and_predict(pool, runs[::-1], test, SETUP)[::-1]):
        for one, two in zip(together, other, strict=True):
            assert one.answers.tolist() == two.answers.tolist()
            assert dict(one.details) == pytest.approx(dict(two.details))
    small = Ridge().train_and_predict(pool, runs, test, dataclasses.replace(SETUP, together=1))
    assert answers(small).tolist() == answers(together).tolist()


def test_seed_and_hints_without_weight_do_not_matter() -> None:
    pool, test, places = labelled(CORPUS[:80]), CORPUS[80:120], list(range(80))
    hints = [human(example) for example in CORPUS[:80]]
    silent = [Hint(hint.spans, np.zeros(len(hint.spans))) for hint in hints]
    plain, *others = Ridge().train_and_predict(
        pool,
        [run(places), run(places, hints, 0.0, seed=7), run(places, silent, 1.0), run(places, weight=1.0)],
        test,
        SETUP,
    )
    for other in others:
        assert other.answers.tolist() == plain.answers.tolist()
        assert other.details == plain.details


@pytest.mark.parametrize("kind", ["lexical", "frozen"])
@pytest.mark.parametrize("weight", [np.inf, np.nan])
def test_a_student_with_numbers_that_are_not_finite_is_reported_alone(kind: str, weight: float) -> None:
    student = Ridge.configured(features=kind)
    pool, test, places = labelled(CORPUS[:40]), CORPUS[40:60], list(range(40))
    hints = [human(example) for example in CORPUS[:40]]
    spoilt = [Hint(hints[0].spans, np.full(len(hints[0].spans), weight)), *hints[1:]]
    good, bad = student.train_and_predict(pool, [run(places, hints, 1.0), run(places, spoilt, 1.0)], test, SETUP)
    (alone,) = student.train_and_predict(pool, [run(places, hints, 1.0)], test, SETUP)
    assert bad.failure is not None
    assert "not finite" in bad.failure
    assert good.failure is None
    assert good.answers.tolist() == alone.answers.tolist()


def test_hints_reach_words_whatever_pieces_they_are_made_of() -> None:
    # Sizes 4 and 3. In the first text, "superb" is hit by two pieces of weights 1 and 3, of which the larger counts,
    # and "plot" by a phrase of weight 1 that ends inside of it; shares 3/4 and 1/4, times 4 words: 3 and 1. In the
    # second text, "Superb" of the second field is another word than that of the first; it has all of its 3 words.
    first, second = "superb and old plot", ("a day", "Superb")
    pool = [Example(first), Example(*second)]
    subset = bag_of_words.Subset(bag_of_words.read(pool, []), np.array([0, 1]), 1, "binary")
    hints = [
        Hint((Span(0, 3), Span(3, 6), Span(15, 17), Span(7, 10)), np.array([1.0, 3.0, 1.0, 0.0])),
        Hint((Span(0, 6, 1), Span(90, 99, 0)), np.array([0.2, 0.0])),
    ]
    told, seen = subset.hint_shares(hints)
    # Columns in order of appearance: superb, and, old, plot, a, day, Superb of the second field.
    assert told.tolist() == pytest.approx([3.0, 0.0, 0.0, 1.0, 0.0, 0.0, 3.0])
    assert seen.tolist() == [1.0] * 7
    told, seen = subset.hint_shares([hints[0], None])
    assert seen.tolist() == [1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0]


def test_words_of_the_exam_alone_and_texts_without_words_are_answered() -> None:
    pool = [
        LabelledExample(Example(text), answer)
        for text, answer in (("good", 1), ("bad", 0), ("good day", 1), ("bad day", 0))
    ]
    test = [Example("good"), Example("bad"), Example("unheard of")]
    (found,) = Ridge(least=1).train_and_predict(pool, [run(range(4))], test, TaskSetup())
    assert found.answers[:2].tolist() == [1, 0]
    assert found.failure is None
    (one,) = Ridge().train_and_predict(pool, [run([0])], test, TaskSetup())  # nothing but "good": always that
    assert one.answers.tolist() == [1, 1, 1]


def test_frozen_features_are_means_of_hidden_states() -> None:
    pool, test, places = labelled(CORPUS[:40]), CORPUS[40:60], list(range(40))
    (found,) = Ridge(features="frozen", penalty=0.3).train_and_predict(pool, [run(places)], test, SETUP)
    reader = frozen_features.FrozenFeatures(CORPUS[:40], test, model=None, max_length=256, device="cpu")
    view = reader.view(run(places), None)
    y = np.array([2.0 * float(item.answer) - 1 for item in pool])  # type: ignore[arg-type]
    expected = slow(view.train.numpy(), y, view.test.numpy(), 0.3)
    assert found.answers.tolist() == (expected > 0).astype(int).tolist()
    alone = frozen_features.FrozenFeatures(CORPUS[:40], test[:1], model=None, max_length=256, device="cpu")
    assert alone.view(run(places), None).test.numpy() == pytest.approx(view.test[:1].numpy(), abs=1e-5)


def test_frozen_features_learn_from_hints_which_words_count() -> None:
    pool, test, places = CORPUS[:60], CORPUS[60:80], list(range(60))
    reader = frozen_features.FrozenFeatures(pool, test, model=None, max_length=256, device="cpu")
    hinted = run(places, [human(example) for example in pool], 1.0)
    gate = frozen_features._gate(reader._pool, hinted, PriorChannel())
    assert gate is not None
    asked = reader._test
    proportions = gate(asked.states)
    planted = torch.zeros_like(asked.text)
    for row, example in enumerate(test):
        assert example.rationale is not None
        planted[row] = torch.from_numpy(asked.tokens.touched(row, example.rationale).any(0))
    inside, outside = proportions[planted].mean(), proportions[asked.text & ~planted].mean()
    assert inside > 3 * outside  # of texts that no hint was about
    silent = run(places, [Hint((), np.zeros(0))] * 60, 1.0)
    plain = reader.view(run(places), None).test
    assert torch.equal(reader.view(silent, PriorChannel()).test, plain)
    assert not torch.allclose(reader.view(hinted, PriorChannel()).test, plain)


def test_is_registered_and_configured_by_name() -> None:
    student = STUDENTS.get("ridge").configured(weighting="binary", penalty=2.0)
    assert student.parameters["weighting"] == "binary"
    channel = CHANNELS.get("prior").configured(doubt=3.0)
    assert isinstance(channel, Channel)
    assert reaches(channel.card, student.card)
    assert len(PENALTIES) == 25


def test_refusals_say_what_is_wrong() -> None:
    pool, test = labelled(CORPUS[:4]), CORPUS[4:6]
    with pytest.raises(ParameterError, match="penalty of ridge must be above 0"):
        Ridge(penalty=0.0)
    with pytest.raises(ParameterError, match="doubt of prior must be above 0, got 0"):
        PriorChannel(doubt=0)
    with pytest.raises(CapabilityError, match="'attention' does not reach the student ridge"):
        Ridge().train_and_predict(pool, [run([0, 1])], test, TaskSetup(channel=AttentionChannel()))
    with pytest.raises(InputError, match=r"run 1 \(from 0\) has no training examples"):
        Ridge().train_and_predict(pool, [run([0, 1]), run([])], test, SETUP)
    with pytest.raises(InputError, match="class numbers from 0 to 1, got 2"):
        Ridge().train_and_predict([LabelledExample(CORPUS[0], 2)], [run([0])], test, SETUP)
