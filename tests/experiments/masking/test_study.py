"""A study of explainers trained for metrics, from the recipe to the report and the paper's tables."""

import pickle
import re
import tomllib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from didact.cli import main
from didact.errors import FormatError, InputError, ParameterError
from didact.experiments.engine.run import run_recipe
from didact.experiments.engine.steps import RunOptions
from didact.experiments.kinds.masking import MaskingKind
from didact.experiments.masking.findings import MaskingFindings
from didact.experiments.masking.job import MaskingJob
from didact.experiments.masking.recipe import MaskingRecipe
from didact.experiments.masking.report import markdown, tables
from didact.experiments.papers import aml
from didact.experiments.papers.aml_published import FAITHFULNESS
from didact.store import records as record_store
from didact.types import Floats

SMALL = """
name = "sst2"
tables = [1, 4, 5]
chunk = 3
timed = 2
rivals = ["gradient_x_input", "occlusion"]
optimise = ["comp"]
unseen = ["rationale_f1"]
ablations = ["destroy"]
ablated = ["comp"]
selections = { best_of_two = ["gradient_x_input", "occlusion"] }
model = { source = "default" }
explainer = { epochs = 1 }
search = { trials = 2, epochs = 1, train = 4, validation = 2 }
refinement = { steps = 1 }
simulability = { sizes = [4], subsets = 2 }
[data]
train = { source = "corpus", limit = 6, seed = 1 }
validation = { source = "corpus", limit = 2, seed = 2 }
test = { source = "corpus", limit = 6, seed = 3 }
"""
LABELS = {
    "gradient_x_input",
    "occlusion",
    "random",
    "paml comp",
    "faml comp",
    "paml comp without destroy",
    "faml comp without destroy",
}


def recipe(**changes: object) -> MaskingRecipe:
    return MaskingRecipe.from_dict({**tomllib.loads(SMALL), **changes})


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("optuna")
    folder = tmp_path_factory.mktemp("masking") / "sst2"
    assert run_recipe(recipe().on_device("cpu"), RunOptions(folder, device="cpu")).complete
    return folder


@pytest.fixture(scope="module")
def findings(run: Path) -> MaskingFindings:
    return MaskingFindings.read(run)


def test_processes_of_a_search_load_the_explained_model_themselves(tmp_path: Path) -> None:
    job = MaskingJob(recipe().on_device("cpu"), RunOptions(tmp_path, device="cpu"))
    load = pickle.loads(pickle.dumps(job.load))
    assert load().fingerprint() == job.model.fingerprint()


def test_every_explainer_is_graded_by_every_metric(findings: MaskingFindings) -> None:
    for metric in ("suff", "lo", "comp", "aopc_suff", "aopc_comp", "rationale_f1"):
        assert set(findings.grades[metric]) == LABELS
        assert all(np.isfinite(values).all() for values in findings.grades[metric].values())


def test_texts_can_be_left_out_of_the_findings(run: Path, findings: MaskingFindings) -> None:
    names = record_store.read(run / "records.parquet")["example"].unique().to_pylist()
    fewer = MaskingFindings.read(run, without=names[:2])
    assert fewer.texts == findings.texts - 2 == len(fewer.grades["comp"]["occlusion"])
    everything = sorted(findings.grades["comp"]["occlusion"])
    assert all(value in everything for value in fewer.grades["comp"]["occlusion"])


def test_the_weights_are_those_that_the_search_rated_best(findings: MaskingFindings) -> None:
    search = findings.summary["searches"]["search/comp"]
    assert search["trials"] == 2
    assert search["failed"] == []
    assert findings.summary["training"]["train/comp"]["weights"] == search["best"]
    lacking = findings.summary["training"]["train/comp/without destroy"]["weights"]
    assert lacking == {**search["best"], "destroy": 0.0}


def test_a_refined_map_is_never_worse_on_the_metric_that_chose_it(findings: MaskingFindings) -> None:
    known = findings.grades["comp"]
    assert (known["faml comp"] >= known["paml comp"] - 1e-5).all()


def test_a_selection_is_the_best_of_its_members_text_by_text(findings: MaskingFindings) -> None:
    for metric, best in (("comp", np.maximum), ("suff", np.minimum)):
        known = findings.grades[metric]
        wanted = best(known["gradient_x_input"], known["occlusion"])
        np.testing.assert_array_equal(findings.selected("best_of_two", metric), wanted)


def test_students_learn_from_every_explainer_and_random_is_a_control(findings: MaskingFindings) -> None:
    gains = {row["method"]: row for row in findings.summary["simulability"]["gains"]}
    assert set(gains) == {"none", *LABELS} - {label for label in LABELS if "without" in label}
    assert gains["random"]["control"]


def test_one_pass_is_at_most_two_forwards_and_times_are_measured(findings: MaskingFindings) -> None:
    timed = findings.summary["speed"]["explainers"]
    assert set(timed) == {"gradient_x_input", "occlusion", "random", "paml", "faml"}
    assert timed["paml"]["forwards"] <= 2
    assert timed["paml"]["backwards"] == 0
    assert timed["faml"]["backwards"] > 0
    assert all(row["seconds"] > 0 for row in timed.values())


def test_the_report_has_what_was_not_trained_for_beside_the_rest(run: Path, findings: MaskingFindings) -> None:
    titles = [title for title, _ in tables(findings)]
    assert titles == [
        "Each trained for the metric of its column",
        "Each metric, whatever was trained for",
        "Without a term of the loss",
        "Students in closed form",
        "Weights of the loss",
        "Time",
    ]
    text = markdown(findings)
    assert "too few for significant differences between explainers" in text
    assert "| *random* |" in text
    assert "rationale\\_f1" in text
    assert "best\\_of\\_two" in text


def test_the_paper_tables_show_what_was_measured_beside_the_printed_numbers(
    run: Path, findings: MaskingFindings, capsys: pytest.CaptureFixture[str]
) -> None:
    measured = aml.read(run.parent)
    lines = aml.table(1, measured).splitlines()
    faml = next(line for line in lines if line.startswith("| faml |"))
    assert "0.576 / 0.638 / 0.467" in faml
    assert f"**{findings.grades['comp']['faml comp'].mean():.3f} ±" in faml
    assert any(line.startswith("| best\\_of\\_two |") for line in lines)
    assert "| faml without destroy | 0.01 | 0.67 | **" in aml.table(4, measured)  # a column for what was measured alone
    assert re.search(r"\| paml \| 0\.01 s \| 0\.01 s \| \*\*[\d.e-]+ s\*\*", aml.table(5, measured))
    assert main(["reproduce", "aml", "--table", "4", "--results", str(run)]) == 0
    assert "sst2: default; 6 training, 2 validation and 6 test texts." in capsys.readouterr().out


def test_a_dry_run_counts_and_computes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "small.toml"
    path.write_text(f'kind = "masking"\n{SMALL}', encoding="utf-8")
    assert main(["run", str(path), "--dry-run", "--out", str(tmp_path / "out"), "--device", "cpu"]) == 0
    assert not (tmp_path / "out").exists()
    shown = capsys.readouterr().out
    rows = {line.split("  ")[0]: line.replace(",", "").split()[-5:-3] for line in shown.splitlines()}
    # 2 trainings of 6 texts, one epoch: a prediction and two passes of the loss each; 2 validation texts are judged too
    assert rows["training"] == [str(2 * 6 * 3 + 2 * 2 * (1 + 2 + 1)), str(2 * 6 * 2)]
    assert {"search", "training", "occlusion", "paml comp", "faml comp", "all grades"} <= set(rows)


def test_a_kind_without_a_dry_run_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "recipes/simulability/quick.toml", "--dry-run"]) == 2
    assert "a recipe of simulability has no dry run" in capsys.readouterr().err


def test_validation_texts_that_are_test_texts_are_left_out(tmp_path: Path) -> None:
    data = {
        "train": {"source": "corpus", "limit": 4, "seed": 1},
        "validation": {"source": "corpus", "limit": 6, "seed": 3},
        "test": {"source": "corpus", "limit": 4, "seed": 3},
    }
    job = MaskingKind().job(recipe(data=data), RunOptions(tmp_path, device="cpu"))
    tested = {one.fingerprint for one in job.texts["test"]}
    assert job.validation
    assert not tested & {one.fingerprint for one in job.validation}
    data["validation"] = data["test"]
    with pytest.raises(InputError, match="every validation text is a test text"):
        _ = MaskingKind().job(recipe(data=data), RunOptions(tmp_path, device="cpu")).validation


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"optimise": ["robust_sufficiency"]}, "unknown metric 'robust_sufficiency'"),
        (
            {"metrics": ["seed_stability"], "optimise": [], "ablations": []},
            "seed_stability needs repeats; leave it out",
        ),
        (
            {"metrics": ["forwards"], "optimise": [], "ablations": []},
            "forwards cannot choose between explanations, as it measures their cost",
        ),
        ({"metrics": []}, "metrics is empty"),
        ({"unseen": ["comp"]}, "a metric is in metrics and in unseen"),
        ({"ablations": ["dropout"]}, "unknown weight of the loss 'dropout'.*preserve"),
        ({"selections": {"best": ["lime"]}}, r"\[selections\] best: unknown rival 'lime'"),
        ({"selections": {"occlusion": ["occlusion"]}}, "'occlusion' is the name of another explainer"),
        ({"rivals": ["random"]}, "'random' is the name of another explainer"),
        ({"rivals": [{"method": "lime", "label": "faml comp"}], "selections": {}}, "name of another explainer"),
        ({"explainer": {"epoch": 3}}, r"\[explainer\]: unknown setting of aml: 'epoch'"),
        ({"refinement": {"steps": 0}}, r"\[refinement\]: steps of refinement must be at least 1"),
        ({"search": {"trial": 3}}, r"\[search\]: unknown entry 'trial'"),
        ({"data": {"train": {"source": "corpus"}}}, "validation, test must be given"),
    ],
)
def test_what_cannot_be_studied_is_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(FormatError, match=message):
        recipe(**changes)


@pytest.mark.parametrize("path", sorted(Path("recipes/aml").glob("*.toml")), ids=lambda path: path.stem)
def test_every_recipe_of_the_paper_is_read(path: Path) -> None:
    read = MaskingRecipe.from_toml(path)
    assert read.name == path.stem
    assert set(read.tables) <= set(aml.TITLES)


# Findings from made-up grades.


def made_up(findings: MaskingFindings, grades: dict[str, dict[str, Floats]], **summary: object) -> MaskingFindings:
    return replace(findings, grades=grades, summary={**findings.summary, **summary})


def drawn(means: dict[str, float], texts: int = 300) -> dict[str, Floats]:
    rng = np.random.default_rng(0)
    return {label: rng.normal(mean, 0.1, texts) for label, mean in means.items()}


def test_verdicts_follow_the_numbers(findings: MaskingFindings) -> None:
    comp = drawn(
        {
            "faml comp": 0.5,
            "paml comp": 0.3,
            "gradient_x_input": 0.2,
            "occlusion": 0.4,
            "random": 0.1,
            "paml comp without destroy": 0.2,
            "faml comp without destroy": 0.5,
        }
    )
    f1 = drawn({"faml comp": 0.1, "paml comp": 0.4, "gradient_x_input": 0.5, "occlusion": 0.3, "random": 0.2})
    failed = {"search/comp": {"trials": 30, "failed": [[3, "the metric is nan"]]}}
    made = made_up(findings, {"comp": comp, "rationale_f1": f1}, searches=failed)
    text = "\n".join(made.sentences)
    lead = "faml is best, or not significantly different from the best, on"
    assert f"{lead} 1 of 1 metrics against other methods as they are" in text
    assert "that do not search by a metric" not in text
    assert "paml against gradient_x_input: better on comp, worse on none." in text
    assert "paml against occlusion: better on none, worse on comp." in text
    assert re.search(r"paml without destroy: comp -0\.\d+ \(worse\)", text)
    assert "faml without destroy: comp" in text
    assert "Warning: on rationale_f1, which they were not trained for, faml comp are worse than random scores." in text
    assert "worse than gradient_x_input" in text
    assert "1 of 30 trials of search/comp failed; trial 3: the metric is nan" in text


def test_rivals_that_search_by_the_metric_stand_apart(findings: MaskingFindings) -> None:
    rivals = ["gradient_x_input", {"method": "solvex", "label": "solvex_comp"}]
    means = {"faml comp": 0.5, "paml comp": 0.3, "gradient_x_input": 0.2, "solvex_comp": 0.7, "random": 0.1}
    made = replace(made_up(findings, {"comp": drawn(means)}), recipe=recipe(rivals=rivals, selections={}))
    text = "\n".join(made.sentences)
    assert "on 0 of 1 metrics against other methods as they are" in text
    assert (
        "on 1 of 1 metrics against other methods that do not search by a metric (all but solvex_comp) (comp)." in text
    )


def test_a_selection_with_the_same_right_can_take_the_lead_away(findings: MaskingFindings) -> None:
    rng = np.random.default_rng(1)
    first = rng.random(300) < 0.5  # each rival is right on other texts, so that together they are right on all
    comp = drawn({"faml comp": 0.5, "paml comp": 0.3, "random": 0.1})
    comp |= {"gradient_x_input": np.where(first, 0.8, 0.0), "occlusion": np.where(first, 0.0, 0.8)}
    made = made_up(findings, {"comp": comp})
    text = "\n".join(made.sentences)
    assert "on 1 of 1 metrics against other methods as they are" in text
    assert "on 0 of 1 metrics against other methods with the same selection" in text


def test_the_micro_average_counts_words_of_all_texts_together(findings: MaskingFindings) -> None:
    counts = {"hits": [1.0, 3.0], "selected": [2.0, 4.0], "gold": [5.0, 3.0]}
    grades = {f"rationale_f1: {part}": {"occlusion": np.array(values)} for part, values in counts.items()}
    assert made_up(findings, grades).micro("occlusion", "rationale_f1") == pytest.approx(2 * 4 / (6 + 8))


def test_tables_that_do_not_exist_and_folders_without_runs_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="table 6 cannot be reproduced; there are 1, 2, 3, 4, 5"):
        aml.table(6, aml.Measured(None))
    with pytest.raises(InputError, match="holds no finished run of kind masking"):
        aml.read(tmp_path)


def test_printed_numbers_are_those_of_the_paper() -> None:
    """Spot checks against the fact sheet: BERT on SST-2 and IMDB."""
    published = FAITHFULNESS[1]
    assert [values[2] for values in published["sst2"]["faml"].values()] == [-0.010, -1.994, 0.467, 0.021, 0.286]
    assert [values[2] for values in published["imdb"]["paml"].values()] == [0.029, -3.274, 0.611, 0.076, 0.256]
    assert "solvex" not in published["imdb"]
    assert published["emotion"]["lime"]["lo"] == (-3.814, -1.911, -2.897)
