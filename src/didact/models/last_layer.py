"""The last layer of an encoder, computed only where the classifier reads it.

A classifier that reads the first position needs from the last layer the keys and values of all positions, and nothing
else but of that one: ten of the layer's twelve products per token are saved, a seventh of a pass through six layers.
Layers built like BERT's (RoBERTa's, XLM-R's, ELECTRA's, CamemBERT's and others) and like DistilBERT's are known. That
the outputs stay the same is tried on each network (``Traits.reads_first_alone``). A layer of another kind may offer the
same by a method ``first_position`` that takes what its ``forward`` takes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from torch import Tensor, nn

from didact.models.eval_mode import modules
from didact.models.exclusive import exclusive
from didact.models.hidden import hidden_layers

_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


@contextlib.contextmanager
def shortened(network: nn.Module) -> Iterator[bool]:
    """Have the last layer compute its first position alone inside the block.

    Gives whether it does: not where the layer is built otherwise, and not where something is hooked into it, which
    would see or change a part of its states.
    """
    with exclusive(network):
        layers = hidden_layers(network)
        layer = layers[-1] if layers else None
        short = None if layer is None or _is_touched(layer) else _short_forward(layer)
        if layer is None or short is None:
            yield False
            return
        vars(layer)["forward"] = short
        try:
            yield True
        finally:
            del vars(layer)["forward"]


def _short_forward(layer: nn.Module) -> Callable[..., Tensor] | None:
    own: Callable[..., Tensor] | None = getattr(layer, "first_position", None)
    if own is not None:
        return own
    block = _block(layer)
    return None if block is None else partial(_first_position, block)


@dataclass(frozen=True, eq=False)
class _Block:
    """Parts of a layer.

    Attributes:
        attention: the module with the attention's settings.
        query: map of the states to queries.
        key: to keys.
        value: to values.
        finish: from what the heads gathered, and the states before the layer, to the states behind it.
    """

    attention: Any
    query: nn.Module
    key: nn.Module
    value: nn.Module
    finish: Callable[[Tensor, Tensor], Tensor]


def _block(layer: Any) -> _Block | None:
    """The parts; None where the layer is built otherwise, or its attention is not torch's over all positions."""
    for build in (_like_bert, _like_distilbert):
        try:
            block = build(layer)
        except AttributeError:
            continue
        config = getattr(block.attention, "config", None)
        plain = getattr(config, "_attn_implementation", None) == "sdpa"
        return block if plain and not (block.attention.is_causal or getattr(layer, "is_decoder", False)) else None
    return None


def _like_bert(layer: Any) -> _Block:
    own, joined, inner, outer = layer.attention.self, layer.attention.output, layer.intermediate, layer.output

    def finish(seen: Tensor, before: Tensor) -> Tensor:
        middle = joined(seen, before)
        behind: Tensor = outer(inner(middle), middle)
        return behind

    return _Block(own, own.query, own.key, own.value, finish)


def _like_distilbert(layer: Any) -> _Block:
    own, joined = layer.attention, layer.attention.out_lin
    norm, inner, last = layer.sa_layer_norm, layer.ffn, layer.output_layer_norm

    def finish(seen: Tensor, before: Tensor) -> Tensor:
        middle = norm(joined(seen) + before)
        behind: Tensor = last(inner(middle) + middle)
        return behind

    return _Block(own, own.q_lin, own.k_lin, own.v_lin, finish)


def _is_touched(layer: nn.Module) -> bool:
    return any("forward" in vars(own) or any(vars(own)[name] for name in _HOOKS) for own in modules(layer))


def _first_position(
    block: _Block, hidden_states: Tensor, attention_mask: Tensor | None = None, *unused: object, **others: object
) -> Tensor:
    """What the layer makes of the first position: (rows, positions, dim) -> (rows, 1, dim)."""
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    attention, first = block.attention, hidden_states[:, :1]

    def heads(vectors: Tensor) -> Tensor:
        return vectors.view(*vectors.shape[:2], -1, attention.attention_head_size).transpose(1, 2)

    seen, _ = ALL_ATTENTION_FUNCTIONS["sdpa"](
        attention,
        heads(block.query(first)),
        heads(block.key(hidden_states)),
        heads(block.value(hidden_states)),
        None if attention_mask is None else attention_mask[..., :1, :],
        dropout=0.0,
        scaling=attention.scaling,
    )
    return block.finish(seen.reshape(len(first), 1, -1), first)
