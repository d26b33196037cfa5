"""Chains of tags against all sequences written out, against the forward algorithm step by step, and on every mask."""

from itertools import product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from didact.ops.crf import Chain, best, log_likelihood

PROPERTY = settings(max_examples=60, deadline=None, derandomize=True)


def chain_of(tags: int, *lead: int, seed: int = 0) -> Chain:
    rng = torch.Generator().manual_seed(seed)
    shapes = ((tags, tags), (tags,), (tags,))
    return Chain(*(torch.randn(*lead, *shape, generator=rng, dtype=torch.float64) for shape in shapes))


def emitted(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed + 1000), dtype=torch.float64)


def written_out(emissions: Tensor, tags: tuple[int, ...], chain: Chain) -> float:
    """Score of one sequence over positions that all exist."""
    if not tags:
        return 0.0
    total = chain.start[tags[0]] + chain.end[tags[-1]]
    for place, tag in enumerate(tags):
        total = total + emissions[place, tag] + (chain.transitions[tags[place - 1], tag] if place else 0)
    return float(total)


def forward(emissions: Tensor, chain: Chain) -> Tensor:
    """Log-partition step by step."""
    alpha = chain.start + emissions[0]
    for step in emissions[1:]:
        alpha = (alpha[:, None] + chain.transitions).logsumexp(0) + step
    return (alpha + chain.end).logsumexp(0)


masks = st.lists(st.booleans(), min_size=1, max_size=6)


@PROPERTY
@given(masks, st.integers(1, 4), st.integers(0, 100))
def test_everything_equals_all_sequences_written_out(mask: list[bool], tags: int, seed: int) -> None:
    emissions, chain, exists = emitted(len(mask), tags, seed=seed), chain_of(tags, seed=seed), torch.tensor(mask)
    kept = emissions[exists]
    scores = {way: written_out(kept, way, chain) for way in product(range(tags), repeat=len(kept))}
    total = torch.tensor(list(scores.values()), dtype=torch.float64).logsumexp(0)
    for way in list(scores)[:: max(1, len(scores) // 5)]:
        given_tags = torch.full((len(mask),), -1)
        given_tags[exists] = torch.tensor(way, dtype=torch.long)
        found = log_likelihood(emissions, given_tags, exists, chain)
        assert found.item() == pytest.approx(scores[way] - total.item())
    decoded = best(emissions, exists, chain)
    assert scores[tuple(decoded[exists].tolist())] == pytest.approx(max(scores.values()))
    assert (decoded[~exists] == -1).all()


@pytest.mark.parametrize("length", [1, 2, 3, 127, 128, 1000])
def test_long_chains_equal_the_forward_algorithm(length: int) -> None:
    emissions, chain = 3 * emitted(length, 3), chain_of(3)
    exists = torch.ones(length, dtype=torch.bool)
    tags = torch.zeros(length, dtype=torch.long)
    expected = written_out(emissions, (0,) * length, chain) - forward(emissions, chain)
    torch.testing.assert_close(log_likelihood(emissions, tags, exists, chain), expected)
    single = Chain(chain.transitions.float(), chain.start.float(), chain.end.float())
    near = log_likelihood(emissions.float(), tags, exists, single)
    torch.testing.assert_close(near.double(), expected, rtol=1e-5, atol=1e-4)


def test_each_student_has_its_own_chain_for_all_its_examples() -> None:
    students, examples, length, tags = 3, 4, 7, 2
    emissions, chain = emitted(students, examples, length, tags), chain_of(tags, students)
    exists = torch.rand(students, examples, length, generator=torch.Generator().manual_seed(0)) < 0.7
    given_tags = torch.randint(tags, (students, examples, length), generator=torch.Generator().manual_seed(1))
    together = log_likelihood(emissions, given_tags, exists, chain)
    tags_together = best(emissions, exists, chain)
    assert together.shape == (students, examples)
    for s, e in product(range(students), range(examples)):
        own = Chain(chain.transitions[s], chain.start[s], chain.end[s])
        alone = log_likelihood(emissions[s, e], given_tags[s, e], exists[s, e], own)
        torch.testing.assert_close(together[s, e], alone)
        assert torch.equal(tags_together[s, e], best(emissions[s, e], exists[s, e], own))


MASKS = torch.tensor([[1, 1, 1, 1], [0, 0, 1, 1], [1, 0, 0, 1], [0, 1, 0, 0], [0, 0, 0, 0]], dtype=torch.bool)


def test_what_does_not_exist_changes_nothing_and_has_no_gradient() -> None:
    emissions, chain = emitted(5, 4, 3).requires_grad_(), chain_of(3)
    given_tags = torch.zeros(5, 4, dtype=torch.long)
    found = log_likelihood(emissions, given_tags, MASKS, chain)
    (slopes,) = torch.autograd.grad(found.sum(), emissions)
    assert found[4] == 0
    assert found[:4].isfinite().all()
    assert (found[:4] < 0).all()
    assert slopes.isfinite().all()
    assert not slopes[~MASKS].any()
    assert slopes[MASKS].abs().sum() > 0
    other = torch.where(MASKS[..., None], emissions, 1e6)
    other_tags = torch.where(MASKS, given_tags, 77)
    assert torch.equal(log_likelihood(other, other_tags, MASKS, chain), found)


def test_gradients_are_right_also_of_the_chain() -> None:
    emissions, chain = emitted(5, 4, 2).requires_grad_(), chain_of(2)
    weights = [part.requires_grad_() for part in (chain.transitions, chain.start, chain.end)]
    given_tags = torch.tensor([[0, 1, 1, 0]] * 5)

    def total(e: Tensor, transitions: Tensor, start: Tensor, end: Tensor) -> Tensor:
        return log_likelihood(e, given_tags, MASKS, Chain(transitions, start, end))

    assert torch.autograd.gradcheck(total, (emissions, *weights))


def test_a_row_of_nothing_among_others_leaves_all_gradients_finite_in_single_precision() -> None:
    chain = Chain(*(torch.zeros(1, *shape, requires_grad=True) for shape in ((2, 2), (2,), (2,))))
    emissions = torch.randn(1, 5, 4, 2, generator=torch.Generator().manual_seed(0)).mul(30).requires_grad_()
    loss = -log_likelihood(emissions, torch.ones(1, 5, 4, dtype=torch.long), MASKS[None], chain).sum()
    loss.backward()  # type: ignore[no-untyped-call]
    for part in (emissions, chain.transitions, chain.start, chain.end):
        assert part.grad is not None
        assert part.grad.isfinite().all()


def test_probabilities_of_all_sequences_add_up_to_one_with_a_gap() -> None:
    emissions, chain, exists = emitted(4, 2), chain_of(2), torch.tensor([True, False, True, True])
    ways = [torch.tensor([a, 0, b, c]) for a, b, c in product(range(2), repeat=3)]
    total = sum(log_likelihood(emissions, way, exists, chain).exp().item() for way in ways)
    assert total == pytest.approx(1.0)


def test_decoding_works_where_gradients_are_switched_off_and_gives_one_of_several_equal_sequences() -> None:
    zero = Chain(torch.zeros(2, 2), torch.zeros(2), torch.zeros(2))
    with torch.inference_mode():
        tied = best(torch.zeros(3, 2) + 0.0, torch.ones(3, dtype=torch.bool), zero)
        clear = best(torch.tensor([[0.0, 1.0], [2.0, 0.0]]), torch.ones(2, dtype=torch.bool), zero)
    assert set(tied.tolist()) <= {0, 1}
    assert clear.tolist() == [1, 0]


def test_half_precision_is_added_up_in_single_precision() -> None:
    emissions, chain = emitted(200, 2).bfloat16(), chain_of(2)
    single = Chain(chain.transitions.float(), chain.start.float(), chain.end.float())
    tags = torch.zeros(200, dtype=torch.long)
    found = log_likelihood(emissions, tags, torch.ones(200, dtype=torch.bool), single)
    assert found.dtype == torch.float32
    expected = written_out(emissions.double(), (0,) * 200, chain) - forward(emissions.double(), chain)
    assert abs(float(found - expected)) < 1e-3  # sums of hundreds; half precision is off by whole numbers
