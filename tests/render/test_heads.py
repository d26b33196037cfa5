"""Maps of layers and heads, as a picture and as lines of characters."""

import xml.etree.ElementTree as ET

import numpy as np
import pytest

from didact.render.heads import heads_svg, heads_text

WEIGHTS = np.array([[0.0, 0.25, 0.001], [0.7, 0.0, 0.049]])
SVG = "{http://www.w3.org/2000/svg}"


def test_a_line_per_layer_in_hundredths() -> None:
    lines = heads_text(WEIGHTS, (3, 11)).splitlines()
    assert [line.split() for line in lines] == [
        ["layer", "0", "1", "2"],
        ["3", ".", "25", "<1"],
        ["11", "70", ".", "5"],
    ]
    assert len({len(line) for line in lines}) == 1


def test_the_picture_has_a_square_with_its_number_for_every_head() -> None:
    root = ET.fromstring(heads_svg(WEIGHTS, title="a < b"))
    squares = [rect for rect in root.iter(f"{SVG}rect") if rect.find(f"{SVG}title") is not None]
    assert [rect[0].text for rect in squares][:2] == ["layer 0, head 0: 0", "layer 0, head 1: 0.25"]
    assert [rect.get("class") for rect in squares] == ["p0", "p4", "p0", "p10", "p0", "p1"]
    written = [text.text for text in root.iter(f"{SVG}text")]
    assert written[:3] == ["25", "70", "5"]
    assert "a < b" in written


def test_values_below_the_neutral_one_have_the_other_colour() -> None:
    root = ET.fromstring(heads_svg(np.array([[0.5, 0.9, 0.3]]), low=0.5))
    classes = [rect.get("class") for rect in root.iter(f"{SVG}rect")][1:]
    assert classes == ["p0", "p10", "n5"]


def test_unknown_values_are_drawn_without_colour_and_wrong_layers_refused() -> None:
    assert 'class="p0"' in heads_svg(np.array([[np.nan, 1.0]]))
    assert heads_text(np.zeros((1, 2))).splitlines()[1].split() == ["0", ".", "."]
    with pytest.raises(ValueError, match="zip"):
        heads_text(WEIGHTS, (0,))
