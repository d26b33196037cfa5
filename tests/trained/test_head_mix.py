"""A mix of heads begins as static attention, learns a weight per head, and shows them."""

import json
from pathlib import Path
from typing import cast

import numpy as np
import pytest
import torch

from didact.errors import CapabilityError, FormatError, InputError, ParameterError
from didact.models.compose import compose
from didact.models.load import load_model
from didact.models.network import NetworkModel
from didact.models.outputs import resolve_target
from didact.ops.simplex import simplex, unnormalised
from didact.ops.units import mean_to_units
from didact.testing.tiny import TEXTS, keyword_predict, tiny_image_model, tiny_images, tiny_model
from didact.trained.explainer import LearnedExplainer
from didact.trained.metadata import ExplainerMetadata
from didact.trained.shapes.base import Shape, check_shape
from didact.trained.shapes.gradient_gate import GradientGate
from didact.trained.shapes.head_gate import HeadGate
from didact.trained.shapes.head_mix import HeadMixConfig, HeadMixShape
from didact.trained.signals.regression import Regression
from didact.types import Example

EXAMPLES = [Example(text) for text in (*TEXTS, "dull")]
BOTH = pytest.mark.parametrize("kind", [HeadMixShape, HeadGate, GradientGate])


@pytest.fixture(scope="module")
def model() -> NetworkModel:
    return compose(*tiny_model("bert"))


def built(model: NetworkModel, kind: type[Shape] = HeadMixShape, outputs: int = 1, **settings: object) -> Shape:
    return kind.build(model, model.units(EXAMPLES), outputs, settings)


def scores(shape: Shape, model: NetworkModel, examples: list[Example] = EXAMPLES) -> list[torch.Tensor]:
    predictions = model.predict(examples)
    items = shape.read(model, model.units(examples), [one.index for one in predictions], predictions)
    batch = shape.collate(items)
    with torch.no_grad():
        outputs = shape.eval()(batch)
    assert outputs.shape == (*batch["present"].shape, 1)
    return [row[present, 0] for row, present in zip(outputs, batch["present"], strict=True)]


@BOTH
@pytest.mark.parametrize("normalise", ["sparsemax", "entmax15", "softmax", "none"])
def test_it_begins_as_the_mean_over_heads(kind: type[Shape], normalise: str, model: NetworkModel) -> None:
    made = scores(built(model, kind, normalise=normalise), model)
    for own, heads in zip(made, model.head_scores(model.units(EXAMPLES)), strict=True):
        torch.testing.assert_close(own, heads.mean(0), rtol=1e-4, atol=1e-5)


@BOTH
def test_it_begins_as_a_layer_or_head_of_it_or_as_given_weights(kind: type[Shape], model: NetworkModel) -> None:
    heads = model.head_scores(model.units(EXAMPLES))[0]
    given = np.arange(8.0)
    for start, expected in (
        ("layer:1", heads[4:].mean(0)),
        ("layer:-2", heads[:4].mean(0)),
        ("head:1.2", heads[6]),
        (given.reshape(2, 4).tolist(), torch.tensor(given / given.sum()).float() @ heads),
    ):
        made = scores(built(model, kind, start=start), model)[0]
        torch.testing.assert_close(made, expected, rtol=1e-4, atol=1e-5)


def test_chosen_layers_temperature_and_spread(model: NetworkModel) -> None:
    heads = model.head_scores(model.units(EXAMPLES))[0]
    last = built(model, layers=(-1,), temperature=0.5)
    torch.testing.assert_close(scores(last, model)[0], heads[4:].mean(0) / 0.5, rtol=1e-4, atol=1e-5)
    mix = built(model, start="head:0.1", spread=0.2)
    assert isinstance(mix, HeadMixShape)
    np.testing.assert_allclose(mix.weights(), [[0.025, 0.825, 0.025, 0.025], [0.025] * 4], atol=1e-6)


def test_only_phi_is_trained_and_the_temperature_where_wanted(model: NetworkModel) -> None:
    names = [{n for n, w in built(model, train_temperature=t).named_parameters() if w.requires_grad} for t in (0, 1)]
    assert names == [{"phi"}, {"phi", "log_temperature"}]
    mix = built(model)
    assert isinstance(mix, HeadMixShape)
    assert mix.phi.shape == (8,)
    with torch.no_grad():
        mix.phi[:] = torch.tensor([0.0, 3, 0, 0, 0, 0, 2.8, 0])
    assert (mix.weights() != 0).tolist() == [[False, True, False, False], [False, False, True, False]]
    assert "2 of the 8 attention heads in 2 layers" in mix.summary()


def test_restarts_draw_other_weights(model: NetworkModel) -> None:
    mix = built(model, start="random", seed=3)
    first, second = (mix.restarted(number) for number in (1, 2))
    assert isinstance(first, HeadMixShape)
    assert isinstance(second, HeadMixShape)
    assert not np.allclose(first.weights(), second.weights())
    assert first.weights().sum() == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("normalise", ["sparsemax", "entmax15", "softmax"])
def test_given_weights_are_those_of_the_mix(normalise: str) -> None:
    weights = torch.tensor([0.5, 0.3, 0.2, 0.0])
    back = simplex(unnormalised(weights, normalise), normalise)  # type: ignore[arg-type]
    torch.testing.assert_close(back, weights, rtol=0, atol=1e-4)


def test_images_and_decoders() -> None:
    vision = compose(*tiny_image_model())
    for own, units in zip(scores(built_on(vision), vision, tiny_images()), vision.units(tiny_images()), strict=True):
        assert len(own) == len(units)
    decoder = compose(*tiny_model("llama"))
    assert len(scores(built_on(decoder), decoder)) == len(EXAMPLES)


def built_on(model: NetworkModel) -> Shape:
    return HeadGate.build(model, model.units([model.reader.probe()]), 1, {})


@BOTH
def test_it_is_saved_with_its_weights_on_the_card(kind: type[Shape], model: NetworkModel, tmp_path: Path) -> None:
    shape = built(model, kind, start=[0.0] * 4 + [1.0] * 4)
    with torch.no_grad():
        for weight in shape.parameters():
            weight += 0.1 * torch.arange(weight.numel()).view_as(weight) / weight.numel()
    explainer = LearnedExplainer(shape, Regression(), ExplainerMetadata.of(model, method="test"))
    explainer.save_pretrained(tmp_path)
    loaded = LearnedExplainer.from_pretrained(tmp_path, model=model, device="cpu")
    assert loaded.explain(model, EXAMPLES)[0].scores == explainer.explain(model, EXAMPLES)[0].scores
    assert loaded.explain(model, EXAMPLES)[0].cost.forwards == 2 + (kind is not HeadMixShape)
    card = (tmp_path / "README.md").read_text()
    assert "of the 8 attention heads in 2 layers" in card
    assert "\nlayer   0   1   2   3\n" in card
    assert ("A probe of" in card) == (kind is HeadGate)
    assert json.loads((tmp_path / "config.json").read_text())["shape"]["settings"]["layers"] == [0, 1]


def test_the_gate_learns_what_no_mix_of_heads_can(model: NetworkModel) -> None:
    gate = built(model, HeadGate, width=16, states=(0,))
    assert isinstance(gate, HeadGate)
    assert gate.settings["states"] == [0]
    predictions = model.predict(EXAMPLES)
    batch = gate.collate(gate.read(model, model.units(EXAMPLES), [0] * len(EXAMPLES), predictions))
    wanted = torch.randn(batch["present"].shape, generator=torch.Generator().manual_seed(0))
    optimizer = torch.optim.Adam(gate.parameters(), 3e-2)
    losses = []
    for _ in range(60):
        loss = ((gate(batch)[..., 0] - wanted) * batch["present"]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < 0.3 * losses[0]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"normalise": "sparse"}, "must be one of sparsemax, entmax15, softmax, none, got 'sparse'"),
        ({"temperature": 0}, "temperature of head_mix must be above 0, got 0"),
        ({"spread": 2}, "spread of head_mix must be from 0 to 1"),
        ({"layers": (5,)}, "layer 5 does not exist; the model has 2 layers"),
        ({"layers": ()}, "no layer was chosen"),
        ({"start": "middle"}, "'uniform', 'random', 'layer:K', 'head:K.J' with J from 0 to 3"),
        ({"start": "head:0.7"}, "J from 0 to 3"),
        ({"start": "layer:9"}, "names layer '9', and the mixed layers are 0, 1"),
        ({"start": "layer:0", "layers": (1,)}, "the mixed layers are 1"),
        ({"start": [0.5, 0.5]}, r"each of the 8 heads \(2 layers of 4\), got 2 numbers"),
        ({"start": [-1.0] * 8}, "weights that are negative or all 0"),
        ({"start": [["a"]]}, "must be a name or a number per head"),
        ({"start": [float("nan")] * 8}, "a finite number for each of the 8 heads"),
        ({"colour": "red"}, "unknown setting of head_mix: .*colour"),
    ],
)
@BOTH
def test_wrong_settings_are_refused(
    kind: type[Shape], settings: dict[str, object], message: str, model: NetworkModel
) -> None:
    with pytest.raises(ParameterError, match=message):
        built(model, kind, **settings)


@BOTH
def test_what_it_cannot_read_is_refused(kind: type[Shape], model: NetworkModel) -> None:
    with pytest.raises(ParameterError, match="gives one number per unit, and the signal needs 5"):
        built(model, kind, outputs=5)
    with pytest.raises(InputError, match="give the model"):
        built(model, kind).read(None, [], [], [])
    with pytest.raises(CapabilityError, match=r"needs a model that is .*heads"):
        check_shape(kind.card, load_model(keyword_predict, labels=("negative", "positive")))
    with pytest.raises(FormatError, match="not the settings of a head_"):
        kind.from_settings({"layers": [0], "size": 3}, Path())


def test_the_temperature_has_a_gradient_where_it_is_trained(model: NetworkModel) -> None:
    mix = built(model, train_temperature=True)
    assert isinstance(mix, HeadMixShape)
    batch = mix.collate(mix.read(model, model.units(EXAMPLES), [0] * len(EXAMPLES), model.predict(EXAMPLES)))
    mix(batch).square().sum().backward()
    assert mix.phi.grad is not None
    assert mix.log_temperature.grad is not None
    assert float(mix.log_temperature.grad) < 0  # a higher one makes scores smaller


@pytest.mark.parametrize(("layers", "heads"), [((), 2), ((0,), 0), ((0,), -1), ((-1,), 2), (("a",), 2), ((0,), 1.5)])
def test_settings_that_were_not_resolved_by_a_model_are_refused(layers: tuple[int, ...], heads: int) -> None:
    with pytest.raises(ParameterError, match=r"needs layers \(numbers from 0\) with at least one head each"):
        HeadMixConfig(layers=layers, heads=heads)


def test_settings_have_numbers_only() -> None:
    config = HeadMixConfig(layers=[0, 1], heads=2, start=[[1, 0], [0, 1]])  # type: ignore[arg-type]
    assert config.layers == (0, 1)
    assert config.start == (1.0, 0.0, 0.0, 1.0)


def test_a_gradient_gate_adds_attention_times_gradient_of_every_head(model: NetworkModel) -> None:
    shape = built(model, GradientGate, layers=[1])
    plain = scores(shape, model)
    with torch.no_grad():
        cast("GradientGate", shape).mu[2] = 0.5
    targets = [resolve_target(model, None, one, None) for one in model.predict(EXAMPLES)]
    units = model.units(EXAMPLES)
    passes = model.attention_times_gradient(units, targets, "mean")
    for own, before, unit, (_, maps) in zip(scores(shape, model), plain, units, passes, strict=True):
        product = mean_to_units(unit, maps[1, 2]).float()
        added = 0.5 * product / product.square().mean().sqrt()
        torch.testing.assert_close(own - before, added, rtol=1e-3, atol=1e-4)
    assert "weights of 0.5 at most" in shape.summary()
