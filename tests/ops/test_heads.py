"""Choosing layers and heads, and logits of keys that some queries do not see."""

import pytest
import torch

from didact.errors import ParameterError
from didact.ops.heads import mean_visible, select_heads, visible

HEADS = torch.arange(24.0).reshape(2, 3, 4)


def test_one_or_the_mean_of_layers_and_heads() -> None:
    assert torch.equal(select_heads(HEADS, 1, 2), HEADS[1, 2])
    assert torch.equal(select_heads(HEADS, -2, "all"), HEADS[0].mean(0))
    assert torch.equal(select_heads(HEADS, "all", -1), HEADS[:, -1].mean(0))
    assert torch.equal(select_heads(HEADS, "all", "all"), HEADS.mean((0, 1)))


@pytest.mark.parametrize(("layer", "head", "complaint"), [(2, 0, "layer 2 .* 2 layers"), (0, -4, "head -4 .* 3 heads")])
def test_what_is_not_there_is_named(layer: int, head: int, complaint: str) -> None:
    with pytest.raises(ParameterError, match=complaint):
        select_heads(HEADS, layer, head)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_hidden_keys_do_not_count_in_the_mean(dtype: torch.dtype) -> None:
    logits = torch.tensor([[1.0, 0.0, 0.0], [3.0, -5.0, 0.0], [5.0, 7.0, 2.0]])
    mask = torch.full((3, 3), torch.finfo(dtype).min, dtype=dtype).triu(1)
    seen = (logits.to(dtype) + mask).float()
    assert visible(seen).tolist() == [[True, False, False], [True, True, False], [True, True, True]]
    torch.testing.assert_close(mean_visible(seen), torch.tensor([3.0, 1.0, 2.0]))
