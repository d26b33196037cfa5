"""A plain function of images as a model: superpixels are painted over, and the evidence is found."""

import numpy as np
import pytest

import didact
from didact.errors import InputError, ModelError, ParameterError
from didact.models.functions.blackbox import BlackBox
from didact.models.functions.images import ImageInputs
from didact.models.load import load_model
from didact.types import Example, Image, Mask, Target, marked_shares

SIZE = (40, 60)
PLACE = (slice(10, 25), slice(35, 55))


def redness(images: list[np.ndarray]) -> np.ndarray:
    """Light in proportion to the share of red pixels."""
    share = np.array([((image[..., 0] > 180) & (image[..., 1] < 90)).mean() for image in images])
    return np.stack([1 - share, share], axis=1)


def red_square() -> Example:
    pixels = np.random.default_rng(0).integers(90, 110, (*SIZE, 3)).astype(np.uint8)
    pixels[PLACE] = (220, 30, 30)
    marked = np.zeros(SIZE, dtype=bool)
    marked[PLACE] = True
    return Example(Image(pixels), rationale=[Mask.of(marked)])


@pytest.mark.parametrize("method", ["occlusion", "lime", "kernel_shap", "shapley_sampling", "partition_shap"])
@pytest.mark.parametrize("level", ["superpixel", "patch"])
def test_perturbation_finds_the_red_square(method: str, level: str) -> None:
    model = load_model(redness, inputs="image", labels=["dull", "red"])
    made = didact.explain(red_square(), model, method, target="red", level=level, progress=False)
    shares = marked_shares(made.units.regions, made.example.rationale or ())
    assert np.corrcoef(made.scores, shares)[0, 1] > 0.8
    assert made.units.level == level


def test_compare_offers_the_methods_that_need_nothing_else() -> None:
    model = load_model(redness, inputs="image")
    made = didact.compare(red_square(), model, progress=False, on_error="skip")
    assert {"occlusion", "lime", "kernel_shap", "human", "random"} <= {each.method for each in made}


def test_whole_images_reach_the_function_unchanged_and_parts_are_painted() -> None:
    seen: list[np.ndarray] = []

    def predict(images: list[np.ndarray]) -> np.ndarray:
        seen.extend(images)
        return redness(images)

    model = load_model(predict, inputs="image")
    example = red_square()
    (units,) = model.units([example])
    image = example.fields[0]
    assert isinstance(image, Image)
    keep = np.ones((2, len(units)), dtype=bool)
    keep[1, 3] = False
    for absence, colour in (("mean", np.round(image.pixels.mean((0, 1)))), ("zero", np.zeros(3))):
        seen.clear()
        model.score([units], [Target(1, "class 1", "probability")], [keep], absence)
        absent = units.regions[3]
        assert isinstance(absent, Mask)
        assert (seen[0] == image.pixels).all()
        assert (seen[1][absent.pixels] == colour).all()
        assert (seen[1][~absent.pixels] == image.pixels[~absent.pixels]).all()


def test_a_blurred_part_keeps_its_colour_and_loses_its_edges() -> None:
    view = ImageInputs(parts=12)
    stripes = np.zeros((40, 60, 3), dtype=np.uint8)
    stripes[:, ::2] = 200
    example = Example(Image(stripes))
    units = view.units(example, "superpixel")
    (variant,) = view.variants(units, view.absence("blur:4"), np.zeros((1, len(units)), dtype=bool))
    shown = view.made(variant).astype(int)
    assert np.abs(shown - 100).max() < 25
    assert (view.made(view.whole(example)) == stripes).all()


def test_superpixels_cover_every_pixel_once() -> None:
    (units,) = BlackBox(redness, ImageInputs(parts=12)).units([red_square()])
    assert (np.sum([region.pixels for region in units.regions], axis=0) == 1).all()  # type: ignore[union-attr]
    assert 8 <= len(units) <= 20


def test_equal_variants_are_evaluated_once() -> None:
    calls: list[int] = []

    def predict(images: list[np.ndarray]) -> np.ndarray:
        calls.append(len(images))
        return redness(images)

    model = load_model(predict, inputs="image", labels=["a", "b"])
    (units,) = model.units([red_square()])
    keep = np.ones((50, len(units)), dtype=bool)
    model.score([units], [Target(1, "b", "probability")], [keep])
    assert sum(calls) == 1


def test_the_fingerprint_follows_the_function() -> None:
    one = load_model(redness, inputs="image").fingerprint()
    assert one == load_model(redness, inputs="image").fingerprint()
    assert one != load_model(lambda images: redness(images)[:, ::-1], inputs="image").fingerprint()


def test_bad_input_is_refused_in_one_line() -> None:
    model = load_model(redness, inputs="image")
    with pytest.raises(InputError, match="takes single images, got a text"):
        didact.explain("A film.", model, "occlusion", progress=False)
    with pytest.raises(InputError, match="is an image, and a text is needed"):
        didact.explain(red_square(), load_model(lambda texts: [[0.5, 0.5]] * len(texts)), "occlusion", progress=False)
    with pytest.raises(ParameterError, match=r"'mean' .*'zero' .*'blur' .*got 'delete'"):
        didact.explain(red_square(), model, "occlusion", absence="delete", progress=False)
    with pytest.raises(ParameterError, match="got 'blur:wide'"):
        didact.explain(red_square(), model, "occlusion", absence="blur:wide", progress=False)
    with pytest.raises(ParameterError, match="of images shows no tokens; use level='superpixel' or 'patch'"):
        didact.explain(red_square(), model, "occlusion", level="token", progress=False)
    with pytest.raises(ParameterError, match="inputs of a function are 'text' or 'image', got 'sound'"):
        load_model(redness, inputs="sound")
    with pytest.raises(ModelError, match=r"called with 1 images, the first Image\(64 x 64"):
        load_model(lambda images: 1 / 0, inputs="image")


def test_one_pixel_is_explained() -> None:
    model = load_model(redness, inputs="image", labels=["dull", "red"])
    for level in ("superpixel", "patch"):
        made = didact.explain(
            np.array([[[250, 0, 0]]], dtype=np.uint8), model, "occlusion", level=level, absence="zero", progress=False
        )
        assert len(made.scores) == 1
        assert made.scores[0] > 0


@pytest.mark.parametrize("absence", ["mean", "blur:3"])
def test_only_absent_parts_are_painted_however_many_there_are(absence: str) -> None:
    example = red_square()
    view = ImageInputs(parts=12)
    units = view.units(example, "superpixel")
    keep = np.random.default_rng(0).random((20, len(units))) > 0.5
    everywhere = np.zeros((1, len(units)), dtype=bool)
    variants = view.variants(units, view.absence(absence), np.concatenate([everywhere, keep]))
    painted, *shown = (view.made(variant) for variant in variants)
    image = example.fields[0]
    assert isinstance(image, Image)
    for row, pixels in zip(keep, shown, strict=True):
        hidden = np.any([region.pixels for region, kept in zip(units.regions, row, strict=True) if not kept], axis=0)  # type: ignore[union-attr]
        assert (pixels[hidden] == painted[hidden]).all()
        assert (pixels[~hidden] == image.pixels[~hidden]).all()


def test_a_call_holds_no_more_pixels_than_memory_is_for(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []

    def predict(images: list[np.ndarray]) -> np.ndarray:
        calls.append(len(images))
        return redness(images)

    model = load_model(predict, inputs="image", labels=["a", "b"])
    (units,) = model.units([red_square()])
    keep = ~np.eye(len(units), dtype=bool)
    image_bytes = 3 * SIZE[0] * SIZE[1]
    expected = model.score([units], [Target(1, "b", "probability")], [keep])[0]
    assert calls[-2:] == [64, len(keep) - 64]
    calls.clear()
    monkeypatch.setattr("didact.models.functions.blackbox.BATCH_BYTES", 5 * image_bytes)
    assert (model.score([units], [Target(1, "b", "probability")], [keep])[0] == expected).all()
    assert max(calls) == 5
    calls.clear()
    monkeypatch.setattr("didact.models.functions.blackbox.BATCH_BYTES", 1)
    model.score([units], [Target(1, "b", "probability")], [keep])
    assert calls == [1] * len(keep)


def test_large_arrays_are_not_turned_into_lists_to_check_arguments() -> None:
    class Heavy(np.ndarray):
        def tolist(self) -> list[object]:
            raise AssertionError("a list of all pixels")

    pixels = red_square().fields[0].pixels.view(Heavy)  # type: ignore[union-attr]
    model = load_model(redness, inputs="image", labels=["dull", "red"])
    assert len(didact.explain(pixels, model, "random", progress=False).scores) > 1
