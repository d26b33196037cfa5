"""Sees a model's attention without forking it.

One attention function is registered with Transformers' ``AttentionInterface``. Inside ``observed`` the model uses it;
afterwards, also on failure, it uses again what it used before. Models that do not go through the interface
(DeBERTa-v2, Longformer) are read through ``output_attentions`` where they offer it.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from didact.models.exclusive import exclusive

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedModel

NAME = "didact_observed"

Observer = Callable[[Tensor, Tensor], None]
"""Called once per layer, in order, with logits and probabilities: both (batch, heads, queries, keys)."""

_OBSERVER: ContextVar[Observer | None] = ContextVar("didact_attention_observer", default=None)
_FUNCTION: ContextVar[Callable[..., tuple[Tensor, object]] | None] = ContextVar("didact_attention", default=None)


def goes_through_interface(model: nn.Module) -> bool:
    """Whether ``observed`` can see this model's heads."""
    settable: Callable[[], bool] | None = getattr(model, "_can_set_attn_implementation", None)
    return settable is not None and bool(settable())


@contextlib.contextmanager
def observed(model: PreTrainedModel, observer: Observer) -> Iterator[None]:
    """Show every attention layer inside the block to ``observer``; differentiable twice, like eager attention."""
    token = _OBSERVER.set(observer)
    try:
        with switched(model, NAME, attend, _register):
            yield
    finally:
        _OBSERVER.reset(token)


@contextlib.contextmanager
def switched(
    model: PreTrainedModel, name: str, function: Callable[..., tuple[Tensor, object]], register: Callable[[], None]
) -> Iterator[None]:
    """Have every attention layer inside the block call a function; what the model used before comes back.

    Args:
        model: goes through Transformers' interface, or looks for ``function_in_force`` by itself.
        name: of the function at Transformers.
        function: the attention.
        register: makes it known to Transformers under that name; called where Transformers' models are loaded.
    """
    with exclusive(model):
        before = _implementations(model)
        token = _FUNCTION.set(function)
        try:
            if "transformers.modeling_utils" in sys.modules:  # whoever has a model of Transformers' has loaded it
                register()
            model.set_attn_implementation(name)
            yield
        finally:
            for config, implementation in before:
                config._attn_implementation_internal = implementation
            _FUNCTION.reset(token)


def function_in_force() -> Callable[..., tuple[Tensor, object]] | None:
    """The attention function that ``switched`` put in place in this thread, for networks that are not Transformers'."""
    return _FUNCTION.get()


def attend(  # noqa: PLR0913 - the signature is Transformers'
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    softcap: float | None = None,
    s_aux: Tensor | None = None,
    **unused: object,
) -> tuple[Tensor, Tensor]:
    """Plain attention over (batch, heads, tokens, dim) that reports its logits and probabilities."""
    groups = query.shape[1] // key.shape[1]
    if groups > 1:  # grouped-query attention: each key head serves several query heads
        key, value = key.repeat_interleave(groups, 1), value.repeat_interleave(groups, 1)
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    logits = query @ key.transpose(-1, -2) * scale
    if softcap is not None:
        logits = torch.tanh(logits / softcap) * softcap
    if attention_mask is not None:
        logits = logits + attention_mask[..., : key.shape[-2]]
    wide = torch.promote_types(query.dtype, torch.float32)
    full = logits
    if s_aux is not None:  # attention sinks, one per head: they take probability and give no value
        full = torch.cat([logits, s_aux.reshape(1, -1, 1, 1).expand(*logits.shape[:-1], 1)], -1)
    probabilities = torch.softmax(full, -1, dtype=wide)[..., : logits.shape[-1]].to(query.dtype)
    observer = _OBSERVER.get()
    if observer is not None:
        observer(logits, probabilities)
    kept = nn.functional.dropout(probabilities, dropout, module.training)
    return (kept @ value).transpose(1, 2).contiguous(), probabilities


def _implementations(model: nn.Module) -> list[tuple[PreTrainedConfig, str | None]]:
    """Every config inside the model with the attention implementation it names now."""
    known: dict[int, PreTrainedConfig] = {}
    configs = [getattr(module, "config", None) for module in model.modules()]
    waiting = [config for config in configs if hasattr(config, "_attn_implementation_internal")]
    while waiting:
        config = waiting.pop()
        if config is not None and id(config) not in known:
            known[id(config)] = config
            waiting += [sub for key in config.sub_configs if (sub := getattr(config, key)) is not None]
    return [(config, config._attn_implementation_internal) for config in known.values()]


@functools.cache
def _register() -> None:
    """Make our attention known to Transformers."""
    from transformers import AttentionInterface
    from transformers.masking_utils import AttentionMaskInterface, eager_mask

    AttentionInterface.register(NAME, attend)
    AttentionMaskInterface.register(NAME, eager_mask)
