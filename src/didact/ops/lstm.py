"""A bidirectional LSTM of many students at once, each with weights of its own.

Both directions of all students are one stack of recurrences: the second direction reads its texts from their ends, so
that every recurrence runs from left to right, and one batched product per time step serves all of them. What comes
after a text cannot reach back into it, so padding needs no masks inside the loop.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from didact.ops.autograd import Context

Kernel = Callable[..., tuple[Tensor, Tensor, Tensor]]


@dataclass(frozen=True, eq=False)
class LstmWeights:
    """Weights of S students in two directions; gates in the order input, forget, cell, output.

    Attributes:
        inward: (S, 2, D, 4H), transposed ``weight_ih`` of ``nn.LSTM``.
        recurrent: (S, 2, H, 4H), transposed ``weight_hh``.
        bias: (S, 2, 4H), the sum of its two biases.
    """

    inward: Tensor
    recurrent: Tensor
    bias: Tensor


def bidirectional_lstm(inputs: Tensor, lengths: Tensor, weights: LstmWeights) -> Tensor:
    """Hidden states of both directions, as ``nn.LSTM`` gives them for packed sequences.

    Args:
        inputs: (S, B, L, D).
        lengths: tokens of each text (S, B); what follows them is padding.
        weights: of the S students.

    Returns:
        (S, B, L, 2H), zero at padding. The last state of the first direction stands at the last token, that of the
        second at the first token.
    """
    students, rows, steps, width = inputs.shape
    order = _backwards(lengths, steps)
    both = torch.stack([inputs, _reordered(inputs, order)], 1)  # (S, 2, B, L, D)
    flat = both.reshape(2 * students, rows * steps, width)
    gates = torch.baddbmm(weights.bias.flatten(0, 1)[:, None], flat, weights.inward.flatten(0, 1))
    gates = gates.view(2 * students, rows, steps, -1).permute(2, 0, 1, 3).contiguous()  # (L, 2S, B, 4H)
    hidden = _recurred(gates, weights.recurrent.flatten(0, 1))  # (L, 2S, B, H)
    hidden = hidden.view(steps, students, 2, rows, -1).permute(1, 3, 0, 2, 4)  # (S, B, L, 2, H)
    states = torch.cat([hidden[..., 0, :], _reordered(hidden[..., 1, :], order)], -1)
    there = torch.arange(steps, device=lengths.device) < lengths[..., None]
    return states * there[..., None]


def last_states(states: Tensor, lengths: Tensor) -> Tensor:
    """Last states of both directions: (S, B, L, 2H) -> (S, B, 2H)."""
    half = states.shape[-1] // 2
    last = (lengths - 1).clamp(min=0)[..., None, None].expand(*lengths.shape, 1, half)
    return torch.cat([states[..., :half].gather(2, last)[:, :, 0], states[:, :, 0, half:]], -1)


def reversed_texts(values: Tensor, lengths: Tensor) -> Tensor:
    """Each text from its end to its beginning, padding left where it is: (S, B, L, D) -> the same."""
    return _reordered(values, _backwards(lengths, values.shape[2]))


def _backwards(lengths: Tensor, steps: int) -> Tensor:
    """Where each place of a reversed text comes from (S, B, L); padding stays where it is."""
    places = torch.arange(steps, device=lengths.device).expand(*lengths.shape, steps)
    return torch.where(places < lengths[..., None], lengths[..., None] - 1 - places, places)


def _reordered(values: Tensor, order: Tensor) -> Tensor:
    reordered: Tensor = _Reordered.apply(values, order)  # type: ignore[no-untyped-call]
    return reordered


def _recurred(gates: Tensor, weight: Tensor) -> Tensor:
    states: Tensor = _Recurrence.apply(gates, weight)  # type: ignore[no-untyped-call]
    return states


class _Reordered(torch.autograd.Function):
    """Places exchanged along L. Reversing twice changes nothing, so the gradient is reordered in the same way."""

    @staticmethod
    def forward(ctx: Context, values: Tensor, order: Tensor) -> Tensor:
        ctx.save_for_backward(order)
        return values.gather(2, order[..., None].expand(values.shape))

    @staticmethod
    def backward(ctx: Context, *grads: Tensor) -> tuple[Tensor, None]:
        (order,) = ctx.saved_tensors
        return grads[0].gather(2, order[..., None].expand(grads[0].shape)), None


class _Recurrence(torch.autograd.Function):
    """The loop over time: gates without their recurrent part (L, N, B, 4H), weights (N, H, 4H) -> states (L, N, B, H).

    Inside, the rows of all N are one axis wherever their weights do not matter. The gradient of the weights is one
    product over all steps at the end, not one per step.
    """

    @staticmethod
    def forward(ctx: Context, gates: Tensor, weight: Tensor) -> Tensor:
        _, count, rows, _ = gates.shape
        apart = (count, rows, weight.shape[1])
        state = cell = gates.new_zeros(count * rows, weight.shape[1])
        states, cells, kept = [], [cell], []
        for part in gates.flatten(1, 2).unbind(0):
            recurrent = torch.bmm(state.view(apart), weight).view(part.shape)
            state, cell, activated = _cell(part, recurrent, cell)
            states.append(state)
            cells.append(cell)
            kept.append(activated)
        hidden = torch.stack(states).view(-1, count, rows, weight.shape[1])
        ctx.save_for_backward(weight, hidden, *cells, *kept)
        return hidden

    @staticmethod
    def backward(ctx: Context, *grads: Tensor) -> tuple[Tensor, Tensor]:
        weight, hidden, *rest = ctx.saved_tensors
        steps, count, rows, _ = hidden.shape
        cells, kept = rest[: steps + 1], rest[steps + 1 :]
        apart, turned = (count, rows, weight.shape[2]), weight.transpose(1, 2)
        upstream = grads[0].contiguous().unbind(0)
        to_state, to_cell = upstream[-1].view(cells[0].shape), None
        gate_grads = []
        for step in reversed(range(steps)):
            gate_grad, to_cell = _cell_backward(to_state, to_cell, cells[step], cells[step + 1], kept[step])
            gate_grads.append(gate_grad)
            if step:
                to_state = torch.baddbmm(upstream[step - 1], gate_grad.view(apart), turned).view(cells[0].shape)
        gates = torch.stack(gate_grads[::-1]).view(steps, *apart)  # (L, N, B, 4H)
        before = hidden[:-1].permute(1, 3, 0, 2).flatten(2)  # (N, H, (L-1)B)
        return gates, torch.bmm(before, gates[1:].transpose(0, 1).flatten(1, 2))


def _cell(gates: Tensor, recurrent: Tensor, cell: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """One step of all rows (NB, ...): its state, its cell, and the activated gates for the way back.

    CUDA has this as one kernel in torch, which is private there; the plain form stands in where it is missing.
    """
    if gates.is_cuda and _FUSED is not None:
        state, after, activated = _FUSED[0](gates, recurrent, cell)
        return state, after, activated
    activated = gates + recurrent
    i, f, g, o = activated.chunk(4, -1)
    activated[:, : 2 * cell.shape[-1]].sigmoid_()
    g.tanh_()
    o.sigmoid_()
    after = torch.addcmul(f * cell, i, g)
    return o * after.tanh(), after, activated


def _cell_backward(
    to_state: Tensor, to_cell: Tensor | None, before: Tensor, after: Tensor, activated: Tensor
) -> tuple[Tensor, Tensor]:
    """Gradients of one step: for the gates before activation, and for the cell it began with."""
    if activated.is_cuda and _FUSED is not None:
        gates, cell, _ = _FUSED[1](to_state, to_cell, before, after, activated, False)
        return gates, cell
    i, f, g, o = activated.chunk(4, -1)
    bent = after.tanh()
    reached = to_state * o * (1 - bent * bent)
    if to_cell is not None:
        reached = reached + to_cell
    parts = [
        reached * g * (i - i * i),
        reached * before * (f - f * f),
        reached * i * (1 - g * g),
        to_state * bent * (o - o * o),
    ]
    return torch.cat(parts, -1), reached * f


def _fused() -> tuple[Kernel, Kernel] | None:
    """Kernels of torch for a step and its gradient, where this torch has them."""
    names = ("_thnn_fused_lstm_cell", "_thnn_fused_lstm_cell_backward_impl")
    kernels = [getattr(torch.ops.aten, name, None) for name in names]
    return None if None in kernels else (kernels[0].default, kernels[1].default)  # type: ignore[union-attr]


_FUSED = _fused()
