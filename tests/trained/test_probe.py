"""A probe learns patches of images as it learns words."""

from pathlib import Path

import numpy as np
import pytest
import torch

from didact.attribution.base import ATTRIBUTIONS
from didact.cli import main
from didact.errors import CapabilityError, DidactError, InputError, ParameterError
from didact.models.load import load_model
from didact.protocols import Model
from didact.stats.correlation import spearman
from didact.testing.tiny import keyword_predict, tiny_image_model, tiny_model
from didact.trained.explainer import LearnedExplainer
from didact.trained.shapes.probe import Probe, ProbeConfig
from didact.trained.train import train
from didact.types import Example, Image


def bright(number: int) -> Example:
    """Grey noise with some bright patches."""
    rng = np.random.default_rng(number)
    pixels = rng.integers(40, 80, (4, 4, 1)) + 150 * (rng.random((4, 4, 1)) < 0.3)
    return Example(Image(pixels.repeat(4, 0).repeat(4, 1).repeat(3, 2).astype(np.uint8)))


@pytest.fixture(scope="module")
def model() -> Model:
    return load_model(tiny_image_model())


@pytest.fixture(scope="module")
def learned(model: Model) -> LearnedExplainer:
    explained = ATTRIBUTIONS.get("occlusion")().explain(model, [bright(number) for number in range(150)])
    return train("probe", model, explained, epochs=30, width=32, learning_rate=1e-2)


def test_it_follows_its_reference_on_new_images(learned: LearnedExplainer, model: Model) -> None:
    examples = [bright(number) for number in range(200, 230)]
    wanted = ATTRIBUTIONS.get("occlusion")().explain(model, examples)
    made = learned.explain(model, examples)
    assert np.mean([spearman(a.array, b.array) for a, b in zip(made, wanted, strict=True)]) > 0.4
    assert made[0].units.level == "patch"
    assert made[0].cost.forwards == 1


def test_it_is_saved_and_loaded(learned: LearnedExplainer, model: Model, tmp_path: Path) -> None:
    learned.save_pretrained(tmp_path)
    again = LearnedExplainer.from_pretrained(tmp_path, model=model, device="cpu")
    example = bright(300)
    assert again.explain(model, [example])[0].scores == learned.explain(model, [example])[0].scores


def test_what_it_cannot_read_is_refused(model: Model) -> None:
    with pytest.raises(CapabilityError, match="probe needs a model that is hidden"):
        train("probe", load_model(keyword_predict, labels=("negative", "positive")), ["good", "bad"])
    probe = Probe(ProbeConfig(size=4, labels=2))
    with pytest.raises(InputError, match="give the model"):
        probe.read(None, [], [], [])
    with pytest.raises(ParameterError, match="at least one layer"):
        ProbeConfig(size=4, labels=2, layers=())
    with pytest.raises(ParameterError, match="width of at least 1"):
        ProbeConfig(size=4, labels=2, width=0)
    with pytest.raises(ParameterError, match="rank of a probe must be at least 1"):
        ProbeConfig(size=4, labels=2, rank=0)
    with pytest.raises(ParameterError, match="multiple of its heads, got blocks=1, width=6"):
        ProbeConfig(size=4, labels=2, blocks=1, width=6)
    with pytest.raises(ParameterError, match=r"norm of a probe must be one of .*got 'none'"):
        ProbeConfig(size=4, labels=2, norm="none")  # type: ignore[arg-type]


def test_a_scorer_of_words_refuses_images(model: Model) -> None:
    explained = ATTRIBUTIONS.get("occlusion")().explain(model, [bright(number) for number in range(20)])
    with pytest.raises(DidactError, match=r"the scorer reads words or tokens, and an image .* the preset probe"):
        train("l2e", model, explained, epochs=1, shape="scorer")


def test_states_come_from_the_passes_that_predict(model: Model, learned: LearnedExplainer) -> None:
    network = model.network  # type: ignore[attr-defined]
    passes = []
    handle = network.register_forward_hook(lambda *_: passes.append(1))
    try:
        (made,) = learned.explain(model, [bright(400)])
    finally:
        handle.remove()
    assert len(passes) == 1
    assert made.prediction == model.predict([bright(400)])[0]
    given = learned.explain(model, [bright(400)], predictions=[made.prediction])[0]
    np.testing.assert_allclose(given.array, made.array, atol=1e-6)


@pytest.mark.parametrize("kind", ["bert", "gpt2"])
def test_one_pass_gives_what_reading_apart_gives(kind: str) -> None:
    model = load_model(tiny_model(kind))
    examples = [Example(text) for text in ("a good film", "an unforgettable evening with a dull plot", "bad")]
    units, predictions = model.units(examples), model.predict(examples)
    for settings in ({"rank": 8}, {"blocks": 1, "width": 16}):
        own = {"layers": (0, -1), "per_class": True, "norm": "position", "seed": 0, **settings}
        probe = Probe.build(model, units, 1, own).eval()
        together = probe.with_prediction(model, units)
        assert together is not None
        assert [one.label for one in together.predictions] == [one.label for one in predictions]
        for label in range(len(model.labels)):
            items = probe.read(model, units, [label] * len(units), predictions)
            with torch.no_grad():
                apart = probe(probe.collate(items))[..., 0].numpy()
            for row, own_numbers, each in zip(apart, together.numbers, units, strict=True):
                np.testing.assert_allclose(own_numbers[label, :, 0], row[: len(each)], atol=5e-3)


def test_the_embedded_model_shows_all_of_its_last_layer() -> None:
    model = load_model()
    examples = [Example("a good film"), Example("dull")]
    seen: dict[int, list[torch.Tensor]] = {}
    model.predict_with_states(examples, (0, -1), lambda rows, states: seen.update(dict.fromkeys(rows, states)))  # type: ignore[attr-defined]
    for (first, last), apart in zip((seen[0], seen[1]), model.states(examples, (0, -1)), strict=True):  # type: ignore[attr-defined]
        assert first.shape == last.shape
        assert last.shape[1] >= apart.shape[1] > 1


def test_a_probe_that_takes_the_label_as_input_reads_in_a_pass_of_its_own() -> None:
    model = load_model(tiny_model("bert"))
    units = model.units([Example("a good film")])
    probe = Probe.build(model, units, 1, {"seed": 0})
    assert probe.with_prediction(model, units) is None
    assert probe.passes == 1


def test_words_are_read_as_the_mean_of_their_tokens() -> None:
    model = load_model(tiny_model("bert"))
    example = Example("an unforgettable evening")
    (units,) = model.units([example])
    probe = Probe.build(model, [units], 1, {"layers": (-1,), "seed": 0})
    (item,) = probe.read(model, [units], [0], model.predict([example]))
    (states,) = model.states([example])  # type: ignore[attr-defined]
    longest = max(range(len(units)), key=lambda number: len(units.positions[number]))
    wanted = states[0, list(units.positions[longest])].mean(0)
    np.testing.assert_allclose(item["states"][longest], wanted, atol=1e-6)


def test_every_setting_is_an_option_of_the_command(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    quick = ("--limit", "40", "--reference", "occlusion", "--epochs", "1", "--out", str(tmp_path / "out"))
    assert main(["train", "probe", *quick, "--layers", "-1", "--fit", "batch_rows=8", "--width", "8"]) == 0
    capsys.readouterr()
    settings = LearnedExplainer.from_pretrained(tmp_path / "out").shape.settings
    assert (settings["layers"], settings["width"]) == ([-1], 8)
