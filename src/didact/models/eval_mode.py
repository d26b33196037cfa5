"""The user's model, borrowed: in evaluation mode while we use it, and exactly as it was afterwards."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

from torch import nn


def modules(model: nn.Module) -> list[nn.Module]:
    """The model and all modules in it, each once; ten times quicker than ``nn.Module.modules``, which makes names."""
    found = {id(model): model}
    waiting = [model]
    while waiting:
        for module in waiting.pop()._modules.values():
            if module is not None and id(module) not in found:
                found[id(module)] = module
                waiting.append(module)
    return list(found.values())


def parameters(model: nn.Module) -> list[nn.Parameter]:
    """All parameters of the model; one that several modules share comes several times."""
    return [own for module in modules(model) for own in module._parameters.values() if own is not None]


@contextlib.contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Switch dropout and the like off inside the block; every module's own mode comes back, also on failure."""
    training = [module for module in modules(model) if module.training]
    try:
        for module in training:
            module.training = False
        yield
    finally:
        for module in training:
            module.training = True


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """No bars and advice of Transformers' own inside the block; what the user had set comes back."""
    if "transformers" not in sys.modules:
        yield
        return
    from transformers.utils import logging

    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    try:
        logging.set_verbosity_error()
        logging.disable_progress_bar()
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()
