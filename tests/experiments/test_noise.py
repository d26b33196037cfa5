"""Noise in, nothing out: no headline of any report puts forward what is there by chance."""

from pathlib import Path

import numpy as np
import pytest

from didact.experiments.distillation.summary import versus
from didact.experiments.grading.evaluation import Evaluation
from didact.experiments.grading.report import find_in, write_report
from didact.experiments.grading.report.findings import GradingFindings, find
from didact.experiments.grading.report.load_run import Run
from didact.experiments.grading.report.sentences import headlines
from didact.experiments.grading.summary import ExplainerInfo, MetricInfo, ResultArrays
from didact.experiments.simulability.findings import SimulabilityFindings
from didact.experiments.simulability.report import markdown, page
from didact.simulation.simulability import NONE, Setting, Simulation
from didact.types import Floats
from tests.experiments.synthetic import CARDS, manifest, metric_card, record, write_run

NOISE = ("a", "b", "c", "d")
METRICS = tuple(
    MetricInfo(f"m{at}", f"m{at}", family, better)
    for at, (family, better) in enumerate(
        [("faithfulness", True), ("faithfulness", False), ("plausibility", True), ("stability", True)]
    )
)
EXPLAINERS = (
    *(ExplainerInfo(name, name) for name in NOISE),
    *(ExplainerInfo(name, name, control=True) for name in ("random", "trivial")),
)


def graded(rng: np.random.Generator, texts: int, ahead: float = 0.0) -> GradingFindings:
    """A report on noise: normal, skewed, rare and discrete values; ``a`` is ahead by so much on every metric."""
    shape = (2, len(EXPLAINERS), texts)  # the explanations, and their shuffled copies
    drawn = [rng.normal(size=shape), rng.lognormal(size=shape), rng.random(shape) < 0.1, rng.integers(0, 5, shape) / 4]
    hardness = rng.normal(size=texts)
    values = np.stack([kind + hardness for kind in drawn[:2]] + [np.asarray(kind, float) for kind in drawn[2:]], axis=1)
    values[0, :, 0] += ahead * np.array([metric.sign for metric in METRICS])[:, None]
    values[1, :, 4:] = np.nan
    whole = np.ones((len(METRICS), len(EXPLAINERS), texts), dtype=bool)
    names = tuple(f"e{at}" for at in range(texts))
    nulls = {"": values[0], "shuffle": values[1]}
    measured = ResultArrays(EXPLAINERS, METRICS, names, nulls, {"": whole, "shuffle": ~np.isnan(values[1])}, {})
    return find(Run(Path("nowhere"), {}, measured, None, {}))


def claims(findings: GradingFindings) -> bool:
    """Whether any two explainers are said to differ, or any to be better than its shuffled copy."""
    columns = findings.summary.columns
    pairs = any(column.beats(info.label) for column in columns for info in EXPLAINERS)
    return pairs or any(check.beats for column in columns for row in column.checks.values() for check in row.values())


def puts_forward(line: str) -> bool:
    """Whether a headline recommends anybody."""
    return line.startswith(("Trust", "Cheapest")) or "leads on" in line


def test_reports_on_noise_claim_nothing() -> None:
    # 100 reports of which at most 5 % may claim anything: more than 10 have a probability of 0.01.
    rng = np.random.default_rng(0)
    reports = [graded(rng, texts) for texts in (20, 50) for _ in range(50)]
    assert sum(map(claims, reports)) <= 10
    winners = [line for findings in reports for line in headlines(findings) if puts_forward(line)]
    assert len(winners) <= 5


def test_what_is_there_is_found() -> None:
    found = graded(np.random.default_rng(1), 60, ahead=1.5)
    assert headlines(found)[0].startswith("Trust a first")
    assert found.recommended == ("a",)


def test_too_few_texts_are_called_that(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    for texts in (1, 2, 8):
        found = graded(rng, texts)
        assert headlines(found) == [
            f"Not enough texts for a verdict: {texts} {'was' if texts == 1 else 'were'} graded, and with 76 "
            "comparisons at least 12 are needed. Nothing is recommended."
        ]
        assert {verdict.words for verdict in found.verdicts} == {"not enough texts"}
    rows = [record(name, "comprehensiveness", "e0", 0.5) for name in ("lime", "random", "trivial")]
    folder = write_run(tmp_path / "run", rows, manifest(("lime", "random", "trivial"), CARDS))
    written = {path.name: path.read_text() for path in write_report(folder)}
    for name in ("report.md", "report.html", "summary.json"):
        assert "Not enough texts" in written[name]
        assert "can be gamed" not in written[name]
        assert "Trust" not in written[name].replace("Which should I trust", "")


def test_a_difference_that_is_not_shown_is_not_called_gaming(tmp_path: Path) -> None:
    # lime is ahead of random, by less than 14 texts can show.
    rng = np.random.default_rng(3)
    rows = []
    for at in range(14):
        rows.append(record("lime", "comprehensiveness", f"e{at:02d}", 0.3 + rng.normal()))
        rows.append(record("random", "comprehensiveness", f"e{at:02d}", rng.normal()))
    found = find_in(write_run(tmp_path / "run", rows, manifest(("lime", "random"), CARDS)))
    (verdict,) = found.verdicts
    assert (verdict.words, verdict.gamed) == ("not shown", False)
    assert "gamed" not in " ".join([*headlines(found), *verdict.sentences])


def test_what_a_line_warns_about_is_not_recommended(tmp_path: Path) -> None:
    # b has the best mean, but its shuffled copy does as well.
    rng = np.random.default_rng(4)
    worth = {"a": (0.5, 0.1), "b": (0.6, 0.6), "random": (0.1, None), "trivial": (0.1, None)}
    rows = []
    for at in range(40):
        for name, means in worth.items():
            for null, mean in zip(("", "shuffle"), means, strict=True):
                if mean is not None:
                    rows.append(record(name, "comprehensiveness", f"e{at}", mean + 0.05 * rng.normal(), null=null))
    told = headlines(find_in(write_run(tmp_path / "run", rows, manifest(tuple(worth), CARDS))))
    assert told[0].startswith("Trust a first")
    assert any(line.startswith("Warning") and "b (1 metric)" in line for line in told)
    assert not any("b" in line.split() for line in told if line.startswith(("Trust", "Cheapest")))


def test_times_are_not_tested(tmp_path: Path) -> None:
    # A chunk's time is the same number on each of its texts: no spread, and yet nothing was measured often.
    rows = [record(name, "comprehensiveness", f"e{at}", at / 20) for name in ("a", "b") for at in range(20)]
    rows += [record(name, "seconds", f"e{at}", value) for name, value in (("a", 0.1), ("b", 0.2)) for at in range(20)]
    rows += [record(name, "memory", f"e{at}", value) for name, value in (("a", 100), ("b", 900)) for at in range(20)]
    cards = [metric_card("comprehensiveness"), metric_card("seconds", "efficiency", False, timed=True)]
    found = find_in(write_run(tmp_path / "run", rows, manifest(("a", "b"), cards)))
    columns = {column.metric.label: column for column in found.summary.columns}
    assert set(columns) == {"comprehensiveness", "seconds"}  # memory depends on what the process did before
    cell = columns["seconds"].cells["a"]
    assert cell.mean == pytest.approx(0.1)
    assert np.isnan([cell.low, cell.high]).all()
    assert (columns["seconds"].best, columns["seconds"].beats("a"), columns["seconds"].tests) == (None, (), None)
    shown = str(Evaluation(tmp_path / "run"))
    assert "memory" not in shown


SETTINGS = (Setting("ridge", "prior", 100), Setting("bilstm", "attention", 100))


def simulated(rng: np.random.Generator, ahead: float = 0.0, subsets: int = 5, items: int = 60) -> SimulabilityFindings:
    """A simulation of noise: students and texts differ, explanations do not, unless ``a`` is ``ahead``."""

    def scores(shift: float) -> Floats:
        chance = 0.7 + shift + 0.02 * rng.normal(size=(subsets, 1))
        return (rng.random((subsets, items)) < chance + hard).astype(np.float64)

    hard = 0.2 * rng.normal(size=items)
    tables = {
        setting: {name: scores(ahead if name == "a" else 0.0) for name in (NONE, "a", "b", "c", "random", "trivial")}
        for setting in SETTINGS
    }
    given = Simulation(tables, (), frozenset({"random", "trivial"}))
    return SimulabilityFindings(Path("nowhere"), {"name": "noise"}, {}, given)


def test_simulations_of_noise_name_nobody() -> None:
    # 40 simulations of which at most 5 % may name anybody: more than 5 have a probability of 0.014.
    rng = np.random.default_rng(5)
    reports = [simulated(rng, items=40) for _ in range(40)]
    neutral = "No explanation is shown to teach better than none and than the controls."
    assert sum(found.sentences[0] != neutral for found in reports) <= 5
    assert sum(any(one.adjusted < 0.05 for one in found.verdict.gains) for found in reports) <= 5
    for text in (markdown(reports[0]), page(reports[0])):
        assert "teaches best:" not in text
        assert "No explanation is shown to teach better than none" in text


def test_a_simulation_names_what_teaches() -> None:
    found = simulated(np.random.default_rng(6), ahead=0.3, items=400)
    assert found.sentences[0] == (
        "a teaches best in 2 of 2 settings: significantly better there than none, every control and every other "
        "explanation."
    )


def test_the_best_of_equals_is_not_said_to_teach_best() -> None:
    rng = np.random.default_rng(7)
    found = simulated(rng, ahead=0.25, items=400)
    tables = {setting: {**table, "b": table["a"]} for setting, table in found.simulation.scores.items()}
    both = SimulabilityFindings(Path("nowhere"), {}, {}, Simulation(tables, (), frozenset({"random", "trivial"})))
    assert both.sentences[0] == (
        "a (2 of 2 settings) and b (2) help significantly; none is significantly better than all others."
    )


def test_what_gains_no_more_than_a_control_does_not_help() -> None:
    found = simulated(np.random.default_rng(8), ahead=0.3, items=400)
    tables = {setting: {**table, "random": table["a"]} for setting, table in found.simulation.scores.items()}
    told = SimulabilityFindings(
        Path("nowhere"), {}, {}, Simulation(tables, (), frozenset({"random", "trivial"}))
    ).sentences
    assert told[0].startswith("No explanation is shown to teach better")
    assert any(
        "a gains significantly over none, but not significantly more than every control" in line for line in told
    )
    assert any(line.startswith("Warning: random explains nothing") for line in told)


def test_without_controls_a_gain_is_no_teaching() -> None:
    found = simulated(np.random.default_rng(6), ahead=0.3, items=400)
    tables = {
        setting: {name: table[name] for name in (NONE, "a", "b")} for setting, table in found.simulation.scores.items()
    }
    told = SimulabilityFindings(Path("nowhere"), {}, {}, Simulation(tables)).sentences
    assert told[0] == "a gains significantly in 2 of 2 settings over none; controls are missing."
    assert not any("helps" in line or "teaches" in line for line in told)


@pytest.mark.parametrize(("subsets", "items"), [(2, 60), (5, 8), (1, 1)])
def test_too_few_students_or_test_texts_are_called_that(subsets: int, items: int) -> None:
    told = simulated(np.random.default_rng(9), ahead=0.3, subsets=subsets, items=items).sentences
    assert told[0].startswith("Not enough students or test texts for a verdict")
    assert not any("helps" in line or "gain" in line for line in told)


def test_learned_explainers_that_equal_their_reference_do_not_differ() -> None:
    # 60 tables of three metrics and four networks; Wilcoxon, which the paper uses, is Holm-corrected within a metric.
    rng = np.random.default_rng(10)
    claimed = 0
    for _ in range(60):
        grades = {
            f"metric{at}": {"lime": rng.lognormal(size=40)}
            | {f"l2e{k} ranking(lime)": rng.lognormal(size=40) for k in range(4)}
            for at in range(3)
        }
        claimed += any(row.differs for row in versus(grades))
    assert claimed <= 7
