"""Every class of a text: probabilities everywhere, and a tab per class in HTML."""

import pytest

import didact
from didact.errors import TargetError
from didact.models.load import load_model
from didact.protocols import Model
from didact.render import facts, html, terminal
from didact.testing.tiny import TEXTS, tiny_model

LABELS = ("World", "Business", "Sci/<Tech>")


@pytest.fixture(scope="module")
def model() -> Model:
    return load_model(tiny_model("bert", LABELS))


def test_one_call_explains_every_class_the_most_probable_first(model: Model) -> None:
    made = didact.explain(TEXTS[0], model, "occlusion", target="all")
    shares = [each.prediction.probabilities[each.target.index] for each in made]
    assert sorted(each.target.label for each in made) == sorted(LABELS)
    assert shares == sorted(shares, reverse=True)
    assert made[0].scores == didact.explain(TEXTS[0], model, "occlusion").scores


def test_every_class_of_a_text_comes_before_the_next_text(model: Model) -> None:
    made = didact.explain([TEXTS[0], "", TEXTS[1]], model, "occlusion", target="all", on_error="skip")
    assert [each.example.text for each in made] == [TEXTS[0]] * 3 + [TEXTS[1]] * 3
    assert [note.index for note in made.skipped] == [1]


def test_a_regression_has_no_classes_to_explain() -> None:
    with pytest.raises(TargetError, match=r"explains every class, and .* has the one output 'score'; leave the target"):
        didact.explain(TEXTS[0], load_model(tiny_model("bert", ["score"])), "occlusion", target="all")


def test_a_label_of_that_name_comes_first() -> None:
    named = load_model(tiny_model("bert", ["none", "all"]))
    assert didact.explain(TEXTS[0], named, "occlusion", target="all").target.label == "all"  # type: ignore[attr-defined]


def test_classes_are_tabs_of_one_example_without_a_script(model: Model) -> None:
    shown = html.fragment(didact.explain([TEXTS[0], TEXTS[1]], model, "occlusion", target="all"))
    assert shown.count('<form class="tabs"') == 2
    assert shown.count('type="radio" name="tab" checked') == 2  # one open tab per text, each in a form of its own
    assert shown.count('class="panel"') == 6
    assert "<script" not in shown
    assert "Sci/&lt;Tech&gt;" in shown
    assert "<Tech>" not in shown


def test_a_single_class_has_no_tabs(model: Model) -> None:
    assert 'class="tabs"' not in html.fragment([didact.explain(TEXTS[0], model, "occlusion")])


def test_all_probabilities_are_shown(model: Model) -> None:
    made = didact.explain(TEXTS[0], model, "occlusion")
    others = facts.alternatives(made.prediction)
    assert {label for label, _ in others} == set(LABELS) - {made.prediction.label}
    assert sum(share for _, share in others) == pytest.approx(1 - max(made.prediction.probabilities))
    for shown in (terminal.terminal_text([made], colour=False), html.fragment([made])):
        assert all(facts.percent(share) in shown for share in made.prediction.probabilities)


def test_of_many_classes_the_rest_is_added_up() -> None:
    many = load_model(tiny_model("bert", [f"class {i}" for i in range(25)]))
    made = didact.explain(TEXTS[0], many, "occlusion")
    others = facts.alternatives(made.prediction)
    assert len(others) == facts.LISTED_CLASSES + 1
    assert others[-1][0] == "14 more together"
    assert sum(share for _, share in others) == pytest.approx(1 - max(made.prediction.probabilities))
