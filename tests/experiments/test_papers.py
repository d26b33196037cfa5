"""The L2E paper's tables: published numbers, the paper's way of grading, and what was measured beside."""

import itertools
import json
import math
import shutil
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

import numpy as np
import pyarrow as pa
import pytest

from didact.attribution.lime import Lime
from didact.cli import main
from didact.errors import FormatError, InputError, ModelError, ParameterError
from didact.experiments.distillation import grading, labels
from didact.experiments.distillation.fidelity import fidelity
from didact.experiments.distillation.job import DistillationJob
from didact.experiments.distillation.kept import KEPT_NOTE, STABLE_NOTE, kept_table, networks_of, stable_table
from didact.experiments.distillation.labels import LABELS
from didact.experiments.distillation.networks import Network
from didact.experiments.distillation.recipe import DistillationRecipe, learned_label
from didact.experiments.distillation.report import markdown, read_summary
from didact.experiments.distillation.summary import gather, means, versus
from didact.experiments.engine.run import run_job
from didact.experiments.engine.steps import RunOptions
from didact.experiments.papers import l2e, simulability
from didact.experiments.papers.l2e_published import TABLES
from didact.meter import metered
from didact.models.load import load_model
from didact.ops.units import word_spans
from didact.store import files
from didact.store import records as record_store
from didact.trained.explainer import LearnedExplainer
from didact.trained.labels import averaged
from didact.types import Example, Explanation, Prediction, Record, Span, Target, Units

RECIPES = Path(__file__).resolve().parents[2] / "recipes" / "l2e"

STUDY = """
kind = "distillation"
initialisations = 2
chunk = 4
references = [{ method = "occlusion" }, { method = "gradient_x_input", label = "gradient" }]

[more]
occlusion = [["words", "signed_ranking"], ["model", "combined"]]

[model]
source = "default"

[data]
train = { source = "corpus", limit = 8, seed = 1 }
validation = { source = "corpus", limit = 4, seed = 2 }
test = { source = "corpus", limit = 6, seed = 3 }

[network]
width = 8
heads = 2
blocks = 1

[training]
epochs = 1
"""


def job(recipe: Path, out: Path) -> DistillationJob:
    return DistillationJob(DistillationRecipe.from_toml(recipe).on_device("cpu"), RunOptions(out, device="cpu"))


def labelled(recipe: Path, out: Path, earlier: Path | None = None) -> DistillationJob:
    """A study whose first reference has all its labels; those of an earlier run are taken."""
    out.mkdir(parents=True, exist_ok=True)
    if earlier is not None:
        shutil.copy(earlier, out / "labels.parquet")
    made = job(recipe, out)
    made.begin()
    for _, step in made._labelling["occlusion"]:
        made.do(step)
    made.do(made._gathered["occlusion"])
    return made


def missing(made: DistillationJob) -> list[tuple[str, int]]:
    return [place for place, _ in made._labelling["occlusion"]]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a tiny study, and the recipe beside it."""
    folder = tmp_path_factory.mktemp("study")
    recipe = folder / "sst2.toml"
    recipe.write_text(STUDY, encoding="utf-8")
    assert run_job(job(recipe, folder / "sst2")).complete
    return folder


def test_every_published_row_fills_its_columns() -> None:
    for table in TABLES.values():
        for teacher, lines in table.rows.items():
            for who, cells in lines.items():
                assert len(cells) == len(table.columns), (table.number, teacher, who)
    assert set(TABLES) == {1, 2, 3, 4, 5, 7, 8, 9}
    assert TABLES[3].rows["lime"]["L2E"][0] == (12.44, 1.94)
    assert TABLES[2].rows["occlusion"]["A"][2] is None


def test_recipes_can_be_read_and_cover_the_papers_tables_and_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DIDACT_SHARED", "/nowhere")
    studies = [DistillationRecipe.from_toml(path) for path in sorted(RECIPES.glob("*.toml"))]
    assert {number for study in studies for number in study.tables} == set(TABLES)
    assert {number for study in studies for number in study.figures} == {3, 4, 5, 6, 7}
    assert all(
        DistillationJob(study, RunOptions(Path("unused"))).explainer(one.label)
        for study in studies
        for one in study.references[:1]
    )


def test_a_study_measures_teachers_and_learned_explainers(finished: Path) -> None:
    grades = gather(record_store.read(finished / "sst2" / "records.parquet"))
    kinds = {"occlusion", "abs(occlusion)", "gradient", "abs(gradient)", "random"}
    kinds |= {learned_label("tokens", s, t) for s in ("labelling", "ranking") for t in ("occlusion", "gradient")}
    more = {"l2e_words signed_ranking(occlusion)", "l2e_model combined(occlusion)"}
    assert set(grades["log_odds_difference"]) == kinds | more
    assert {len(values) for values in grades["log_odds_difference"].values()} == {6}
    assert set(grades[grading.POSITIVE]) <= kinds
    assert (grades["forwards"]["occlusion"] > 1).all()
    assert (grades["forwards"]["l2e labelling(occlusion)"] == 0).all()


def test_networks_learn_the_average_of_references_and_stand_beside_each(tmp_path: Path) -> None:
    recipe = tmp_path / "both.toml"
    averages = '[averages]\nboth = ["occlusion", "gradient"]\n[texts]\nocclusion = 0\ngradient = 2\nboth = 5\n'
    short = STUDY.replace("initialisations = 2", 'initialisations = 1\nsignals = ["combined"]').replace("6, s", "2, s")
    recipe.write_text(short[: short.index("[more]")] + averages + short[short.index("[model]") :], encoding="utf-8")
    made = job(recipe, tmp_path / "both")
    made.begin()
    (planned,) = made.rounds()
    wanted = ("label/", "gather/", "grade/occlusion", "grade/both", "learn/both/")
    for step in [step for step in planned.steps if step.name.startswith(wanted)]:
        made.do(step)
    both, one, other = (made.labels(label, "test") for label in ("both", "occlusion", "gradient"))
    means = [averaged([a, b]).array for a, b in zip(one, other, strict=True)]
    assert all(np.allclose(got.array, scores) for got, scores in zip(both, means, strict=True))
    assert both[0].cost.forwards == one[0].cost.forwards + other[0].cost.forwards
    assert [made.recipe.settings(label, "tokens", "combined")["texts"] for label in ("both", "gradient")] == [5, 2]
    learned, graded = (
        next(step for step in planned.steps if step.name == name)
        for name in ("learn/both/tokens/combined/0", "grade/both/0")
    )
    assert learned.after == graded.after == {"gather/occlusion", "gather/gradient"}
    made.finish(complete=False)
    summary = read_summary(tmp_path / "both")
    assert summary["facts"]["learn/both/tokens/combined/0"]["texts"] == 5
    assert {(row["learned"], row["reference"]) for row in summary["versus"]} == {
        ("l2e combined(both)", beside) for beside in ("both", "occlusion")
    }
    assert [title for title, *_ in networks_of(summary)] == ["both, combined", "both, combined, beside occlusion"]
    assert "| both, combined, 1 initialisation |" in markdown(summary)


def test_the_report_shows_what_is_kept_and_how_stable_it_is(finished: Path) -> None:
    summary = read_summary(finished / "sst2")
    rows = [line for line in kept_table(summary).splitlines() if line.startswith("| occlusion, combined, copy of")]
    means = summary["means"]
    own, theirs, chance = (
        means[who]["sufficiency"][0] for who in ("l2e_model combined(occlusion)", "occlusion", "random")
    )
    kept = f"{own:.3g} / {theirs:.3g} ({chance:.3g}) = {(own - chance) / (theirs - chance):.2f}"
    assert [kept in line for line in rows] == [True]
    assert stable_table(summary).count("\n") == 2 + 6 - 1  # head and rule, and six networks
    gains = {(row["metric"], row["explainer"]): row for row in summary["above_chance"]}
    assert gains["iou_lexical_top_gain", "random"]["n"] == 6
    assert means["occlusion"][grading.AGAINST][0] <= means["occlusion"]["log_odds_difference"][0]
    report = markdown(summary)
    assert KEPT_NOTE in report
    assert STABLE_NOTE in report
    assert "(planted truth; chance 0.50): log_odds_difference " in report


def test_tables_say_on_how_many_texts_a_metric_is_defined(finished: Path) -> None:
    summary = read_summary(finished / "sst2")
    learned = next(learned for _, learned, _ in networks_of(summary))
    means = summary["means"] | {learned: {name: [*row[:2], 4] for name, row in summary["means"][learned].items()}}
    for table in (kept_table, stable_table):
        assert " (4) |" not in table(summary)
        assert table({**summary, "means": means}).count(" (4) |") > 3


def test_training_texts_can_be_labelled_with_fewer_samples_and_a_reference_graded_alone(tmp_path: Path) -> None:
    own = """signals = ["labelling"]
references = [{ method = "lime", samples = 40 }, { method = "occlusion" }]
labels = { lime = { samples = 24 } }
texts = { occlusion = 0 }
"""
    recipe = tmp_path / "few.toml"
    lines = STUDY.replace("initialisations = 2\n", "initialisations = 1\n").splitlines(keepends=True)
    left = [line for line in lines if not line.startswith(("references", "occlusion ="))]
    recipe.write_text(own + "".join(left), encoding="utf-8")
    made = job(recipe, tmp_path / "few")
    assert run_job(made).complete
    passes = {split: {one.cost.forwards for one in made.labels("lime", split)} for split in ("train", "test")}
    assert max(passes["train"]) < min(passes["test"])  # duplicates are evaluated once: no text has all of them
    assert {place[0] for place in made.chunks("occlusion")} == {"test", "validation"}
    summary = read_summary(tmp_path / "few")
    assert list(summary["facts"]) == ["learn/lime/tokens/labelling/0"]
    beside = {row["reference"] for row in summary["versus"] if row["learned"] == "l2e labelling(lime)"}
    assert beside == {"lime", "occlusion"}
    titles = [line.split("|")[1].strip() for line in kept_table(summary).splitlines()[2:]]
    assert titles == ["lime, labelling", "lime, labelling, beside occlusion"]
    recipe.write_text(own.replace("lime = { samples", "shap = { samples") + "".join(left), encoding="utf-8")
    with pytest.raises(FormatError, match="'shap'"):
        job(recipe, tmp_path / "few")


def test_a_study_that_is_given_again_does_nothing(finished: Path) -> None:
    before = (finished / "sst2" / "records.parquet").read_bytes()
    again = job(finished / "sst2.toml", finished / "sst2")
    with metered() as meter:
        assert run_job(again).complete
    assert meter.forwards == 0
    assert (finished / "sst2" / "records.parquet").read_bytes() == before
    path = again.explainer_path(Network("occlusion", "tokens", "ranking", 1))
    assert LearnedExplainer.from_pretrained(path, device="cpu").about.reference == "occlusion"


def test_explanations_by_the_model_in_float16_are_of_what_the_full_one_predicts(finished: Path) -> None:
    made = job(finished / "sst2.toml", finished / "sst2")
    texts = made.texts["test"][:3]
    rounded = made._rounded(Lime(samples=16), texts)
    assert [one.prediction for one in rounded] == made.model.predict(texts)
    assert [one.target.label for one in rounded] == [one.prediction.label for one in rounded]
    for mine, full in zip(rounded, Lime(samples=16).explain(made.model, texts), strict=True):
        assert 0 < np.abs(mine.array - full.array).max() < 0.02 * np.abs(full.array).max()


def test_grades_of_pieces_are_those_of_all_texts_at_once(
    finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(labels, "PIECE", 4)
    shutil.copytree(finished / "sst2", tmp_path / "sst2")
    made = job(finished / "sst2.toml", tmp_path / "sst2")
    references = [made._grading("occlusion"), *made._controls]
    network = made._learned_grading(Network("occlusion", "tokens", "labelling", 0))
    assert [step.name for step in network] == [
        f"grade/occlusion/tokens/labelling/0/{piece}" for piece in ("corpus", 0, 4)
    ]
    assert network[0].after == {"learn/occlusion/tokens/labelling/0"}
    for step in (step for steps in (*references, network) for step in steps):
        made.do(step)
    before = gather(record_store.read(finished / "sst2" / "records.parquet"))
    after = gather(pa.concat_tables(made.parts.read(step.key) for steps in references for step in steps))
    assert set(after["comprehensiveness"]) == {"occlusion", "abs(occlusion)", "random"}
    for metric, explainers in after.items():
        for who, values in explainers.items():
            assert metric == "seconds" or values == pytest.approx(before[metric][who], rel=1e-5, nan_ok=True)
    made.parts._path(network[1].key).unlink()
    made.finish(complete=False)
    kept = gather(record_store.read(tmp_path / "sst2" / "records.parquet"))
    assert set(kept["comprehensiveness"]) == set(after["comprehensiveness"])  # no explainer of a part of the texts


def test_records_name_settings_and_examples(finished: Path) -> None:
    rows = record_store.from_table(record_store.read(finished / "sst2" / "records.parquet"))
    assert all(row.settings for row in rows)
    texts = job(finished / "sst2.toml", finished / "sst2").texts["test"]
    assert {row.example for row in rows} == {one.id or one.fingerprint for one in texts}
    hashes = {(row.explainer, row.metric): row.settings for row in rows}
    assert hashes["l2e ranking(occlusion)", "both"] != hashes["l2e ranking(gradient)", "both"]
    summary = json.loads((finished / "sst2" / "summary.json").read_text())
    assert "l2e labelling(occlusion)" in summary["speed"]["seconds per text"]
    assert summary["facts"]["learn/occlusion/tokens/ranking/0"]["texts"] == 8


def test_an_encoder_of_its_own_says_which_texts_are_similar(
    finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "sst2.toml"
    path.write_text('encoder = "$ENCODERS/tiny"\n' + STUDY, encoding="utf-8")
    desk = job(path, finished / "sst2")
    with pytest.raises(InputError, match=r"'\$ENCODERS/tiny' names an environment variable that is not set"):
        desk.grade_reference("occlusion", "corpus")
    monkeypatch.setenv("ENCODERS", str(tmp_path))
    with pytest.raises(ModelError, match=f"cannot load the encoder '{tmp_path}/tiny'"):
        desk.grade_reference("occlusion", "corpus")


def test_fidelity_of_a_learned_explainer(finished: Path) -> None:
    desk = job(finished / "sst2.toml", finished / "sst2")
    path = desk.explainer_path(Network("occlusion", "tokens", "ranking", 0))
    explainer = LearnedExplainer.from_pretrained(path, device="cpu")
    found = fidelity(desk.model, explainer, desk.labels("occlusion", "test"), training_seconds=10.0)
    assert found.texts == 6
    assert found.reference == "occlusion"
    assert -1 <= found.close["spearman"].mean <= 1
    # The student learnt sizes, so its row is beside the teacher's sizes: the records' row of abs(occlusion).
    grades = gather(record_store.read(finished / "sst2" / "records.parquet"))
    assert found.kept[0].reference == pytest.approx(grades["log_odds_difference"]["abs(occlusion)"].mean())
    assert found.speed_up == pytest.approx((found.reference_seconds or 0) / (found.own_seconds or 1))
    told = found.markdown()
    assert "6 texts" in told
    assert "the reference is occlusion by the size of its scores" in told
    assert "| faithfulness kept | learned | reference | ratio | n | p |" in told
    assert found.to_dict()["break_even"] == found.break_even
    with pytest.raises(InputError, match="at least one held-out text"):
        fidelity(desk.model, explainer, [])


def test_tables_show_measured_beside_published(finished: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "l2e", "--table", "9", "--results", str(finished)]) == 0
    shown = capsys.readouterr().out
    grades = gather(record_store.read(finished / "sst2" / "records.parquet"))
    row = next(line for line in shown.splitlines() if line.startswith("| occlusion | A |"))
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert cells[4] == "4.84 ± 0.86"  # SST-2, paper
    assert cells[5].startswith(f"**{grades['log_odds_difference']['occlusion'].mean():.2f} ± ")
    assert cells[3] == cells[7] == "–"  # News and CoLA were not measured
    assert "cola: nothing was measured" in shown
    assert main(["reproduce", "l2e", "--results", str(finished)]) == 0
    assert "## Figure 3" in capsys.readouterr().out


def test_tables_compare_what_is_defined_on_the_same_texts() -> None:
    learned = "l2e labelling(lime)"
    rows = {"lime": np.array([1.0, 2.0, 3.0, np.nan]), learned: np.array([np.nan, 4.0, 6.0, 8.0])}
    lines = l2e.table(2, l2e.Results(None, {"sst2": {grading.POSITIVE: rows}})).splitlines()
    own, theirs = ([cell.strip() for cell in line.split("|")][6] for line in lines if line.startswith("| lime |"))
    assert (own[:6], theirs[:6]) == ("**2.50", "**5.00")
    assert own.endswith(" (2)")
    assert theirs.endswith(" (2)")


def test_the_results_in_the_documentation_are_shown_with_their_texts(capsys: pytest.CaptureFixture[str]) -> None:
    results = Path(__file__).parents[2] / "docs" / "results" / "l2e"
    assert main(["reproduce", "l2e", "--table", "3", "--results", str(results)]) == 0
    shown = capsys.readouterr().out
    assert "sst2: minilm-sst2; texts: all + all + 36000 train, 872 validation, 1821 test" in shown
    for learnt in ("lime 10000", "lime 79233"):  # texts of the news and of the films
        assert learnt in shown


@pytest.mark.parametrize(
    ("paper", "tables", "missing"),
    [
        (l2e, (1, 2, 3, 4, 5, 6, 7, 8, 9), set[str]()),
        # Tables 1, 5, 6 and 10 are charts. Table 7 needs a model that answers questions and links phrases.
        (simulability, (3, 4, 7, 8, 9, 11), {"Table 7"}),
    ],
    ids=["l2e", "simulability"],
)
def test_every_number_that_a_paper_prints_has_one_beside_it(
    paper: ModuleType, tables: Sequence[int], missing: set[str]
) -> None:
    results = paper.read(Path(__file__).parents[2] / "docs" / "results" / paper.__name__.rpartition(".")[2])
    empty = set()
    for number in tables:
        for line in paper.table(number, results).splitlines():
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            if any(mine == "–" for printed, mine in itertools.pairwise(cells[1:]) if printed[:1].isdigit()):
                empty.add(f"Table {number}")
    assert empty == missing


def test_random_scores_are_graded_by_their_top_words_where_words_are_labelled(
    finished: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["reproduce", "l2e", "--table", "1", "--results", str(finished)]) == 0
    shown = capsys.readouterr().out
    row = next(line for line in shown.splitlines() if line.startswith("| random | A |"))
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert cells[5] == cells[11] != "–"  # SST-2: ranking and labelling
    assert "random: random scores label no words" in shown
    assert "| random | L2E |" not in shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--table", "10"], "table 10 cannot be reproduced"),
        (["--figure", "8"], "figure 8 cannot be reproduced"),
        (["--results", "no-such-folder"], "there is no folder"),
        (["--recipe", "none.toml"], "name one with --out"),
        (["--recipe", "none.toml", "--out", "x"], "there is no recipe none.toml"),
    ],
)
def test_mistakes_are_told_in_one_line(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["reproduce", "l2e", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_without_results_the_paper_stands_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shown = l2e.table(3, l2e.read())
    assert "8.24 ± 1.3" in shown
    assert "**" not in shown
    assert "sst2: nothing was measured" in shown


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('kind = "distillation"\ntutors = []', "unknown entry 'tutors'"),
        ('kind = "distillation"\nchunk = 3', "model, data, references must be given"),
        (STUDY.replace("initialisations = 2", 'signals = ["rankin"]'), "unknown signal 'rankin'"),
    ],
)
def test_wrong_study_files_are_named(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "wrong.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(FormatError, match=message):
        DistillationRecipe.from_toml(path)


def explained(scores: tuple[float, ...], *, signed: bool = True) -> Explanation:
    example = Example("a b c d")
    units = Units(example, "word", tuple(Span(2 * i, 2 * i + 1) for i in range(4)))
    prediction = Prediction(("no", "yes"), (0.0, 2.0), (0.119, 0.881))
    return Explanation("made", units, scores, Target(1, "yes"), prediction, signed=signed)


class Sum:
    """A model whose "yes" is the sum of the kept words' weights."""

    scales = ("logit",)
    labels = ("no", "yes")
    default_absence = "mask"
    weights = np.array([3.0, -1.0, 0.5, -0.5])

    def score(
        self, units: list[Units], targets: list[Target], keep: list[np.ndarray], absence: str
    ) -> list[np.ndarray]:
        return [(rows @ self.weights) * target.index for rows, target in zip(keep, targets, strict=True)]


def test_labelled_words_are_masked_by_hand() -> None:
    learned, teacher = explained((2.0, -1.0, 1.0, 0.0)), explained((3.0, -0.5, -0.1, 1.0))
    assert grading.labels(learned).tolist() == [2, -1, 1, 0]  # 2 lies above the mean 1.5 of the positive ones
    assert grading.labels(learned, high=0.9).tolist() == [2, -2, 2, 0]
    assert grading.labels(learned, high=2.0).tolist() == [1, -1, 1, 0]
    found = grading.labelled(Sum(), [teacher], [learned], high=1.5)  # type: ignore[arg-type]
    # L2E masks a and c: "yes" falls from 2 to 2 - 3.5; the teacher's two top words are a and d: from 2 to 2 - 2.5.
    theirs, own = found[grading.POSITIVE]
    assert own.tolist() == [pytest.approx(3.5)]
    assert theirs.tolist() == [pytest.approx(2.5)]
    # One negative word: b for both, with which "yes" rises by 1.
    assert [values.tolist() for values in found[grading.NEGATIVE]] == [[pytest.approx(-1.0)], [pytest.approx(-1.0)]]
    # From the only high word, a, the model still says yes (3 > 0), as for the whole text.
    assert [values.tolist() for values in found[grading.LABELLED_AGREEMENT]] == [[1.0], [1.0]]


def test_texts_without_a_choice_are_left_out() -> None:
    everything, nothing = explained((2.0, 1.0, 1.0, 1.0)), explained((-2.0, -1.0, -1.0, -1.0))
    found = grading.labelled(Sum(), [everything] * 2, [everything, nothing], high=None)  # type: ignore[arg-type]
    assert np.isnan(found[grading.POSITIVE][1]).all()


def test_scores_without_sign_have_high_words_only() -> None:
    # mean 1, deviation sqrt(3): high from 2.73 on
    assert grading.labels(explained((4.0, 0.0, 0.0, 0.0), signed=False)).tolist() == [2, 0, 0, 0]


def test_learned_beside_teacher() -> None:
    def rows(name: str, seed: int, values: list[float]) -> list[Record]:
        return [Record(name, "m", seed, "", "x", "", str(i), v, "f", "d", "") for i, v in enumerate(values)]

    table = record_store.to_table(
        [
            *rows("lime", 0, [1.0] * 6),
            *rows("abs(lime)", 0, [2.0] * 6),
            *rows("l2e ranking(lime)", 0, [3.0] * 6),
            *rows("l2e ranking(lime)", 1, [5.0] * 6),
        ]
    )
    grades = gather(table)
    assert means(grades)["l2e ranking(lime)"]["x"] == [4.0, 0.0, 6]  # the mean of both seeds on each text
    first, second = versus(grades)
    assert (first.reference, first.ratio, first.p) == ("lime", 4.0, 0.03125)  # all six larger: 2 / 2^6
    assert (second.reference, second.ratio) == ("abs(lime)", 2.0)
    assert first.adjusted == 0.0625


def test_rationales_count_for_rightly_classified_texts_of_their_label() -> None:
    right = Example("a b c d", label="yes", rationale=(Span(0, 1),))
    wrong = Example("a b c d", label="no", rationale=(Span(0, 1),))
    made = []
    for example in (right, wrong):
        one = explained((4.0, 3.0, 2.0, 1.0))
        units = Units(example, "word", one.units.spans)
        made.append(Explanation("made", units, one.scores, one.target, one.prediction))
    found = grading.rationales(made)
    # 30 % of four words are two, a and b, of which a is marked.
    assert found["rationale yes precision"][0] == 0.5
    assert found["rationale yes recall"][0] == 1.0
    assert np.isnan(found["rationale yes precision"][1])


def test_an_unknown_table_is_refused() -> None:
    with pytest.raises(ParameterError, match="there are 1, 2, 3, 4, 5, 6, 7, 8, 9"):
        l2e.table(10, l2e.Results(None))
    with pytest.raises(ParameterError, match="there are 3, 4, 5, 6, 7"):
        l2e.figure(8, l2e.Results(None))


def test_the_embedded_models_tokens_have_inherited_embeddings() -> None:
    from didact.models.network import NetworkModel
    from didact.trained.shapes.scorer import Scorer, ScorerConfig

    model = load_model("default", device="cpu")
    assert isinstance(model, NetworkModel)
    config = ScorerConfig(labels=model.labels, width=64, reading="tokens")
    scorer = Scorer.for_texts(model.units([Example("good")]), config, tokenizer=model.tokenizer)
    scorer.inherit(model.network.get_input_embeddings().weight)
    table = scorer.embedding.weight.detach().numpy()[2 : 2 + len(model.tokenizer)]
    near, far = (
        [float(np.dot(*(table[model.tokenizer.convert_tokens_to_ids(word)] for word in pair)))]
        for pair in (("good", "great"), ("good", "terrible"))
    )
    assert near > far


def test_labels_of_an_earlier_run_are_taken_and_only_the_missing_ones_made(tmp_path: Path) -> None:
    recipe = tmp_path / "few.toml"
    recipe.write_text(STUDY.replace("limit = 8", "limit = 4"), encoding="utf-8")
    few = labelled(recipe, tmp_path / "few")
    few.finish(complete=False)
    recipe.write_text(STUDY, encoding="utf-8")
    more = labelled(recipe, tmp_path / "more", tmp_path / "few" / "labels.parquet")
    assert missing(more) == [("train", 4)]  # of 8 texts the first 4 are known
    assert len(more.labels("occlusion", "train")) == 8
    assert more.labels("occlusion", "train")[:4] == few.labels("occlusion", "train")


def test_taken_labels_serve_whichever_split_their_texts_are_in(tmp_path: Path) -> None:
    recipe = tmp_path / "few.toml"
    recipe.write_text(STUDY, encoding="utf-8")
    first = labelled(recipe, tmp_path / "first")
    first.finish(complete=False)
    recipe.write_text(STUDY.replace("limit = 6, seed = 3", "limit = 4, seed = 2"), encoding="utf-8")
    second = labelled(recipe, tmp_path / "second", tmp_path / "first" / "labels.parquet")
    assert missing(second) == []
    assert second.labels("occlusion", "test") == first.labels("occlusion", "validation")


def test_taken_labels_stay_with_their_texts_when_the_order_is_another(tmp_path: Path) -> None:
    recipe = tmp_path / "other.toml"
    recipe.write_text(STUDY, encoding="utf-8")
    first = labelled(recipe, tmp_path / "first")
    rows = first._gather_rows("occlusion").to_pylist()
    many = sum(row["split"] == "train" for row in rows)
    turned = [row | {"number": many - 1 - row["number"]} if row["split"] == "train" else row for row in rows]
    strange = turned[0] | {"text": "0" * 16}  # of a text that is none of these
    files.write(tmp_path / "turned.parquet", pa.Table.from_pylist([*turned, strange], LABELS))
    second = labelled(recipe, tmp_path / "second", tmp_path / "turned.parquet")
    assert missing(second) == []
    assert second.labels("occlusion", "train") == first.labels("occlusion", "train")
    lost = turned.pop()
    files.write(tmp_path / "turned.parquet", pa.Table.from_pylist(turned, LABELS))
    third = labelled(recipe, tmp_path / "third", tmp_path / "turned.parquet")
    [(place, step)] = third._labelling["occlusion"]
    assert place[0] == lost["split"]
    assert third.parts.read(step.key)["text"].to_pylist() == [lost["text"]]  # the other texts of the chunk are known


def test_labels_of_another_setting_are_not_taken(tmp_path: Path) -> None:
    recipe = tmp_path / "first.toml"
    recipe.write_text(STUDY, encoding="utf-8")
    labelled(recipe, tmp_path / "first").finish(complete=False)
    changed = STUDY.replace('method = "occlusion"', 'method = "occlusion", span = 2')
    recipe.write_text(changed, encoding="utf-8")
    second = labelled(recipe, tmp_path / "second", tmp_path / "first" / "labels.parquet")
    assert len(missing(second)) == len(list(second.chunks("occlusion")))


def test_some_networks_may_be_trained_otherwise(tmp_path: Path) -> None:
    recipe = tmp_path / "own.toml"
    changes = """
[[changes]]
reference = "occlusion"
training = { epochs = 2 }

[[changes]]
signal = "ranking"
network = { width = 16 }
training = { epochs = 3 }
texts = 5

[[changes]]
reading = "words"
network = { width = 32 }
"""
    recipe.write_text(STUDY + changes, encoding="utf-8")
    study = DistillationRecipe.from_toml(recipe)
    found = {
        (reference, signal): (own["network"]["width"], own["training"]["epochs"], own["texts"])
        for reference in ("occlusion", "gradient")
        for signal in ("labelling", "ranking")
        for own in [study.settings(reference, "tokens", signal)]
    }
    assert list(found.values()) == [(8, 2, None), (16, 3, 5), (8, 1, None), (16, 3, 5)]
    assert study.settings("occlusion", "words", "ranking")["network"]["width"] == 32
    made = labelled(recipe, tmp_path / "work")
    step = made._learning(Network("occlusion", "tokens", "ranking", 0))
    made.do(step)
    facts = made._facts(step)
    assert (facts["epochs"], facts["texts"]) == (3, 5)
    recipe.write_text(STUDY + changes.replace("signal =", "signals ="), encoding="utf-8")
    with pytest.raises(FormatError, match="change 2: unknown entry 'signals'"):
        DistillationRecipe.from_toml(recipe)
    for given, wrong in (
        ('"words"', "reading 'wards'"),
        ('"ranking"', "signal 'wards'"),
        ('"occlusion"', "reference 'wards'"),
    ):
        recipe.write_text(STUDY + changes.replace(given, '"wards"'), encoding="utf-8")
        with pytest.raises(FormatError, match=f"unknown {wrong}"):
            DistillationRecipe.from_toml(recipe)


def test_a_split_may_have_several_sources_and_a_teacher_fewer_texts(tmp_path: Path) -> None:
    both = '[{ source = "corpus", limit = 8, seed = 1 }, { source = "corpus", limit = 9, seed = 1, words = 16 }]'
    recipe = tmp_path / "both.toml"
    recipe.write_text(
        STUDY.replace('{ source = "corpus", limit = 8, seed = 1 }', both).replace(
            "[model]", "[texts]\nocclusion = 4\n[model]"
        ),
        encoding="utf-8",
    )
    desk = job(recipe, tmp_path / "work")
    texts = desk.texts["train"]
    assert len(texts) == len({one.text for one in texts}) > 8
    assert all(len(one.text.split()) >= 16 for one in texts[8:])
    assert [chunk for chunk in desk.chunks("occlusion") if chunk[0] == "train"] == [("train", 0)]
    assert len([chunk for chunk in desk.chunks("gradient") if chunk[0] == "train"]) > 1


def test_lines_are_texts_and_what_is_graded_is_not_learnt_from(tmp_path: Path) -> None:
    reviews = [{"text": "one two three\n\nfour\n five six seven "}, {"text": "one two three\neight nine ten eleven"}]
    graded = [{"text": "eight nine ten eleven"}, {"text": "twelve thirteen fourteen"}]
    for name, rows in (("reviews", reviews), ("graded", graded)):
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        (tmp_path / f"{name}.jsonl").write_text(lines, encoding="utf-8")
    recipe = tmp_path / "lines.toml"
    study = STUDY.replace(
        '{ source = "corpus", limit = 8, seed = 1 }',
        f'{{ source = "{tmp_path}/reviews.jsonl", lines = true, words = 3 }}',
    ).replace('{ source = "corpus", limit = 6, seed = 3 }', f'{{ source = "{tmp_path}/graded.jsonl" }}')
    recipe.write_text(study, encoding="utf-8")
    desk = job(recipe, tmp_path / "work")
    assert [one.text for one in desk.texts["train"]] == ["one two three", "five six seven"]
    assert [one.text for one in desk.texts["test"]] == [row["text"] for row in graded]


def test_reviews_are_compared_by_all_words_by_annotated_ones_and_without_stop_words() -> None:
    def review(text: str, scores: list[float], marked: str) -> Explanation:
        at = text.index(marked)
        example = Example(text, rationale=(Span(at, at + len(marked)),))
        units = Units(example, "word", tuple(word_spans(text)))
        prediction = Prediction(("no", "yes"), (0.0, 1.0), (0.27, 0.73))
        return Explanation("lime", units, tuple(scores), Target(1, "yes"), prediction)

    one = review("the plot was good fun", [1, 0, 0, 1, 1], "good fun")
    other = review("the songs were good here", [1, 0, 0, 1, 0], "songs were good")
    found = grading.stability([one, other])
    # All weights of a text are equal, so all such words are low positive: {the, good, fun} and {the, good}; {good, fun}
    # and {good}; and the same without "the", a stop word.
    assert found["iou all words"] == pytest.approx([2 / 3] * 2)
    assert found["iou annotated words"] == pytest.approx([1 / 2] * 2)
    assert found["iou without stop words"] == pytest.approx([1 / 2] * 2)


def test_peoples_rationales_are_compared_among_reviews_of_the_label_that_people_gave(tmp_path: Path) -> None:
    rows = [
        {"text": "good fun, a good plot", "label": "pos", "rationale": [[0, 8]]},
        {"text": "good songs, a good plot", "label": "pos", "rationale": [[0, 4]]},
        {"text": "bad songs, a bad plot", "label": "neg", "rationale": [[0, 9]]},
        {"text": "bad songs, a good plot", "label": "neg", "rationale": [[4, 9]]},
    ]
    (tmp_path / "reviews.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    recipe = tmp_path / "reviews.toml"
    test = f'{{ source = "{tmp_path}/reviews.jsonl" }}'
    recipe.write_text(STUDY.replace('{ source = "corpus", limit = 6, seed = 3 }', test), encoding="utf-8")
    desk = job(recipe, tmp_path / "work")
    names = [[step.name for step in steps] for steps in desk._controls]
    assert names == [["grade/random/corpus", "grade/random/0"], ["grade/human"]]
    found = gather(desk.grade_human())
    # {good, fun} and {good}; {bad, songs} and {songs}.
    assert found["iou all words"]["human"] == pytest.approx([1 / 2] * 4)
    assert found["iou annotated words"]["human"] == pytest.approx([1 / 2] * 4)
    assert versus(found | {"iou all words": found["iou all words"] | {"l2e labelling(lime)": np.zeros(4)}}) == []


def test_the_report_leaves_out_what_is_undefined(finished: Path) -> None:
    summary = read_summary(finished / "sst2")
    rows = [dict(row, n=0) if row["metric"] == "iou_semantic_top" else row for row in summary["versus"]]
    rows = [dict(row, ratio=math.nan) if row["metric"] == "comprehensiveness" else row for row in rows]
    means = {who: {**known, "iou_semantic_top": [math.nan, math.nan, 0]} for who, known in summary["means"].items()}
    shown = markdown({**summary, "versus": rows, "means": means}).split("learned / reference = ratio")[0]
    assert "nan" not in shown
    assert "IoU semantic, top" not in shown
    assert "IoU lexical, top" in shown
    lines = [line.split("|") for line in shown.splitlines() if line.startswith("| occlusion, labelling")]
    assert ["=" in line[6] for line in lines] == [False]  # comprehensiveness
    assert ["=" in line[5] for line in lines] == [True]


def test_sizes_of_the_data_and_the_last_figure_stand_in_the_output(finished: Path) -> None:
    results = l2e.read(finished)
    assert "| sst2 | 6,920 | **8** | 872 | **4** | 1,821 | **6** | 17 | **" in l2e.table(6, results)
    assert "| cola | 8,551 | – |" in l2e.table(6, results)
    assert "movie_rationales: nothing was measured" in l2e.figure(7, results)
