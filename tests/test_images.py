"""Whatever a user has as an image becomes bytes of red, green and blue, or one clear line."""

import io
from pathlib import Path

import numpy as np
import PIL.Image
import pytest

from didact.errors import InputError, ParameterError
from didact.images import read_codes
from didact.types import Example, Image

RED = (250, 10, 20)


def picture(width: int = 6, height: int = 4) -> np.ndarray:
    return np.arange(height * width * 3, dtype=np.uint8).reshape(height, width, 3)


def encoded(image: PIL.Image.Image, form: str = "PNG", **options: object) -> bytes:
    written = io.BytesIO()
    image.save(written, form, **options)
    return written.getvalue()


def test_paths_bytes_pil_images_and_arrays_give_the_same(tmp_path: Path) -> None:
    pixels = picture()
    pil = PIL.Image.fromarray(pixels)
    path = tmp_path / "an image.png"
    pil.save(path)
    for given in (path, str(path), path.read_bytes(), pil, pixels, pixels.astype(np.int64), Image(pixels)):
        assert Image.of(given) == Image(pixels)


def test_examples_take_images_but_a_string_stays_a_text(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    PIL.Image.fromarray(picture()).save(path)
    assert Example.of(path).fields == (Image(picture()),)
    assert Example.of((picture(), "a caption")).fields == (Image(picture()), "a caption")
    assert Example.of(str(path)).text == str(path)


@pytest.mark.parametrize("mode", ["L", "1", "P", "LA", "RGBA", "CMYK", "YCbCr", "HSV", "I;16", "I", "F"])
def test_every_mode_is_converted(mode: str) -> None:
    gray = PIL.Image.new("L", (3, 2), 255)
    if mode == "F":
        pil = PIL.Image.fromarray(np.ones((2, 3), dtype=np.float32))
    elif mode == "I;16":
        pil = PIL.Image.fromarray(np.full((2, 3), 65_535, dtype=np.uint16))
    else:
        pil = gray.convert(mode)
    assert Image.of(pil) == Image(np.full((2, 3, 3), 255, dtype=np.uint8))


def test_gray_gets_three_equal_channels() -> None:
    gray = np.array([[0, 128], [200, 255]], dtype=np.uint8)
    for given in (gray, gray[..., None], encoded(PIL.Image.fromarray(gray))):
        assert (Image.of(given).pixels == gray[..., None]).all()


def test_transparent_pixels_lie_on_white() -> None:
    clear = np.array([[[*RED, 255], [*RED, 0], [0, 0, 0, 128]]], dtype=np.uint8)
    expected = [[list(RED), [255, 255, 255], [127, 127, 127]]]
    assert Image.of(clear).pixels.tolist() == expected
    assert Image.of(encoded(PIL.Image.fromarray(clear))).pixels.tolist() == expected
    palette = PIL.Image.fromarray(clear[..., :3]).quantize(4)
    palette.info["transparency"] = palette.getpixel((0, 0))
    assert Image.of(encoded(palette)).pixels[0, 0].tolist() == [255, 255, 255]


def test_sixteen_bits_and_floats_are_scaled() -> None:
    sixteen = np.array([[0, 257, 65_535]], dtype=np.uint16)
    assert Image.of(sixteen).pixels[..., 0].tolist() == [[0, 1, 255]]
    assert Image.of(encoded(PIL.Image.fromarray(sixteen))).pixels[..., 0].tolist() == [[0, 1, 255]]
    assert Image.of(np.array([[0.0, 0.5, 1.0]])).pixels[..., 0].tolist() == [[0, 128, 255]]


def test_the_rotation_that_a_camera_notes_is_carried_out() -> None:
    exif = PIL.Image.Exif()
    exif[0x0112] = 6  # the top of the scene is at the right
    upright = Image.of(encoded(PIL.Image.fromarray(picture(6, 4)), exif=exif.tobytes()))
    assert upright.size == (4, 6)
    assert (upright.pixels == np.rot90(picture(6, 4), -1)).all()


def test_of_an_animation_the_first_frame_is_taken_with_a_warning() -> None:
    frames = [PIL.Image.new("RGB", (2, 2), colour) for colour in (RED, (0, 0, 0))]
    moving = encoded(frames[0], "GIF", save_all=True, append_images=frames[1:])
    with pytest.warns(UserWarning, match="has 2 frames; the first"):
        assert Image.of(moving).pixels[0, 0, 0] > 200


def test_one_pixel_is_an_image() -> None:
    assert Image.of(encoded(PIL.Image.new("RGB", (1, 1), RED))).pixels.tolist() == [[list(RED)]]


def test_ten_thousand_by_ten_thousand_is_refused_before_it_is_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    huge = encoded(PIL.Image.new("1", (10_000, 10_000)))
    for given in (huge, np.broadcast_to(np.uint8(0), (10_000, 10_000, 3))):
        with pytest.raises(InputError, match="10,000 x 10,000 pixels, more than 64,000,000; make it smaller"):
            Image.of(given)
    monkeypatch.setenv("DIDACT_MAX_PIXELS", "3")
    with pytest.raises(InputError, match="2 x 2 pixels, more than 3"):
        Image.of(np.zeros((2, 2, 3), dtype=np.uint8))
    monkeypatch.setenv("DIDACT_MAX_PIXELS", "many")
    with pytest.raises(ParameterError, match="DIDACT_MAX_PIXELS must be a whole number"):
        Image.of(np.zeros((2, 2, 3), dtype=np.uint8))


@pytest.mark.parametrize("form", ["PNG", "JPEG", "WEBP", "GIF", "TIFF", "BMP"])
def test_a_damaged_file_is_refused_in_one_line(form: str) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3)).astype(np.uint8)
    whole = encoded(PIL.Image.fromarray(noise), form)
    with pytest.raises(InputError, match="damaged"):
        Image.of(whole[: len(whole) // 2])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (b"", "the 0 bytes given is not an image"),
        (b"GIF89a", "damaged"),
        ("missing.png", "there is no image 'missing.png'"),
        ("a\0b", "there is no image"),
        ("https://example.org/cat.png", "nothing is downloaded"),
        (Path(), "is a folder"),
        (np.zeros((3, 4, 5), dtype=np.uint8), "colours last"),
        (np.zeros((2, 4, 5, 3), dtype=np.uint8), "has shape"),
        (np.zeros((0, 4, 3), dtype=np.uint8), "has shape"),
        (np.full((2, 2), 300), "between 0 and 255, got 300 to 300"),
        (np.full((2, 2), -0.1), "between 0 and 1"),
        (np.full((2, 2), np.nan), "between 0 and 1"),
        (np.zeros((2, 2), dtype=bool), "got bool"),
        (np.array([["a"]]), "whole numbers or floats"),
        (17, "got int 17"),
    ],
)
def test_what_is_no_image_is_refused(given: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Image.of(given)  # type: ignore[arg-type]


def test_without_pillow_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "PIL.Image", None)
    with pytest.raises(InputError, match=r"pip install didact\[images\]"):
        Image.of(b"GIF89a")


def test_codes_of_a_trimap_are_the_numbers_of_its_palette(tmp_path: Path) -> None:
    numbers = np.array([[1, 2], [3, 1]], dtype=np.uint8)
    palette = PIL.Image.fromarray(numbers, mode="L")
    palette.putpalette([0, 0, 0, 128, 0, 0, 0, 128, 0, 128, 128, 0])
    assert read_codes(encoded(palette)).tolist() == numbers.tolist()
    with pytest.raises(InputError, match="one number per pixel"):
        read_codes(encoded(PIL.Image.fromarray(picture())))
