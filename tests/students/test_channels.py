"""Channels: each loss by hand, which way its gradient pulls, and that nothing passes between students."""

import math
from collections.abc import Callable
from dataclasses import replace
from itertools import product

import pytest
import torch
from torch import Tensor

from didact.errors import ParameterError
from didact.students.base import CHANNELS, Batch, CohortOutput, LossChannel
from didact.students.channels.alignment import AlignmentChannel
from didact.students.channels.attention import AttentionChannel
from didact.students.channels.labelling import LabellingChannel, LabellingHead

S, B, L, D = 3, 4, 6, 5
TEXT = torch.tensor([0, 1, 1, 1, 1, 0], dtype=torch.bool)  # [CLS] a b c d [SEP]


def batch(hints: Tensor, text: Tensor = TEXT, links: Tensor | None = None) -> Batch:
    shape = hints.shape
    nothing = torch.zeros(shape, dtype=torch.long)
    whole = text.expand(shape)
    return Batch(nothing, nothing, torch.ones(shape, dtype=torch.bool), whole, nothing[..., 0], hints, links)


def output(states: Tensor | None = None, attention: Tensor | None = None) -> CohortOutput:
    return CohortOutput(torch.zeros(1), torch.zeros(1) if states is None else states, attention)


def noise(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def some_hints() -> Tensor:
    """Sets in the text; the last example of each student is told nothing."""
    hints = (noise(S, B, L, seed=9) > 0).float() * TEXT
    hints[..., 1] = 1.0
    hints[:, -1] = 0.0
    return hints


def some_links() -> Tensor:
    """(S, B, K, 2, L): one to three links; the last example has none."""
    links = (noise(S, B, 3, 2, L, seed=5) > 0).float()
    links[..., 2] = 1.0
    links[:, 1, 1:] = 0.0
    links[:, -1] = 0.0
    return links


def made(channel: LossChannel) -> tuple[CohortOutput, Batch, torch.nn.Module | None]:
    states = noise(S, B, L, D, seed=1)
    rows = noise(S, B, L, L, seed=2).softmax(-1)
    seen = rows if channel.view == "matrix" else rows[:, :, 0]
    return output(states, seen), batch(some_hints(), links=some_links()), channel.head(D, [4, 5, 6])


ALL = [
    AttentionChannel(),
    AttentionChannel(over="text"),
    LabellingChannel(),
    LabellingChannel(reduction="sum"),
    AlignmentChannel(),
]
each = pytest.mark.parametrize("channel", ALL, ids=lambda channel: f"{channel.card.name}-{channel.parameters}")


def test_attention_by_hand() -> None:
    # The hint is half on a and half on c; [CLS] looks at them with .2 and .1, and with .4 at itself and [SEP].
    attention = torch.tensor([0.1, 0.2, 0.15, 0.1, 0.15, 0.3], dtype=torch.float64).expand(1, 1, L)
    hints = torch.tensor([0, 3.0, 0, 3.0, 0, 0]).expand(1, 1, L)
    found = AttentionChannel().loss(output(attention=attention), batch(hints), None)
    by_hand = 0.5 * math.log(0.5 / 0.2) + 0.5 * math.log(0.5 / 0.1)
    assert found.item() == pytest.approx(by_hand, abs=1e-6)
    # Over the text alone the attention is .2/.6 and .1/.6: what special tokens get is free.
    found = AttentionChannel(over="text").loss(output(attention=attention), batch(hints), None)
    assert found.item() == pytest.approx(by_hand + math.log(0.6), abs=1e-6)


def test_attention_is_the_divergence_from_the_hint_not_to_it() -> None:
    attention = noise(1, 1, 4).double().softmax(-1)
    hints = noise(1, 1, 4, seed=1).double().softmax(-1)
    text = torch.ones(4, dtype=torch.bool)
    found = AttentionChannel().loss(output(attention=attention), batch(hints, text), None)
    p, q = torch.distributions.Categorical(hints[0, 0]), torch.distributions.Categorical(attention[0, 0])
    there, back = torch.distributions.kl_divergence(p, q), torch.distributions.kl_divergence(q, p)
    assert found.item() == pytest.approx(there.item(), abs=1e-6)
    assert found.item() != pytest.approx(back.item(), abs=1e-3)
    same = AttentionChannel().loss(output(attention=hints), batch(hints, text), None)
    assert same.item() == pytest.approx(0, abs=1e-6)


def test_attention_of_zero_on_the_hint_is_large_but_finite() -> None:
    attention = torch.tensor([[[1.0, 0, 0, 0, 0, 0]]], requires_grad=True)
    for channel in (AttentionChannel(), AttentionChannel(over="text")):
        found = channel.loss(output(attention=attention), batch(torch.tensor([[[0, 1.0, 0, 0, 0, 0]]])), None)
        (slope,) = torch.autograd.grad(found.sum(), attention)
        assert found.item() == pytest.approx(-math.log(1e-9) if channel.over == "all" else 0, abs=1e-3)
        assert slope.isfinite().all()


def test_labelling_equals_all_tag_sequences_written_out() -> None:
    channel = LabellingChannel(reduction="sum")
    head = LabellingHead(D, [0]).double()
    with torch.no_grad():
        for number, parameter in enumerate(head.parameters()):
            parameter.copy_(noise(*parameter.shape, seed=number))
    states = noise(1, 1, L, D).double()
    hints = torch.tensor([[[0, 0.25, 0, 0, 0.25, 0]]])
    weights = {name: parameter[0] for name, parameter in head.named_parameters()}
    emissions = states[0, 0, 1:5] @ weights["weight"] + weights["bias"]  # special tokens are no part of the chain

    def total(tags: tuple[int, ...]) -> Tensor:
        found = weights["start"][tags[0]] + weights["end"][tags[-1]]
        for place, tag in enumerate(tags):
            found = found + emissions[place, tag] + (weights["transitions"][tags[place - 1], tag] if place else 0)
        return found

    ways = torch.stack([total(tags) for tags in product(range(2), repeat=4)])
    by_hand = ways.logsumexp(0) - total((1, 0, 0, 1))
    torch.testing.assert_close(channel.loss(output(states), batch(hints), head)[0, 0], by_hand)
    per_token = LabellingChannel().loss(output(states), batch(hints), head)[0, 0]
    torch.testing.assert_close(per_token, by_hand / 4)


def test_labelling_cuts_a_dense_hint_at_half_of_its_largest_weight() -> None:
    head = LabellingHead(D, [0])
    states = noise(1, 1, L, D)
    dense, cut = torch.tensor([[[0, 0.5, 0.24, 0.25, 0.01, 0]]]), torch.tensor([[[0, 1.0, 0, 1.0, 0, 0]]])
    loss = LabellingChannel().loss
    assert loss(output(states), batch(dense), head).item() == loss(output(states), batch(cut), head).item()


def test_alignment_by_hand() -> None:
    attention = torch.zeros(1, 1, 4, 4, dtype=torch.float64)
    attention[0, 0] = torch.tensor([[0.1, 0.2, 0.3, 0.4], [0.4, 0.3, 0.2, 0.1], [0.25] * 4, [0.7, 0.1, 0.1, 0.1]])
    links = torch.zeros(1, 1, 3, 2, 4)
    links[0, 0, 0] = torch.tensor([[1, 1, 0, 0], [0, 0, 1, 1]])  # mean of .3 + .4 and .2 + .1: .5
    links[0, 0, 1] = torch.tensor([[0, 1, 0, 0], [0, 0, 1, 0]])  # .2; the third link is none
    found = AlignmentChannel().loss(output(attention=attention), batch(torch.zeros(1, 1, 4), TEXT[:4], links), None)
    # The logarithm of the mean .35, not the mean of logarithms.
    assert found.item() == pytest.approx(-math.log(0.35), abs=1e-6)


def test_alignment_leaves_out_links_with_a_phrase_that_was_cut_off() -> None:
    attention = noise(1, 1, 4, 4).softmax(-1)
    links = torch.zeros(1, 1, 2, 2, 4)
    links[0, 0, 0, 0, 0] = links[0, 0, 0, 1, 3] = 1
    links[0, 0, 1, 0, 1] = 1  # its other phrase is not there
    found = AlignmentChannel().loss(output(attention=attention), batch(torch.zeros(1, 1, 4), TEXT[:4], links), None)
    assert found.item() == pytest.approx(-math.log(attention[0, 0, 0, 3].item()), abs=1e-6)


def test_without_links_alignment_asks_for_nothing() -> None:
    attention = noise(S, B, L, L).softmax(-1)
    found = AlignmentChannel().loss(output(attention=attention), batch(torch.zeros(S, B, L)), None)
    assert torch.equal(found, torch.zeros(S, B))


@each
def test_each_example_has_a_loss_and_none_where_the_hint_says_nothing(channel: LossChannel) -> None:
    seen, given, head = made(channel)
    found = channel.loss(seen, given, head)
    assert found.shape == (S, B)
    assert (found[:, :-1] > 0).all()
    assert torch.equal(found[:, -1], torch.zeros(S))


@each
def test_gradients_are_finite_and_what_says_nothing_pulls_at_nothing(channel: LossChannel) -> None:
    seen, given, head = made(channel)
    assert seen.attention is not None
    free = replace(seen, states=seen.states.requires_grad_(), attention=seen.attention.requires_grad_())
    channel.loss(free, given, head).sum().backward()  # type: ignore[no-untyped-call]
    moved = seen.states if channel.view is None else seen.attention
    assert moved.grad is not None
    assert moved.grad.isfinite().all()
    assert moved.grad[:, :-1].abs().sum() > 0
    assert not moved.grad[:, -1].any()
    for parameter in [] if head is None else head.parameters():
        assert parameter.grad is not None
        assert parameter.grad.isfinite().all()


@each
def test_a_student_does_not_notice_the_others(channel: LossChannel) -> None:
    seen, given, head = made(channel)
    assert seen.attention is not None
    assert given.links is not None
    together = channel.loss(seen, given, head)
    for number, seed in enumerate([4, 5, 6]):
        own = slice(number, number + 1)
        alone = channel.loss(
            output(seen.states[own], seen.attention[own]),
            batch(given.hints[own], links=given.links[own]),
            channel.head(D, [seed]),
        )
        torch.testing.assert_close(alone[0], together[number])


@each
def test_half_precision_gives_a_loss_in_single_precision(channel: LossChannel) -> None:
    seen, given, head = made(channel)
    assert seen.attention is not None
    half = replace(seen, attention=seen.attention.bfloat16())
    found = channel.loss(half, given, head)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, channel.loss(seen, given, head), rtol=0.05, atol=0.05)


@pytest.mark.parametrize("over", ["all", "text"])
def test_attention_moves_to_the_hint(over: str) -> None:
    logits = noise(S, B, L).requires_grad_()
    given, channel = batch(some_hints()), AttentionChannel.configured(over=over)
    told = given.hints[:, :-1] > 0

    def mass() -> Tensor:
        return (logits.softmax(-1)[:, :-1] * told).sum(-1)

    before, untold = mass(), logits[:, -1].detach().clone()
    descend([logits], lambda: channel.loss(output(attention=logits.softmax(-1)), given, None))
    if over == "all":
        assert (mass() > 0.95).all()
        assert (mass() > before).all()
    spread = torch.where(TEXT, logits, -math.inf).softmax(-1)[:, :-1].detach()
    torch.testing.assert_close(spread[told], (told / told.sum(-1, keepdim=True))[told], atol=0.05, rtol=0)
    assert torch.equal(logits[:, -1], untold)


def test_states_come_to_tell_the_tags() -> None:
    states, given, channel = noise(S, B, L, D).requires_grad_(), batch(some_hints()), LabellingChannel()
    head = channel.head(D, [1, 2, 3])
    assert isinstance(head, LabellingHead)
    descend([states, *head.parameters()], lambda: channel.loss(output(states), given, head))
    found = head.tags(states, given.text)[:, :-1]
    wanted = torch.where(given.text, (given.hints > 0).long(), -1)[:, :-1]
    assert torch.equal(found, wanted)


def test_attention_comes_to_follow_the_links() -> None:
    logits, links = noise(1, 1, L, L).requires_grad_(), torch.zeros(1, 1, 1, 2, L)
    links[0, 0, 0, 0, 1] = links[0, 0, 0, 1, 3:5] = 1
    given = batch(torch.zeros(1, 1, L), links=links)
    before = logits.detach().clone()
    descend([logits], lambda: AlignmentChannel().loss(output(attention=logits.softmax(-1)), given, None))
    assert logits.softmax(-1)[0, 0, 1, 3:5].sum() > 0.95
    others = [0, 2, 3, 4, 5]
    assert torch.equal(logits[0, 0, others], before[0, 0, others])


def descend(parameters: list[Tensor], loss: Callable[[], Tensor]) -> None:
    optimiser = torch.optim.Adam(parameters, lr=0.1)
    for _ in range(150):
        optimiser.zero_grad()
        loss().sum().backward()  # type: ignore[no-untyped-call]
        optimiser.step()


def test_heads_are_drawn_from_the_seeds_alone() -> None:
    before = torch.get_rng_state()
    one, other = LabellingHead(D, [1, 2]), LabellingHead(D, [2, 3, 1])
    assert torch.equal(one.weight[0], other.weight[2])
    assert torch.equal(one.weight[1], other.weight[0])
    assert not torch.equal(one.weight[0], one.weight[1])
    assert torch.equal(torch.get_rng_state(), before)
    assert all(len(parameter) == 2 for parameter in one.parameters())


def test_channels_have_the_names_of_their_files() -> None:
    assert {"attention", "labelling", "alignment"} <= set(CHANNELS.names())
    assert CHANNELS.get("alignment") is AlignmentChannel
    assert CHANNELS.card("alignment").answers == {"span"}
    with pytest.raises(ParameterError, match="over of attention must be 'all' or 'text'"):
        AttentionChannel.configured(over="everything")
    with pytest.raises(ParameterError, match="cut of labelling must be above 0"):
        LabellingChannel(cut=0.0)
