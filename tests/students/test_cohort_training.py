"""Students trained together against students trained alone, and what is reported of those that go astray."""

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from didact.data.corpus import generate
from didact.errors import CapabilityError, InputError, ParameterError
from didact.progress import listening
from didact.students.base import (
    CHANNELS,
    STUDENTS,
    AttentionView,
    Batch,
    Channel,
    Cohort,
    CohortOutput,
    Hint,
    LabelledExample,
    Student,
    StudentOutcome,
    StudentRun,
    TaskSetup,
)
from didact.students.batches import cohort_data
from didact.students.cohort_training import train_students
from didact.students.optimization import Schedule
from didact.students.stacked import StackedLinear
from didact.students.tokenized import WordNumbers, worded
from didact.testing.tiny import tiny_model
from didact.types import Example

EXAMPLES = generate(44, seed=3)
POOL = [LabelledExample(example, len(example.text) / 100.0) for example in EXAMPLES[:32]]
TEST = EXAMPLES[32:]
SMALL = {"embedding": 8, "hidden": 8, "batch_size": 4, "epochs": 2, "max_length": 24, "min_count": 1}
LEARNERS = ["bert", "roberta", "distilbert", "llama", "bilstm", "bilstm_attention"]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Tiny encoders with their tokenizers, as they would lie on a disk."""
    found = {}
    for architecture in ("bert", "roberta", "distilbert", "llama", "deberta-v2"):
        folder = tmp_path_factory.mktemp(architecture)
        model, tokenizer = tiny_model(architecture)
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        found[architecture] = str(folder)
    return found


def student(name: str, folders: dict[str, str], **settings: object) -> Student:
    if name in folders:
        base = {"model": folders[name], "max_length": 24, "batch_size": 4, "epochs": 2, "learning_rate": 1e-3}
        return STUDENTS.get("transformer").configured(**base | settings)
    return STUDENTS.get(name).configured(**SMALL | settings)


def marked(item: LabelledExample) -> Hint:
    """The planted rationale."""
    spans = item.example.rationale or ()
    return Hint(spans, np.ones(len(spans)))


def run(seed: int, count: int = 22, weight: float = 0.0) -> StudentRun:
    places = np.random.default_rng(seed).permutation(len(POOL))[:count].astype(np.int64)
    hints = [marked(POOL[place]) if weight else None for place in places]
    return StudentRun(places, hints, weight, seed)


def setup(channel: Channel | None = None, together: int = 1, kind: str = "number") -> TaskSetup:
    return TaskSetup(kind=kind, outputs=2, channel=channel, together=together)  # type: ignore[arg-type]


def apart(one: Sequence[StudentOutcome], other: Sequence[StudentOutcome]) -> float:
    """Largest difference of answers and losses."""
    pairs = list(zip(one, other, strict=True))
    answers = max(float(np.abs(a.answers - b.answers).max()) for a, b in pairs)
    return max([answers, *(abs(a.details[key] - b.details[key]) for a, b in pairs for key in b.details)])


@pytest.mark.parametrize("name", LEARNERS)
def test_together_gives_what_alone_gives(name: str, folders: dict[str, str]) -> None:
    channel = None if name == "bilstm" else CHANNELS.get("attention")()
    runs = [run(seed, weight=weight) for seed, weight in ((0, 1.0), (1, 0.0), (2, 0.3))]
    learner = student(name, folders)
    together = learner.train_and_predict(POOL, runs, TEST, setup(channel, together=3))
    assert together[0].details["steps"] == 12
    for number, one in enumerate(runs):
        alone = learner.train_and_predict(POOL, [one], TEST, setup(channel))
        details = {key: alone[0].details[key] for key in ("first_loss", "last_loss")}
        assert apart([together[number]], [StudentOutcome(alone[0].answers, None, details)]) < 1e-4
    spread = np.std([outcome.answers for outcome in together], axis=0).max()
    assert spread > 1e-2, "the students differ, so that agreeing says something"


@pytest.mark.parametrize("name", ["bert", "bilstm"])
def test_labelling_reaches_students_that_train_together_as_it_does_alone(name: str, folders: dict[str, str]) -> None:
    channel = CHANNELS.get("labelling")()
    runs = [run(seed, weight=1.0) for seed in range(2)]
    learner = student(name, folders)
    alone = [learner.train_and_predict(POOL, [one], TEST, setup(channel))[0] for one in runs]
    assert apart(learner.train_and_predict(POOL, runs, TEST, setup(channel, together=2)), alone) < 1e-4
    untold = learner.train_and_predict(POOL, [run(0)], TEST, setup(channel))[0]
    assert np.abs(untold.answers - alone[0].answers).max() > 1e-3, "the hints made a difference"


def test_a_hint_draws_attention_while_learning(folders: dict[str, str]) -> None:
    channel = CHANNELS.get("attention")()
    learner = student("bilstm_attention", folders, epochs=20, learning_rate=1e-2)
    weak, strong = (learner.train_and_predict(POOL, [run(0, weight=w)], TEST, setup(channel))[0] for w in (1e-6, 5.0))
    assert strong.details["channel_loss"] < 0.5 * weak.details["channel_loss"]


def test_neither_the_order_of_runs_nor_which_students_train_together_matters(folders: dict[str, str]) -> None:
    runs = [run(0), run(1, count=9), run(2), run(3, count=9), run(4)]
    learner = student("bert", folders)
    wanted = learner.train_and_predict(POOL, runs, TEST, setup(together=5))
    order = [3, 0, 4, 2, 1]
    found = learner.train_and_predict(POOL, [runs[number] for number in order], TEST, setup(together=2))
    assert apart(found, [wanted[number] for number in order]) < 1e-4
    assert [outcome.details["steps"] for outcome in wanted] == [12, 6, 12, 6, 12]


@pytest.mark.parametrize("name", ["bert", "bilstm_attention"])
def test_a_student_that_diverges_is_reported_and_leaves_its_neighbours_alone(
    name: str, folders: dict[str, str]
) -> None:
    channel = CHANNELS.get("attention")()
    runs = [run(0, weight=0.5), run(1, weight=float("inf")), run(2)]
    learner = student(name, folders)
    found = learner.train_and_predict(POOL, runs, TEST, setup(channel, together=3))
    assert found[1].failure == "its loss or gradient was not finite at step 1 of 12"
    assert [outcome.failure for outcome in found[::2]] == [None, None]
    alone = [learner.train_and_predict(POOL, [one], TEST, setup(channel))[0] for one in (runs[0], runs[2])]
    for one, other in zip(found[::2], alone, strict=True):
        assert np.abs(one.answers - other.answers).max() < 1e-4


def test_a_student_that_learns_nothing_and_says_one_thing_is_reported() -> None:
    # Too small a rate to move at all, on texts of both classes.
    pool = [LabelledExample(example, int(example.label == "positive")) for example in EXAMPLES]
    learner = STUDENTS.get("bilstm").configured(**SMALL | {"learning_rate": 1e-12})
    runs = [StudentRun(np.arange(20), [None] * 20, 0.0, seed) for seed in range(6)]
    found = learner.train_and_predict(pool, runs, TEST[:2], setup(kind="class"))
    stuck = [outcome for outcome in found if len(set(outcome.answers.tolist())) == 1]
    assert stuck, "of six untrained students some answer both texts alike"
    for outcome in found:
        never_fell = outcome.details["last_loss"] >= outcome.details["first_loss"]
        assert (outcome.failure is not None) == (outcome in stuck and never_fell)
        assert outcome.failure is None or "throughout" in outcome.failure


def test_numbers_are_learnt_on_any_scale(folders: dict[str, str]) -> None:
    far = [LabelledExample(item.example, 1000 + 500 * float(item.answer)) for item in POOL]  # type: ignore[arg-type]
    learner = student("bilstm", folders)
    near, wide = (learner.train_and_predict(pool, [run(0)], TEST, setup())[0].answers for pool in (POOL, far))
    np.testing.assert_allclose(wide, 1000 + 500 * near, rtol=1e-4)


def test_training_does_not_touch_the_global_generator(folders: dict[str, str]) -> None:
    before = torch.random.get_rng_state()
    one, other = (
        student("bert", folders, dropout=0.2).train_and_predict(POOL, [run(0)], TEST, setup())[0] for _ in range(2)
    )
    assert torch.equal(torch.random.get_rng_state(), before)
    assert (one.answers == other.answers).all(), "dropout is drawn from the student's seed"
    plain = student("bert", folders).train_and_predict(POOL, [run(0)], TEST, setup())[0]
    assert np.abs(plain.answers - one.answers).max() > 1e-3


def test_progress_counts_the_steps_of_all_students(folders: dict[str, str]) -> None:
    class Heard:
        total = done = 0

        def start(self, what: str, total: int) -> None:
            self.total = total

        def advance(self, steps: int) -> None:
            self.done += steps

        def stop(self) -> None: ...

    heard = Heard()
    with listening(heard):
        student("bilstm", folders).train_and_predict(POOL, [run(0), run(1), run(2, count=9)], TEST, setup(together=2))
    assert heard.total == heard.done == 12 + 12 + 6


def test_encoders_that_cannot_be_stacked_train_one_at_a_time(folders: dict[str, str]) -> None:
    learner = student("deberta-v2", folders)
    runs = [run(0, count=6, weight=1.0), run(1, count=6)]
    channel = CHANNELS.get("attention")()
    found = learner.train_and_predict(POOL, runs, TEST, setup(channel, together=2))
    alone = [learner.train_and_predict(POOL, [one], TEST, setup(channel))[0] for one in runs]
    assert apart(found, [StudentOutcome(one.answers, None, {}) for one in alone]) < 1e-4


class Bags(Cohort):
    """Means of word vectors, and one answer of each student: as small as a cohort can be."""

    def __init__(self, seeds: Sequence[int], words: int) -> None:
        super().__init__()
        self.size, self.width = len(seeds), words
        self.head = StackedLinear.drawn(seeds, words, 1, 0.1)

    def forward(self, batch: Batch, view: AttentionView | None = None) -> CohortOutput:
        states = nn.functional.one_hot(batch.ids, self.width).float() * batch.mask[..., None]
        return CohortOutput(self.head(states.sum(2))[..., 0], states)


def bags(
    runs: Sequence[StudentRun], schedule: Schedule, together: int, most: int = 99, sizes: list[int] | None = None
) -> list[StudentOutcome]:
    words = WordNumbers.of(EXAMPLES, min_count=1, largest=50)
    texts = worded([item.example for item in POOL], words, 30), worded(TEST, words, 30)

    def make(seeds: Sequence[int]) -> Cohort:
        if len(seeds) > most:
            raise torch.OutOfMemoryError
        if sizes is not None:
            sizes.append(len(seeds))
        return Bags(seeds, len(words))

    return train_students(make, cohort_data(POOL, *texts, setup()), runs, setup(), schedule, together)


def test_students_are_spread_evenly_over_the_groups() -> None:
    sizes: list[int] = []
    schedule = Schedule(learning_rate=1e-2, batch_size=4, epochs=1)
    bags([run(seed, count=4) for seed in range(10)], schedule, 8, sizes=sizes)
    assert sizes == [5, 5], "not 8 and 2: a small group takes nearly as long as a large one"


def test_where_memory_does_not_hold_all_students_fewer_train_at_once() -> None:
    schedule = Schedule(learning_rate=1e-2, batch_size=4, epochs=2)
    runs = [run(seed) for seed in range(7)]
    assert apart(bags(runs, schedule, 7, most=2), bags(runs, schedule, 7)) < 1e-6
    with pytest.raises(torch.OutOfMemoryError):
        bags(runs, schedule, 7, most=0)


def test_the_update_is_adamw_with_warm_up_linear_decay_and_a_norm_of_its_own() -> None:
    # The same by hand: the same batches (all examples at once), torch's clipping and AdamW for one student.
    schedule = Schedule(learning_rate=0.05, batch_size=22, epochs=5, warmup=0.4, weight_decay=0.5, clip=0.1)
    runs = [run(0), run(1)]
    found = bags(runs, schedule, 2)
    words = WordNumbers.of(EXAMPLES, min_count=1, largest=50)
    pool, exam = worded([item.example for item in POOL], words, 30), worded(TEST, words, 30)

    def counts(sheets_ids: np.ndarray, lengths: np.ndarray) -> Tensor:
        there = np.arange(sheets_ids.shape[1]) < lengths[:, None]
        return torch.from_numpy(
            np.stack([np.bincount(r[t], minlength=len(words)) for r, t in zip(sheets_ids, there, strict=True)])
        )

    for one, outcome in zip(runs, found, strict=True):
        truth = np.array([POOL[place].answer for place in one.places], dtype=np.float64)
        wanted = torch.from_numpy((truth - truth.mean()) / truth.std()).float()
        given = counts(pool.ids[one.places], pool.lengths[one.places]).float()
        drawn = StackedLinear.drawn([one.seed], len(words), 1, 0.1)
        assert drawn.bias is not None
        weight, bias = nn.Parameter(drawn.weight[0].detach()), nn.Parameter(drawn.bias[0].detach())
        optimizer = torch.optim.AdamW(
            [{"params": [weight], "weight_decay": 0.5}, {"params": [bias], "weight_decay": 0}]
        )
        for rate in (1 / 3, 2 / 3, 1, 2 / 3, 1 / 3):  # 2 of 5 steps rise, 3 fall
            loss = ((given @ weight + bias)[:, 0] - wanted).square().mean()
            optimizer.zero_grad()
            torch.autograd.backward(loss)
            nn.utils.clip_grad_norm_([weight, bias], 0.1)
            for group in optimizer.param_groups:
                group["lr"] = 0.05 * rate
            optimizer.step()
        said = (counts(exam.ids, exam.lengths).float() @ weight + bias)[:, 0].detach().numpy()
        np.testing.assert_allclose(outcome.answers, said * truth.std() + truth.mean(), atol=1e-5)


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (StudentRun(np.arange(0), [], 0.0, 0), "has no training examples"),
        (StudentRun(np.arange(3), [None], 0.0, 0), "3 training examples and 1 hints"),
        (StudentRun(np.array([99]), [None], 0.0, 0), "outside of the pool of 32"),
    ],
)
def test_runs_that_make_no_sense_are_refused(made: StudentRun, said: str, folders: dict[str, str]) -> None:
    with pytest.raises(InputError, match=said):
        student("bilstm", folders).train_and_predict(POOL, [made], TEST, setup())


def test_setups_that_a_student_cannot_serve_are_refused(folders: dict[str, str]) -> None:
    learner = student("bilstm", folders)
    with pytest.raises(
        CapabilityError, match=r"'attention' does not reach the student bilstm, .* attention_row; .* labelling"
    ):
        learner.train_and_predict(POOL, [run(0)], TEST, setup(CHANNELS.get("attention")()))
    with pytest.raises(CapabilityError, match="bilstm cannot imitate answers of kind 'span'"):
        learner.train_and_predict(POOL, [run(0)], TEST, setup(kind="span"))
    with pytest.raises(CapabilityError, match="channel 'alignment' does not go with answers of kind 'class'"):
        student("bert", folders).train_and_predict(
            POOL, [run(0)], TEST, setup(CHANNELS.get("alignment")(), kind="class")
        )
    with pytest.raises(InputError, match="classes must be 0 to 1"):
        learner.train_and_predict(
            [LabelledExample(Example("a text"), 2)],
            [StudentRun(np.arange(1), [None], 0.0, 0)],
            TEST,
            setup(kind="class"),
        )
    with pytest.raises(ParameterError, match="unknown device 'tpu'"):
        learner.train_and_predict(POOL, [run(0)], TEST, TaskSetup(device="tpu"))


def test_students_of_few_texts_see_them_more_often_until_they_made_the_least_number_of_steps(
    folders: dict[str, str],
) -> None:
    learner = student("bert", folders, least_steps=20)
    runs = [run(0, count=8), run(0, count=22)]  # 2 and 6 steps an epoch
    few, many = learner.train_and_predict(POOL, runs, TEST, TaskSetup("number", 1, curve=1))
    assert [(point.epoch, point.steps) for point in few.curve] == [(5, 10), (10, 20)]
    assert [(point.epoch, point.steps) for point in many.curve] == [(2, 12), (4, 24)]
    (longer,) = student("bert", folders, epochs=10).train_and_predict(POOL, runs[:1], TEST, setup())
    assert np.array_equal(longer.answers, few.answers)
