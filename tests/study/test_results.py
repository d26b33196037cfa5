"""What the analysis says of raters whose preferences are planted, from a study on disk to its report and export."""

import csv
import json
import math
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from didact.cli import main
from didact.experiments.people.report import as_json, page, tables
from didact.store import explanations as explanation_store
from didact.study.design import StudyDesign
from didact.study.export import export
from didact.study.gains import analyse_gains
from didact.study.material import StudyMaterial
from didact.study.rankings import analyse_rankings
from didact.study.results import StudyResults, study_results
from didact.study.rows import StudyAnswer, attention
from didact.study.session import Study
from didact.study.simulated import PlantedRaters, go_through, made_up_explanations
from didact.study.skill import skill_ratings
from tests.study.conftest import Make, codes_of

RANKED = ("lime", "attention", "random")
WORTHS = {"lime": 1.2, "attention": 0.0, "random": -1.2}


def rank_rows(raters: int = 12, items: int = 20, **planted: object) -> tuple[StudyDesign, list[StudyAnswer]]:
    design = StudyDesign(protocol="rank", explainers=RANKED, items=items, raters=raters, check_every=4)
    material = StudyMaterial.chosen(made_up_explanations(RANKED[:2], 40), design)
    return design, PlantedRaters(**({"worths": WORTHS} | planted)).rows(design, material)  # type: ignore[arg-type]


def test_a_planted_order_is_recovered_with_intervals_and_agreement() -> None:
    _, rows = rank_rows()
    found = analyse_rankings(rows, RANKED, resamples=300)
    assert found is not None
    assert [each.name for each in found.explainers] == ["lime", "attention", "random"]
    assert [(each.best, each.worst) for each in found.explainers] == [(1, 1), (2, 2), (3, 3)]
    assert all(each.worth.low < each.worth.value < each.worth.high for each in found.explainers)
    assert found.beats("lime") == ["attention", "random"]
    assert 0.1 < found.between.value < 0.9
    assert 0.0 < found.within.mean < 1.0
    assert found.repeats == 12 * 6
    assert sum(each.first for each in found.explainers) == pytest.approx(1.0)
    assert np.mean(found.places) == pytest.approx(2.0)


def test_raters_without_preferences_put_nobody_first() -> None:
    _, rows = rank_rows(worths={})
    found = analyse_rankings(rows, RANKED, resamples=300)
    assert found is not None
    assert not any(pair.significant for pair in found.pairs)
    assert {(each.best, each.worst) for each in found.explainers} == {(1, 3)}


def test_a_gain_is_found_where_one_is_planted_and_nowhere_else() -> None:
    design = StudyDesign(protocol="simulate", explainers=("lime", "random"), items=24, learning=4, raters=36)
    material = StudyMaterial.chosen(made_up_explanations(("lime",), 40), design)
    rows = PlantedRaters(gains={"lime": 0.3, "none": 0.05, "random": 0.05}).rows(design, material)
    found = analyse_gains(rows, design.arms)
    assert found is not None
    assert found.arms[0].arm == "none"
    by_arm = {arm.arm: arm for arm in found.arms}
    assert [arm.arm for arm in found.arms if arm.helps] == ["lime"]
    over = by_arm["lime"].over_none
    assert over is not None
    assert over.low < 0.25 < over.high
    assert by_arm["lime"].gain.value == pytest.approx(by_arm["lime"].after - by_arm["lime"].before)
    assert found.chance == 0.5
    assert found.answers == 36 * 24


def test_arms_of_two_raters_have_a_gain_and_no_interval() -> None:
    design = StudyDesign(protocol="simulate", explainers=("lime",), items=6, learning=2, raters=4)
    material = StudyMaterial.chosen(made_up_explanations(("lime",), 20), design)
    found = analyse_gains(PlantedRaters().rows(design, material), design.arms)
    assert found is not None
    for arm in found.arms:
        assert math.isfinite(arm.gain.value)
        assert math.isnan(arm.gain.low)
        assert not arm.helps


def test_careless_raters_are_left_out() -> None:
    design, rows = rank_rows(raters=3, careful=0.0)
    checks = attention(rows, design)
    assert not any(each.kept for each in checks.values())
    assert all(each.failed for each in checks.values())
    design, rows = rank_rows(raters=3, careful=1.0)
    assert all(each.kept and not each.failed for each in attention(rows, design).values())


def test_ratings_depend_on_the_order_of_answers_and_worths_do_not() -> None:
    _, rows = rank_rows(raters=3)
    ratings, turned = skill_ratings(rows, RANKED), skill_ratings(rows[::-1], RANKED)
    assert ratings["lime"].mu > ratings["random"].mu
    assert ratings["lime"].mu != pytest.approx(turned["lime"].mu, abs=1e-6)
    assert ratings["lime"].low < ratings["lime"].high
    first, second = analyse_rankings(rows, RANKED, resamples=20), analyse_rankings(rows[::-1], RANKED, resamples=20)
    assert first is not None
    assert second is not None
    for a, b in zip(first.explainers, second.explainers, strict=True):
        assert a.worth.value == pytest.approx(b.worth.value, abs=1e-8)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Study:
    """A study of both honest raters and one who wrote something nasty."""
    design = StudyDesign(
        protocol="rank", explainers=RANKED, items=4, repeats=1, check_every=3, raters=4, title="<b>Which?</b>"
    )
    material = StudyMaterial.chosen(made_up_explanations(RANKED[:2], 20), design)
    study = Study.create(tmp_path_factory.mktemp("study") / "s", design, material)
    for number, code in enumerate(codes_of(study)[:3]):
        list(go_through(study, code, PlantedRaters(worths=WORTHS, careful=1.0), number))
    token = study.join(codes_of(study)[3]).token
    page = study.next(token)
    while page.kind != "survey":
        plan, arm = study.key(token, page.id)
        page = study.answer(token, page.id, PlantedRaters().respond(plan, 3, arm, ()))
    study.answer(token, page.id, "=HYPERLINK(<script>alert(1)</script>)")
    return study


@pytest.fixture(scope="module")
def results(finished: Study) -> StudyResults:
    return study_results(finished, resamples=50)


def test_results_have_progress_and_json_without_nan(results: StudyResults) -> None:
    assert [each.finished for each in results.raters] == [True] * 4
    assert results.invited == 4
    assert results.registration.unchanged is True
    plain = json.loads(as_json(results), parse_constant=lambda name: pytest.fail(name))
    assert plain["rank"]["rankings"] == 16
    assert plain["gains"] is None
    assert set(plain["skill"]) == set(RANKED)
    assert plain["sentences"] == results.sentences


def test_the_page_has_every_table_and_executes_nothing(results: StudyResults) -> None:
    html = page(results)
    assert all(f">{title}</h2>" in html for title, _ in tables(results))
    assert "&lt;b&gt;Which?&lt;/b&gt;" in html
    assert "<b>Which?" not in html
    assert "the order of answers matters" in html
    assert "http://" not in html.replace("http://www.w3.org", "")


def test_exports_hold_every_answer_in_every_format(finished: Study, tmp_path: Path) -> None:
    paths = export(finished, tmp_path)
    table = pq.read_table(paths[2]).to_pylist()
    lines = [json.loads(line) for line in paths[1].read_text("utf-8").splitlines()]
    assert lines == table
    with paths[0].open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(table)
    main_rows = [row for row in table if row["phase"] == "main"]
    assert len(main_rows) == 4 * 4 * 3
    assert {row["explainer"] for row in main_rows} == set(RANKED)
    assert not {row["phase"] for row in table} & {"consent", "instructions"}
    (comment,) = [row["answer"] for row in rows if row["answer"].endswith("</script>)")]
    assert comment.startswith("'=")  # no formula in a spreadsheet
    codes = codes_of(finished)
    assert not any(code.encode() in path.read_bytes() for path in paths for code in codes)


def run_folder(folder: Path) -> Path:
    explained = made_up_explanations(("lime", "attention"), 12)
    rows = [(name, each) for name, column in explained.items() for each in column]
    table = explanation_store.to_table([each for _, each in rows], [name for name, _ in rows])
    explanation_store.write(folder / "explanations.parquet", table)
    return folder


def test_the_commands_create_report_export_invite_and_delete(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, out = run_folder(tmp_path / "run"), tmp_path / "study"
    sizes = ["--items", "4", "--repeats", "1", "--raters", "3", "--check-every", "0"]
    assert main(["study", "create", str(run), "--explainers", "lime,attention", *sizes, "--out", str(out)]) == 0
    assert capsys.readouterr().out.strip().splitlines()[-1] == str(out)
    study = Study(out)
    assert study.design.explainers == ("lime", "attention", "random")
    assert main(["study", "results", str(out)]) == 0
    assert "There are no answers yet" in capsys.readouterr().out
    for number, code in enumerate(codes_of(study)):
        list(go_through(study, code, PlantedRaters(worths=WORTHS), number))
    assert main(["study", "results", str(out)]) == 0
    shown = capsys.readouterr().out
    assert shown.strip().splitlines()[-1] == str(out / "report.html")
    assert "Agreement between raters" in " ".join(shown.split())
    assert main(["study", "export", str(out), "--format", "csv"]) == 0
    assert [path.name for path in (out / "export").iterdir()] == ["answers.csv"]
    assert main(["study", "invite", str(out), "--raters", "2"]) == 0
    assert len(codes_of(study)) == 5
    capsys.readouterr()
    assert main(["study", "delete", str(out), codes_of(study)[0]]) == 0
    assert "permanently deleted" in capsys.readouterr().out
    assert len(Study(out).raters()) == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--explainers", "shap"], "there are no explanations by shap, only by lime, attention"),
        (["--items", "13"], "needs 13 items that every explainer explained, and there are 12"),
        (["--protocol", "guess"], "protocol must be one of rank, simulate, got 'guess'"),
        (["--show", "all"], "show must be one of support, signed, top"),
        (["--items", "1"], "items must be a whole number from 2"),
        (["--repeats", "9"], "repeats must be at most half"),
        (["--explainers", "lime", "--no-control"], "takes 2 to 8 different explainers"),
        (["--consent", "nowhere.txt"], "cannot read nowhere.txt"),
    ],
)
def test_mistakes_are_one_line(
    arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = run_folder(tmp_path / "run")
    usual = ["--items", "4", "--repeats", "1", "--out", str(tmp_path / "study")]
    assert main(["study", "create", str(run), *usual, *arguments]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert not (tmp_path / "study").exists()


def test_folders_without_explanations_or_study_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["study", "create", str(tmp_path)]) == 2
    assert "there are no explanations at" in capsys.readouterr().err
    assert main(["study", "results", str(tmp_path)]) == 2
    assert "there is no study in" in capsys.readouterr().err


def test_warnings_are_said_before_results(make_study: Make) -> None:
    study = make_study()
    study.join(codes_of(study)[0])
    token = study.join(codes_of(study)[1]).token
    study.answer(token, study.next(token).id, "yes")
    (study.folder / "preregistration.md").write_text("other", "utf-8")
    sentences = study_results(study).sentences
    assert sentences[0].startswith("Warning: the preregistration was changed")
    assert any("1 rater is not finished" in sentence for sentence in sentences)
    assert sentences[-1].startswith("There are no answers yet")
