"""A fingerprint that is not computed again at every call, for calls that do not run the model."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor, nn

from didact.models.exclusive import exclusive

REST = 20
"""A fingerprint rests for so many times what it took to compute: reading all weights takes 5 % of the time at most."""
WHOLE = 4096
"""Tensors with at most so many values are looked at whole."""
SAMPLE = 256
"""So many values of a larger one, evenly spread."""


class RecentFingerprint:
    """A network's fingerprint, computed again when a glance at the network shows a change, or after a while.

    A glance notices other modules, other tensors, every change that autograd counts (``optimizer.step()``,
    ``load_state_dict``, ``weight[0] = 1``), and changes past it of small tensors or of a large tensor as a whole
    (``weight.data.mul_(2)``). A change of single values past autograd, as by ``weight.data[3, 5] = 0``, and one of the
    tokenizer count from the next reading on.

    Args:
        network: the explained network.
        compute: the fingerprint, from all values.
    """

    def __init__(self, network: nn.Module, compute: Callable[[], str]) -> None:
        self.network = network
        self.compute = compute
        self._facts: list[object] = []
        self._samples: list[list[Tensor]] = []
        self._values = b""
        self._known = ""
        self._until = 0.0

    def __call__(self) -> str:
        """The fingerprint, as it was when the network last looked different."""
        with exclusive(self.network), torch.no_grad():
            now = time.monotonic()
            changed = self._looks_different()
            if now > self._until or changed:
                self._known = self.compute()
                done = time.monotonic()
                self._until = done + REST * (done - now)
            return self._known

    def _looks_different(self) -> bool:
        """Whether anything that can be seen at once differs from the last time; the samples are views, made once."""
        facts = list(_facts(self.network))
        same = facts == self._facts
        if not same:
            self._facts, self._samples = facts, _samples(self.network)
        before, self._values = self._values, _bytes(self._samples)
        return not same or before != self._values


def _modules(network: nn.Module) -> Iterator[nn.Module]:
    """Every module, those that stand in two places twice; ``network.modules()`` takes several times as long."""
    waiting: list[nn.Module | None] = [network]
    while waiting:
        module = waiting.pop()
        if module is not None:
            waiting += module._modules.values()
            yield module


def _tensors(module: nn.Module) -> Iterator[Tensor]:
    for tensor in (*module._parameters.values(), *module._buffers.values()):
        if tensor is not None:
            yield tensor


def _facts(network: nn.Module) -> Iterator[object]:
    """Classes of modules, and where tensors lie and how often autograd saw them change."""
    for module in _modules(network):
        yield type(module)
        yield vars(module).get("forward")
        for tensor in _tensors(module):
            yield tensor.data_ptr()
            yield 0 if tensor.is_inference() else tensor._version
            yield tensor.dtype
            yield tensor.shape


def _samples(network: nn.Module) -> list[list[Tensor]]:
    """Views of some values of every tensor but packed and sparse ones; each list has one type on one device."""
    views: dict[object, list[Tensor]] = {}
    for module in _modules(network):
        for tensor in _tensors(module):
            if tensor.layout == torch.strided and not tensor.is_quantized and tensor.is_contiguous():
                flat = tensor.detach().view(-1)
                sample = flat if flat.numel() <= WHOLE else flat[:: flat.numel() // SAMPLE]
                views.setdefault((tensor.dtype, tensor.device), []).append(sample)
    return list(views.values())


def _bytes(views: Sequence[Sequence[Tensor]]) -> bytes:
    return b"".join(torch.cat(list(own)).view(torch.uint8).cpu().numpy().tobytes() for own in views)
