"""Ways to show a text of which units have weights between 0 and 1 to the frozen model, each behind one name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, cast

import numpy as np
import torch
from torch import Tensor, nn

from didact.ops.masking import unit_of_position
from didact.protocols import Absent, Differentiable
from didact.trained.samples import TrainingBatch
from didact.types import Units

Masking = Literal["soft", "hard", "top", "learned", "replace", "omit"]

HALF = 0.5
"""Weight from which on a unit counts as shown, where it is shown whole or not at all."""
POOL_TEXTS, POOL = 256, 4096
"""Training texts, and vectors of them, that replacements are drawn from."""


class AbsentVector(nn.Module):
    """A learned embedding in place of what is masked.

    Args:
        first: what it is before training, (dim,).
    """

    def __init__(self, first: Tensor) -> None:
        super().__init__()
        self.vector = nn.Parameter(first.detach().float().cpu().clone())


def shared(masking: Masking, model: Differentiable, units: Sequence[Units]) -> dict[str, object]:
    """What a way of masking needs in every batch, made from the training texts."""
    if masking == "learned":
        some = units[:POOL_TEXTS]
        return {"absent": AbsentVector(_covered(some, model.embed(some, absent="mask")).float().mean(0))}
    if masking == "replace":
        vectors = _covered(units[:POOL_TEXTS], model.embed(units[:POOL_TEXTS]))
        chosen = torch.randperm(len(vectors), generator=torch.Generator().manual_seed(0))[:POOL]
        return {"pool": vectors[chosen.to(vectors.device)]}
    if masking == "omit" and units:
        model.keep_outputs(
            units[:1], [np.ones((1, len(units[0])), dtype=np.bool_)], "delete"
        )  # refused where it cannot
    return {}


def masked_outputs(
    masking: Masking, logits: Sequence[Tensor], batch: TrainingBatch, shares_shown: Sequence[float] = ()
) -> tuple[Tensor, Tensor]:
    """The model's outputs with units shown by their weights a = sigmoid(logit), and by 1 - a: (rows, labels) each.

    Args:
        masking: how.
        logits: of each text's units.
        batch: what else the loss sees.
        shares_shown: for "top", shares of the units that are marked; one is drawn for each text.
    """
    model = cast("Differentiable", batch.shared["model"])
    units = [cast("Units", extra["units"]) for extra in batch.extra]
    shares = [own.sigmoid() for own in logits]
    if masking == "hard":
        shares = [_straight_through(own, _drawn(own, batch.generator)) for own in shares]
    if masking == "top":
        marked = [_highest(own.detach(), shares_shown, batch.generator) for own in logits]
        shares = [_straight_through(own, hard) for own, hard in zip(shares, marked, strict=True)]
    masks = [torch.stack([own, 1 - own]) for own in shares]
    made = torch.stack(model.soft_outputs(units, masks, _absent(masking, model, units, batch)))  # (rows, 2, labels)
    if masking == "omit":
        keep = [(mask.detach() >= HALF).cpu().numpy() for mask in masks]
        exact = np.stack(model.keep_outputs(units, keep, "delete"))
        made = _straight_through(made, torch.from_numpy(exact).to(made))
    made = made.to(logits[0].device)
    return made[:, 0], made[:, 1]


def _straight_through(soft: Tensor, hard: Tensor) -> Tensor:
    """The value of ``hard`` with the gradient of ``soft``."""
    return hard + (soft - soft.detach())


def _drawn(shares: Tensor, generator: torch.Generator | None) -> Tensor:
    """1 with the probability of each share, else 0; without a generator 1 from a half on."""
    limits = HALF if generator is None else torch.rand(shares.shape, generator=generator).to(shares.device)
    return (shares.detach() >= limits).to(shares.dtype)


def _highest(logits: Tensor, shares: Sequence[float], generator: torch.Generator | None) -> Tensor:
    """1 for the units with the largest logits, a share of all that is drawn, rounded down but at least one; else 0.

    In training the logits are disturbed by logistic noise, so that units near the border are tried on both sides; in
    validation it is the share in the middle of the list, without noise.
    """
    if generator is None:
        share = sorted(shares)[len(shares) // 2]
    else:
        share = shares[int(torch.randint(len(shares), (), generator=generator))]
        uniform = torch.rand(logits.shape, generator=generator).clamp(1e-6, 1 - 1e-6)
        logits = logits + uniform.logit().to(logits)
    count = max(1, int(share * len(logits) + 1e-9))
    return torch.zeros_like(logits).scatter_(0, logits.topk(count).indices, 1.0)


def _absent(masking: Masking, model: Differentiable, units: Sequence[Units], batch: TrainingBatch) -> Absent:
    if masking == "learned":
        return cast("AbsentVector", batch.shared["absent"]).vector
    if masking == "replace":
        pool = cast("Tensor", batch.shared["pool"])
        return [
            pool[_indices(len(vectors), len(pool), own, batch.generator).to(pool.device)]
            for own, vectors in zip(units, model.embed(units), strict=True)
        ]
    return "mask"


def _indices(count: int, choices: int, units: Units, generator: torch.Generator | None) -> Tensor:
    """Which replacement each position gets; without a generator the same for a text each time."""
    if generator is None:
        generator = torch.Generator().manual_seed(int(units.example.fingerprint, 16) % (1 << 63))
    return torch.randint(choices, (count,), generator=generator)


def _covered(units: Sequence[Units], vectors: Sequence[Tensor]) -> Tensor:
    """Embeddings of the positions that units cover, of all texts together: (positions, dim)."""
    return torch.cat(
        [
            own[torch.from_numpy(unit_of_position(unit, len(own)) >= 0).to(own.device)]
            for unit, own in zip(units, vectors, strict=True)
        ]
    )
