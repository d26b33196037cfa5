import itertools

import pytest

from didact.render.colour import DARK, LIGHT, Palette, mix, strengths, tint
from didact.render.style import LEVELS, level, stylesheet, tints
from tests.render.conftest import Make
from tests.render.contrast import contrast

PALETTES = pytest.mark.parametrize("palette", [LIGHT, DARK], ids=["light", "dark"])
ENOUGH = 4.5  # WCAG AA for text


def test_contrast_is_that_of_wcag() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.005)
    assert contrast("#ffffff", "#777777") == contrast("#777777", "#ffffff")


@PALETTES
def test_every_tint_is_readable(palette: Palette) -> None:
    for signed, hundredths in itertools.product((True, False), range(-100, 101)):
        colours = tint(hundredths / 100, signed=signed, palette=palette)
        assert contrast(colours.background, colours.foreground) >= ENOUGH


@PALETTES
def test_plain_and_muted_text_is_readable(palette: Palette) -> None:
    panel = mix(palette.page, palette.text, 0.035)
    for background in (palette.page, panel):
        assert contrast(palette.text, background) >= ENOUGH
        assert contrast(palette.muted, background) >= ENOUGH


@PALETTES
def test_every_step_of_the_style_sheet_is_readable_and_present(palette: Palette) -> None:
    sheet = stylesheet()
    for name, background in tints(palette).items():
        assert contrast(background, palette.text) >= ENOUGH
        assert f"--{name}:{background}" in sheet
    assert len(tints(palette)) == 3 * LEVELS


@PALETTES
def test_signs_differ_for_the_colour_blind(palette: Palette) -> None:
    """Blue minus yellow is what red-green blindness leaves: there the two sides stand on opposite ends."""
    for share in (0.3, 1.0):
        yellowness = []
        for sign in (1, -1):
            colour = tint(sign * share, signed=True, palette=palette).background
            red, green, blue = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
            yellowness.append((red + green) / 2 - blue)
        assert yellowness[0] < 0 < yellowness[1]


def test_stronger_is_further_from_the_page() -> None:
    for palette, sign in itertools.product((LIGHT, DARK), (1, -1)):
        steps = [contrast(palette.page, tint(sign * s / 4, signed=True, palette=palette).background) for s in range(5)]
        assert steps == sorted(steps)
        assert steps[0] == 1


def test_strengths_are_relative_to_the_largest(make: Make) -> None:
    assert strengths(make("a b c", scores=[2, -4, 1])) == (0.5, -1.0, 0.25)
    assert strengths(make("a b c", scores=[2, -4, 1], signed=False)) == (1.0, 0.0, 0.5)
    assert strengths(make("a b", scores=[0.0, 0.0])) == (0.0, 0.0)
    assert strengths(make("a b", scores=[1e-300, -1e-300])) == (1.0, -1.0)


def test_levels() -> None:
    assert level(1.0, True) == "p10"
    assert level(-0.3, True) == "n3"
    assert level(0.3, False) == "u3"
    assert level(0.01, True) == ""
