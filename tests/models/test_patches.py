"""Images as patches of a vision transformer: where they lie, how an absent one is shown, what is refused."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from transformers import AutoConfig, AutoModelForImageClassification, ViTImageProcessor, pipeline

import didact.embedded
from didact.attribution.base import ATTRIBUTIONS
from didact.data.load import load_data
from didact.data.planted import shapes
from didact.errors import InputError, ModelError, ParameterError
from didact.metrics.base import METRICS
from didact.models.load import load_model
from didact.models.network import NetworkModel
from didact.models.readers._patch_grid import PatchGrid, View
from didact.models.readers.patches import PatchesReader
from didact.protocols import Evidence
from didact.testing.tiny import tiny_image_model, tiny_images, tiny_model
from didact.types import Box, Example, Image, Target, overlap_matrix

STRETCH = {"do_resize": True, "size": {"height": 16, "width": 16}}
CROP = {
    "do_resize": True,
    "size": {"shortest_edge": 20},
    "do_center_crop": True,
    "crop_size": {"height": 16, "width": 16},
}
GRID = PatchGrid(4, 4, 4, 4, 1)


@pytest.fixture(scope="module")
def model() -> NetworkModel:
    made = load_model(tiny_image_model())
    assert isinstance(made, NetworkModel)
    return made


def filled(colour: int, height: int = 16, width: int = 16) -> Image:
    return Image(np.full((height, width, 3), colour, dtype=np.uint8))


# Where patches lie.


def test_folding_undoes_cutting() -> None:
    grid = PatchGrid(2, 3, 4, 5)
    images = torch.randn(2, 3, 8, 15)
    patches = grid.cut(images)
    assert patches.shape == (2, 6, 60)
    assert torch.equal(grid.fold(patches), images)
    assert torch.equal(patches[0, 4].view(3, 4, 5), images[0, :, 4:8, 5:10])


@pytest.mark.parametrize(("width", "height"), [(16, 16), (33, 21), (4, 4), (1000, 7)])
def test_boxes_divide_the_original_image(width: int, height: int) -> None:
    boxes = View.of(STRETCH, width, height).boxes(GRID, width, height)
    assert all(box is not None for box in boxes)
    regions = [box for box in boxes if box is not None]
    assert sum((box.right - box.left) * (box.bottom - box.top) for box in regions) == width * height
    assert np.array_equal(overlap_matrix(regions, regions), np.eye(len(regions), dtype=bool))


def test_a_centre_crop_leaves_a_margin_and_reports_it() -> None:
    view = View.of(CROP, 200, 100)  # 40 x 20 after resizing, of which 16 x 16 are seen
    assert view == View(60, 10, 140, 90)
    assert view.boxes(GRID, 200, 100)[0] == Box(60, 10, 80, 30)
    assert view.hidden(200, 100) == pytest.approx(1 - 80 * 80 / (200 * 100))


def test_patches_that_show_only_a_margin_are_no_units() -> None:
    settings = {"do_resize": False, "do_center_crop": True, "crop_size": {"height": 16, "width": 16}}
    boxes = View.of(settings, 8, 16).boxes(GRID, 8, 16)
    assert [box is None for box in boxes[:4]] == [True, False, False, True]
    assert boxes[1] == Box(0, 0, 4, 4)


@pytest.mark.parametrize("settings", [STRETCH, CROP], ids=["stretched", "cropped"])
@pytest.mark.parametrize(("width", "height"), [(64, 64), (96, 64), (61, 83)])
def test_the_processor_shows_each_patch_what_lies_in_its_box(
    settings: dict[str, object], width: int, height: int
) -> None:
    network, _ = tiny_image_model()
    reader = PatchesReader(network, ViTImageProcessor(**settings))
    for number in (0, 6, 15):
        (units,) = reader.units([Example(filled(0, height, width))], "patch")
        box = units.regions[number]
        assert isinstance(box, Box)
        pixels = np.zeros((height, width, 3), dtype=np.uint8)
        pixels[box.top : box.bottom, box.left : box.right] = 255
        (code,) = reader.encode([Example(Image(pixels))])
        light = reader.grid.cut(torch.from_numpy(code.pixels)[None])[0].mean(-1)
        assert int(light.argmax()) == number
        assert light[number] > 0.6
        assert light.sort().values[-2] < 0.2  # a pixel's rim, from resizing


def test_what_a_crop_hides_is_on_the_units_and_limited() -> None:
    network, _ = tiny_image_model()
    model = load_model((network, ViTImageProcessor(**CROP)))
    (units,) = model.units([Example(filled(9, 60, 60))])
    assert units.truncated == pytest.approx(0.36, abs=0.02)
    with pytest.raises(InputError, match=r"cuts 84% off an image of 240 x 60 pixels, more than the 50% allowed"):
        model.units([Example(filled(9, 60, 240))])


# How an absent patch is shown.


def painted(model: NetworkModel, example: Example, absence: str, patch: int) -> tuple[np.ndarray, np.ndarray]:  # type: ignore[type-arg]
    """Pixels of a patch of the whole image, and when it is absent; what else differs fails."""
    from didact.models.variants import VariantRows

    units, codes = model.units([example]), model.reader.encode([example])
    keep = np.ones((1, len(units[0])), dtype=np.bool_)
    keep[0, patch] = False
    rows = VariantRows(units, codes, [keep], model.reader.absence(absence), model.reader, None)
    shown = rows.columns(np.array([0]))["pixel_values"][0]
    cut = [model.reader.grid.cut(torch.from_numpy(np.ascontiguousarray(p))[None])[0] for p in (codes[0].pixels, shown)]  # type: ignore[attr-defined]
    others = [number for number in range(len(cut[0])) if number != patch]
    assert torch.equal(cut[0][others], cut[1][others])
    return codes[0].pixels, cut[1][patch].view(3, 4, 4).numpy()  # type: ignore[attr-defined]


def test_colours_of_absent_patches(model: NetworkModel) -> None:
    example = tiny_images()[0]
    whole, mean = painted(model, example, "mean", 5)
    np.testing.assert_allclose(mean, np.broadcast_to(whole.mean((1, 2), keepdims=True), mean.shape), atol=1e-6)
    assert (painted(model, example, "zero", 5)[1] == 0).all()
    narrow, wide = (painted(model, example, name, 5)[1] for name in ("blur:0.01", "blur:1000"))
    np.testing.assert_allclose(narrow, whole[:, 4:8, 4:8], atol=1e-6)
    np.testing.assert_allclose(wide, mean, atol=1e-3)
    assert not np.allclose(painted(model, example, "blur", 5)[1], mean, atol=1e-3)


def test_a_dropped_patch_is_not_looked_at(model: NetworkModel) -> None:
    if "drop" not in model.reader.further:  # type: ignore[attr-defined]
        pytest.skip("this version of Transformers gives no attention mask to vision transformers")
    first, second = (Example(Image(image.fields[0].pixels.copy())) for image in tiny_images()[:1] * 2)  # type: ignore[union-attr]
    second.fields[0].pixels[:4, :4] = 3  # type: ignore[union-attr]
    keep = np.ones((1, 16), dtype=np.bool_)
    keep[0, 0] = False
    scores = [model.score(model.units([own]), [Target(0, "dark")], [keep], "drop")[0] for own in (first, second)]
    np.testing.assert_allclose(scores[0], scores[1], atol=1e-5)
    assert not np.allclose(*(np.array(p.outputs) for p in model.predict([first, second])), atol=1e-3)


def test_the_mask_token_stands_for_absent_patches_where_there_is_one(model: NetworkModel) -> None:
    with pytest.raises(ParameterError, match=r"takes no bool_masked_pos, .* allowed: mean, zero, blur:S, blend"):
        model.reader.absence("mask")
    network, processor = tiny_image_model()
    network.vit.embeddings.mask_token = nn.Parameter(torch.full((1, 1, 32), 0.5))  # type: ignore[union-attr]
    masked = load_model((network, processor))
    (example,) = tiny_images()[:1]
    (values,) = masked.score(masked.units([example]), [Target(0, "dark")], [np.zeros((1, 16), dtype=np.bool_)], "mask")
    pixels = masked.reader.whole(masked.reader.encode([example]))["pixel_values"]  # type: ignore[attr-defined]
    with torch.inference_mode():
        plain = network(pixels, bool_masked_pos=torch.ones(1, 16)).logits[0, 0]
    np.testing.assert_allclose(values, plain, rtol=1e-5)


@pytest.mark.parametrize("name", ["delete", "blur:x", "blur:0", "token:a", "sample:0"])
def test_operators_of_texts_are_refused_with_what_is_allowed(name: str, model: NetworkModel) -> None:
    with pytest.raises(ParameterError, match="allowed: mean, zero, blur:S, blend"):
        model.reader.absence(name)
    with pytest.raises(ParameterError, match="allowed"):
        model.embed(model.units(tiny_images()[:1]), absent=name)


# What is explained.


def test_relevance_rules_cover_every_operation_of_a_vision_transformer(model: NetworkModel) -> None:
    for method in ("lrp", "gim"):
        (explanation,) = ATTRIBUTIONS.get(method)().explain(model, tiny_images()[:1])
        assert "unruled_operations" not in explanation.details


def test_layers_are_not_taken_apart_and_that_is_declared(model: NetworkModel) -> None:
    assert model.capabilities == {"differentiable", "attentive", "hidden", "heads"}
    assert model.reads == "first"


# What a model may come as, and what not.


def test_every_door_leads_to_the_same_model(tmp_path: Path, model: NetworkModel) -> None:
    network, processor = tiny_image_model()
    network.save_pretrained(tmp_path)
    processor.save_pretrained(tmp_path)
    pipe = pipeline("image-classification", model=network, image_processor=processor, device="cpu")
    wanted = model.predict(tiny_images())
    for source in (tmp_path, pipe):
        made = load_model(source)
        assert isinstance(made, NetworkModel)
        assert made.inputs == "patches"
        for mine, own in zip(made.predict(tiny_images()), wanted, strict=True):
            np.testing.assert_allclose(mine.outputs, own.outputs, atol=1e-5)
    assert load_model(tmp_path).fingerprint() == load_model(tmp_path).fingerprint()


def test_another_processor_is_another_model(model: NetworkModel) -> None:
    other = load_model((model.network, ViTImageProcessor(**STRETCH, image_mean=(0, 0, 0))))
    assert other.fingerprint() != model.fingerprint()


def test_wrong_companions_are_refused() -> None:
    network, processor = tiny_image_model()
    text, tokenizer = tiny_model("bert")
    with pytest.raises(ModelError, match="ViTForImageClassification reads images; give its image processor"):
        load_model((network, tokenizer))
    with pytest.raises(ModelError, match="BertForSequenceClassification reads no images; give its tokenizer"):
        load_model((text, processor))
    with pytest.raises(ModelError, match="does not take what its image processor makes"):
        load_model((network, ViTImageProcessor(size={"height": 32, "width": 32})))
    with pytest.raises(ModelError, match=r"cannot be cut into patches of 4 x 4; set its size to a multiple"):
        load_model((network, ViTImageProcessor(size={"height": 18, "width": 16})))
    with pytest.raises(ParameterError, match="max_length limits texts"):
        load_model((network, processor), max_length=5)


def test_a_network_that_merges_patches_is_refused() -> None:
    sizes = {
        "image_size": 32,
        "patch_size": 4,
        "embed_dim": 16,
        "depths": [1, 1],
        "num_heads": [2, 2],
        "window_size": 4,
    }
    network = AutoModelForImageClassification.from_config(AutoConfig.for_model("swin", **sizes))
    with pytest.raises(ModelError, match="it merges patches on the way"):
        load_model((network, ViTImageProcessor(size={"height": 32, "width": 32})))


@pytest.mark.parametrize(
    ("name", "first", "reads"), [("deit", 2, "first"), ("beit", 1, "mean"), ("dinov2", 1, "first")]
)
def test_other_vision_transformers(name: str, first: int, reads: str) -> None:
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
    config = AutoConfig.for_model(name, **sizes, image_size=16, patch_size=4, num_labels=3, architectures=[])
    model = load_model(
        (
            AutoModelForImageClassification.from_config(config).eval(),
            ViTImageProcessor(size={"height": 16, "width": 16}),
        )
    )
    assert isinstance(model, NetworkModel)
    assert (model.reader.grid.first, model.reads) == (first, reads)  # type: ignore[attr-defined]
    for method in ("occlusion", "gradient_x_input"):
        (explanation,) = ATTRIBUTIONS.get(method)().explain(model, tiny_images()[:1])
        assert len(explanation.scores) == 16


@pytest.mark.parametrize(("width", "height"), [(1, 1), (3, 100)])
def test_an_image_with_fewer_pixels_than_patches_is_refused(width: int, height: int, model: NetworkModel) -> None:
    with pytest.raises(InputError, match=f"has {width} x {height} pixels, .* 4 x 4 patches"):
        model.units([Example(filled(9, height, width))])
    with pytest.raises(InputError, match="enlarge it"):
        model.predict([Example(filled(9, height, width))])


def test_texts_are_refused(model: NetworkModel) -> None:
    with pytest.raises(InputError, match="explains single images, got text"):
        model.predict([Example("a text")])
    with pytest.raises(InputError, match="single images, got image and image"):
        model.predict([Example(filled(1), filled(2))])


def test_methods_of_texts_name_those_that_take_images(model: NetworkModel) -> None:
    for method in ("deep_shap", "reagent"):
        with pytest.raises(InputError, match=r"takes text and pair inputs, .* methods that take images: .*occlusion"):
            ATTRIBUTIONS.get(method)().explain(model, tiny_images()[:1])


def test_scores_of_a_trained_network_lie_on_the_shape_that_is_drawn() -> None:
    model = load_model(Path(didact.embedded.__file__).parent / "shapes", device="cpu")
    examples = shapes(12, seed=5)
    areas = {}
    for method in ("attention_rollout", "gradient_norm", "random"):
        explanations = ATTRIBUTIONS.get(method)().explain(model, examples)
        grades = METRICS.get("rationale_auc").configured(explained="any").measure(Evidence(explanations, model))
        areas[method] = np.nanmean([grade.value for grade in grades])
    assert areas["attention_rollout"] > 0.8
    assert areas["gradient_norm"] > 0.6 > areas["random"]


def test_the_real_network_has_its_accuracy(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DIDACT_SHARED", str(shared))
    examples = list(load_data("cifar10", split="test", limit=60))
    model = load_model(shared / "weights" / "vit-cifar10", device="cpu")
    predictions = model.predict(examples)
    assert np.mean([own.label == example.label for own, example in zip(predictions, examples, strict=True)]) > 0.85
