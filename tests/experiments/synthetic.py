"""Run folders made by code, with known differences between explainers."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from didact.store import explanations as kept
from didact.store import records
from didact.types import Cost, Example, Explanation, Prediction, Record, Span, Target, Units

WORDS = ("warm", "funny", "dull", "slow", "wonderful", "film", "plot", "heart", "acting", "weak", "bright", "long")
METHODS = ("lime", "integrated_gradients", "gradient_x_input", "random", "trivial")
# What each explainer is worth on a faithfulness metric; the first two cannot be told apart.
WORTH = {"lime": 0.50, "integrated_gradients": 0.495, "gradient_x_input": 0.30, "random": 0.05, "trivial": 0.06}
SECONDS = {"lime": 0.8, "integrated_gradients": 0.1, "gradient_x_input": 0.01, "random": 0.002, "trivial": 0.002}


def metric_card(name: str, family: str = "faithfulness", better: bool | None = True, **more: Any) -> dict[str, Any]:
    return {"name": name, "family": family, "summary": f"What {name} is.", "higher_is_better": better, **more}


def manifest(methods: Sequence[str] = METHODS, metrics: Sequence[dict[str, Any]] = (), **more: Any) -> dict[str, Any]:
    controls = ("random", "trivial", "human")
    return {
        "name": "synthetic",
        "model": {"name": "tiny", "fingerprint": "f0", "labels": ["negative", "positive"]},
        "data": {"name": "made-up", "split": "test", "examples": 40, "fingerprint": "d0"},
        "explainers": {
            method: {
                "method": method,
                "parameters": {"samples": 100},
                "card": {
                    "name": method,
                    "family": "control" if method in controls else "any",
                    "summary": "It explains.",
                },
            }
            for method in methods
        },
        "metrics": {card["name"]: {"metric": card["name"], "parameters": {}, "card": card} for card in metrics},
        "seeds": [0, 1],
        "versions": {"didact": "0.1.0"},
        "nulls": ["shuffle"],
        "command": "didact run recipe.toml",
    } | more


def record(explainer: str, metric: str, example: str, value: float, **more: Any) -> Record:
    given: dict[str, Any] = {"seed": 0, "null": "", "part": ""} | more
    return Record(
        explainer=explainer, method=explainer, metric=metric, example=example, value=value,
        model="f0", data="made-up", settings="s0", **given,
    )  # fmt: skip


def explanation(number: int, explainer: str, text: str | None = None, **more: Any) -> Explanation:
    """A text of six words; every fourth prediction is wrong."""
    rng = np.random.default_rng([number, sum(map(ord, explainer))])
    words = [WORDS[(number * 5 + at * 7) % len(WORDS)] for at in range(6)] if text is None else text.split(" ")
    text = " ".join(words)
    starts = np.cumsum([0, *(len(word) + 1 for word in words)])
    spans = tuple(Span(int(start), int(start) + len(word)) for start, word in zip(starts, words, strict=False))
    gold = "negative" if number % 4 == 0 else "positive"
    return Explanation(
        method=explainer,
        units=Units(
            Example(text, label=gold, id=more.pop("id", f"e{number:03d}")), "word", spans, (), more.pop("cut", 0.0)
        ),
        scores=tuple(float(score) for score in rng.normal(size=len(words))),
        target=Target(1, "positive"),
        prediction=Prediction(("negative", "positive"), (-1.0, 1.0), (0.12, 0.88)),
        cost=Cost(1 if explainer == "random" else 50, 0, None, SECONDS.get(explainer, 0.1)),
        **more,
    )


def typical_records(examples: int = 40, seeds: int = 2, methods: Sequence[str] = METHODS) -> list[Record]:
    """Five metrics: two sound ones, one that trivial games, an area with its curve, and agreement."""
    rng, found = np.random.default_rng(0), []
    for method in methods:
        for seed in range(seeds):
            for number in range(examples):
                example, noise = f"e{number:03d}", rng.normal(size=8) * 0.08
                worth = WORTH.get(method, 0.2) + (0.1 if number % 3 else -0.1)
                at = {"explainer": method, "example": example, "seed": seed}
                found += [
                    record(metric="comprehensiveness", value=worth + noise[0], **at),
                    record(metric="comprehensiveness", value=0.06 + noise[1], null="shuffle", **at),
                    record(
                        metric="comprehensiveness",
                        value=worth - 0.3 * (number % 2) + 0.01 * noise[2],
                        null="labels",
                        **at,
                    ),
                    record(metric="sufficiency", value=0.2 - worth / 4 + noise[3] if number else float("nan"), **at),
                    record(metric="steadiness", value=(0.9 if method == "trivial" else 0.5) + noise[4], **at),
                    record(metric="deletion_area", value=0.8 - worth + noise[5], **at),
                ]
                found += [
                    record(metric="deletion_area", part=f"{share}%", value=0.9 - worth * share / 100, **at)
                    for share in range(0, 101, 10)
                ]
                overlap = {other: 0.6 + noise[6] / 4 + number / 100 for other in methods if other != method}
                found.append(record(metric="top_k_agreement", value=float(np.mean(list(overlap.values()))), **at))
                found += [record(metric="top_k_agreement", part=one, value=v, **at) for one, v in overlap.items()]
    return found


CARDS = (
    metric_card("comprehensiveness"),
    metric_card("sufficiency", better=False),
    metric_card("steadiness", "stability"),
    metric_card("deletion_area", better=False),
    metric_card("top_k_agreement", "agreement", None),
)


def write_run(folder: Path, rows: Sequence[Record], told: dict[str, Any], found: Sequence[Explanation] = ()) -> Path:
    """A finished run of these records; explanations are labelled by their methods."""
    folder.mkdir(parents=True, exist_ok=True)
    records.write(folder / "records.parquet", records.in_order(records.to_table(rows)))
    if found:
        table = kept.to_table(found, [each.method for each in found], [0] * len(found))
        kept.write(folder / "explanations.parquet", table)
    (folder / "manifest.json").write_text(json.dumps(told), encoding="utf-8")
    return folder


def typical_run(folder: Path, examples: int = 40) -> Path:
    """The usual case, with everything a run can have but timings."""
    found = [explanation(number, method) for method in METHODS for number in range(examples)]
    return write_run(folder, typical_records(examples), manifest(metrics=CARDS), found)
