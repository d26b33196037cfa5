"""How finely a network counts."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from didact.models import precision

CPU, GPU = torch.device("cpu"), torch.device("cuda")


@pytest.fixture
def _rounded() -> Iterator[None]:
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    yield
    torch.set_float32_matmul_precision(before)


@pytest.mark.usefixtures("_rounded")
def test_a_gpu_that_may_round_products_counts_as_coarsely_as_half_precision() -> None:
    assert precision.step(torch.float32, GPU) == torch.finfo(torch.float16).eps
    assert precision.step(torch.float64, GPU) == torch.finfo(torch.float64).eps
    assert precision.step(torch.bfloat16, GPU) == torch.finfo(torch.bfloat16).eps
    assert precision.step(torch.float32, CPU) == torch.finfo(torch.float32).eps


def test_a_gpu_that_may_not_counts_as_its_type_does() -> None:
    assert precision.step(torch.float32, GPU) == torch.finfo(torch.float32).eps
