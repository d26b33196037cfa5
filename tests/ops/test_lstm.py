"""The stacked LSTM against ``nn.LSTM`` on packed sequences, student by student."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from didact.ops import lstm as module
from didact.ops.lstm import LstmWeights, bidirectional_lstm, last_states, reversed_texts

STUDENTS, ROWS, STEPS, WIDTH, HIDDEN = 3, 4, 7, 5, 6
LENGTHS = torch.tensor([[7, 1, 4, 6], [2, 7, 3, 1], [5, 5, 7, 2]])


def networks(dtype: torch.dtype) -> list[nn.LSTM]:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return [nn.LSTM(WIDTH, HIDDEN, batch_first=True, bidirectional=True).to(dtype) for _ in range(STUDENTS)]


def stacked(nets: list[nn.LSTM]) -> LstmWeights:
    def both(name: str, turned: bool = True) -> Tensor:
        parts = [[getattr(net, f"{name}_l0{end}").detach() for end in ("", "_reverse")] for net in nets]
        return torch.stack([torch.stack([part.t() if turned else part for part in pair]) for pair in parts])

    found = (both("weight_ih"), both("weight_hh"), both("bias_ih", False) + both("bias_hh", False))
    return LstmWeights(*(part.clone().requires_grad_() for part in found))


def inputs(dtype: torch.dtype) -> Tensor:
    drawn = torch.randn(STUDENTS, ROWS, STEPS, WIDTH, generator=torch.Generator().manual_seed(1), dtype=dtype)
    return drawn.requires_grad_()


def packed(net: nn.LSTM, given: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    """States (B, L, 2H), and the last ones of both directions (B, 2H)."""
    states, (last, _) = net(pack_padded_sequence(given, lengths, batch_first=True, enforce_sorted=False))
    return pad_packed_sequence(states, batch_first=True, total_length=STEPS)[0], torch.cat([last[0], last[1]], -1)


def test_states_and_gradients_are_those_of_each_students_own_lstm_on_packed_texts() -> None:
    nets, given = networks(torch.float32), inputs(torch.float32)
    weights = stacked(nets)
    states = bidirectional_lstm(given, LENGTHS, weights)
    probe = torch.randn(states.shape, generator=torch.Generator().manual_seed(2))
    found = torch.autograd.grad((states * probe).sum(), [given, weights.inward, weights.recurrent, weights.bias])
    for number, net in enumerate(nets):
        own = given[number].detach().requires_grad_()
        wanted, last = packed(net, own, LENGTHS[number])
        torch.testing.assert_close(states[number], wanted, atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(last_states(states, LENGTHS)[number], last, atol=1e-5, rtol=1e-5)
        torch.autograd.backward((wanted * probe[number]).sum())
        torch.testing.assert_close(found[0][number], own.grad, atol=1e-5, rtol=1e-5)
        for direction, end in enumerate(("", "_reverse")):
            for grad, name in zip(found[1:], ("weight_ih", "weight_hh", "bias_ih"), strict=True):
                own_grad = getattr(net, f"{name}_l0{end}").grad
                turned = own_grad.t() if own_grad.ndim == 2 else own_grad
                torch.testing.assert_close(grad[number, direction], turned, atol=1e-5, rtol=1e-5)


def test_its_gradient_is_the_derivative() -> None:
    weights = stacked(networks(torch.float64))

    def states(given: Tensor, *parts: Tensor) -> Tensor:
        return bidirectional_lstm(given, LENGTHS[:1, 1:3], LstmWeights(*parts))

    parts = [part[:1].detach().requires_grad_() for part in (weights.inward, weights.recurrent, weights.bias)]
    given = inputs(torch.float64)[:1, 1:3, :4].detach().requires_grad_()  # texts of 1 and 4 tokens
    assert torch.autograd.gradcheck(states, (given, *parts))


def test_what_stands_in_the_padding_is_not_read() -> None:
    weights = stacked(networks(torch.float64))
    given = inputs(torch.float64).detach()
    there = torch.arange(STEPS) < LENGTHS[..., None]
    other = torch.where(there[..., None], given, 1e6)
    states = bidirectional_lstm(other, LENGTHS, weights)
    torch.testing.assert_close(states, bidirectional_lstm(given, LENGTHS, weights))
    assert (states[~there] == 0).all()


def test_a_student_that_is_not_finite_leaves_the_others_alone() -> None:
    weights = stacked(networks(torch.float64))
    given = inputs(torch.float64).detach()
    wanted = bidirectional_lstm(given, LENGTHS, weights)
    with torch.no_grad():
        weights.recurrent[1] = float("nan")
    found = bidirectional_lstm(given, LENGTHS, weights)
    torch.testing.assert_close(found[[0, 2]], wanted[[0, 2]], atol=0, rtol=0)
    torch.autograd.backward(found[[0, 2]].sum())
    assert weights.recurrent.grad is not None
    assert weights.recurrent.grad[[0, 2]].isfinite().all()


def test_reversing_turns_texts_and_leaves_padding() -> None:
    given = torch.arange(5.0).view(1, 1, 5, 1)
    assert reversed_texts(given, torch.tensor([[3]])).flatten().tolist() == [2, 1, 0, 3, 4]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_the_fused_kernel_gives_what_the_plain_form_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    weights = stacked(networks(torch.float32))
    parts = [part.detach().cuda().requires_grad_() for part in (weights.inward, weights.recurrent, weights.bias)]
    given = inputs(torch.float32).detach().cuda().requires_grad_()

    def found() -> list[Tensor]:
        states = bidirectional_lstm(given, LENGTHS.cuda(), LstmWeights(*parts))
        return [states, *torch.autograd.grad(states.square().sum(), [given, *parts])]

    fused = found()
    monkeypatch.setattr(module, "_FUSED", None)
    for one, other in zip(fused, found(), strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-5)
