"""Attention maps together with the gradient of the explained number with respect to each of their entries."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from didact.models.attention import goes_through_interface, observed

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def maps_times_gradient(
    model: PreTrainedModel, inputs: dict[str, Tensor], value: Callable[[Tensor], Tensor]
) -> tuple[Tensor, list[Tensor]]:
    """Logits, and per layer the attention probabilities times their gradient: (batch, heads, queries, keys).

    Args:
        model: in evaluation mode.
        inputs: of one pass, with embeddings that require a gradient, so that every map does.
        value: logits -> the explained number per row.
    """
    logits, maps = _pass(model, inputs)
    gradients = torch.autograd.grad(value(logits).sum(), maps)
    return logits.detach(), [seen.detach() * gradient for seen, gradient in zip(maps, gradients, strict=True)]


def _pass(model: PreTrainedModel, inputs: dict[str, Tensor]) -> tuple[Tensor, list[Tensor]]:
    if not goes_through_interface(model):
        result = model(**inputs, output_attentions=True)
        return result.logits, list(result.attentions)
    maps: list[Tensor] = []
    with observed(model, lambda _, probabilities: maps.append(probabilities)):
        return model(**inputs).logits, maps
