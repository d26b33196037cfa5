"""A learned explainer beside its reference and random scores, by metrics whose values are known."""

import dataclasses
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from didact.attribution.occlusion import Occlusion
from didact.errors import FormatError
from didact.experiments.masking.judges import PANEL, panel
from didact.models.load import load_model
from didact.protocols import Model
from didact.testing.tiny import keyword_predict
from didact.trained.explainer import LearnedExplainer
from didact.trained.held_out_panel import HeldOutPanel, held_out_panel, panel_value, random_scores
from didact.trained.judging import Judge
from didact.trained.train import train
from didact.types import Explanation, Floats

WORDS = ("wonderful", "warm", "good", "dull", "worse", "avoid", "film", "plot", "acting", "the", "a", "with", "saw")


def texts(count: int) -> list[str]:
    rng = np.random.default_rng(0)
    return [" ".join(rng.permutation(WORDS)[: rng.integers(4, 10)]) for _ in range(count)]


@pytest.fixture(scope="module")
def model() -> Model:
    return load_model(keyword_predict, labels=("negative", "positive"))


@pytest.fixture(scope="module")
def reference(model: Model) -> list[Explanation]:
    return Occlusion().explain(model, texts(40))


def reversed_scores(explanations: Sequence[Explanation]) -> list[Explanation]:
    return [dataclasses.replace(one, scores=tuple(-score for score in one.scores)) for one in explanations]


def test_the_reference_itself_keeps_all_and_random_scores_nothing(model: Model, reference: list[Explanation]) -> None:
    same = held_out_panel(panel(), model, reference, reference)
    assert [row.metric for row in same.rows] == list(PANEL)
    assert [row.kept for row in same.rows] == pytest.approx([1.0] * 5)
    assert {row.beside_reference for row in same.rows} == {"alike"}
    assert {row.beside_chance for row in same.rows} == {"better"}
    assert "keeps 1.00 of what occlusion gains over random scores" in same.sentence("occlusion")
    assert "by no metric significantly different from occlusion; better than random" in same.sentence("occlusion")
    random = held_out_panel(panel(), model, random_scores(reference), reference)
    assert [row.kept for row in random.rows] == pytest.approx([0.0] * 5)
    assert "not significantly better than random scores by log_odds_difference" in random.sentence("occlusion")


def test_what_is_significantly_worse_is_named(model: Model, reference: list[Explanation]) -> None:
    worse = held_out_panel(panel(), model, reversed_scores(reference), reference)
    assert all(row.kept < 0 and row.beside_reference == "worse" for row in worse.rows)
    assert f"significantly worse than occlusion by {', '.join(PANEL)}" in worse.sentence("occlusion")
    heads, rows = worse.table("occlusion")
    assert heads[2] == "occlusion"
    assert rows[2][0] == "sufficiency ↓"
    assert rows[0][4].endswith("(worse)")


def test_texts_without_a_value_are_counted_and_left_out_of_all_means(
    model: Model, reference: list[Explanation]
) -> None:
    def grade(_: Model, explanations: Sequence[Explanation]) -> Floats:
        return np.array([np.nan if place < 4 else max(one.scores) for place, one in enumerate(explanations)])

    found = held_out_panel([Judge("largest", False, grade)], model, reference, reference)
    assert (found.rows[0].n, found.rows[0].left_out) == (36, 4)
    assert found.rows[0].learned == pytest.approx(np.mean([max(one.scores) for one in reference[4:]]))
    assert "36 held-out texts (4 left out)" in found.sentence("occlusion")


def test_where_the_reference_is_no_better_than_chance_nothing_is_said_to_be_kept(
    model: Model, reference: list[Explanation]
) -> None:
    useless = random_scores(reference, seed=1)
    found = held_out_panel(panel(), model, reference, useless)
    assert math.isnan(found.kept)
    assert "By none of 5 metrics random is significantly better than random scores" in found.sentence("random")
    assert found.table("random")[1][0][4] == "–"
    assert held_out_panel(panel(), model, [], []).sentence("x") == (
        "No held-out texts: its faithfulness was not measured."
    )


def test_epochs_are_compared_on_one_scale(model: Model, reference: list[Explanation]) -> None:
    value = panel_value(panel(), model, reference)
    assert value is not None
    assert value(reference) == 0
    assert 0 > value(random_scores(reference)) > value(reversed_scores(reference))


def test_where_no_metric_tells_anything_there_is_nothing_to_compare_by(
    model: Model, reference: list[Explanation]
) -> None:
    same = Judge("same", False, lambda _, explanations: np.ones(len(explanations)))
    nowhere = Judge("nowhere", False, lambda _, explanations: np.full(len(explanations), np.nan))
    assert panel_value([same, nowhere], model, reference) is None


def test_it_is_saved_with_the_explainer_and_shown_on_its_card(
    model: Model, reference: list[Explanation], tmp_path: Path
) -> None:
    seen: list[int] = []

    def grade(_: Model, explanations: Sequence[Explanation]) -> Floats:
        seen.append(len(explanations))
        return np.array([one.scores[0] for one in explanations])

    judges = [*panel()[:1], Judge("first_unit", True, grade)]
    settings = {"width": 16, "blocks": 1, "min_count": 1, "dropout": 0.0, "epochs": 3}
    made = train("l2e", model, reference, panel=judges, **settings)  # type: ignore[arg-type]
    assert seen == [6] * 5 + [6] * 3  # reference, chance and three epochs on validation; then three sets held out
    assert made.about.panel is not None
    assert "it keeps" in made.verdict or "By none of 2 metrics" in made.verdict
    made.save_pretrained(tmp_path)
    readme = (tmp_path / "README.md").read_text("utf-8")
    assert "## Beside its reference and random scores" in readme
    assert "| first\\_unit ↓ |" in readme
    loaded = LearnedExplainer.from_pretrained(tmp_path, device="cpu")
    assert loaded.about.panel == made.about.panel
    with pytest.raises(FormatError, match="not a panel of metrics"):
        HeldOutPanel.from_dict({"rows": [{"metric": "x"}]})
