"""Explained images: the same scores in every output, at the original resolution."""

import base64
import io
import re
import struct
import zlib
from pathlib import Path

import numpy as np
import PIL.Image
import pytest

from didact import api
from didact.errors import FormatError, InputError
from didact.render import jsonio
from didact.render.formats import FORMATS, encoded, render
from didact.render.html import fragment, page, read_page, unstyled
from didact.render.mosaic import KEY
from didact.render.overlay import AGAINST, FOR, heat, overlay
from didact.render.png import png
from didact.render.terminal import terminal_text
from didact.types import Box, Example, Explanation, Image, Mask, Prediction, Span, Target, Units

SIDE = 12
NOISE = np.random.default_rng(0).integers(0, 256, (SIDE, 2 * SIDE, 3)).astype(np.uint8)
HALVES = (Box(0, 0, SIDE, SIDE), Box(SIDE, 0, 2 * SIDE, SIDE))
CORNER = np.zeros((SIDE, 2 * SIDE), dtype=bool)
CORNER[3:5, 20:] = True
MASKS = (Mask.of(CORNER), Mask.of(~CORNER))


def explained(
    regions: tuple[Box | Mask | Span, ...] = HALVES,
    scores: tuple[float, ...] = (2.0, -1.0),
    example: Example | None = None,
    **given: object,
) -> Explanation:
    units = Units(example or Example(Image(NOISE)), "patch", regions, (), given.pop("truncated", 0.0))
    prediction = Prediction(("cat", "dog"), (1.0, -1.0), (0.88, 0.12))
    return Explanation(given.pop("method", "lime"), units, scores, Target(0, "cat"), prediction, **given)


def test_a_png_file_is_what_pillow_reads() -> None:
    assert (np.array(PIL.Image.open(io.BytesIO(png(NOISE)))) == NOISE).all()
    smooth = np.add.outer(np.arange(200), np.arange(300)).astype(np.uint8)[..., None].repeat(3, -1)
    assert len(png(smooth)) < smooth.size / 100
    assert (np.array(PIL.Image.open(io.BytesIO(png(smooth)))) == smooth).all()


def test_heat_has_each_units_strength_where_it_lies() -> None:
    shown = heat(explained())
    assert (shown[:, :SIDE] == 1).all()
    assert (shown[:, SIDE:] == -0.5).all()
    masked = heat(explained(MASKS[:1], (3.0,)))
    assert (masked[CORNER] == 1).all()
    assert np.isnan(masked[~CORNER]).all()


def test_an_overlay_has_the_images_size_and_the_colours_of_the_scores() -> None:
    drawn = overlay(explained()).astype(int)
    assert drawn.shape == NOISE.shape
    blue, orange = drawn[:, :SIDE].mean((0, 1)), drawn[:, SIDE:].mean((0, 1))
    assert blue[2] > blue[0] + 50
    assert orange[0] > orange[2] + 50
    unsigned = overlay(explained(scores=(1.0, 0.0), signed=False)).astype(int)
    assert (np.ptp(unsigned[:, SIDE:], axis=2) == 0).all()  # gray, however colourful the image


def test_png_is_one_overlay(tmp_path: Path) -> None:
    one = explained()
    path = api.save(one, tmp_path / "cat.png")
    assert (np.array(PIL.Image.open(path)) == overlay(one)).all()
    with pytest.raises(InputError, match=r"there are 2; \.html shows them all"):
        encoded([one, one], "png")
    with pytest.raises(InputError, match="this example is text"):
        encoded([explained((Span(0, 4),), (1.0,), Example("film"))], "png")


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("regions", [HALVES, MASKS])
def test_every_format_shows_images(form: str, regions: tuple[Box | Mask, ...]) -> None:
    shown = render([explained(regions), explained(regions, method="occlusion", signed=False)], form)
    assert "lime" in shown
    assert "occlusion" in shown


def test_every_format_shows_an_image_with_a_text() -> None:
    example = Example(Image(NOISE), "a caption")
    both = explained((*HALVES, Span(2, 9, 1)), (1.0, 0.5, -1.0), example)
    for form in FORMATS:
        assert "caption" in render([both], form)


def test_a_page_holds_each_image_once_and_every_unit_with_its_score() -> None:
    several = [explained(), explained(MASKS, method="occlusion"), explained(method="random")]
    html = page(several)
    (data,) = re.findall(r"url\(data:image/png;base64,([^)]*)\)", html)
    assert (np.array(PIL.Image.open(io.BytesIO(base64.b64decode(data)))) == NOISE).all()
    assert "<title>0:0:12:12: +2</title>" in html
    assert 'd="M0 0h12v12h-12z"' in html
    assert FOR in html
    assert AGAINST in html
    assert "Scores of 2 patches" in html
    assert read_page(html) == several
    assert fragment(several).count("<svg viewBox") == 3


def test_the_path_of_a_mask_covers_its_pixels() -> None:
    html = fragment([explained(MASKS)])
    for mask in MASKS:
        drawn = np.zeros((SIDE, 2 * SIDE), dtype=int)
        path = next(path for path in re.findall(r'd="([^"]*)"', html) if _painted(path, drawn) == mask.pixels.sum())
        drawn[:] = 0
        _painted(path, drawn)
        assert (drawn == mask.pixels).all()


def _painted(path: str, canvas: np.ndarray) -> int:
    canvas[:] = 0
    for left, top, width, height in re.findall(r"M(\d+) (\d+)h(\d+)v(\d+)", path):
        canvas[int(top) : int(top) + int(height), int(left) : int(left) + int(width)] += 1
    return int(canvas.sum())


def test_json_holds_each_image_once_and_gives_it_back() -> None:
    several = [explained(), explained(method="occlusion")]
    text = jsonio.dump(several)
    assert text.count('"pixels"') == 1
    assert jsonio.load(text) == several
    with pytest.raises(FormatError, match="explanation 0: the document has no image"):
        jsonio.load(text.replace(Image(NOISE).fingerprint, "another", 1))


def test_a_terminal_without_colour_gets_signs() -> None:
    shown = terminal_text([explained()], colour=False)
    assert KEY[True] in shown
    assert re.search(r"^\s*#{24}-{24}$", shown, flags=re.MULTILINE)
    assert "▀" in terminal_text([explained()], colour=True)


def test_a_long_thin_image_does_not_fill_the_terminal() -> None:
    thin = Example(Image(np.zeros((5_000, 1, 3), dtype=np.uint8)))
    shown = terminal_text([explained((Box(0, 0, 1, 5_000),), (1.0,), thin)])
    assert shown.count("\n") < 60


def test_what_the_model_does_not_see_of_an_image_is_said() -> None:
    for form in ("html", "txt", "tex"):
        assert "of the image lies outside" in re.sub(r"\s+", " ", render([explained(truncated=0.25)], form))


def test_the_pixel_that_stands_for_a_whole_image() -> None:
    pixel = Example(Image(np.zeros((1, 1, 3), dtype=np.uint8)))
    one = explained((Box(0, 0, 1, 1),), (1.0,), pixel)
    for form in FORMATS:
        render([one], form)
    header = encoded([one], "png")[16:24]
    assert struct.unpack(">II", header) == (1, 1)
    assert zlib.crc32(b"IHDR" + encoded([one], "png")[16:29]) == struct.unpack(">I", encoded([one], "png")[29:33])[0]


def test_what_is_put_into_a_strict_document_has_no_style_of_its_own() -> None:
    html, styles = unstyled([explained(), explained(MASKS)])
    assert "style" not in html
    assert styles.count("url(data:image/png") == 1
    assert "aspect-ratio" in styles
    words, none = unstyled([explained((Span(0, 4),), (1.0,), Example("film"))])
    assert "style" not in words
    assert none == ""
