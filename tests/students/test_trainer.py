"""The public trainer: steps as functions, gradients with respect to hints, and what the step in place does."""

import dataclasses
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from didact.data.corpus import generate
from didact.errors import CapabilityError
from didact.models.tokens.encoding import Encoder
from didact.students.base import Batch, Channel, Hint, LabelledExample, StudentRun, TaskSetup
from didact.students.batches import CohortData, TrainingBatches, cohort_data
from didact.students.channels.attention import AttentionChannel
from didact.students.channels.labelling import LabellingChannel
from didact.students.channels.prior import PriorChannel
from didact.students.kinds.bilstm_attention import BiLstmAttention
from didact.students.kinds.transformer import EncoderFactory, Transformer
from didact.students.optimization import Schedule
from didact.students.tokenized import WordNumbers, tokenised, worded
from didact.students.trainer import CohortTrainer, Parameters
from didact.testing.tiny import tiny_model

EXAMPLES = generate(20, seed=3)
POOL = [LabelledExample(example, int(example.label == "positive")) for example in EXAMPLES]
SCHEDULE = Schedule(learning_rate=0.1, batch_size=4, epochs=1, clip=0.5, weight_decay=0.1)
WORDS = WordNumbers.of(EXAMPLES, min_count=1, largest=50)
WEIGHTS, SEEDS = [1.0, 0.5], [0, 1]


def runs(count: int) -> list[StudentRun]:
    hints = [Hint(item.example.rationale or (), np.ones(len(item.example.rationale or ()))) for item in POOL]  # type: ignore[arg-type]
    places = [np.random.default_rng(seed).permutation(len(POOL))[:8] for seed in SEEDS[:count]]
    return [StudentRun(own, [hints[k] for k in own], w, s) for own, w, s in zip(places, WEIGHTS, SEEDS, strict=False)]


def words_data(setup: TaskSetup) -> CohortData:
    return cohort_data(POOL, worded(EXAMPLES, WORDS, 12), worded(EXAMPLES[:4], WORDS, 12), setup)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("tiny")
    model, tokenizer = tiny_model("bert")
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


def of_lstm(schedule: Schedule = SCHEDULE) -> tuple[CohortTrainer, list[Batch]]:
    """One student: torch's own LSTM has a second derivative."""
    setup = TaskSetup(channel=AttentionChannel())
    cohort = BiLstmAttention(embedding=4, hidden=3).cohort(SEEDS[:1], len(WORDS), setup)
    scorer = cohort.get_submodule("scorer")
    with torch.no_grad():
        scorer.weight.normal_(generator=torch.Generator().manual_seed(5))  # type: ignore[operator, union-attr]
    trainer = CohortTrainer(cohort, setup, schedule, WEIGHTS[:1], SEEDS[:1])
    return trainer, list(TrainingBatches(words_data(setup), runs(1), setup, schedule))


def of_transformers(folder: str, channel: Channel | None = None) -> tuple[CohortTrainer, list[Batch]]:
    """Two stacked students."""
    setup = TaskSetup(channel=channel or AttentionChannel())
    factory = EncoderFactory(Transformer(model=folder, max_length=16), setup)
    texts = tokenised(EXAMPLES, Encoder(factory.tokenizer, factory.limit, 1.0))
    data = cohort_data(POOL, texts, texts, setup)
    trainer = CohortTrainer(factory.cohort(SEEDS), setup, SCHEDULE, WEIGHTS, SEEDS)
    return trainer, list(TrainingBatches(data, runs(2), setup, SCHEDULE))


def doubled(trainer: CohortTrainer, batches: Sequence[Batch]) -> tuple[CohortTrainer, list[Batch]]:
    """The same in double precision, for finite differences."""
    trainer.objective.double()
    trainer.weights = trainer.weights.double()
    return trainer, [replace(batch, hints=batch.hints.double()) for batch in batches]


def outer(trainer: CohortTrainer, batches: Sequence[Batch], hints: Tensor, rate: float = 0.3) -> Tensor:
    """Loss on the second batch after one step on the first with these hints; the students' sum."""
    trained = trainer.functional_step(trainer.parameters(), replace(batches[0], hints=hints), rate)
    return trainer.losses(batches[1], trained).task.sum()


@pytest.mark.parametrize("kind", ["lstm", "transformer"])
def test_the_gradient_through_a_step_with_respect_to_hints_is_that_of_finite_differences(kind: str, tiny: str) -> None:
    trainer, batches = doubled(*(of_lstm() if kind == "lstm" else of_transformers(tiny)))
    hints = batches[0].hints.clone() + 0.1 * batches[0].text
    live = hints.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(outer(trainer, batches, live), live)
    places = batches[0].text.nonzero()
    for place in places[:: max(1, len(places) // 6)].tolist():
        step = torch.zeros_like(hints)
        step[tuple(place)] = 1e-4
        slope = (outer(trainer, batches, hints + step) - outer(trainer, batches, hints - step)) / 2e-4
        assert gradient[tuple(place)].item() == pytest.approx(slope.item(), rel=1e-3, abs=1e-7)
    assert gradient.abs().max() > 1e-5, "hints made a difference"
    assert not gradient[~batches[0].mask].any()


def test_two_steps_can_be_differentiated_too() -> None:
    trainer, batches = doubled(*of_lstm())

    def after_two(hints: Tensor) -> Tensor:
        parameters = trainer.parameters()
        for _ in range(2):
            parameters = trainer.functional_step(parameters, replace(batches[0], hints=hints), 0.3)
        return trainer.losses(batches[1], parameters).task.sum()

    live = (batches[0].hints + 0.1 * batches[0].text).requires_grad_()
    (gradient,) = torch.autograd.grad(after_two(live), live)
    direction = torch.randn(live.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    direction = direction * batches[0].text
    with torch.no_grad():
        pair = [live + sign * 1e-4 * direction for sign in (1, -1)]
    slope = (after_two(pair[0]) - after_two(pair[1])) / 2e-4
    assert (gradient * direction).sum().item() == pytest.approx(slope.item(), rel=1e-4)


def test_a_functional_step_changes_nothing_and_is_gradient_descent_for_each_student(tiny: str) -> None:
    trainer, batches = of_transformers(tiny)
    before = {name: value.clone() for name, value in trainer.objective.state_dict().items()}
    start = trainer.parameters()
    trained = trainer.functional_step(start, batches[0], 0.2, differentiable=False)
    assert all(torch.equal(value, before[name]) for name, value in trainer.objective.state_dict().items())
    # The same in place: each student's gradient, clipped to its own norm, and decay of all but biases and norms.
    losses = trainer.losses(batches[0])
    losses.total(trainer.weights).sum().backward()  # type: ignore[no-untyped-call]
    named = {name: p for name, p in trainer.objective.named_parameters() if p.grad is not None}
    norms = torch.stack([p.grad.flatten(1).norm(dim=1) for p in named.values()]).norm(dim=0)  # type: ignore[union-attr]
    assert (norms > 0.5).all(), "the gradient is clipped"
    for name, parameter in named.items():
        assert parameter.grad is not None
        scale = (0.5 / norms).view(-1, *[1] * (parameter.dim() - 1))
        decay = 0.0 if "bias" in name or "norm" in name.lower() else 0.1
        expected = parameter - 0.2 * (scale * parameter.grad + decay * parameter)
        torch.testing.assert_close(trained[name], expected, atol=1e-5, rtol=1e-4)


def test_parameters_come_back_into_the_cohort(tiny: str) -> None:
    trainer, batches = of_transformers(tiny, LabellingChannel())
    trained = trainer.functional_step(trainer.parameters(), batches[0], 0.2, differentiable=False)
    assert any(name.startswith("head.") for name in trained), "the channel's parameters are trained too"
    apart = trainer.losses(batches[1], trained)
    trainer.load_parameters(trained)
    inside = trainer.losses(batches[1])
    torch.testing.assert_close(inside.task, apart.task)
    assert inside.channel is not None
    torch.testing.assert_close(inside.channel, apart.channel)


def test_a_student_in_a_functional_step_does_not_notice_the_others(tiny: str) -> None:
    trainer, batches = of_transformers(tiny)
    hints = batches[0].hints.clone()
    hints[1] = hints[1].roll(1, dims=-1) * batches[0].text[1]
    start: Parameters = trainer.parameters()
    one, other = (
        trainer.functional_step(start, replace(batches[0], hints=values), 0.2, differentiable=False)
        for values in (batches[0].hints, hints)
    )
    for name in start:
        torch.testing.assert_close(one[name][0], other[name][0])
    assert any(not torch.allclose(one[name][1], other[name][1]) for name in start)


def test_several_lstms_have_no_second_derivative_and_say_so() -> None:
    setup = TaskSetup(channel=AttentionChannel())
    cohort = BiLstmAttention(embedding=4, hidden=3).cohort(SEEDS, len(WORDS), setup)
    trainer = CohortTrainer(cohort, setup, SCHEDULE, WEIGHTS, SEEDS)
    batches = list(TrainingBatches(words_data(setup), runs(2), setup, SCHEDULE))
    with pytest.raises(CapabilityError, match="no second derivative"):
        outer(trainer, batches, batches[0].hints)
    trained = trainer.functional_step(trainer.parameters(), batches[0], 0.3, differentiable=False)
    assert (trainer.losses(batches[0], trained).task < trainer.losses(batches[0]).task).all()


def test_batches_know_the_places_of_their_examples() -> None:
    _, batches = of_lstm()
    (run,) = runs(1)
    assert all(batch.places is not None for batch in batches)
    assert sorted(torch.cat([b.places[0] for b in batches]).tolist()) == sorted(run.places.tolist())  # type: ignore[index]
    answers = {int(place): POOL[place].answer for place in run.places}
    for batch in batches:
        assert batch.places is not None
        assert batch.answers[0].tolist() == [answers[place] for place in batch.places[0].tolist()]


def test_a_channel_without_a_loss_is_refused() -> None:
    setup = TaskSetup(channel=PriorChannel())
    cohort = BiLstmAttention(embedding=4, hidden=3).cohort([0], len(WORDS), setup)
    with pytest.raises(CapabilityError, match="channel 'prior' has no loss"):
        CohortTrainer(cohort, setup, SCHEDULE, [1.0], [0])


def test_losses_are_finite_per_student_and_without_a_channel_there_is_only_the_task(tiny: str) -> None:
    trainer, batches = of_transformers(tiny)
    losses = trainer.losses(batches[0])
    assert losses.task.shape == (2,)
    assert losses.channel is not None
    torch.testing.assert_close(losses.total(trainer.weights), losses.task + trainer.weights * losses.channel)
    alone = dataclasses.replace(losses, channel=None)
    assert torch.equal(alone.total(trainer.weights), losses.task)
    assert isinstance(trainer.objective, nn.Module)
