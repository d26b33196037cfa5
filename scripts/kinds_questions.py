"""Question answering: do explanations of answers point to the phrases that people linked between question and passage?

    python scripts/kinds_questions.py --model DIR    # 200 questions; writes docs/results/kinds/questions.json and .md
    python scripts/kinds_questions.py --model DIR --questions 20 --methods gradient_norm --out runs/few.json

QED (Lamm et al. 2021) links phrases of a question with the phrases of its passage that mean the same (referential
equalities). Each method explains the log-probability of the model's own answer; the words of the passage are then
ranked by their scores, and the words inside links are held against the others (area under the ROC curve; chance is
0.5), once with the answer's own words among the others and once without them. The same is computed for questions that
the model answers as people did. Intervals are bootstrap-t over questions, 95 %.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import platform
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

import didact
from didact.attribution.base import ATTRIBUTIONS
from didact.data.questions import Question, load_questions
from didact.metrics.plausibility.rationale_auc import RationaleAuc
from didact.protocols import Evidence, Model
from didact.provenance import versions
from didact.stats.bootstrap import interval
from didact.types import Bools, Explanation, Floats, Region, Span, Units, overlapping

METHODS = (
    "random",
    "gradient_norm",
    "gradient_x_input",
    "smoothgrad",
    "attention",
    "attention_rollout",
    "attention_x_gradient",
    "occlusion",
    "integrated_gradients",
    "sequential_integrated_gradients",
    "gradient_shap",
    "lime",
    "partition_shap",
    "kernel_shap",
)
OUT = Path("docs/results/kinds/questions.json")
CHANCE = 0.5


def main() -> None:
    """Explain, judge and write."""
    options = _options()
    questions = load_questions("qed", split=options.split, limit=options.questions, seed=options.seed, linked=True)
    model = didact.load_model(options.model, device=options.device)
    predictions = model.predict([question.example for question in questions])
    right = np.array([_overlap(p.extract, q.answers) for p, q in zip(predictions, questions, strict=True)])
    results: dict[str, Any] = {
        "command": f"python scripts/kinds_questions.py --model DIR --questions {len(questions)} --seed {options.seed}",
        "model": {"name": Path(model.name).name, "fingerprint": model.fingerprint()},
        "data": {"name": "qed", "split": options.split, "questions": len(questions), "seed": options.seed},
        "answers": _answers(predictions, questions, right),
        "machine": {"device": str(torch.cuda.get_device_name() if torch.cuda.is_available() else platform.machine())},
        "versions": dict(versions()),
        "methods": {},
    }
    for method in options.methods:
        results["methods"][method] = _judged(method, model, questions, right)
        print(method, json.dumps(results["methods"][method]), flush=True)
        options.out.parent.mkdir(parents=True, exist_ok=True)  # after each method, in case time runs out
        options.out.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
        options.out.with_suffix(".md").write_text(_page(results), encoding="utf-8")


def _page(results: Mapping[str, Any]) -> str:
    """The figures as a page."""
    data, answers = results["data"], results["answers"]
    rows = sorted(results["methods"].items(), key=lambda item: -item[1]["auc"]["mean"])
    kinds = ("auc", "auc_magnitude", "auc_without_answer", "auc_right", "auc_wrong")
    table = [
        "| " + " | ".join([name, *(_cell(row[kind]) for kind in kinds), f"{row['seconds']:,.1f}"]) + " |"
        for name, row in rows
    ]
    above, large = ([name for name, row in rows if row[kind]["low"] > CHANCE] for kind in kinds[:2])
    return _PAGE.format(
        command=results["command"],
        model=results["model"]["name"],
        questions=data["questions"],
        split=data["split"],
        seed=data["seed"],
        exact=100 * answers["exact"],
        overlapping=100 * answers["overlapping"],
        none=100 * answers["no_answer"],
        device=results["machine"]["device"],
        above=_named(above, len(rows)),
        large=_named(large, len(rows)),
        table="\n".join(table),
        undefined=max(row["auc"]["undefined"] for _, row in rows),
        skipped=_left_out(rows),
    )


def _named(names: Sequence[str], of: int) -> str:
    return f"{len(names)} of {of} methods: {', '.join(names)}" if names else "no method"


def _left_out(rows: Sequence[tuple[str, Mapping[str, Any]]]) -> str:
    """Which methods cannot explain answers of passages in several windows."""
    short = {name: row["skipped"] for name, row in rows if row["skipped"]}
    if not short:
        return ""
    names, many = ", ".join(sorted(short)), max(short.values())
    return f"{many} passages are read in several windows; {names} look into a single pass and leave them out.\n"


def _cell(summary: Mapping[str, float]) -> str:
    if np.isnan(summary["low"]):
        return f"{summary['mean']:.3f} (n = {summary['n']})"
    return f"{summary['mean']:.3f} [{summary['low']:.3f}, {summary['high']:.3f}]"


_PAGE = """# Question answering: explanations against QED's links

```
{command}
```

{questions} questions of QED's {split} split that have links (drawn with seed {seed}), answered by `{model}`,
which was not trained on QED: {exact:.1f} % of its answers are exactly one that people gave, {overlapping:.1f} % share
a character with one, and it predicts "no answer" for {none:.1f} %. Each method explains the log-probability of the
model's own answer. The words of the passage inside referential equalities are held against its other words: area
under the ROC curve, the mean over questions with its 95 % interval (bootstrap-t). **Chance is 0.5**; `random` shows
it. Signed scores count as they are.

Above chance, with an interval that excludes it: {above}. By the size of the scores, whatever their sign: {large}.

| method | AUC | AUC of sizes | without the answer's words | answers that overlap people's | other answers | seconds |
|---|---|---|---|---|---|---|
{table}

Left out: questions without links (QED has none for answers that need several sentences), and {undefined} of the
{questions} questions, whose passage words are all linked, or none. {skipped}Seconds are for all questions on {device}.
"""


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="directory of a network for questions")
    parser.add_argument("--methods", nargs="+", default=METHODS, choices=[card.name for card in ATTRIBUTIONS.cards()])
    parser.add_argument("--questions", type=int, default=200)
    parser.add_argument("--split", default="dev")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device")
    parser.add_argument("--out", type=Path, default=OUT)
    return parser.parse_args()


def _judged(method: str, model: Model, questions: Sequence[Question], right: Bools) -> dict[str, object]:
    """AUC of one method with intervals, and what it took."""
    started = time.perf_counter()
    examples = [question.example for question in questions]
    explanations = didact.explain(examples, model, method, progress=False, on_error="skip")
    seconds = time.perf_counter() - started
    right = np.delete(right, [note.index for note in explanations.skipped])
    whole = _auc(explanations)
    others = _auc([_without_answer(explanation) for explanation in explanations])
    return {
        "signed": explanations[0].signed,
        "auc": _summary(whole),
        "auc_magnitude": _summary(_auc(explanations, "either")),
        "auc_without_answer": _summary(others),
        "auc_right": _summary(whole[right]),
        "auc_wrong": _summary(whole[~right]),
        "skipped": len(explanations.skipped),  # passages of several windows, for methods that look into one pass
        "seconds": round(seconds, 1),
        "forwards": sum(explanation.cost.forwards for explanation in explanations),
    }


def _auc(explanations: Sequence[Explanation], evidence: Literal["for", "either"] = "for") -> Floats:
    grades = RationaleAuc(field=1, evidence=evidence).measure(Evidence(explanations))
    return np.array([grade.value for grade in grades])


def _without_answer(explanation: Explanation) -> Explanation:
    """The same without the units of the answer."""
    answer: Sequence[Region] = [region for region in [explanation.prediction.extract] if isinstance(region, Span)]
    units = explanation.units
    kept = np.flatnonzero(~overlapping(units.regions, answer))
    regions = tuple(units.regions[i] for i in kept)
    return dataclasses.replace(
        explanation,
        units=Units(units.example, units.level, regions),
        scores=tuple(explanation.scores[i] for i in kept),
        errors=(),
    )


def _summary(values: Floats) -> dict[str, float | int]:
    made = interval(values)
    return {"mean": made.mean, "low": made.low, "high": made.high, "n": made.n, "undefined": made.dropped}


def _overlap(answer: object, gold: Sequence[Span]) -> bool:
    """Whether an answer shares a character with one that people gave."""
    return isinstance(answer, Span) and bool(overlapping([answer], gold).any())


def _answers(predictions: Sequence[object], questions: Sequence[Question], right: Bools) -> dict[str, float]:
    spans = [prediction.extract for prediction in predictions]  # type: ignore[attr-defined]
    exact = [span in question.answers for span, question in zip(spans, questions, strict=True)]
    none = [span.start == span.end for span in spans]
    return {"exact": float(np.mean(exact)), "overlapping": float(right.mean()), "no_answer": float(np.mean(none))}


if __name__ == "__main__":
    main()
