"""Fast attention of which one layer can be looked at.

Every layer uses torch's fused kernel. Where somebody looks, the wanted layer's probabilities are computed once more
from its queries and keys: one row of them where one is enough, which costs next to nothing. Observing all layers
(``didact.models.attention``) would make each of them slow.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from didact.models.attention import goes_through_interface

if TYPE_CHECKING:
    from transformers import PreTrainedModel

NAME = "didact_glance"

View = Literal["first", "all"]
"""Queries that are looked at: the first position, or all of them."""


@dataclass
class AttentionTap:
    """What is wanted, and, after a forward pass, what was seen.

    Attributes:
        layer: number of the layer, from 0.
        view: whose attention.
        seen: probabilities, mean over heads: (rows, 1 or L, L).
    """

    layer: int
    view: View
    seen: Tensor | None = None
    passed: int = field(default=0, repr=False)


_GLANCE: ContextVar[AttentionTap | None] = ContextVar("didact_glance", default=None)


def use_attention_tap(model: PreTrainedModel) -> bool:
    """Switch a model of our own to this attention; whether it goes through Transformers' interface at all."""
    if not goes_through_interface(model):
        return False
    _register()
    model.set_attn_implementation(NAME)
    return True


@contextlib.contextmanager
def tapped_attention(layer: int, view: View) -> Iterator[AttentionTap]:
    """Look at one layer in the forward pass inside the block."""
    glance = AttentionTap(layer, view)
    token = _GLANCE.set(glance)
    try:
        yield glance
    finally:
        _GLANCE.reset(token)


def attend(  # noqa: PLR0913 - the signature is Transformers'
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    **unused: Any,
) -> tuple[Tensor, None]:
    """Attention over (batch, heads, tokens, dim) with a boolean mask or none."""
    glance = _GLANCE.get()
    if glance is not None:
        if glance.passed == glance.layer:
            glance.seen = _probabilities(query, key, attention_mask, scaling, glance.view)
        glance.passed += 1
    causal = attention_mask is None and query.shape[2] > 1 and bool(getattr(module, "is_causal", False))
    share = dropout if module.training else 0.0
    found = F.scaled_dot_product_attention(
        query,
        key,
        value,
        attn_mask=attention_mask,
        dropout_p=share,
        is_causal=causal,
        scale=scaling,
        enable_gqa=query.shape[1] != key.shape[1],
    )
    return found.transpose(1, 2).contiguous(), None


def _additive(mask: Tensor, dtype: torch.dtype) -> Tensor:
    """0 where a key is seen and the lowest number where it is not."""
    if mask.dtype != torch.bool:
        return mask
    return torch.zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill_(~mask, torch.finfo(dtype).min)


def _probabilities(query: Tensor, key: Tensor, mask: Tensor | None, scaling: float | None, view: View) -> Tensor:
    """Mean over heads of the attention of the queries that are looked at: (rows, 1 or L, L)."""
    if view == "first":
        query = query[:, :, :1]
        mask = None if mask is None else mask[:, :, :1]
    key = key.repeat_interleave(query.shape[1] // key.shape[1], 1)
    with torch.autocast(query.device.type, enabled=False):
        logits = query.float() @ key.float().transpose(-1, -2)
        logits = logits * (query.shape[-1] ** -0.5 if scaling is None else scaling)
        if mask is not None:
            logits = logits + _additive(mask, logits.dtype)
        return logits.softmax(-1).mean(1)


@functools.cache
def _register() -> None:
    """Make our attention known to Transformers."""
    from transformers import AttentionInterface
    from transformers.masking_utils import AttentionMaskInterface, bidirectional_mask_function, sdpa_mask

    def mask(*args: Any, **kwargs: Any) -> Tensor | None:
        seen = kwargs.get("attention_mask")
        if kwargs.get("mask_function") is bidirectional_mask_function and seen is not None:
            # One row for all queries. Asking whether there is any padding, as Transformers does, waits for the GPU.
            row: Tensor = seen.bool()[:, None, None, :]
            return row
        kwargs["allow_is_bidirectional_skip"] = False
        found: Tensor | None = sdpa_mask(*args, **kwargs)
        return found

    AttentionInterface.register(NAME, attend)
    AttentionMaskInterface.register(NAME, mask)
