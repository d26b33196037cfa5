"""What torch passes to the functions of ``torch.autograd.Function``, for the type checker."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor


class Context(Protocol):
    """Carries tensors from the forward to the backward function."""

    @property
    def saved_tensors(self) -> tuple[Tensor, ...]:
        """What was saved, in the backward function."""
        ...

    def save_for_backward(self, *tensors: Tensor) -> None:
        """Save tensors, in the forward function."""
