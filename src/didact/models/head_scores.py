"""What each attention head looks at, for many examples, without attention matrices."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from didact.errors import ParameterError
from didact.models.attention import switched
from didact.models.batch import Encoded, Ints
from didact.models.eval_mode import evaluating
from didact.models.fused_attention import NAME, HeadTap, attend, register_fused, tapped
from didact.models.planner import Budget, run
from didact.models.readers.base import AnyReader
from didact.ops.units import mean_to_units
from didact.types import Units

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def head_scores(
    reader: AnyReader, codes: Sequence[Encoded], units: Sequence[Units], budget: Budget, layers: Sequence[int]
) -> list[Tensor]:
    """Scores of the units by the heads of chosen layers, (layers x heads, units) per example, on the CPU.

    A score is the mean attention logit of the unit's positions, over queries at the positions of all units; in
    decoders and local attention over those that see the key.

    Args:
        reader: of the network.
        codes: the encoded examples.
        units: of the examples.
        budget: positions per batch.
        layers: numbers of the layers, from 0, in the order that is wanted.
    """
    network = reader.network
    base = cast("Callable[..., object]", getattr(network, "base_model", network))
    lengths = np.array([len(code) for code in codes], dtype=np.int64)
    rising = sorted(set(layers))
    order = [rising.index(layer) for layer in layers]
    kept: dict[int, Tensor] = {}

    def evaluate(rows: Ints) -> None:
        share = torch.from_numpy(_covered([units[row] for row in rows], int(lengths[rows].max())))
        with watched(network, HeadTap(share.to(reader.device), frozenset(rising))) as tap:
            base(**reader.whole([codes[row] for row in rows]))
        seen = torch.cat([tap.kept[place] for place in order], 1).cpu()  # (rows, layers x heads, positions)
        made = [mean_to_units(units[row], own) for row, own in zip(rows, seen, strict=True)]
        kept.update(zip(rows.tolist(), made, strict=True))

    with evaluating(network), torch.inference_mode():
        run("reading heads", lengths, budget, True, evaluate)
    return [kept[number].clone() for number in range(len(codes))]  # made outside of inference mode: may be learnt from


def layer_numbers(layers: Sequence[int] | None, depth: int) -> list[int]:
    """Numbers of the chosen layers from 0 on; negative ones count from the last, None is all."""
    if layers is None:
        return list(range(depth))
    wrong = [number for number in layers if not -depth <= number < depth]
    if wrong or not len(layers):
        given = f"layer {wrong[0]} does not exist" if wrong else "no layer was chosen"
        raise ParameterError(f"{given}; the model has {depth} layers, numbered 0 to {depth - 1}")
    return [number % depth for number in layers]


@contextlib.contextmanager
def watched(model: nn.Module, tap: HeadTap) -> Iterator[HeadTap]:
    """Collect head scores of the forward pass inside the block, in fused attention; the model is left as it was."""
    with tapped(tap), switched(cast("PreTrainedModel", model), NAME, attend, register_fused):
        yield tap


def _covered(units: Sequence[Units], width: int) -> NDArray[np.float32]:
    """1 at the positions that a unit covers, else 0: (rows, width)."""
    share = np.zeros((len(units), width), dtype=np.float32)
    for row, own in zip(share, units, strict=True):
        row[[place for positions in own.positions for place in positions]] = 1
    return share
