"""How finely a network counts."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from didact.api import explain
from didact.models import precision
from didact.models.load import load_model
from didact.testing.tiny import tiny_model

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


def test_a_bfloat16_model_leaves_the_process_as_it_was(recwarn: pytest.WarningsRecorder) -> None:
    network, tokenizer = tiny_model("bert")
    rounded = load_model((network.to(torch.bfloat16), tokenizer))
    before = torch.backends.mkldnn.enabled
    for method in ("occlusion", "gradient_x_input"):
        explain("a truly wonderful film", rounded, method)
    assert torch.backends.mkldnn.enabled == before
    assert not [str(one.message) for one in recwarn if "mkldnn" in str(one.message)]


def test_attention_on_a_gpu_makes_no_plan_for_each_shape_in_half_precision() -> None:
    before = torch.backends.cuda.cudnn_sdp_enabled()
    for dtype in (torch.float16, torch.bfloat16):
        switch = precision.switch_for(dtype, GPU)
        assert switch is not None
        with switch.switched():
            assert not torch.backends.cuda.cudnn_sdp_enabled()
            assert torch.backends.cuda.flash_sdp_enabled()
        assert torch.backends.cuda.cudnn_sdp_enabled() == before
    assert precision.switch_for(torch.float32, GPU) is None
    assert precision.switch_for(torch.float16, CPU) is None


def test_threads_that_leave_in_any_order_restore_onednn() -> None:
    before = torch.backends.mkldnn.enabled
    first, second = precision.ONEDNN_OFF.switched(), precision.ONEDNN_OFF.switched()
    first.__enter__()
    second.__enter__()
    assert not torch.backends.mkldnn.enabled
    first.__exit__(None, None, None)
    assert not torch.backends.mkldnn.enabled
    second.__exit__(None, None, None)
    assert torch.backends.mkldnn.enabled == before
