"""What every registered channel must pass, as plain functions that third parties can run too.

Channels with a loss are checked on made-up states and attention, feature priors on made-up counts. ``applicable`` lists
the checks for a channel, and ``check`` runs one and raises AssertionError with what went wrong. How channels train
students is checked by ``didact.testing.students``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor, nn

from didact.students.base import VIEWS, Batch, Channel, CohortOutput, FeaturePrior, LossChannel
from didact.types import ANSWER_KINDS

STUDENTS, EXAMPLES, LENGTH, WIDTH, HEADS = 3, 4, 7, 5, 6
SEEDS = (4, 5, 6)
HINTED = slice(0, EXAMPLES - 1)
"""The last example of each student has an empty hint."""

Check = Callable[[Channel], None]


def applicable(channel: Channel) -> list[str]:
    """Checks for a channel with a loss, or for a feature prior."""
    return ["card_is_complete", *(LOSS_CHECKS if isinstance(channel, LossChannel) else PRIOR_CHECKS)]


def check(name: str, channel: Channel) -> None:
    """Run one check."""
    CHECKS[name](channel)


def card_is_complete(channel: Channel) -> None:
    """The card has a name for the command line, a sentence, a source, known kinds of answers, and needs."""
    card = channel.card
    assert re.fullmatch(r"[a-z][a-z0-9_]*", card.name), card.name
    assert card.family in ("network", "closed form"), card.family
    assert card.summary.endswith("."), card.summary
    assert card.reference
    assert card.answers, "a channel goes with at least one kind of answer"
    assert card.answers <= set(ANSWER_KINDS), card.answers
    assert card.needs, "a channel needs something of a student; without needs it would reach all"
    assert len(VIEWS.keys() & card.needs) <= 1, "a cohort returns one view of attention"
    is_prior = "feature_prior" in card.needs
    assert isinstance(channel, FeaturePrior if is_prior else LossChannel), "the needs do not fit the methods"


def one_finite_loss_per_example(channel: Channel) -> None:
    """The loss is (students, examples), finite, and zero exactly where the hint is empty."""
    output, batch, head = _made(channel)
    loss = _loss(channel, output, batch, head)
    assert loss.shape == (STUDENTS, EXAMPLES), loss.shape
    assert loss.isfinite().all()
    assert not loss[:, EXAMPLES - 1].any(), "an empty hint has a loss"
    assert loss[:, HINTED].all(), "a hint has no loss"


def gradients_are_finite(channel: Channel) -> None:
    """States, attention and the channel's parameters get finite gradients; an empty hint pulls at nothing."""
    output, batch, head = _made(channel)
    free, inputs = _freed(output)
    parameters = [] if head is None else list(head.parameters())
    total = _loss(channel, free, batch, head).sum()
    grads = torch.autograd.grad(total, [*inputs, *parameters], materialize_grads=True)
    assert all(grad.isfinite().all() for grad in grads)
    assert any(grad[:, HINTED].any() for grad in grads[: len(inputs)]), "the loss does not depend on the student"
    assert not any(grad[:, EXAMPLES - 1].any() for grad in grads[: len(inputs)]), "an empty hint pulls at the student"


def hints_may_be_live(channel: Channel) -> None:
    """The gradient with respect to hints and links is that of finite differences, zero where the loss is a step."""
    output, batch, head = _made(channel)
    for name in ("hints", "links"):
        values: Tensor = getattr(batch, name)
        live = values.clone().requires_grad_()
        loss = _loss(channel, output, replace(batch, **{name: live}), head).sum()
        gradient = torch.zeros_like(values)
        if loss.requires_grad:
            (gradient,) = torch.autograd.grad(loss, live, materialize_grads=True)
        direction = _noise(*values.shape, seed=11) * (values > 0)
        ends = [
            _loss(channel, output, replace(batch, **{name: values + step * direction}), head).sum().detach()
            for step in (1e-4, -1e-4)
        ]
        torch.testing.assert_close((gradient * direction).sum(), (ends[0] - ends[1]) / 2e-4, rtol=1e-3, atol=1e-5)


def students_do_not_affect_each_other(channel: Channel) -> None:
    """A student's loss is the same alone and beside others."""
    output, batch, head = _made(channel)
    together = _loss(channel, output, batch, head)
    for number, seed in enumerate(SEEDS):
        own = slice(number, number + 1)
        alone = _loss(
            channel,
            CohortOutput(output.answers[own], output.states[own], _part(output.attention, own)),
            _student(batch, own),
            _head(channel, [seed]),
        )
        torch.testing.assert_close(alone[0], together[number])


def the_gradient_pulls_towards_the_hint(channel: Channel) -> None:
    """Descending on the loss lowers that of every hinted example; attention moves to where a row's hint points."""
    output, batch, head = _made(channel)
    shape = output.states.shape if output.attention is None else output.attention.shape
    free = _noise(*shape, seed=3).requires_grad_()

    def current() -> CohortOutput:
        if output.attention is None:
            return replace(output, states=free)
        assert isinstance(channel, LossChannel)
        return replace(output, attention=free if channel.view == "heads" else free.softmax(-1))

    before, mass_before = _loss(channel, current(), batch, head).detach(), _mass(current(), batch)
    optimizer = torch.optim.Adam([free, *([] if head is None else head.parameters())], lr=0.05)
    for _ in range(100):
        optimizer.zero_grad()
        torch.autograd.backward(_loss(channel, current(), batch, head).sum())
        optimizer.step()
    after = _loss(channel, current(), batch, head).detach()
    assert (after[:, HINTED] < before[:, HINTED]).all()
    if channel.card.needs >= {"attention_row"}:
        assert (_mass(current(), batch) > mass_before)[:, HINTED].all(), "attention moved away from the hint"


def variances_follow_the_hints(channel: Channel) -> None:
    """Prior variances are positive, larger for words that hints mark, and all 1 with weight 0."""
    assert isinstance(channel, FeaturePrior)
    given, occurrences = torch.tensor([0.0, 5.0, 20.0], dtype=torch.float64), torch.full((3,), 5.0).double()
    variances = channel.variances(given, occurrences, 1.0)
    assert variances.shape == (3,)
    assert variances.isfinite().all()
    assert (variances > 0).all()
    assert (variances.diff() > 0).all(), "words with more of the hints have no larger variance"
    assert torch.equal(channel.variances(given, occurrences, 0.0), torch.ones(3).double())


def proportions_follow_the_ratios(channel: Channel) -> None:
    """Proportions are positive, never fall with the ratio, and are all alike with weight 0."""
    assert isinstance(channel, FeaturePrior)
    assert channel.gate > 0
    ratios = torch.tensor([[-2.0, 0.5, 1.0, 3.0]])
    proportions = channel.proportions(ratios, 1.0)
    assert proportions.shape == ratios.shape
    assert (proportions > 0).all()
    assert (proportions.diff() >= 0).all()
    assert proportions[0, -1] > proportions[0, 0]
    assert len(set(channel.proportions(ratios, 0.0)[0].tolist())) == 1


LOSS_CHECKS = (
    "one_finite_loss_per_example",
    "gradients_are_finite",
    "hints_may_be_live",
    "students_do_not_affect_each_other",
    "the_gradient_pulls_towards_the_hint",
)
PRIOR_CHECKS = ("variances_follow_the_hints", "proportions_follow_the_ratios")

CHECKS: dict[str, Check] = {
    function.__name__: function
    for function in (
        card_is_complete,
        one_finite_loss_per_example,
        gradients_are_finite,
        hints_may_be_live,
        students_do_not_affect_each_other,
        the_gradient_pulls_towards_the_hint,
        variances_follow_the_hints,
        proportions_follow_the_ratios,
    )
}


def _noise(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def _made(channel: Channel) -> tuple[CohortOutput, Batch, nn.Module | None]:
    """Outputs of untrained students in double precision, a batch with hints and links, and the channel's parameters.

    The first and the last position are special tokens. The last example has an empty hint and no links.
    """
    assert isinstance(channel, LossChannel)
    shape = (STUDENTS, EXAMPLES, LENGTH)
    text = torch.ones(shape, dtype=torch.bool)
    text[..., 0] = text[..., -1] = False
    weights = _noise(*shape, seed=9)
    hints = torch.where(text & (weights > 0), weights, 0.0)
    hints[..., 1] = 2.0
    links = (_noise(STUDENTS, EXAMPLES, 2, 2, LENGTH, seed=5) > 0).double() * text[:, :, None, None]
    links[..., 2] = 1.0
    hints[:, -1], links[:, -1] = 0.0, 0.0
    ids = torch.zeros(shape, dtype=torch.long)
    batch = Batch(ids, ids, torch.ones_like(text), text, ids[..., 0], hints, links)
    rows = _noise(*shape, LENGTH, seed=2).softmax(-1)
    heads = _noise(STUDENTS, EXAMPLES, HEADS, LENGTH, seed=6)
    attention = {None: None, "row": rows[:, :, 0], "matrix": rows, "heads": heads}[channel.view]
    output = CohortOutput(_noise(STUDENTS, EXAMPLES, 2, seed=7), _noise(*shape, WIDTH, seed=1), attention)
    return output, batch, _head(channel, list(SEEDS))


def _head(channel: Channel, seeds: list[int]) -> nn.Module | None:
    assert isinstance(channel, LossChannel)
    head = channel.head(HEADS if channel.view == "heads" else WIDTH, seeds)
    return None if head is None else head.double()


def _loss(channel: Channel, output: CohortOutput, batch: Batch, head: nn.Module | None) -> Tensor:
    assert isinstance(channel, LossChannel)
    return channel.loss(output, batch, head)


def _freed(output: CohortOutput) -> tuple[CohortOutput, list[Tensor]]:
    """The output with tensors that take gradients, and these tensors."""
    answers, states = (value.clone().requires_grad_() for value in (output.answers, output.states))
    if output.attention is None:
        return CohortOutput(answers, states), [answers, states]
    attention = output.attention.clone().requires_grad_()
    return CohortOutput(answers, states, attention), [answers, states, attention]


def _student(batch: Batch, own: slice) -> Batch:
    """The part of a batch that is one student's."""
    return Batch(
        batch.ids[own],
        batch.types[own],
        batch.mask[own],
        batch.text[own],
        batch.answers[own],
        batch.hints[own],
        _part(batch.links, own),
    )


def _part(values: Tensor | None, own: slice) -> Tensor | None:
    return None if values is None else values[own]


def _mass(output: CohortOutput, batch: Batch) -> Tensor:
    """Attention on the hinted positions (S, B); zeros where the view is no row."""
    if output.attention is None or output.attention.shape != batch.hints.shape:
        return torch.zeros(batch.hints.shape[:2])
    return (output.attention * (batch.hints > 0)).sum(-1).detach()
