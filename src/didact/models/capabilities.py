"""What a network offers to methods beyond its score, and what it does not offer, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from didact.errors import CapabilityError
from didact.models.hidden import hidden_layers
from didact.models.layers import is_layered
from didact.models.traits import Traits
from didact.protocols import ATTENTIVE, DIFFERENTIABLE, GENERATIVE, HEADS, HIDDEN, LAYERED

if TYPE_CHECKING:
    from transformers import PreTrainedModel

MISSING = {
    ATTENTIVE: "shows no attention maps over its input: it neither uses Transformers' attention interface nor returns "
    "full maps, or is an encoder-decoder; use a method that does not need attention",
    DIFFERENTIABLE: "does not take input embeddings, so it has no gradients",
    HEADS: "does not show queries and keys of its heads through Transformers' attention interface, or its attention is "
    "more than their products; use a method that does not need heads",
    LAYERED: "is not one of the encoders that can be taken apart",
}


def offered(network: PreTrainedModel, traits: Traits, *, writes: bool) -> frozenset[str]:
    """What methods may need of a network with these traits; ``writes`` is whether its reader can have it answer."""
    holds = {
        DIFFERENTIABLE: traits.takes_embeddings,
        ATTENTIVE: traits.shows_attention,
        HIDDEN: traits.takes_embeddings and traits.one_stack and hidden_layers(network) is not None,
        HEADS: traits.heads is not None,
        LAYERED: is_layered(network),
        GENERATIVE: writes,
    }
    return frozenset(name for name, held in holds.items() if held)


def need(capability: str, capabilities: frozenset[str], network: object) -> None:
    """Refuse what the network cannot do."""
    if capability not in capabilities:
        raise CapabilityError(f"{type(network).__name__} {MISSING[capability]}")
