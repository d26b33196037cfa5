"""Where a training runs: Accelerate's device, precision and processes, and what dropout draws from."""

from __future__ import annotations

import atexit

import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState, PartialState

from didact.errors import ParameterError
from didact.trained.fit_types import FitConfig


def make_accelerator(config: FitConfig) -> Accelerator:
    """Accelerate for the device and precision of a training; under a launch, one of several processes."""
    # Accelerate takes part in a launch of several processes without GPUs only where the CPU is requested.
    cpu = config.device == "cpu" or not torch.accelerator.is_available()
    # It keeps one device and one precision for the whole process, which a training with others must renew.
    settled = bool(PartialState._shared_state) and not torch.distributed.is_initialized()
    if settled and cpu != (PartialState().device.type == "cpu"):
        AcceleratorState._reset_state(reset_partial_state=True)
    alone = not torch.distributed.is_initialized()
    device = PartialState(cpu=cpu).device
    if alone and torch.distributed.is_initialized():
        atexit.register(_leave)
    if config.precision == "fp16" and device.type != "cuda":
        raise ParameterError(f"precision='fp16' needs a GPU, and training is on {device}; use 'bf16' or 'no'")
    if AcceleratorState._shared_state and AcceleratorState().mixed_precision != config.precision:
        AcceleratorState._reset_state()
    return Accelerator(mixed_precision=config.precision, cpu=cpu)


def _leave() -> None:
    """Leave the other processes properly; one that just ends is aborted."""
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


def seed_dropout(drawn: int, device: torch.device) -> None:
    """Seed the generators of a device; ``torch.manual_seed`` takes milliseconds where CUDA is not in use."""
    torch.default_generator.manual_seed(drawn)
    if device.type != "cpu":
        torch.get_device_module(device).manual_seed(drawn)
