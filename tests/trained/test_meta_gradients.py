"""Meta-gradients in double precision: against each other, and against finite differences of the students' training."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from torch import Tensor

from didact.data.corpus import generate
from didact.errors import CapabilityError
from didact.students.base import CHANNELS, Batch, LabelledExample, TaskSetup
from didact.students.kinds.transformer import Transformer
from didact.testing.tiny import tiny_model
from didact.trained.scaffolding.group import GroupTexts
from didact.trained.scaffolding.lives import Lives
from didact.trained.scaffolding.meta_gradients import MetaGradient
from didact.trained.scaffolding.population import Population, PopulationConfig
from didact.types import AnswerKind

EXAMPLES = generate(40, seed=3)
LIVES = Lives(students=2, examples=8, batch=4, window=3, seed=1)


@dataclass(frozen=True)
class Case:
    """What differs between populations."""

    students: int = 2
    kind: AnswerKind = "class"
    optimizer: str = "sgd"
    clip: float | None = None
    channel: str = "head_mix"


CASES = {
    "plain": Case(),
    "clipped": Case(clip=0.05),
    "one student": Case(students=1, clip=0.05),
    "regression": Case(kind="number", clip=0.05),
    "row of attention": Case(channel="attention"),
    "preconditioned": Case(optimizer="adamw", clip=0.05),
}


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("tiny")
    for part in tiny_model("bert"):
        part.save_pretrained(folder)
    return str(folder)


def texts(kind: AnswerKind = "class") -> GroupTexts:
    answers = [len(item.text) / 10 if kind == "number" else int(item.label == "positive") for item in EXAMPLES]
    labelled = [LabelledExample(item, answer) for item, answer in zip(EXAMPLES, answers, strict=True)]
    return GroupTexts(labelled[:24], labelled[24:32], labelled[32:])


def population(folder: str, case: Case, meta: str = "linear", **changes: object) -> Population:
    channel = CHANNELS.get(case.channel).configured()
    setup = TaskSetup(kind=case.kind, outputs=1 if case.kind == "number" else 2, channel=channel)
    config = PopulationConfig(
        lives=replace(LIVES, students=case.students),
        beta=2.0,
        outer_batch=6,
        radius=1e-4,
        difference="central",
        meta=MetaGradient.parsed(meta),
    )
    student = Transformer(
        model=folder,
        max_length=16,
        learning_rate=0.01 if case.optimizer == "adamw" else 0.1,
        optimizer=case.optimizer,  # type: ignore[arg-type]
        clip=case.clip,
        weight_decay=0.1,
        pooling="scalar_mix",
    )
    return Population(student, texts(case.kind), setup, replace(config, **changes)).double()  # type: ignore[arg-type]


def hints_of(made: Population, steps: int, seed: int = 0) -> tuple[np.ndarray, Tensor]:
    """Places and random hints of the first steps: (S, steps, B) and (S, steps, B, L)."""
    places = made.windows(0)[0].reshape(made.size, -1, 4)[:, :steps]
    text = torch.from_numpy(made.tokens.text[places])
    drawn = torch.rand(text.shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return places, torch.where(text, drawn, 0.0)


def gradients(folder: str, case: Case, meta: str) -> tuple[list[Tensor], Tensor]:
    """Meta-gradients of three steps, of which ``meta`` differentiates the last."""
    made = population(folder, case, meta)
    places, hints = hints_of(made, 3)
    taken = [made.step(places[:, number], hints[:, number]) for number in range(3)]
    norms = [torch.cat([grad.reshape(made.size, -1) for grad in step.grads.values()], 1).norm(dim=1) for step in taken]
    assert case.clip is None or (torch.stack(norms) > case.clip).all(), "gradients are clipped"
    return made.meta_gradient(taken, outer_batch(made))


def outer_batch(made: Population) -> Batch:
    return made.batch(np.tile(np.arange(24, 30), (made.size, 1)))


def outer_loss(folder: str, case: Case, hints: Tensor) -> float:
    """Sum of the students' losses after training on these hints."""
    made = population(folder, case)
    places, _ = hints_of(made, 3)
    for number in range(3):
        made.step(places[:, number], hints[:, number])
    with torch.no_grad():
        return float(made.objective(outer_batch(made)).task.sum())


def assert_equal(ours: Sequence[Tensor], theirs: Sequence[Tensor], within: float) -> None:
    assert len(ours) == len(theirs)
    for one, other in zip(ours, theirs, strict=True):
        assert other.abs().max() > 1e-8, "hints made a difference"
        assert float((one - other).norm() / other.norm()) < within


@pytest.mark.parametrize("name", CASES)
def test_the_linear_meta_gradient_is_the_exact_one(name: str, tiny: str) -> None:
    linear, losses = gradients(tiny, CASES[name], "linear")
    exact, same = gradients(tiny, CASES[name], "exact")
    torch.testing.assert_close(losses, same)
    assert_equal(linear, exact, 1e-6)


def test_a_forward_difference_takes_one_pass_less(tiny: str) -> None:
    exact, _ = gradients(tiny, CASES["clipped"], "exact")
    made = population(tiny, CASES["clipped"], difference="forward", radius=1e-7)
    places, hints = hints_of(made, 3)
    taken = [made.step(places[:, number], hints[:, number]) for number in range(3)]
    passes: list[object] = []
    made.trainer.cohort.register_forward_pre_hook(lambda *_: passes.append(_))
    linear, _ = made.meta_gradient(taken, outer_batch(made))
    assert len(passes) == 2, "one for the outer loss and one for the difference"
    assert_equal(linear, exact, 1e-6)


@pytest.mark.parametrize("name", ["clipped", "regression", "preconditioned"])
def test_through_several_steps_it_is_that_of_differentiating_twice(name: str, tiny: str) -> None:
    unrolled, _ = gradients(tiny, CASES[name], "unrolled:3")
    exact, _ = gradients(tiny, CASES[name], "exact:3")
    assert_equal(unrolled, exact, 1e-5)
    (last,), _ = gradients(tiny, CASES[name], "linear")
    assert_equal([unrolled[-1]], [last], 1e-9)


def test_looking_ahead_leaves_the_curvature_out(tiny: str) -> None:
    ahead, _ = gradients(tiny, CASES["plain"], "look_ahead:3")
    exact, _ = gradients(tiny, CASES["plain"], "exact:3")
    assert_equal([ahead[-1]], [exact[-1]], 1e-6)
    assert float((ahead[0] - exact[0]).norm() / exact[0].norm()) > 1e-3
    assert float((ahead[0] * exact[0]).sum()) > 0


@pytest.mark.parametrize(("name", "meta"), [("clipped", "linear"), ("preconditioned", "unrolled:3")])
def test_finite_differences_of_the_whole_training_agree(name: str, meta: str, tiny: str) -> None:
    case = CASES[name]
    each, _ = gradients(tiny, case, meta)
    _, hints = hints_of(population(tiny, case), 3)
    direction = torch.randn(hints.shape, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    direction = torch.where(hints > 0, direction, 0.0)
    direction[:, : 3 - len(each)] = 0
    step = 1e-7 if case.optimizer == "adamw" else 1e-4  # Adam bends sharply where a gradient is near 0
    ends = [outer_loss(tiny, case, hints + sign * step * direction) for sign in (1, -1)]
    slope = (ends[0] - ends[1]) / (2 * step)
    own = sum(
        float((gradient * direction[:, -number, :, : gradient.shape[-1]]).sum())
        for number, gradient in enumerate(reversed(each), start=1)
    )
    assert own == pytest.approx(slope, rel=1e-4)


def test_channels_that_mark_or_do_not_mark_are_refused(tiny: str) -> None:
    with pytest.raises(CapabilityError, match="can be differentiated"):
        gradients(tiny, Case(channel="labelling"), "linear")
