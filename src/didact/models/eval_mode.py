"""The user's model, borrowed: in evaluation mode while we use it, and exactly as it was afterwards."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator

from torch import nn

from didact.models.exclusive import ProcessSwitch, exclusive
from didact.models.precision import multiplying


def modules(model: nn.Module) -> list[nn.Module]:
    """The model and all modules in it, each once; ten times quicker than ``nn.Module.modules``, which makes names."""
    known = {id(model): model}
    waiting = [model]
    while waiting:
        for module in waiting.pop()._modules.values():
            if module is not None and id(module) not in known:
                known[id(module)] = module
                waiting.append(module)
    return list(known.values())


def named_modules(network: nn.Module, *, twice: bool) -> Iterator[tuple[str, nn.Module]]:
    """As ``nn.Module.named_modules``, in a fifth of the time; a module in several places once or ``twice``."""
    known: set[int] = set()
    waiting: list[tuple[str, nn.Module]] = [("", network)]
    while waiting:
        name, module = waiting.pop()
        if twice or id(module) not in known:
            known.add(id(module))
            yield name, module
            start = f"{name}." if name else ""
            inner = [(start + last, own) for last, own in module._modules.items() if own is not None]
            waiting += reversed(inner)


def parameters(model: nn.Module) -> list[nn.Parameter]:
    """All parameters of the model; those that several modules share come several times."""
    return [own for module in modules(model) for own in module._parameters.values() if own is not None]


@contextlib.contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Switch dropout and the like off inside the block; every module's own mode comes back, also on failure.

    What ``model.compile()`` compiled is not used meanwhile: each length of a text would be compiled again. Other
    threads wait at the same model, so that none of them sees or restores a state that is not the user's.
    """
    with exclusive(model), multiplying(model):
        everything = modules(model)
        training = [module for module in everything if module.training]
        compiled = [(module, module._compiled_call_impl) for module in everything if module._compiled_call_impl]
        try:
            for module in training:
                module.training = False
            for module, _ in compiled:
                module._compiled_call_impl = None
            yield
        finally:
            for module in training:
                module.training = True
            for module, call in compiled:
                module._compiled_call_impl = call


@contextlib.contextmanager
def frozen(model: nn.Module) -> Iterator[None]:
    """No gradients for the weights inside the block, so that nothing is kept for them; as it was afterwards."""
    with exclusive(model):
        trained = [parameter for parameter in parameters(model) if parameter.requires_grad]
        try:
            for parameter in trained:
                parameter.requires_grad_(False)
            yield
        finally:
            for parameter in trained:
                parameter.requires_grad_(True)


def _silenced() -> Callable[[], None]:
    """Switch off Transformers' verbosity and bars; returns what restores them."""
    from transformers.utils import logging

    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()

    def restore() -> None:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()

    return restore


_QUIET = ProcessSwitch(_silenced)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """No bars and advice of Transformers' own inside the block; what the user had set comes back."""
    with _QUIET.switched() if "transformers" in sys.modules else contextlib.nullcontext():
        yield


@contextlib.contextmanager
def several_rows(model: nn.Module) -> Iterator[None]:
    """Let a decoder that has no padding token take several rows of one length; as it was afterwards.

    Such a classifier reads the last position of a single row and refuses more, since it could not tell padding from
    text. Rows of embeddings that are equally long need no padding, and it reads the last position of each.
    """
    config = getattr(model, "config", None)
    with exclusive(model), quiet():
        if config is None or getattr(config, "pad_token_id", 0) is not None:
            yield
            return
        try:
            config.pad_token_id = 0
            yield
        finally:
            config.pad_token_id = None
