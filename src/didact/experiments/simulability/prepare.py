"""From a recipe to an experiment: teacher, texts, explainers, students and channels, loaded and checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from didact.attribution.base import ATTRIBUTIONS, check_needs
from didact.data.dataset import Dataset
from didact.data.load import CORPUS, load_data
from didact.data.questions import Question, load_questions
from didact.data.sampling import sample, shuffled
from didact.errors import InputError, ParameterError
from didact.experiments.engine.toml import Entry, Options, Plain
from didact.experiments.simulability.recipe import SimulabilityRecipe, able_students, every_channel
from didact.metrics.base import METRICS
from didact.models.load import load_model
from didact.protocols import Explainer, Metric, Model
from didact.provenance import display_name
from didact.simulation.hints import linked
from didact.simulation.simulability import WeightedChannel, matching_channels, teacher_answers
from didact.students.base import CHANNELS, STUDENTS, Hint, LabelledExample, Reads, Student
from didact.students.matching import check_examples
from didact.types import AnswerKind, Example, Span

HUMAN = "human"
HELD_OUT = 1_000
"""Test texts where they are held out from the data: so many, at most a third."""

GENERATED = 300
"""Test texts where they are generated."""

USUAL = {
    "imdb": ("student_train", "student_test"),
    "movie_rationales": ("student_train", "student_test+validation+test"),
}
"""Preset -> the splits for students, where the recipe names none."""


@dataclass(frozen=True, eq=False)
class SimulabilityExperiment:
    """All that is needed to run.

    Attributes:
        recipe: what it was made from.
        model: the teacher; None where people are.
        pool: texts to draw training texts from, with the teacher's answers.
        test: test texts with the teacher's answers.
        task: what is imitated.
        labels: names of the classes; empty for numbers and spans.
        explainers: by label; empty where people explain.
        marked: per text of the pool what people marked, where they explain.
        students: by label.
        channels: channels by label.
        metrics: by label.
        facts: about teacher, pool and test texts, for the manifest.
    """

    recipe: SimulabilityRecipe
    model: Model | None
    pool: Sequence[LabelledExample]
    test: Sequence[LabelledExample]
    task: AnswerKind
    labels: tuple[str, ...]
    explainers: Mapping[str, Explainer]
    marked: Sequence[Hint]
    students: Mapping[str, Student]
    channels: Mapping[str, WeightedChannel]
    metrics: Mapping[str, Metric] = field(default_factory=dict)
    facts: Options = field(default_factory=dict)

    @property
    def outputs(self) -> int:
        """Number of classes; 1 where there are none."""
        return len(self.labels) or 1


def prepare(
    recipe: SimulabilityRecipe,
    *,
    model: Model | None = None,
    data: Dataset | None = None,
    test: Dataset | None = None,
    explainers: Mapping[str, Explainer] | None = None,
    trust_remote_code: bool = False,
) -> SimulabilityExperiment:
    """Load what a recipe names, or take what is given instead.

    Args:
        recipe: what to do.
        model: a loaded teacher, instead of the recipe's.
        data: loaded data of the pool, instead of the recipe's.
        test: loaded test data, instead of the recipe's.
        explainers: made ones by label, instead of the recipe's.
        trust_remote_code: whether the recipe's teacher may run code of its own.
    """
    if recipe.task == "span":
        return _of_questions(recipe)
    pool, tested = texts(recipe, data, test)
    if recipe.teacher == HUMAN:
        return _of_people(recipe, pool, tested)
    teacher = model if model is not None else load_model(**recipe.model, trust_remote_code=trust_remote_code)
    made = dict(explainers) if explainers is not None else configured(recipe.explainers)
    for explainer in made.values():
        check_needs(explainer.card, teacher)
    taught, test_answers = (teacher_answers(teacher, some.examples) for some in (pool, tested))
    kinds: dict[type, AnswerKind] = {float: "number", Span: "span"}
    task = kinds.get(type(taught[0].answer), "class")
    reads: Reads = "text" if all(example.is_textual for example in pool.examples) else "image"
    students, channels = _students(recipe, task, reads)
    for student in students.values():
        check_examples(student.card, (*pool.examples, *tested.examples))
    facts = {
        "teacher": {
            "name": display_name(teacher.name),
            "fingerprint": teacher.fingerprint(),
            "labels": list(teacher.labels),
        }
    }
    return SimulabilityExperiment(
        recipe,
        teacher,
        taught,
        test_answers,
        task,
        teacher.labels if task == "class" else (),
        made,
        (),
        students,
        channels,
        {one.label: METRICS.get(one.name).configured(**one.settings) for one in recipe.metrics},
        facts | _facts(pool, tested),
    )


def texts(
    recipe: SimulabilityRecipe, data: Dataset | None = None, test: Dataset | None = None
) -> tuple[Dataset, Dataset]:
    """The pool and the test texts; a text that is in both is left out of the pool."""
    given, tested = dict(recipe.data), dict(recipe.test)
    if data is None and not tested and test is None and given.get("source") in USUAL and "split" not in given:
        given["split"], split = USUAL[given["source"]]
        tested = {"source": given["source"], "split": split}
    generated = data is None and given.get("source") == CORPUS
    if generated and test is None and not tested:
        tested = {"limit": GENERATED, "seed": int(given.get("seed", 0)) + 1}
    if generated:
        given.setdefault("limit", 2 * max(recipe.sizes))
    if test is None and tested:
        test = load_data(**{"source": given.get("source"), **tested})
    if test is None:  # held out from the same data, so its limit counts what is left
        limit, seed = given.pop("limit", None), int(given.get("seed", 0))
        whole = data if data is not None else load_data(**given)
        order = shuffled(whole.examples, "exam")
        first = min(HELD_OUT, len(order) // 3)
        test = Dataset(whole.name, f"{whole.split}, held out", tuple(order[:first]), whole.labels)
        rest = sample(order[first:], limit if data is None else None, seed)
        pool = Dataset(whole.name, whole.split, tuple(rest), whole.labels)
    else:
        pool = data if data is not None else load_data(**given)
    known = {example.fingerprint for example in test}
    kept = [example for example in pool if example.fingerprint not in known]
    if not kept or not test.examples:
        raise InputError(
            f"{pool.name} gives {len(kept)} training texts and {len(test.examples)} test texts; give more, or test data"
        )
    return Dataset(pool.name, pool.split, tuple(kept), pool.labels), test


def _of_people(recipe: SimulabilityRecipe, pool: Dataset, test: Dataset) -> SimulabilityExperiment:
    """Gold labels as the answers to imitate, rationales as the explanations."""
    labels = pool.labels
    if not labels:
        raise InputError(f"people teach classes, and {pool.name} has none; give data with labels")
    return SimulabilityExperiment(
        recipe,
        None,
        [LabelledExample(one, _class(one, labels, pool.name)) for one in pool],
        [LabelledExample(one, _class(one, labels, test.name)) for one in test],
        "class",
        labels,
        {},
        [marked(one) for one in pool],
        *_students(recipe, "class"),
        facts={"teacher": {"name": HUMAN, "labels": list(labels)}} | _facts(pool, test),
    )


def _of_questions(recipe: SimulabilityRecipe) -> SimulabilityExperiment:
    if not recipe.test:
        raise InputError("questions need test data of their own: give [test] with a source or a split")
    tested = load_questions(**({"source": recipe.data["source"]} | dict(recipe.test)))
    passages = {one.example.text_pair for one in tested}
    pool = [
        one for one in load_questions(**({"linked": True} | dict(recipe.data))) if one.example.text_pair not in passages
    ]
    if not pool:
        raise InputError("every passage of the pool is among the test questions; give others")
    facts = {
        "teacher": {"name": HUMAN, "labels": []},
        "data": {
            "name": display_name(str(recipe.data["source"])),
            "split": recipe.data.get("split"),
            "examples": len(pool),
        },
        "test": {
            "name": display_name(str(recipe.data["source"])),
            "split": recipe.test.get("split"),
            "examples": len(tested),
        },
    }
    students, channels = _students(recipe, "span")
    hints = [linked(one.example, one.links) for one in pool]
    taught, test = ([_answered(one) for one in some] for some in (pool, tested))
    return SimulabilityExperiment(recipe, None, taught, test, "span", (), {}, hints, students, channels, facts=facts)


def marked(example: Example) -> Hint:
    """A human rationale as a hint: the words it touches."""
    if example.rationale is None:
        name = f"{example.id}: " if example.id is not None else ""
        raise InputError(f"the example {name}{example.preview} has no human rationale, so people cannot explain it")
    hint = linked(example, [(span, span) for span in example.rationale if isinstance(span, Span)])
    return Hint(hint.spans, hint.weights)


def _answered(question: Question) -> LabelledExample:
    if not question.answers:
        raise InputError(
            f"the question {question.example.preview} has no answer, and students learn answers; leave it out"
        )
    return LabelledExample(question.example, question.answers[0])


def _class(example: Example, labels: Sequence[str], source: str) -> int:
    if isinstance(example.label, int) and 0 <= example.label < len(labels):
        return example.label
    if example.label not in labels:
        raise InputError(f"{source}: the label {example.label!r} is none of {', '.join(labels)}; people teach labels")
    return labels.index(str(example.label))


def configured(given: Sequence[Entry]) -> dict[str, Explainer]:
    """Explainers by label."""
    return {one.label: ATTRIBUTIONS.get(one.name).configured(**one.settings) for one in given}


def _students(
    recipe: SimulabilityRecipe, task: AnswerKind, reads: Reads = "text"
) -> tuple[dict[str, Student], dict[str, WeightedChannel]]:
    """Students by label and the channels that reach any of them."""
    named = able_students(recipe, task, reads)
    students = {one.label: STUDENTS.get(one.name).configured(**one.settings) for one in named}
    channels = {}
    for one in recipe.channels or every_channel():
        settings = dict(one.settings)
        weight = settings.pop("weight", 1.0)
        if not isinstance(weight, (int, float)):
            raise ParameterError(f"weight of {one.label} must be a number, got {weight!r}")
        channels[one.label] = WeightedChannel(CHANNELS.get(one.name).configured(**settings), float(weight))
    used = {name for names in matching_channels(students, channels, task).values() for name in names}
    return students, {name: weighted for name, weighted in channels.items() if name in used}


def _facts(pool: Dataset, test: Dataset) -> Plain:
    return {
        name: {
            "name": display_name(data.name),
            "split": data.split,
            "examples": len(data.examples),
            "fingerprint": data.fingerprint,
        }
        for name, data in (("data", pool), ("test", test))
    }
