"""Writes the tables of the pages of results from their records.

A table of a page stands between ``<!-- table NAME -->`` and ``<!-- end -->``; what is between them is made here, and a
test compares it with the records.

Usage:
    python scripts/results.py            # write all tables again
"""

from __future__ import annotations

import csv
import functools
import itertools
import json
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from didact.experiments.distillation import report as networks
from didact.experiments.distillation.kept import (
    KEPT,
    STABLE,
    kept_cell,
    kept_share,
    kept_table,
    networks_of,
    stable_table,
)
from didact.experiments.distillation.summary import gather
from didact.experiments.masking import report as masking_report
from didact.experiments.masking.findings import MaskingFindings
from didact.experiments.papers.agreement import averages
from didact.experiments.report import reliability
from didact.experiments.report.markdown import bullets
from didact.experiments.report.table import as_markdown
from didact.experiments.scaffolding import report as scaffolding_report
from didact.experiments.scaffolding.findings import ScaffoldingFindings
from didact.experiments.simulability.findings import find
from didact.render.markup import markdown_table, markdown_text
from didact.stats.bootstrap import interval
from didact.stats.means import mean_tests
from didact.types import Floats

DOCS = Path(__file__).resolve().parents[1] / "docs"
RESULTS = DOCS / "results"
MARKED = re.compile(r"(<!-- table (\S+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)
STUDIES = {"sst2": "SST-2", "ag_news": "AG News"}
MEASURES = {
    "log_odds_positive": "Δlog-odds, words called positive",
    "log_odds_difference": "Δlog-odds, top 30 %",
    "comprehensiveness": "comprehensiveness",
    "agreement_labelled": "agreement, words called strong",
    "prediction_agreement": "agreement, top 30 %",
    "iou_lexical_labels": "stability, lexical, labels",
    "iou_semantic_labels": "stability, semantic, labels",
    "iou_lexical_top": "stability, lexical, top 30 %",
    "iou_semantic_top": "stability, semantic, top 30 %",
}
OF_LABELS = ("log_odds_positive", "agreement_labelled", "iou_lexical_labels", "iou_semantic_labels")


def main() -> None:
    """Write all tables again."""
    for page in sorted(DOCS.rglob("*.md")):
        text = page.read_text(encoding="utf-8")
        made = written(text)
        if made != text:
            page.write_text(made, encoding="utf-8")
            print(page)


def written(text: str) -> str:
    """A page with its tables as the records have them."""
    return MARKED.sub(lambda found: f"{found[1]}{table(found[2])}\n{found[4]}", text)


def table(name: str) -> str:
    """The table called so."""
    kind, _, what = name.partition(":")
    return TABLES[kind](what)


# Learned explainers


@functools.cache
def study(name: str) -> dict[str, Any]:
    """The summary of a study of learned explainers."""
    found: dict[str, Any] = json.loads((RESULTS / "l2e" / name / "summary.json").read_text(encoding="utf-8"))
    return found


@functools.cache
def grades(name: str, explainer: str) -> Mapping[str, Floats]:
    """Metric -> a value per test text, averaged over initialisations, from the records; NaN where undefined."""
    place, columns = RESULTS / "l2e" / name / "records.parquet", ["metric", "explainer", "example", "value"]
    wanted = [("metric", "in", list({**MEASURES, **KEPT, **STABLE})), ("explainer", "==", explainer)]
    found = gather(pq.read_table(place, columns=columns, filters=wanted))
    return {metric: rows[explainer] for metric, rows in found.items()}


def compared(name: str, metric: str, learned: str, reference: str) -> dict[str, float]:
    """A network beside its reference over the texts where both are defined, how many these are, and how many not."""
    own, theirs = grades(name, learned)[metric], grades(name, reference)[metric]
    both = np.isfinite(own) & np.isfinite(theirs)
    first, second = float(own[both].mean()), float(theirs[both].mean())
    n = int(both.sum())
    return {"own": first, "theirs": second, "ratio": first / second, "n": n, "left_out": len(own) - n}


def mean(name: str, metric: str, explainer: str) -> float:
    """Mean of an explainer over the test texts where it is defined."""
    return float(np.nanmean(grades(name, explainer)[metric]))


def _lime(name: str) -> str:
    """Four networks beside LIME by every measure, with the number of texts and what random scores have."""
    rows = []
    for learned, title in _networks(name).items():
        ranks = " ranking(" in learned
        for metric, measure in MEASURES.items():
            if ranks and metric in OF_LABELS:
                continue
            beside = ("abs(lime)", "lime") if ranks else ("lime",)
            rows += [[title, measure, *_beside(name, metric, learned, reference)] for reference in beside]
    heads = ("network", "measure", "beside", "network's", "LIME's", "ratio", "n", "left out", "random scores")
    return markdown_table(heads, rows, "lllrrrrrr")


def _networks(name: str) -> dict[str, str]:
    words = "l2e_words ranking(lime)", "ranking, reads words"
    tokens = "l2e ranking(lime)", "ranking"
    return dict([("l2e labelling(lime)", "labelling"), words if name == "sst2" else tokens])


def _beside(name: str, metric: str, learned: str, reference: str) -> list[str]:
    found = compared(name, metric, learned, reference)
    chance = "–" if metric in ("log_odds_positive", "agreement_labelled") else f"{mean(name, metric, 'random'):.3g}"
    numbers = [f"{found[key]:.3g}" for key in ("own", "theirs")]
    counts = [f"{found[key]:,}" for key in ("n", "left_out")]
    beside = "\\|LIME\\|" if reference.startswith("abs") else "LIME"
    return [beside, *numbers, f"{found['ratio']:.2f}", *counts, chance]


def _references(name: str) -> str:
    """Every network beside its reference."""
    return networks.table(study(name))


def _between(what: str) -> str:
    """Differences of a network from others of its study on the same texts, tested together; ~ stands for a space."""
    name, first, *others = what.replace("~", " ").split(":")
    pairs = [(other, metric) for other in others for metric in KEPT]
    values = np.stack([grades(name, first)[metric] - grades(name, other)[metric] for other, metric in pairs])
    tests = mean_tests(values)
    shown = [
        f"{value:+.3g}{'*' if sure else ''}".replace("-", "−")
        for value, sure in zip(tests.difference, tests.significant, strict=True)
    ]
    titles = {learned: title for title, learned, _ in networks_of(study(name))}
    cells = np.reshape(shown, (len(others), len(KEPT))).tolist()
    rows = [[titles[other], *row] for other, row in zip(others, cells, strict=True)]
    return markdown_table((f"{titles[first]}, less", *KEPT.values()), rows, "l")


DISAGREEMENT = {
    "texts": "texts",
    "expected": "expected",
    "observed": "observed",
    "above the threshold": "above the threshold",
    "rank correlation": "rank correlation",
    "checked above the threshold": "above the threshold, checked",
    "observed after a checked fallback": "observed after a checked fallback",
    "checked rank correlation": "rank correlation, checked",
}


def _disagreement(ending: str) -> str:
    """Expected and observed disagreement of a network with its reference, by kinds of texts."""
    name = f"disagreement-{ending}.json" if ending else "disagreement.json"
    record = json.loads((RESULTS / name).read_text(encoding="utf-8"))
    rows = [[kind, *(_disagreeing(found, key) for key in DISAGREEMENT)] for kind, found in record["kinds"].items()]
    return f"Made by `{record['command']}`.\n\n" + markdown_table(["kind", *DISAGREEMENT.values()], rows, "lr")


def _disagreeing(found: Mapping[str, Any], key: str) -> str:
    """A number of a kind of text, with its interval where there is one."""
    if key == "texts":
        return str(found[key])
    ends = f" [{found[f'{key} low']:.2f}, {found[f'{key} high']:.2f}]" if f"{key} low" in found else ""
    return f"{found[key]:.2f}{ends}"


def _restored(ending: str) -> str:
    """How faithful a network is before and after a fallback, above chance, by kinds of texts."""
    kinds = json.loads((RESULTS / f"disagreement-{ending}.json").read_text(encoding="utf-8"))["kinds"]
    rows = []
    for kind, found in kinds.items():
        for who in ("network", "fallback", "checked fallback"):
            measured = found["metrics"].values()
            rows.append([kind, who, *(kept_cell(one[who], one["reference"], one["random"]) for one in measured)])
    heads = [KEPT[metric] for metric in next(iter(kinds.values()))["metrics"]]
    return markdown_table(("kind", "", *heads), rows, "l")


def _saved(name: str) -> str:
    """An explainer of a record of ``benchmarks.probe quality --explainer`` beside two slow ones, above chance."""
    record = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    means = {row["name"]: {metric: own["mean"] for metric, own in row["metrics"].items()} for row in record["rows"]}
    own, chance = means[record["rows"][-1]["name"]], means["random"]
    rows = [
        [beside, *(kept_cell(own[metric], means[beside][metric], chance[metric]) for metric in own)]
        for beside in ("kernel_shap 500", "lime 1000")
    ]
    heads = [KEPT[metric] for metric in own]
    return f"Made by `{record['command']}`.\n\n" + markdown_table(("beside", *heads), rows, "l")


def _default_speed(names: str) -> str:
    """NAME+NAME+...: milliseconds of a text on the GPU for the one network of each study and its references."""
    kinds = ("prediction made", "prediction known")
    rows = []
    for name in names.split("+"):
        speed = study(name)["speed"]
        times = speed["seconds per text"]
        (label,) = speed["documents per second"]
        known = ("lime", "kernel_shap", label, f"{label}, one text at a time")
        made = [f"{1000 * times[who]:.3g}" for who in ("prediction", *known)]
        over = [f"{times['lime'] / own:.1f}" for own in (times[label] + times["prediction"], times[label])]
        rates = [f"{speed['documents per second'][label][kind]:,.0f}" for kind in kinds]
        rows.append([name, *made, *over, *rates])
    heads = ("prediction", "LIME", "KernelSHAP", "network", "network, one text at a time")
    further = [f"{what}: {kind}" for what in ("LIME's time in network's", "texts a second") for kind in kinds]
    return markdown_table(("run", *heads, *further), rows, "lr")


def _gpu(_: str) -> str:
    """Texts per second on the GPU."""
    kinds = ("prediction made", "prediction known", "texts read")
    rates = {name: study(name)["speed"]["documents per second"] for name in STUDIES}
    labels = [label for label in rates["sst2"] if label in rates["ag_news"]]
    rows = [
        [f"`{label}`", *(f"{rates[name][label][kind]:,.0f}" for name in STUDIES for kind in kinds)] for label in labels
    ]
    heads = [f"{title}: {kind}" for title in STUDIES.values() for kind in kinds]
    return markdown_table(("network", *heads), rows, "lr")


# Grading


@functools.cache
def graded(name: str) -> list[dict[str, str]]:
    """The rows of a table of grades."""
    with (RESULTS / f"grading-{name}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def _grades(what: str) -> str:
    """Methods by the metrics of a family: mean with its interval, controls last, and the number of texts."""
    name, _, family = what.partition(":")
    rows = [row for row in graded(name) if row["family"] == family]
    metrics = list(dict.fromkeys(row["metric"] for row in rows))
    cells = {(row["explainer"], row["metric"]): row for row in rows}
    explainers = sorted({row["explainer"]: row["control"] == "true" for row in rows}.items(), key=lambda pair: pair[1])
    lines = [[label, *(_cell(cells.get((label, metric))) for metric in metrics)] for label, _ in explainers]
    counts = [_count([row for row in rows if row["metric"] == metric]) for metric in metrics]
    arrows = {row["metric"]: {"higher": " ↑", "lower": " ↓"}.get(row["direction"], "") for row in rows}
    return markdown_table(("", *(f"{metric}{arrows[metric]}" for metric in metrics)), [*lines, ["n", *counts]], "lr")


def _cell(row: Mapping[str, str] | None) -> str:
    if row is None or not row["mean"]:
        return "–"
    middle, low, high = (float(row[key]) if row[key] else float("nan") for key in ("mean", "low", "high"))
    return f"{middle:.3f} [{low:.3f}, {high:.3f}]" if np.isfinite(low) else f"{middle:.3g}"


def _count(rows: Sequence[Mapping[str, str]]) -> str:
    n, left_out = min(int(row["n"]) for row in rows), max(int(row["missing"]) for row in rows)
    return f"{n} (left out: {left_out})" if left_out else str(n)


# Simulability


@functools.cache
def report(name: str) -> dict[str, Any]:
    """The report of an experiment with students."""
    found: dict[str, Any] = json.loads((RESULTS / "simulability" / name / "report.json").read_text(encoding="utf-8"))
    return found


def gain(name: str, setting: tuple[str, str, int], method: str) -> dict[str, Any]:
    """What a method adds for one kind of student, channel and number of training texts."""
    for row in report(name)["gains"]:
        if (row["student"], row["channel"], row["size"], row["method"]) == (*setting, method):
            found: dict[str, Any] = row
            return found
    raise KeyError((name, setting, method))


def _gains(what: str) -> str:
    """Gains with intervals: methods by settings; a setting is given as student/channel/size, with ~ for a space."""
    name, *given = what.replace("~", " ").split(":")
    settings = [
        (student, channel.replace("_", " "), int(size)) for student, channel, size in (s.split("/") for s in given)
    ]
    methods = list(dict.fromkeys(row["method"] for row in report(name)["gains"]))
    rows = []
    for method in methods:
        found = [gain(name, setting, method) for setting in settings]
        rows.append([f"{method} (control)" if found[0]["control"] else method, *map(_gained, found)])
    heads = [f"{student}, {channel}, {size:,} texts" for student, channel, size in settings]
    return markdown_table(("", *heads), rows, "l")


def _gained(row: Mapping[str, Any]) -> str:
    if row["gain"] is None:
        return f"{100 * row['score']:.1f}"
    return _gain_cell([100 * row[key] for key in ("gain", "low", "high")], row["adjusted"], 1)


def _gain_cell(points: Sequence[float], p: float | None, digits: int) -> str:
    """A gain with its interval, and a star where it is significant."""
    gained, low, high = points
    star = " *" if p is not None and p < 0.05 else ""
    return f"{gained:+.{digits}f}{star} [{low:.{digits}f}, {high:.{digits}f}]".replace("-", "−")


def _agreement(name: str) -> str:
    """Mean Kendall's tau between the settings of a simulation, beside the paper's."""
    rows = [
        [one.title, f"{one.published:.2f}", f"{one.mean:.2f}".replace("-", "−"), f"{one.pairs}"]
        for one in averages(find(RESULTS / "simulability" / name))
    ]
    return markdown_table(("mean τ", "paper", "here", "pairs"), rows, "lr")


def _reliability(metrics: str) -> str:
    """METRIC,METRIC,...: how often each orders explanations of known quality rightly."""
    return reliability.sentence(metrics.split(","))


def _graded_hints(name: str) -> str:
    """What metrics give the explanations of a simulation and the hints of its controls."""
    folder = RESULTS / "simulability" / name
    metrics = json.loads((folder / "extras.json").read_text(encoding="utf-8"))["metrics"]
    arms = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))["arms"]
    shown = {row["explainer"]: f"{row['explainer']} (control)" if row["control"] else row["explainer"] for row in arms}
    rows = [[shown[one], *(f"{own['values'][one]:.2f}" for own in metrics.values())] for one in shown]
    return markdown_table(
        ("", *(f"{metric} {'↑' if own['higher_is_better'] else '↓'}" for metric, own in metrics.items())), rows, "lr"
    )


def _students(_: str) -> str:
    """Student-steps per second, alone and together."""
    rows = []
    for row in json.loads((RESULTS / "students.json").read_text(encoding="utf-8"))["students"]:
        rates = row["student_steps_per_second"]
        numbers = [f"{rates[row['fastest_alone']]:.0f}", f"{rates['together']:.0f}", f"{row['ratio']:.1f}"]
        low, high = row["ratio_range"]
        numbers += [f"{low:.1f} to {high:.1f}", f"{row['largest_difference']:.1e}"]
        rows.append([row["student"], row["precision"], *numbers])
    heads = ("student", "precision", "one at a time", "16 together", "ratio", "range", "difference")
    return markdown_table(heads, rows, "llr")


def _closed_form(name: str) -> str:
    """What hints are worth to students in closed form, by the record of ``benchmarks.closed_form``."""
    record = json.loads((RESULTS / "closed_form" / f"{name}.json").read_text(encoding="utf-8"))
    rows = [["none", f"{100 * record['none']['mean']:.1f}"]]
    for row in record["rows"]:
        named = f"{row['method']} (control)" if row["is_control"] else row["method"]
        rows.append([named, _gain_cell([row[key] for key in ("gain", "low", "high")], row["p"], 2)])
    return markdown_table(("hints of", "gain"), rows, "l")


# Single figures, as docs/claims.toml asks for them


def figure(wanted: Mapping[str, Any]) -> float:
    """The figure that a claim rests on, from its records; see the head of ``docs/claims.toml``."""
    for kind, compute in FIGURES.items():
        if kind in wanted:
            return float(compute(wanted)) * float(wanted.get("scale", 1))
    raise KeyError(f"a figure needs one of {', '.join(FIGURES)}, got {dict(wanted)}")


def _l2e_figure(wanted: Mapping[str, Any]) -> float:
    name, metric = wanted["l2e"], wanted["metric"]
    if "explainer" in wanted:
        under = mean(name, metric, wanted["over"]) if "over" in wanted else 1.0
        return mean(name, metric, wanted["explainer"]) / under
    found = compared(name, metric, wanted["learned"], wanted["reference"])
    if wanted.get("take") == "kept":
        chance = mean(name, metric, "random")
        return kept_share(found["own"], found["theirs"], chance)
    return found[wanted.get("take", "ratio")]


def _grading_figure(wanted: Mapping[str, Any]) -> float:
    rows = [row for row in graded(wanted["grading"]) if row["metric"] == wanted["metric"]]
    (row,) = [row for row in rows if row["explainer"] == wanted["explainer"]]
    return float(row[wanted.get("take", "mean")])


def _gain_figure(wanted: Mapping[str, Any]) -> float:
    student, channel, size = wanted["setting"]
    return 100 * float(gain(wanted["gains"], (student, channel, size), wanted["method"])[wanted.get("take", "gain")])


def _tau_figure(wanted: Mapping[str, Any]) -> float:
    for row in report(wanted["tau"])["agreements"]:
        settings = [[row[side][key] for key in ("student", "channel", "size")] for side in ("first", "second")]
        if settings == wanted["settings"]:
            return float(row[wanted.get("take", "tau")])
    raise KeyError(wanted["settings"])


def _speed_figure(wanted: Mapping[str, Any]) -> float:
    """Median milliseconds of a line; of several, how many times longer the first takes than the others together.

    Ratios are of the same round, as in the table of ratios: what else a machine does changes from round to round.
    """
    times = json.loads((RESULTS / "speed.json").read_text(encoding="utf-8"))["l2e"]["raw"]["times"][wanted["batch"]]
    lines = [wanted["speed"]] if isinstance(wanted["speed"], str) else wanted["speed"]
    first, *others = (np.array([each["cpu"] for each in times[line]]) for line in lines)
    return float(np.median(first / sum(others) if others else 1000 * first))


def _json_figure(wanted: Mapping[str, Any]) -> float:
    data = json.loads((RESULTS / wanted["json"]).read_text(encoding="utf-8"))
    under = max(_values(data, wanted["over"].split("/"))) if "over" in wanted else 1.0
    return max(_values(data, wanted["path"].split("/"))) / under


def _values(data: Any, path: Sequence[str]) -> list[float]:
    """All numbers at a path of keys, places, name=value of an entry, or * for any key."""
    if not path:
        return [float(data)]
    key, *rest = path
    if key == "*":
        return [value for each in data.values() for value in _values(each, rest)]
    if "=" in key:
        name, _, wanted = key.partition("=")
        return [value for each in data if str(each[name]) == wanted for value in _values(each, rest)]
    return _values(data[int(key)] if isinstance(data, list) else data[key], rest)


def _saved_figure(wanted: Mapping[str, Any]) -> float:
    """What a saved explainer keeps of a slow one above chance."""
    rows = json.loads((RESULTS / f"{wanted['saved']}.json").read_text(encoding="utf-8"))["rows"]
    means = {row["name"]: row["metrics"][wanted["metric"]]["mean"] for row in rows}
    return kept_share(means[wanted["explainer"]], means[wanted["reference"]], means["random"])


def _restored_figure(wanted: Mapping[str, Any]) -> float:
    """What a network keeps of its reference above chance, by itself or with a fallback."""
    kinds = json.loads((RESULTS / f"disagreement-{wanted['restored']}.json").read_text(encoding="utf-8"))["kinds"]
    means = kinds[wanted["kind"]]["metrics"][wanted["metric"]]
    return kept_share(means[wanted["by"]], means["reference"], means["random"])


FIGURES: Mapping[str, Callable[[Mapping[str, Any]], float]] = {
    "l2e": _l2e_figure,
    "saved": _saved_figure,
    "restored": _restored_figure,
    "grading": _grading_figure,
    "gains": _gain_figure,
    "tau": _tau_figure,
    "speed": _speed_figure,
    "json": _json_figure,
}

# Explainers trained for a metric


@functools.cache
def masking(name: str) -> MaskingFindings:
    """What a study of explainers trained for metrics shows; NAME-unseen: on texts that nobody looked at before."""
    folder = RESULTS / "aml" / name.removesuffix("-unseen")
    if name == folder.name:
        return MaskingFindings.read(folder)
    return MaskingFindings.read(folder, json.loads((folder / "seen.json").read_text(encoding="utf-8"))["texts"])


def _aml(what: str) -> str:
    """STUDY/TABLE, a table of its report; STUDY/verdicts, its sentences; or sweep, settings on validation texts."""
    name, _, part = what.partition("/")
    if what == "sweep":
        return _sweep(json.loads((RESULTS / "aml" / "sweep.json").read_text(encoding="utf-8")))
    if part == "verdicts":
        return bullets(markdown_text(sentence) for sentence in masking(name).sentences)
    made = getattr(masking_report, f"{part}_table")(masking(name))
    return as_markdown(made)


def _sweep(rows: Sequence[Mapping[str, Any]]) -> str:
    """The best of the draws of every setting, in one pass and refined, for both metrics."""
    kept = ("masking", "texts", "rows")
    heads = (*kept, "suff ↓", "suff ↓ refined", "comp ↑", "comp ↑ refined")
    cells = []
    for setting in dict.fromkeys(tuple(row[name] for name in kept) for row in rows):
        own = [row for row in rows if tuple(row[name] for name in kept) == setting]
        best = [
            choose(row["value"] for row in own if row["metric"] == metric and ("refined" in row) is refined)
            for metric, choose in (("suff", min), ("comp", max))
            for refined in (False, True)
        ]
        cells.append([*map(str, setting), *(f"{value:.3f}" for value in best)])
    return markdown_table(heads, cells)


# Flips


def _flips(name: str) -> str:
    """Searches for the smallest flip side by side, from the record of one model."""
    record = json.loads((RESULTS / "flips" / f"{name}.json").read_text(encoding="utf-8"))
    rows = record["rows"]
    sizes = {key: _sizes(rows, key) for key in ("didact", "greedy", "random")}
    lines = []
    for key, own in sizes.items():
        share = interval(np.isfinite(own).astype(float))
        passes = np.median([row[key]["evaluations"] for row in rows])
        both = np.isfinite(own) & np.isfinite(sizes["didact"])
        more = interval(own[both] - sizes["didact"][both])
        beside = "–" if key == "didact" else f"{more.mean:+.2f} [{more.low:+.2f}, {more.high:+.2f}], n {more.n}"
        flipped = f"{share.mean:.0%} [{share.low:.0%}, {share.high:.0%}]"
        smaller = "–" if key == "didact" else f"{int((own < sizes['didact']).sum())}"
        lines.append([f"`{key}`", flipped, f"{np.median(own):g}", beside, smaller, f"{passes:g}"])
    heads = ("search", "flipped", "median words deleted", "more words", "texts with a smaller flip", "median passes")
    about = f"{len(rows)} texts, {record['data']}; {record['model']}; at most {record['budget']} passes per text"
    return f"{about}. Made by `{record['command']}`.\n\n{markdown_table(heads, lines, 'lrrrrr')}"


def _sizes(rows: Sequence[Mapping[str, Any]], key: str) -> Floats:
    """Words deleted by a search; infinite where nothing flipped."""
    return np.array([np.inf if row[key]["size"] is None else float(row[key]["size"]) for row in rows])


# Explanations inside the prediction


def _probe(what: str) -> str:
    """PART-NAME, the table of a record of ``benchmarks.probe``."""
    record = _probe_record(what)
    heads, lines = PROBE_PARTS[what.partition("-")[0]](record)
    about = f"{record['data']}; {record['model']}; {record['machine']}. Made by `{record['command']}`."
    return f"{about}\n\n{markdown_table(heads, lines, 'lr')}"


def _probe_record(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((RESULTS / "probe" / f"{name}.json").read_text(encoding="utf-8"))
    return found


AGAINST = ("deeplift", "lrp", "integrated_gradients", "gradient_x_input", "l2e")
NEAR_NOTHING = 0.05
FURTHER = {"evaluations": ",.0f", "explained again": ".0%"}
"""Numbers beside the metrics, and how they are written."""


def _probe_grades(record: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Explainers by metrics: means with intervals, and the ratio to KernelSHAP's, inverted where less is better.

    Where a mean is close to 0, a ratio of it says nothing and is left out.
    """
    rows, lower = record["rows"], record["lower"]
    metrics = list(rows[0]["metrics"])
    base = {row.get("data"): row["metrics"] for row in rows if row["name"].startswith("kernel_shap 500")}
    further = {name: how for name, how in FURTHER.items() if any(name in row for row in rows)}
    lines = []
    for row in rows:
        ranks = {key: row.get(f"rank correlation {key}") for key in ("mean", "low", "high")}
        cells = ["–" if None in ranks.values() else _with_interval(ranks)]
        for metric in metrics:
            own, theirs = row["metrics"][metric], base[row.get("data")][metric]["mean"]
            cells += [_with_interval(own), _quotient(own["mean"], theirs, metric in lower)]
        if "explained again" in further:
            known = row.get("expected disagreement")
            cells.append("–" if known is None else _with_interval(known))
        lines.append(
            [row["name"], *cells, *(f"{row[name]:{further[name]}}" if name in row else "–" for name in further)]
        )
    heads = [head for metric in metrics for head in (f"{metric} {'↓' if metric in lower else '↑'}", "ratio")]
    expected = ["expected disagreement"] if "explained again" in further else []
    return ["explainer", "rank correlation", *heads, *expected, *further], lines


def _quotient(own: float, theirs: float, lower: bool) -> str:
    """Of means, inverted where less is better; nothing where one is close to 0, or below."""
    if theirs <= NEAR_NOTHING or own <= NEAR_NOTHING / 10:
        return "–"
    return f"{theirs / own if lower else own / theirs:.3f}"


def _probes(what: str) -> str:
    """RECORD+RECORD+...: the probe of each record by its texts, signal and head, beside KernelSHAP."""
    records = [_probe_record(name) for name in what.split("+")]
    lower, metrics = records[0]["lower"], list(records[0]["rows"][0]["metrics"])
    lines = []
    for record in records:
        rows = {row["name"]: row["metrics"] for row in record["rows"]}
        cells = []
        for metric in metrics:
            own, theirs, chance = (rows[who][metric]["mean"] for who in ("probe", "kernel_shap 500", "random"))
            quotient, kept = _quotient(own, theirs, metric in lower), kept_share(own, theirs, chance)
            cells.append(f"{own:.3f} ({quotient}, {kept:.3f})")
        lines.append([f"{record['data']}, {record['model']}", _settings(record["command"]), *cells])
    return _of_records(lines, ["probe"], metrics, lower)


def _of_records(lines: Sequence[Sequence[str]], heads: Sequence[str], metrics: Sequence[str], lower: list[str]) -> str:
    """Lines of data and model, ``heads`` and metrics as a table; without the first where it is always the same."""
    arrows = [f"{metric} {'↓' if metric in lower else '↑'}" for metric in metrics]
    if len({line[0] for line in lines}) == 1:
        return markdown_table([*heads, *arrows], [line[1:] for line in lines], "lr")
    return markdown_table(["data, model", *heads, *arrows], lines, "lr")


def _against(what: str) -> str:
    """RECORD+RECORD+...: the probe less each gradient method, or L2E, on the same texts, tested within each record."""
    records = [_probe_record(name) for name in what.split("+")]
    lower, metrics = records[0]["lower"], list(records[0]["rows"][0]["metrics"])
    lines = []
    for record in records:
        values = {row["name"]: row["values"] for row in record["rows"] if "values" in row}
        others = [name for name in AGAINST if name in values]
        tests = mean_tests(
            [
                np.subtract(*(np.array(values[who][metric], dtype=np.float64) for who in ("probe", other)))
                for other in others
                for metric in metrics
            ]
        )
        signs = [-1 if metric in lower else 1 for metric in metrics] * len(others)
        shown = [
            f"{value:+.3f}{'' if not sure else ' *' if sign * value > 0 else ' (behind *)'}".replace("-", "−")
            for value, sure, sign in zip(tests.difference, tests.significant, signs, strict=True)
        ]
        cells = np.reshape(shown, (len(others), len(metrics))).tolist()
        about = [f"{record['data']}, {record['model']}", f"{int(tests.n.max()):,}"]
        lines += [[*about, who, *row] for who, row in zip(others, cells, strict=True)]
    return _of_records(lines, ["texts", "probe less"], metrics, lower)


def _settings(command: str) -> str:
    """What a command of ``benchmarks.probe`` sets of the signal, the head and the training texts."""
    words = shlex.split(command)
    given = dict(
        itertools.takewhile(
            lambda pair: len(pair) == 2, (word.split("=", 1) for word in words[words.index("--set") + 1 :])
        )
    )
    settings = json.loads(given.get("signal_settings", "{}"))
    signal = {name: settings.get(name) for name in ("alone", "warm")}
    head = "block of attention" if "blocks" in given else "hidden layer"
    return ", ".join(
        [
            json.loads(given.get("signal", '"ablate"')),
            *(f"{name} {value:g}" for name, value in signal.items() if value is not None),
            *([" and ".join(settings["absences"])] if "absences" in settings else []),
            f"{head} of {given.get('width', 256)}",
            *(f"{len(json.loads(given[name]))} layers" for name in ("layers",) if name in given),
            f"{int(words[words.index('--train') + 1]):,} texts",
        ]
    )


def _probe_costs(record: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Milliseconds of a batch, and how many times the prediction they are."""
    kinds = list(record["rows"][0]["seconds"])
    lines = [
        [row["name"], *(f"{1000 * row['seconds'][k]:.2f} ({row['times the prediction'][k]:.3f} ×)" for k in kinds)]
        for row in record["rows"]
    ]
    return ["texts", *kinds], lines


def _probe_budgets(record: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Error, rank correlation and coverage by evaluations."""
    lines = []
    for row in record["rows"]:
        cells = [_with_interval({key: row[f"{name} {key}"] for key in ("mean", "low", "high")}) for name in _BUDGETED]
        covered = row["covered by 95 % intervals"]
        lines.append([row["name"], f"{row['forwards']:.0f}", *cells, "–" if covered is None else f"{covered:.0%}"])
    return ["explainer", "forwards", *_BUDGETED, "covered by 95 % intervals"], lines


def _with_interval(found: Mapping[str, float]) -> str:
    return f"{found['mean']:.3f} [{found['low']:.3f}, {found['high']:.3f}]"


_BUDGETED = ("absolute error", "rank correlation")

PROBE_PARTS: Mapping[str, Callable[[Mapping[str, Any]], tuple[list[str], list[list[str]]]]] = {
    "quality": _probe_grades,
    "curve": _probe_grades,
    "elsewhere": _probe_grades,
    "cost": _probe_costs,
    "budget": _probe_budgets,
}


# The service


def _service(part: str) -> str:
    """A part of the measurements of the service; what is not measured yet is named."""
    file = RESULTS / "service" / f"{part}.json"
    if not file.is_file():
        return "Not measured yet."
    record = json.loads(file.read_text(encoding="utf-8"))
    around = f", {record['cores']} cores, load average {record['load_before']} before it" if "cores" in record else ""
    return f"{SERVICE[part](record)}\n\nMade by `{record['command']}`{around}."


def _mixed(record: Mapping[str, Any]) -> str:
    sizes = record["megabytes"]
    rows = [
        [kind, f"{times['count']:,.0f}", *(f"{times[name]:,.0f}" for name in ("p50", "p95", "p99"))]
        for kind, times in record["milliseconds"].items()
    ]
    about = (
        f"{record['clients']} clients for {record['seconds']:.0f} seconds; answers by status: "
        f"{_counts(record['statuses'])}. Memory of the service: {sizes[len(sizes) // 5]:,.0f} MB after a fifth of the "
        f"time, {sizes[len(sizes) // 2]:,.0f} MB after half of it, {sizes[-1]:,.0f} MB at the end."
    )
    return f"{about}\n\n{markdown_table(['requests', 'answered', 'p50 ms', 'p95 ms', 'p99 ms'], rows, 'lrrrr')}"


def _together(record: Mapping[str, Any]) -> str:
    rates = record["rates"]
    rows = [[name, *(f"{rate:.1f}" for rate in values)] for name, values in rates.items()]
    rounds = [f"round {number + 1}" for number in range(len(rates["together"]))]
    about = (
        f"Requests per second in turns of {record['seconds']:.0f} seconds: {record['ratio']:.2f} times as many "
        f"together as one at a time (median of the rounds); {np.mean(record['requests_per_batch']):.0f} requests in a "
        "batch."
    )
    return f"{about}\n\n{markdown_table(['computed', *rounds], rows, 'lr')}"


def _overload(record: Mapping[str, Any]) -> str:
    rows = []
    for factor, load in record["loads"].items():
        times, back = load["milliseconds"], load["returned"]
        full = f"{times['429']['p95']:,.0f}" if "429" in times else "–"
        came = f"{back.get('200', 0)} of {sum(back.values())}" if back else "–"
        accepted = [f"{times['kernel_shap'][name]:,.0f}" for name in ("p50", "p95")]
        rows.append([f"{factor} x", f"{load['rate']:.1f}", _counts(load["statuses"]), *accepted, full, came])
    heads = ["load", "requests/s", "first answers", "p50 ms", "p95 ms", "p95 ms of 429", "accepted when they came back"]
    p95 = {factor: load["milliseconds"]["kernel_shap"]["p95"] for factor, load in record["loads"].items()}
    about = (
        f"Capacity: {record['capacity']:.1f} requests per second. The p95 of accepted requests at twice the capacity "
        f"is {p95['2'] / p95['1']:.2f} times that at the capacity, {p95['2'] / p95['0.8']:.2f} times that at 0.8 of it."
    )
    return f"{about}\n\n{markdown_table(heads, rows, 'lrlrrrr')}"


def _kills(record: Mapping[str, Any]) -> str:
    return (
        f"A job of {record['texts']} texts, killed {record['kills']} times after "
        f"{', '.join(map(str, record['done_at_kill']))} results: {record['results']} results at the end, "
        f"{record['equal']} of them equal to those of a job that was not disturbed."
    )


def _hostile(record: Mapping[str, Any]) -> str:
    failed = sum(count for status, count in record["statuses"].items() if int(status) >= 500)
    return (
        f"{record['requests']:,} requests: {failed} answers of 500 or more, {record['unanswered']} without an answer "
        f"within 30 seconds; the slowest took {record['slowest_seconds']:.1f} seconds. Answers by status: "
        f"{_counts(record['statuses'])}."
    )


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{status}: {count:,}" for status, count in counts.items()) or "none"


SERVICE: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "mixed": _mixed,
    "together": _together,
    "overload": _overload,
    "kills": _kills,
    "hostile": _hostile,
}


# Explainers trained for teaching


@functools.cache
def scaffolding(name: str) -> ScaffoldingFindings:
    """What a study of explainers trained for teaching shows."""
    return ScaffoldingFindings.read(RESULTS / "smat" / name)


def _smat(what: str) -> str:
    """RUN/verdicts, its sentences; RUN/students, a table per size; RUN/claims, agreement, heads or time; or cost."""
    name, _, part = what.partition("/")
    if what == "cost":
        return _step_costs(json.loads((RESULTS / "smat" / "scaffold.json").read_text(encoding="utf-8"))["rows"])
    if part == "time":
        return _stage_seconds(RESULTS / "smat" / name / "steps.jsonl")
    findings = scaffolding(name)
    if part == "verdicts":
        return bullets(markdown_text(sentence) for sentence in findings.sentences)
    if part == "students":
        made = [scaffolding_report.taught_table(findings, group, findings.measures) for group in findings.groups]
        named = zip(findings.groups, made, strict=True)
        return "\n\n".join(f"{group}:\n\n{as_markdown(one)}" for group, one in named)
    if part == "claims":
        return as_markdown(scaffolding_report.claim_table(findings, findings.measures))
    return as_markdown(getattr(scaffolding_report, f"{part}_table")(findings))


STAGES = {"train": "training the explainer", "explain": "explaining", "teach": "training and testing students"}


def _stage_seconds(log: Path) -> str:
    """Seconds of every stage of a study, from the log of its steps."""
    steps = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    seconds = {
        title: sum(step["seconds"] for step in steps if step["step"].startswith(stage + "/"))
        for stage, title in STAGES.items()
    }
    rows = [*seconds.items(), ("all steps", sum(step["seconds"] for step in steps))]
    return markdown_table(("stage", "seconds"), [[title, f"{value:,.0f}"] for title, value in rows], "lr")


def _step_costs(rows: Sequence[Mapping[str, Any]]) -> str:
    """How many times a plain step of the students each kind of step takes."""
    kinds = list(rows[0]["times a student step"])
    cells = [[row["precision"], *(f"{row['times a student step'][kind]:.2f}" for kind in kinds)] for row in rows]
    return markdown_table(["products", *kinds], cells, "lr")


TABLES: Mapping[str, Callable[[str], str]] = {
    "aml": _aml,
    "flips": _flips,
    "probe": _probe,
    "probes": _probes,
    "against": _against,
    "smat": _smat,
    "service": _service,
    "lime": _lime,
    "references": _references,
    "kept": lambda name: kept_table(study(name)),
    "stable": lambda name: stable_table(study(name)),
    "between": _between,
    "disagreement": _disagreement,
    "restored": _restored,
    "saved": _saved,
    "gpu": _gpu,
    "gpu-default": _default_speed,
    "agreement": _agreement,
    "reliability": _reliability,
    "grades": _grades,
    "gains": _gains,
    "graded": _graded_hints,
    "students": _students,
    "closed": _closed_form,
}


if __name__ == "__main__":
    main()
