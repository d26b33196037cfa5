"""Networks with something wrapped round them: adapters of peft, ``torch.compile``, copies for several devices."""

from __future__ import annotations

import sys
from typing import Any

from torch import nn

from didact.models.language_models import without_peft


def unwrapped(source: Any) -> Any:
    """The network inside of whatever is wrapped round it, alone or before its tokenizer; anything else as it is.

    A compiled network is explained by the one it was compiled from, which has the same weights: variants of a text
    differ in length, and a compiled one would be compiled again for each.
    """
    if isinstance(source, tuple) and len(source) == 2:
        return unwrapped(source[0]), source[1]
    inner = without_peft(_opened(source))
    return inner if inner is source else unwrapped(inner)


def _opened(source: Any) -> Any:
    """The module inside of a wrapper of torch's."""
    compiled = sys.modules.get("torch._dynamo.eval_frame")  # whoever has compiled something has loaded it
    if compiled is not None and isinstance(source, compiled.OptimizedModule):
        return source._orig_mod
    parallel = (nn.DataParallel, nn.parallel.DistributedDataParallel)
    return source.module if isinstance(source, parallel) else source
