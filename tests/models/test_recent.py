"""The fingerprint for calls that do not run the model: which changes it notices at once, and which later."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

from didact.errors import MismatchError
from didact.models import recent
from didact.models.load import load_model
from didact.models.network import NetworkModel
from didact.models.recent import RecentFingerprint
from didact.testing.tiny import tiny_model
from didact.trained.train import train
from didact.types import Example


class Counted:
    """A fingerprint that counts how often it is computed."""

    def __init__(self) -> None:
        self.times = 0

    def __call__(self) -> str:
        self.times += 1
        return str(self.times)


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(100, 100), nn.LayerNorm(100), nn.Linear(100, 2))


def step(net: nn.Module) -> None:
    optimizer = torch.optim.SGD(net.parameters(), 1e-3)
    net(torch.ones(1, 100)).sum().backward()
    optimizer.step()


def replace_module(net: nn.Module) -> None:
    net[1] = nn.Identity()


def set_forward(net: nn.Module) -> None:
    net[0].forward = lambda x: x


CHANGES: dict[str, Callable[[nn.Module], object]] = {
    "a whole tensor past autograd": lambda net: net[0].weight.data.mul_(2),
    "one value": lambda net: net[0].weight.detach()[3, 5].zero_(),
    "one value of a small tensor past autograd": lambda net: net[2].weight.data[0, 17].zero_(),
    "a step of training": step,
    "another module": replace_module,
    "another forward": set_forward,
    "another state": lambda net: net.load_state_dict({k: v + 1 for k, v in net.state_dict().items()}),
    "another precision": lambda net: net.half(),
}


@pytest.fixture
def resting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recent, "REST", 1e12)


@pytest.mark.usefixtures("resting")
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_changes_that_a_glance_notices(change: Callable[[nn.Module], object]) -> None:
    net, compute = network(), Counted()
    fingerprint = RecentFingerprint(net, compute)
    assert [fingerprint(), fingerprint(), fingerprint()] == ["1", "1", "1"]
    change(net)
    assert fingerprint() == "2"
    assert fingerprint() == "2"


def test_single_values_past_autograd_count_from_the_next_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    net = network()
    compute = Counted()
    fingerprint = RecentFingerprint(net, compute)
    monkeypatch.setattr(recent, "REST", 1e12)
    fingerprint()
    flat = net[0].weight.data.view(-1)
    flat[1].zero_()  # between two sampled values
    assert fingerprint() == "1"
    fingerprint._until = 0.0  # the rest is over
    assert fingerprint() == "2"


def test_tensors_of_inference_mode_count_no_changes_and_are_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recent, "REST", 1e12)
    with torch.inference_mode():
        net = network()
        fingerprint = RecentFingerprint(net, Counted())
        assert [fingerprint(), fingerprint()] == ["1", "1"]
        net[0].weight.mul_(2)
        assert fingerprint() == "2"


@pytest.mark.usefixtures("resting")
def test_a_learned_explainer_reads_all_weights_unless_it_is_set_otherwise() -> None:
    model = load_model(tiny_model("bert"))
    texts = [f"good film number {number} was bad" for number in range(12)]
    explainer = train("l2e", model, texts, "occlusion", epochs=1, held_out=0.2, validation=0.2)
    predictions = model.predict([Example(texts[0])])
    explainer.explain(model, texts[:1], predictions=predictions)
    model.network.get_input_embeddings().weight.data[3, 5] += 1
    with pytest.raises(MismatchError, match="was trained for"):
        explainer.explain(model, texts[:1], predictions=predictions)


def test_a_rest_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recent, "REST", 0)
    compute = Counted()
    fingerprint = RecentFingerprint(network(), compute)
    assert [fingerprint(), fingerprint()] == ["1", "2"]


@pytest.mark.usefixtures("resting")
def test_a_learned_explainer_that_is_given_predictions_reads_the_weights_once() -> None:
    model = load_model(tiny_model("bert"))
    assert isinstance(model, NetworkModel)
    texts = [f"good film number {number} was bad" for number in range(12)]
    explainer = train("l2e", model, texts, "occlusion", epochs=1, held_out=0.2, validation=0.2)
    predictions = model.predict([Example(texts[0])])
    compute = Counted()
    exact = model.fingerprint

    def counted() -> str:
        compute()
        return exact()

    model.recent_fingerprint = RecentFingerprint(model.network, counted)
    explainer.reads_all = False
    for _ in range(3):
        explainer.explain(model, texts[:1], predictions=predictions)
    assert compute.times == 1
    model.network.get_input_embeddings().weight.data.mul_(2)
    with pytest.raises(MismatchError, match="was trained for"):
        explainer.explain(model, texts[:1], predictions=predictions)
