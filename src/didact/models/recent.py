"""A fingerprint that is not computed again at every call, for calls that do not run the model."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch
from torch import Tensor, nn

from didact.models.exclusive import exclusive

REST = 20
"""A fingerprint rests for so many times what it took to compute: reading all weights takes 5 % of the time at most."""
WHOLE = 4096
"""Tensors with at most so many values are looked at whole."""
SAMPLE = 256
"""So many values of a larger one, evenly spread."""

Glance = tuple[list[object], bytes]


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
        self._seen: Glance | None = None
        self._known = ""
        self._until = 0.0

    def __call__(self) -> str:
        """The fingerprint, as it was when the network last looked different."""
        with exclusive(self.network):
            now = time.monotonic()
            seen = glance(self.network)
            if now > self._until or seen != self._seen:
                self._known, self._seen = self.compute(), seen
                done = time.monotonic()
                self._until = done + REST * (done - now)
            return self._known


@torch.no_grad()
def glance(network: nn.Module) -> Glance:
    """What can be seen of a network without reading all of it."""
    facts: list[object] = []
    values: list[Tensor] = []
    for module in network.modules():
        facts += [type(module), vars(module).get("forward")]
        for tensor in (*module._parameters.values(), *module._buffers.values()):
            if tensor is not None:
                facts += [tensor.data_ptr(), tensor._version, tensor.dtype, tensor.shape]
                values.append(_sampled(tensor))
    return facts, torch.cat(values).cpu().numpy().tobytes() if values else b""


def _sampled(tensor: Tensor) -> Tensor:
    """Some values as bytes; none of packed and sparse tensors."""
    if tensor.layout != torch.strided or tensor.is_quantized or not tensor.is_contiguous():
        return torch.empty(0, dtype=torch.uint8, device=tensor.device)
    flat = tensor.detach().view(-1)
    count = flat.numel()
    return (flat if count <= WHOLE else flat[:: count // SAMPLE].contiguous()).view(torch.uint8)
