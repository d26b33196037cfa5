"""Attention maps of one pass, and the gradient of the explained number with respect to each of their entries."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, cast

import numpy as np
import torch
from torch import Tensor, nn

from didact.errors import CapabilityError
from didact.models.attention import goes_through_interface, observed
from didact.models.batch import EncodedBatch, Inputs, Read
from didact.models.heads.base import Head
from didact.protocols import AttentionKind, AttentionRows, Reads

if TYPE_CHECKING:
    from transformers import PreTrainedModel

Reduce = Callable[[Tensor], Tensor]
"""What is kept of a layer's map: (batch, heads, queries, keys) -> any shape."""


def attention_maps(
    network: nn.Module, inputs: Inputs, reduce: Reduce, kind: AttentionKind = "probabilities"
) -> tuple[object, list[Tensor]]:
    """The network's result, and what ``reduce`` keeps of each layer's probabilities or logits.

    Models outside of Transformers' attention interface are read through ``output_attentions``.
    """
    maps: list[Tensor] = []
    if goes_through_interface(network):

        def watch(logits: Tensor, probabilities: Tensor) -> None:
            maps.append(reduce(probabilities if kind == "probabilities" else logits))

        with observed(cast("PreTrainedModel", network), watch):
            return network(**inputs), maps
    if kind == "logits":
        raise CapabilityError(
            f"{type(network).__name__} does not use Transformers' attention interface: its attention "
            "probabilities can be read, its attention logits cannot; use kind='probabilities'"
        )
    result = network(**inputs, output_attentions=True)
    return result, [reduce(matrix) for matrix in result.attentions]


def maps_times_gradient(
    network: nn.Module, head: Head, batch: EncodedBatch, read: Read, number: int
) -> tuple[Tensor, list[Tensor]]:
    """Outputs, and per layer the attention probabilities times their gradient: (batch, heads, queries, keys).

    Args:
        network: in evaluation mode.
        head: what of its result is explained.
        batch: of one example, with embeddings that require a gradient, so that every map does.
        read: the explained number of outputs.
        number: of the example, for ``read``.
    """
    result, maps = attention_maps(network, head.feeding(network, batch), lambda seen: seen)
    outputs = head.answers(result, batch)
    gradients = torch.autograd.grad(read(outputs, np.array([number]), batch).sum(), maps)
    return outputs.detach(), [seen.detach() * gradient for seen, gradient in zip(maps, gradients, strict=True)]


def query_rows(seen: Tensor, rows: AttentionRows, reads: Reads, size: int) -> Tensor:
    """Reduce one example's (1, heads, queries, keys) over queries.

    Args:
        seen: a layer's map; what the head has the network read besides the example stands behind it and is left out.
        rows: which queries are wanted.
        reads: which position the classifier reads.
        size: positions of the example.
    """
    matrix = seen[0, :, :size, :size].float()
    if rows == "all":
        return matrix
    if rows == "mean" or reads == "mean":
        return matrix.mean(1)
    return matrix[:, -1 if reads == "last" else 0]
