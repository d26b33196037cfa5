"""The last layer of an encoder, computed only where the classifier reads it.

A classifier that reads the first position needs from the last layer the keys and values of all positions, and nothing
else but of that one: ten of the layer's twelve products per token are saved, a seventh of a pass through six layers.
Layers that ``LayerModules`` knows can do so. That the outputs stay the same is tried on each network
(``Traits.reads_first_alone``).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import partial

from torch import Tensor, nn
from torch.nn import functional

from didact.models.attention import function_in_force
from didact.models.eval_mode import modules
from didact.models.exclusive import exclusive
from didact.models.hidden import hidden_layers
from didact.models.layers import LayerModules

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
        known = None if layer is None or _is_touched(layer) else _known(layer)
        if layer is None or known is None:
            yield False
            return
        vars(layer)["forward"] = partial(_first_position, known)
        try:
            yield True
        finally:
            del vars(layer)["forward"]


def _is_touched(layer: nn.Module) -> bool:
    return any("forward" in vars(own) or any(vars(own)[name] for name in _HOOKS) for own in modules(layer))


def _known(layer: nn.Module) -> LayerModules | None:
    """The layer's modules; None where it is built otherwise, or its attention is not torch's over all positions."""
    try:
        known = LayerModules.of(layer)
    except AttributeError:
        return None
    config = getattr(known.attention, "config", None)
    own = getattr(config, "_attn_implementation", "sdpa") == "sdpa" and function_in_force() is None
    causal = getattr(known.attention, "is_causal", False) or getattr(layer, "is_decoder", False)
    return known if own and not causal else None


def _first_position(
    own: LayerModules, hidden_states: Tensor, attention_mask: Tensor | None = None, *unused: object, **others: object
) -> Tensor:
    """What the layer makes of the first position: (rows, positions, dim) -> (rows, 1, dim)."""

    def heads(vectors: Tensor) -> Tensor:
        return vectors.view(*vectors.shape[:2], own.heads, -1).transpose(1, 2)

    first, mask = hidden_states[:, :1], None if attention_mask is None else attention_mask[..., :1, :]
    query, key, value = heads(own.query(first)), heads(own.key(hidden_states)), heads(own.value(hidden_states))
    seen = functional.scaled_dot_product_attention(query, key, value, mask)
    block = own.first_norm(own.output(seen.transpose(1, 2).flatten(2)) + first)
    behind: Tensor = own.second_norm(own.outer(own.activation(own.inner(block))) + block)
    return behind
