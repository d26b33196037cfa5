"""Charts are well-formed, say in words what they show, and put marks where the numbers are."""

import re
from xml.etree import ElementTree as Tree

import numpy as np
import pytest

from didact.experiments.report import charts
from didact.experiments.report.charts import Bar, Caption, Point, Series
from didact.render.colour import DARK, LIGHT
from tests.render.contrast import contrast

CAPTION = Caption("key", "Title <b>", "What & why", "x", "y")
NASTY = "<script>alert('x')</script> & \"quotes\""


def svg(html: str) -> Tree.Element:
    """The chart as a tree; fails where it is not well-formed."""
    (found,) = Tree.fromstring(html)
    assert found.tag == "svg"
    return found


def test_the_front_holds_what_nothing_beats_on_both() -> None:
    points = [(1.0, 0.2), (2.0, 0.5), (3.0, 0.4), (4.0, 0.5), (5.0, 0.9)]
    # (3, 0.4) and (4, 0.5) are dearer than (2, 0.5) and no better.
    assert charts.pareto(points, 1) == [True, True, False, False, True]
    # Where lower is better only the cheapest is on it: it has the lowest value too.
    assert charts.pareto(points, -1) == [True, False, False, False, False]
    assert charts.pareto([(1.0, 0.5), (1.0, 0.5)], 1) == [True, True]


def test_scatter_places_points_by_the_logarithm() -> None:
    points = [Point(str(x), x, y, y - 0.1, y + 0.1, front=True) for x, y in ((0.01, 0.1), (0.1, 0.2), (1.0, 0.3))]
    tree = svg(charts.scatter(points, CAPTION))
    dots = [(float(c.get("cx", "")), float(c.get("cy", ""))) for c in tree.iter("circle")]
    assert dots[1][0] - dots[0][0] == pytest.approx(dots[2][0] - dots[1][0], abs=0.2)
    assert dots[0][1] > dots[1][1] > dots[2][1]  # pixels count downwards
    assert [len(line.get("points", "").split()) for line in tree.iter("polyline")] == [3]


def test_one_point_and_equal_values_are_drawn() -> None:
    tree = svg(charts.scatter([Point("a", 1.0, 0.5, 0.5, 0.5, front=True)], CAPTION))
    assert len(list(tree.iter("circle"))) == 1
    flat = Series("a", [0, 100], [0.5, 0.5], [0.5, 0.5], [0.5, 0.5])
    assert "nan" not in charts.curves([flat], CAPTION)


def test_lines_have_bands_and_the_rest_is_grey() -> None:
    series = [
        Series(f"s{at}", [0, 50, 100], [1, 0.5, at / 20], [0.9, 0.4, 0], [1, 0.6, 0.7], control=at == 10)
        for at in range(11)
    ]
    tree = svg(charts.curves(series, CAPTION))
    assert len(list(tree.iter("polygon"))) == charts.COLOURS
    kinds = [str(line.get("class")) for line in tree.iter("polyline")]
    assert kinds.count("rest") == 2
    assert kinds.count("control") == 1
    named = [text.text for text in tree.iter("text")]
    assert all(each.name in named for each in series)


def test_heat_map_writes_every_number_and_a_dash_for_none() -> None:
    values = np.array([[1.0, -0.5], [-0.5, np.nan]])
    tree = svg(charts.heat(["a", "b"], values, CAPTION))
    texts = [text.text for text in tree.iter("text")]
    assert texts.count("−0.50") == 2
    assert "–" in texts
    titles = [title.text for title in tree.iter("title")]
    assert "a and b: -0.50" in titles
    assert "b and b: not defined" in titles


@pytest.mark.parametrize("kind", ["scatter", "curves", "heat"])
def test_charts_are_told_in_words_and_nothing_in_a_name_acts(kind: str) -> None:
    drawn = {
        "scatter": lambda: charts.scatter([Point(NASTY, 1.0, 0.5, 0.4, 0.6)], CAPTION),
        "curves": lambda: charts.curves([Series(NASTY, [0, 100], [0, 1], [0, 1], [0, 1])], CAPTION),
        "heat": lambda: charts.heat([NASTY], np.ones((1, 1)), CAPTION),
    }[kind]()
    tree = svg(drawn)
    assert tree.get("role") == "img"
    ids = str(tree.get("aria-labelledby")).split()
    told = {each.get("id"): each.text for each in tree.iter() if each.get("id")}
    assert [told[each] for each in ids] == ["Title <b>", "What & why"]
    assert "<script" not in drawn
    assert not list(tree.iter("script"))


def test_names_in_a_crowd_do_not_cover_each_other() -> None:
    points = [Point(f"explainer-{at}", 1.0 + at / 100, 0.5, 0.45, 0.55) for at in range(6)]
    tree = svg(charts.scatter(points, CAPTION))
    places = [
        (float(text.get("x", "0")), float(text.get("y", "0")))
        for text in tree.iter("text")
        if str(text.text).startswith("explainer-")
    ]
    width = 6.6 * len("explainer-0")
    for at, (x, y) in enumerate(places):
        for other_x, other_y in places[:at]:
            assert abs(x - other_x) >= width or abs(y - other_y) >= 11.9


def test_line_colours_are_readable_on_their_page() -> None:
    sheet = charts.style()
    light, dark = re.findall(r"\.didact\{(--s0[^}]*)\}", sheet)[:2]
    for palette, rules in ((LIGHT, light), (DARK, dark)):
        colours = re.findall(r"#[0-9a-f]{6}", rules)
        assert len(colours) == charts.COLOURS
        assert min(contrast(colour, palette.page) for colour in colours) >= 4.5


def test_intervals_stand_in_groups_round_a_line_at_zero() -> None:
    groups = {
        "first": [Bar("a", 2.0, 1.0, 3.0, "+2"), Bar(NASTY, -1.0, -2.0, 0.5, control=True)],
        "second": [Bar("none", float("nan"), float("nan"), float("nan")), Bar("b", 1.0, float("nan"), float("nan"))],
    }
    tree = svg(charts.forest(groups, CAPTION))
    dots = {str(dot.get("class")): float(dot.get("cx", "")) for dot in tree.iter("circle")}
    assert len(list(tree.iter("circle"))) == 3  # what is not known has a name and no dot
    zero = next(
        float(line.get("d", "M0 ")[1:].split()[0]) for line in tree.iter("path") if line.get("class") == "whisker"
    )
    assert dots["dot control"] < zero < dots["dot"]
    whiskers = [line.get("d", "") for line in tree.iter("path") if line.get("class") == "whisker"]
    assert len(whiskers) == 2 + 2  # a line at zero beside each group, and the two intervals that are known
    heads = [float(text.get("y", "")) for text in tree.iter("text") if text.text in ("first", "second")]
    upright = [line.get("d", "") for line in tree.iter("path") if "V" in line.get("d", "")]
    assert upright
    for top, bottom in (line.split(" ", 1)[1].split("V") for line in upright):
        assert not any(float(top) < y < float(bottom) for y in heads)  # none crosses a heading
    named = [text.text for text in tree.iter("text")]
    assert {"first", "second", "a", "b", "none", "+2"} <= set(named)


def test_lines_may_run_along_a_logarithmic_axis() -> None:
    series = Series("a", [1.0, 10.0, 100.0], [0.0, 1.0, 2.0], [0.0, 0.5, 1.5], [0.5, 1.5, 2.5])
    (line,) = svg(charts.curves([series], CAPTION, percent=False)).iter("polyline")
    xs = [float(point.split(",")[0]) for point in line.get("points", "").split()]
    assert xs[1] - xs[0] == pytest.approx(xs[2] - xs[1], abs=0.2)


def test_a_chart_can_be_a_file_of_its_own() -> None:
    drawn = charts.standalone(charts.forest({"g": [Bar("a", 1.0, 0.0, 2.0)]}, CAPTION), ".didact{--text:#000}")
    tree = Tree.fromstring(drawn)
    assert tree.tag == "{http://www.w3.org/2000/svg}svg"
    assert "--text:#000" in drawn
    assert tree.get("viewBox")
