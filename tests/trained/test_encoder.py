"""A pretrained encoder as an explainer: what it reads, what it keeps, and how it is saved."""

import copy
import dataclasses
import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch

from didact.errors import CapabilityError, FormatError, InputError, ModelError, ParameterError
from didact.models.load import load_model
from didact.models.network import NetworkModel
from didact.models.prompting.prompts import Prompt
from didact.protocols import Model
from didact.testing.tiny import (
    ARCHITECTURES,
    TEXTS,
    keyword_predict,
    tiny_image_model,
    tiny_images,
    tiny_language_model,
    tiny_model,
)
from didact.trained.explainer import LearnedExplainer
from didact.trained.metadata import ExplainerMetadata
from didact.trained.shapes.base import Item, unread_note
from didact.trained.shapes.encoder import AttributionEncoder
from didact.trained.signals.regression import Regression
from didact.types import Example, Explanation, Prediction, Span, Units

EXAMPLES = [Example(text) for text in TEXTS]
CAUSAL = ("llama", "mistral", "gpt2")


def network(architecture: str = "bert", **options: object) -> NetworkModel:
    model = load_model(tiny_model(architecture, **options), device="cpu")  # type: ignore[arg-type]
    assert isinstance(model, NetworkModel)
    return model


def built(
    model: Model, examples: Sequence[Example] = EXAMPLES, **settings: object
) -> tuple[AttributionEncoder, list[Units]]:
    units = model.units(examples)
    return AttributionEncoder.build(model, units, 1, {"seed": 0, "dropout": 0.0, **settings}), units


def items(encoder: AttributionEncoder, model: Model, units: list[Units]) -> list[Item]:
    predictions = model.predict([own.example for own in units])
    return encoder.read(model, units, [one.index for one in predictions], predictions)


def numbers(encoder: AttributionEncoder, read: list[Item]) -> torch.Tensor:
    with torch.no_grad():
        result: torch.Tensor = encoder.eval()(encoder.collate(read))[..., 0]
    return result


@pytest.mark.parametrize("architecture", [name for name in ARCHITECTURES if name not in CAUSAL])
def test_the_explained_network_is_copied_whatever_its_architecture(architecture: str) -> None:
    """Without the prediction the copy computes the states of the explained network's own body."""
    model = network(architecture)
    encoder, units = built(model)
    read = items(encoder, model, units)
    assert not any(len(encoder.unread(item)) for item in read)
    wanted = model.states([EXAMPLES[0]])[0][0]
    with torch.no_grad():
        own = encoder.backbone(input_ids=torch.from_numpy(read[0]["input_ids"].astype(np.int64))[None])
    torch.testing.assert_close(own.last_hidden_state[0], wanted, atol=1e-4, rtol=1e-4)
    together = numbers(encoder, read)
    for row, item in zip(together, read, strict=True):
        alone = numbers(encoder, [item])[0]
        torch.testing.assert_close(row[: len(alone)], alone, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("architecture", CAUSAL)
def test_a_network_that_reads_from_left_to_right_is_refused(architecture: str) -> None:
    with pytest.raises(ModelError, match=r"reads from left to right.*give backbone= an encoder"):
        built(network(architecture))


def test_every_row_of_the_prediction_is_learned() -> None:
    """Published code loses the gradient of the class whose number is that of padding."""
    model = network("roberta", labels=("a", "b", "c"))
    encoder, units = built(model)
    encoder(encoder.collate(items(encoder, model, units))).sum().backward()
    assert encoder.prediction.grad is not None
    assert (encoder.prediction.grad.abs().sum(1) > 0).all()


def test_the_prediction_is_z0_and_the_expected_label() -> None:
    model = network(labels=("a", "b", "c"))
    encoder, units = built(model)
    prediction = Prediction(model.labels, (0.0, 1.0, 2.0), (0.2, 0.3, 0.5))
    item = encoder.read(model, units[:1], [2], [prediction])
    z = encoder._vector(encoder.collate(item))[0]
    rows = encoder.prediction
    torch.testing.assert_close(z, rows[0] + 0.2 * rows[1] + 0.3 * rows[2] + 0.5 * rows[3])


def test_words_see_the_prediction_and_padding_changes_nothing() -> None:
    model = network()
    encoder, units = built(model)
    sure, other = (Prediction(model.labels, (0.0, 0.0), chances) for chances in ((0.9, 0.1), (0.1, 0.9)))
    first, second = (numbers(encoder, encoder.read(model, units[:1], [0], [one])) for one in (sure, other))
    encoder.prediction.data[1] += 1.0
    assert float((first - second).abs().max()) > 1e-6


def test_another_output_than_the_predicted_one_has_a_vector_of_its_own() -> None:
    model = network()
    encoder, units = built(model)
    prediction = Prediction(model.labels, (1.0, 0.0), (0.7, 0.3))
    predicted, other = (encoder.read(model, units[:1], [target], [prediction]) for target in (0, 1))
    assert torch.equal(numbers(encoder, predicted), numbers(encoder, other))  # until it has learned
    encoder.other.data[1] = 1.0
    assert not torch.equal(numbers(encoder, predicted), numbers(encoder, other))


def test_embeddings_stay_as_they_are_and_the_rest_learns() -> None:
    model = network()
    before = copy.deepcopy(model.network.state_dict())
    encoder, units = built(model)
    frozen = {name for name, weight in encoder.named_parameters() if not weight.requires_grad}
    assert frozen == {name for name, _ in encoder.named_parameters() if name.startswith("backbone.embeddings.")}
    batch = encoder.collate(items(encoder, model, units))
    optimizer = torch.optim.SGD([weight for weight in encoder.parameters() if weight.requires_grad], lr=0.1)
    encoder(batch).sum().backward()
    optimizer.step()
    after = model.network.state_dict()
    assert all(torch.equal(before[name], after[name]) for name in before), "the explained network was trained"
    free, _ = built(model, frozen_embeddings=False)
    assert all(weight.requires_grad for weight in free.parameters())


def test_tokens_are_merged_to_words_by_the_largest_or_the_mean() -> None:
    model = network()
    largest, units = built(model, [Example("an unforgettable evening")])
    mean, _ = built(model, [Example("an unforgettable evening")], merge="mean")
    read = items(largest, model, units)
    places = read[0]["places"]
    pieces = {row: [int(at) for at in own if at >= 0] for row, own in enumerate(places)}
    assert max(map(len, pieces.values())) > 3
    each = torch.arange(float(places.max() + 2))[None, :, None]
    batch = largest.collate(read)
    for encoder, how in ((largest, max), (mean, np.mean)):
        merged = encoder._by_unit(each, batch["places"])[0, :, 0]
        assert merged.tolist() == pytest.approx([float(how(own)) for own in pieces.values()])


def test_a_black_box_needs_a_backbone_of_its_own() -> None:
    model = load_model(keyword_predict, labels=("negative", "positive"))
    with pytest.raises(CapabilityError, match="no network whose encoder could be copied; give backbone="):
        built(model)
    encoder, units = built(model, backbone="default")
    assert numbers(encoder, items(encoder, model, units)).shape[0] == len(units)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"merge": "min"}, r"merge of an encoder must be one of \('max', 'mean'\), got 'min'"),
        ({"dropout": 1.0}, "dropout of an encoder must be at least 0 and below 1"),
        ({"width": 3}, "unknown setting of encoder: .*width"),
        ({"max_length": 2}, "at least 4 tokens"),
    ],
)
def test_settings_are_checked(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        built(network(), EXAMPLES, **settings)


def test_a_backbone_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="cannot load the encoder"):
        built(network(), backbone=str(tmp_path / "nothing"))


# Texts that the backbone does not read as the explained model does.


def explained(encoder: AttributionEncoder, model: Model, examples: Sequence[Example]) -> list[Explanation]:
    level = model.units(examples)[0].level
    about = ExplainerMetadata.of(model, method="encoder", level=level)
    return LearnedExplainer(encoder, Regression(), about).explain(model, examples)


def test_what_the_backbone_cuts_off_is_named_and_gets_the_mean() -> None:
    model = network()
    encoder, _ = built(model, max_length=8)
    short, long = explained(encoder, model, [Example("good film"), Example(TEXTS[2])])
    assert short.warnings == ()
    (warning,) = long.warnings
    unread = [number for number, text in enumerate(long.units.texts) if repr(text) in warning]
    assert "of 11 units" in warning
    assert "'rainy', " in warning
    assert "mean score of the others" in warning
    read = long.array[: unread[0]]
    assert long.array[unread[0] :] == pytest.approx([read.mean()] * (11 - unread[0]), abs=1e-6)
    assert np.ptp(read) > 0


def test_the_prediction_has_its_place_at_the_limit() -> None:
    """A text as long as the limit loses a token to the prediction, and the warning says which."""
    model = network()
    encoder, _ = built(model)
    example = Example(" ".join(["film"] * 126))  # 128 tokens with those at both ends
    assert model.units([example])[0].truncated == 0
    (explanation,) = explained(encoder, model, [example])
    assert "does not read 1 of 126 units ('film')" in explanation.warnings[0]
    assert np.isfinite(explanation.array).all()


def test_a_blank_that_the_backbone_drops_is_no_reason_for_a_warning() -> None:
    model = load_model(tiny_model("gpt2"), device="cpu")
    encoder = AttributionEncoder.build(model, model.units(EXAMPLES), 1, {"backbone": "default", "seed": 0})
    (units,) = model.units([Example("good   film")], "token")
    (item,) = items(encoder, model, [units])
    assert len(encoder.unread(item))
    assert unread_note(encoder, units, item) == ()


def test_an_encoder_explains_a_model_with_another_tokenizer() -> None:
    model = load_model(tiny_model("llama"), device="cpu")
    encoder, _ = built(model, backbone="default")
    texts = [
        "great 👍🏽 film 👩‍👩‍👧",
        "un café déjà vu",
        "我很喜欢这部电影",
        "good good good good",
        "a  truly   good  film",
    ]
    for explanation in explained(encoder, model, [Example(text) for text in texts]):
        assert len(explanation.scores) == len(explanation.units)
        assert np.isfinite(explanation.array).all()
        assert not any("does not read" in warning for warning in explanation.warnings)


def test_both_texts_of_a_pair_are_read() -> None:
    loaded = load_model(tiny_model("bert", ("entailment", "other")), device="cpu")
    for backbone in ("explained", "default"):
        examples = [Example("a good film", "the film is good"), Example("dull", "worse")]
        encoder, units = built(loaded, examples, backbone=backbone)
        read = items(encoder, loaded, units)
        assert not any(len(encoder.unread(item)) for item in read)
        assert set(read[0]["token_type_ids"].tolist()) == {0, 1}
        assert {span.field for span in units[0].spans} == {0, 1}
        together = numbers(encoder, read)
        torch.testing.assert_close(together[1, :2], numbers(encoder, read[1:])[0], atol=1e-5, rtol=1e-5)


def test_more_texts_than_a_pair_are_refused() -> None:
    """Shots of a prompt are fields of the example, and no encoder reads several texts."""
    model = network()
    encoder, units = built(model)
    several = dataclasses.replace(units[0], example=Example("good", "film", "dull"), regions=(Span(0, 4),))
    with pytest.raises(InputError, match="reads a text or a pair, and 3 texts were given"):
        encoder.read(model, [several], [0], model.predict(EXAMPLES[:1]))


def test_a_predicted_number_is_standardised() -> None:
    model = network(labels=("quality",))
    encoder, units = built(model, [Example(text, text) for text in TEXTS])
    made = [item["prediction"][0] for item in items(encoder, model, units)]
    assert (np.mean(made), np.std(made)) == pytest.approx((0, 1), abs=1e-4)


def test_a_prompted_language_model_is_explained_through_an_encoder() -> None:
    """Only what stands in the slot is read and scored."""
    prompt = Prompt("Review: {text}\nSentiment:", {"negative": "bad", "positive": "good"})
    model = load_model(tiny_language_model(), prompt=prompt, device="cpu")
    encoder, units = built(model, backbone="default")
    read = items(encoder, model, units)
    for own, item in zip(units, read, strict=True):
        assert not len(encoder.unread(item))
        words = encoder.inputs.tokenizer.decode(item["input_ids"], skip_special_tokens=True)  # type: ignore[attr-defined]
        assert "Review" not in words
        assert len(own) == len(item["places"])
    with pytest.raises(ModelError, match="reads from left to right"):
        built(model)


# Images.


def test_patches_of_an_image_are_read_by_a_copy_of_the_vision_transformer() -> None:
    model = load_model(tiny_image_model(), device="cpu")
    encoder, units = built(model, tiny_images())
    read = items(encoder, model, units)
    assert read[0]["places"].tolist() == [[1 + number] for number in range(16)]
    frozen = {name for name, weight in encoder.named_parameters() if not weight.requires_grad}
    assert frozen == {name for name, _ in encoder.named_parameters() if name.startswith("backbone.embeddings.")}
    torch.testing.assert_close(numbers(encoder, read)[1], numbers(encoder, read[1:2])[0], atol=1e-5, rtol=1e-5)
    before = numbers(encoder, read)
    encoder.prediction.data += torch.randn(encoder.prediction.shape, generator=torch.Generator().manual_seed(0))
    assert float((before - numbers(encoder, read)).abs().max()) > 1e-4, "patches do not see the prediction"


def test_patches_of_another_grid_are_mapped_by_their_pixels() -> None:
    model = load_model(tiny_image_model(), device="cpu")
    encoder, units = built(model, tiny_images(), backbone="default:shapes")
    (item,) = items(encoder, model, units[:1])  # 4 x 4 patches, of which each covers 2 x 2 of the backbone's 8 x 8
    assert item["places"][:2].tolist() == [[1, 2, 9, 10], [3, 4, 11, 12]]


def test_superpixels_of_a_function_are_mapped_to_patches() -> None:
    def brightness(images: list[np.ndarray]) -> np.ndarray:
        share = np.array([image.mean() / 255 for image in images])
        return np.stack([1 - share, share], axis=1)

    model = load_model(brightness, inputs="image", labels=("dark", "light"))
    encoder, units = built(model, tiny_images()[1:2], backbone="default:shapes")
    (item,) = items(encoder, model, units)
    assert len(item["places"]) == len(units[0])
    assert not len(encoder.unread(item))


def test_texts_and_images_need_a_backbone_of_their_kind() -> None:
    images, texts = load_model(tiny_image_model(), device="cpu"), network()
    with pytest.raises(ModelError, match="cannot load the encoder"):
        built(images, tiny_images(), backbone="default")
    with pytest.raises(ModelError, match="cannot load the encoder"):
        built(texts, backbone="default:shapes")
    encoder, units = built(texts)
    image = images.units(tiny_images())[:1]
    with pytest.raises(InputError, match="backbone reads texts, and an image of 16 x 16 pixels was given"):
        encoder.read(texts, image, [0], texts.predict(EXAMPLES[:1]))
    encoder, _ = built(images, tiny_images())
    with pytest.raises(InputError, match="backbone reads images, and the text 'a truly"):
        encoder.read(images, units[:1], [0], texts.predict(EXAMPLES[:1]))


# Saving and starting again.


@pytest.mark.parametrize("kind", ["text", "image"])
def test_it_is_loaded_without_the_backbone_it_came_from(kind: str, tmp_path: Path) -> None:
    parts = tiny_model("roberta") if kind == "text" else tiny_image_model()
    for part in parts:
        part.save_pretrained(tmp_path / "source")
    model = load_model(parts, device="cpu")
    examples = EXAMPLES if kind == "text" else tiny_images()
    encoder, _ = built(model, examples, backbone=str(tmp_path / "source"))
    about = ExplainerMetadata.of(model, method="encoder", level=model.units(examples)[0].level)
    explainer = LearnedExplainer(encoder, Regression(), about)
    explainer.save_pretrained(tmp_path / "saved")
    shutil.rmtree(tmp_path / "source")
    loaded = LearnedExplainer.from_pretrained(tmp_path / "saved", model=model, device="cpu")
    for one, other in zip(explainer.explain(model, examples), loaded.explain(model, examples), strict=True):
        assert one.scores == other.scores
    assert loaded.shape.settings["backbone"] == "source"  # no path of this machine
    names = {path.name for path in (tmp_path / "saved").rglob("*") if path.is_file()}
    assert {"config.json", "model.safetensors", "README.md"} <= names
    assert not [name for name in names if name.endswith((".bin", ".pt", ".pkl"))]
    assert {weight.requires_grad for name, weight in loaded.shape.named_parameters() if "embeddings." in name} == {
        False
    }


def test_a_damaged_folder_is_named(tmp_path: Path) -> None:
    model = network()
    encoder, _ = built(model)
    encoder.save_reading(tmp_path)
    (tmp_path / "backbone" / "config.json").write_text("{}")
    with pytest.raises(FormatError, match="does not describe the encoder's backbone"):
        AttributionEncoder.from_settings(encoder.settings, tmp_path)
    encoder.save_reading(tmp_path)
    (tmp_path / "backbone" / "tokenizer.json").unlink()
    with pytest.raises(FormatError, match="does not hold a tokenizer"):
        AttributionEncoder.from_settings(encoder.settings, tmp_path)
    with pytest.raises(FormatError, match="not the settings of an encoder"):
        AttributionEncoder.from_settings({**encoder.settings, "height": 3}, tmp_path)


def test_it_is_exported(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    model = network()
    encoder, _ = built(model)
    explainer = LearnedExplainer(encoder, Regression(), ExplainerMetadata.of(model, method="encoder"))
    explainer.export_onnx(tmp_path, int8=False)
    loaded = LearnedExplainer.from_pretrained(tmp_path, runtime="onnx")
    examples = [*EXAMPLES, Example("an unforgettable evening"), Example("good")]
    for one, other in zip(explainer.explain(model, examples), loaded.explain(model, examples), strict=True):
        np.testing.assert_allclose(one.array, other.array, atol=1e-5)


def test_an_encoder_of_images_is_not_exported(tmp_path: Path) -> None:
    model = load_model(tiny_image_model(), device="cpu")
    encoder, _ = built(model, tiny_images())
    about = ExplainerMetadata.of(model, method="encoder", level="patch")
    with pytest.raises(ParameterError, match="encoder of images is not exported; explain with the torch runtime"):
        LearnedExplainer(encoder, Regression(), about).export_onnx(tmp_path)


def test_starting_again_keeps_the_pretrained_weights() -> None:
    model = network()
    encoder, _ = built(model)
    other = encoder.restarted(1)
    kept = {name for name, weight in other.state_dict().items() if torch.equal(weight, encoder.state_dict()[name])}
    assert {name for name in other.state_dict() if name.startswith("backbone.")} <= kept
    assert not {"prediction", "inner.weight", "output.weight"} & kept
    assert other.settings == {**encoder.settings, "seed": 1}
