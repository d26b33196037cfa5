"""A recorded pass gives what the plain one does; where there is no GPU, it is the plain one."""

from collections.abc import Mapping

import pytest
import torch
from torch import Tensor, nn

from didact.models.replay import Padding, Replay, recorded_beside

cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="graphs of kernels are recorded by a GPU")


def layer(device: str) -> tuple[nn.Linear, Replay, list[int]]:
    torch.manual_seed(0)
    made = nn.Linear(4, 3).to(device)
    calls: list[int] = []

    def compute(inputs: Mapping[str, Tensor]) -> tuple[Tensor, ...]:
        calls.append(1)
        return made(inputs["x"]), inputs["x"].sum(-1)

    return made, Replay(compute, list(made.parameters()), most=2), calls


def test_on_a_cpu_the_function_is_called_each_time() -> None:
    made, replay, calls = layer("cpu")
    for number in range(3):
        x = torch.full((2, 4), float(number))
        outputs, sums = replay({"x": x})
        torch.testing.assert_close(outputs, made(x).detach())
        assert sums.tolist() == [4.0 * number] * 2
    assert (len(calls), replay.recorded) == (3, 0)


@cuda
def test_a_shape_is_recorded_at_its_second_time_and_follows_its_inputs() -> None:
    made, replay, calls = layer("cuda")
    kept = []
    for number in range(5):
        x = torch.full((2, 4), float(number), device="cuda")
        kept.append((replay({"x": x}), made(x).detach()))
    assert (len(calls), replay.recorded) == (3, 1)  # plainly, once to set up, and recorded
    for (outputs, _), wanted in kept:  # copies: a later replay does not overwrite them
        torch.testing.assert_close(outputs, wanted)


@cuda
def test_weights_that_change_or_move_are_followed() -> None:
    made, replay, _ = layer("cuda")
    x = torch.ones(2, 4, device="cuda")
    for _ in range(3):
        replay({"x": x})
    with torch.no_grad():
        made.weight.mul_(2)
    torch.testing.assert_close(replay({"x": x})[0], made(x).detach())
    made.double().float()
    with torch.no_grad():
        made.weight.add_(1)
    for _ in range(3):
        torch.testing.assert_close(replay({"x": x})[0], made(x).detach())


@cuda
def test_what_waits_for_the_gpu_is_computed_plainly() -> None:
    def compute(inputs: Mapping[str, Tensor]) -> tuple[Tensor, ...]:
        return (inputs["x"] * float(inputs["x"].max()),)

    replay = Replay(compute, [])
    for number in (1.0, 2.0, 3.0):
        (made,) = replay({"x": torch.full((2,), number, device="cuda")})
        assert made.tolist() == [number * number] * 2
    assert replay.recorded == 0


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=cuda)])
def test_what_is_recorded_beside_the_rest_is_there_when_it_is_joined(device: str) -> None:
    weight = torch.rand(300, 300, device=device)

    def compute(inputs: Mapping[str, Tensor]) -> tuple[Tensor, ...]:
        with recorded_beside(inputs["x"].device) as join:
            beside = inputs["x"].cumsum(-1) @ weight
        plain = inputs["x"] @ weight
        join()
        return plain + beside, (
            plain - beside
        ).t()  # results of one type lie in one storage, in any order of dimensions

    replay = Replay(compute, [weight])
    for number in range(5):
        x = torch.full((4, 300), float(number), device=device)
        made, wanted = replay({"x": x}), compute({"x": x})
        assert [own.shape for own in made] == [own.shape for own in wanted]
        torch.testing.assert_close(made, wanted)
    assert replay.recorded == (device == "cuda")


@cuda
def test_only_the_latest_graphs_are_kept() -> None:
    made, replay, _ = layer("cuda")
    for rows in (1, 2, 3):
        x = torch.ones(rows, 4, device="cuda")
        for _ in range(3):
            torch.testing.assert_close(replay({"x": x})[0], made(x).detach())
    assert replay.recorded == 2


def rows(device: str, width: int, kind: torch.dtype = torch.int64) -> dict[str, Tensor]:
    ids = torch.arange(1, 2 * width + 1, device=device).reshape(2, width)
    return {"ids": ids, "mask": torch.ones_like(ids, dtype=kind)}


def test_rows_are_padded_where_all_inputs_are_rows_and_padding_is_marked() -> None:
    padding = Padding(4, longest=10, values={"ids": 9}, needs="mask")
    wide = padding.padded(rows("cpu", 3), padding.further(rows("cpu", 3)))
    assert wide["ids"].tolist() == [[1, 2, 3, 9], [4, 5, 6, 9]]
    assert wide["mask"].tolist() == [[1, 1, 1, 0]] * 2
    assert [padding.further(rows("cpu", width)) for width in (4, 9, 10, 12)] == [0, 1, 0, 0]
    assert padding.further({"ids": rows("cpu", 3)["ids"]}) == 0
    assert padding.further({**rows("cpu", 3), "other": torch.ones(2, 2)}) == 0


@pytest.mark.parametrize("kind", [torch.int64, torch.int32], ids=["one type", "two types"])
@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=cuda)])
def test_rows_of_several_lengths_are_replayed_as_one_shape(device: str, kind: torch.dtype) -> None:
    def compute(inputs: Mapping[str, Tensor]) -> tuple[Tensor, ...]:
        seen.append(inputs["ids"].shape[1])
        return inputs["ids"] * 10 + inputs["mask"], (inputs["ids"] * inputs["mask"]).sum(1)

    seen: list[int] = []
    replay = Replay(compute, [], padding=Padding(4, values={"ids": 9}, needs="mask"))
    for width in (4, 3, 2, 3, 1):
        given = rows(device, width, kind)
        made, sums = replay(given)
        assert made[:, :width].tolist() == (given["ids"] * 10 + 1).tolist()
        assert made[:, width:].tolist() == [[90] * (4 - width)] * 2
        assert sums.tolist() == given["ids"].sum(1).tolist()
    assert (seen, replay.recorded) == (([4] * 3, 1) if device == "cuda" else ([4] * 5, 0))
