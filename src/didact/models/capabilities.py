"""What a network does not offer, in words."""

from __future__ import annotations

from didact.errors import CapabilityError
from didact.protocols import ATTENTIVE, DIFFERENTIABLE, LAYERED

MISSING = {
    ATTENTIVE: "neither uses Transformers' attention interface nor returns full attention maps; use a method that does "
    "not need attention",
    DIFFERENTIABLE: "does not take input embeddings, so it has no gradients",
    LAYERED: "is not one of the encoders that can be taken apart",
}


def need(capability: str, offered: frozenset[str], network: object) -> None:
    """Refuse what the network cannot do."""
    if capability not in offered:
        raise CapabilityError(f"{type(network).__name__} {MISSING[capability]}")
