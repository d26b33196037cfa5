"""What the expected disagreement of a learned explainer notices: texts like those of the training, and other kinds.

A network learns LRP on film-review sentences. On new texts of several kinds the reference is run too, so that the
disagreement that was expected, without and with checks, can be held against the one that is there; and a fallback to
the reference is tried: how faithful explanations are before and after it, by five metrics, beside the reference and
random scores.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.common import load_network, machine, prepare
from didact.attribution.lrp import Lrp
from didact.attribution.random import Random
from didact.data.load import load_data
from didact.experiments.masking.judges import panel
from didact.models.compose import compose
from didact.models.network import NetworkModel
from didact.stats.correlation import spearman
from didact.trained.checked import checked_disagreement
from didact.trained.checking import CHECKS
from didact.trained.explainer import LearnedExplainer
from didact.trained.fidelity import agreement_with_reference
from didact.trained.judging import Judge
from didact.trained.train import train
from didact.types import Example, Explanation, Floats

KINDS = {"film reviews": ("sst2", "test"), "tweets": ("emotion", "test"), "news": ("ag_news", "test")}
SETTINGS: dict[str, dict[str, object]] = {
    "scorer": {"shape": "scorer", "signal": "labelling", "epochs": 8},
    "default": {},
}
"""Networks: one that reads the model's tokens, and that of ``didact train l2e`` when nothing is set."""
FEWEST, MOST = 5, 40
RESAMPLES = 2_000


def main() -> None:
    """Train, explain and write the record."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument(
        "--train", type=int, default=1200, help="training texts, a third of them to choose and measure"
    )
    options.add_argument("--texts", type=int, default=400, help="new texts of each kind (default 400)")
    options.add_argument("--network", choices=tuple(SETTINGS), default="scorer")
    options.add_argument("--checks", type=int, default=CHECKS, help="evaluations of the model on a text (default 16)")
    options.add_argument("--beside", help="a quick method that the checked estimate compares with: deeplift")
    options.add_argument("--device", default="cpu", help="cpu or cuda (default cpu)")
    options.add_argument("--threads", type=int, default=1)
    options.add_argument("--out", type=Path, default=Path("docs/results/disagreement.json"))
    args = options.parse_args()
    prepare(args.threads)
    network, tokenizer, which = load_network()
    model = compose(network.to(args.device), tokenizer)
    settings = SETTINGS[args.network] | {"checks": args.checks, "check_beside": args.beside}
    explainer = train("l2e", model, _texts("sst2", "train", args.train), Lrp(), **settings)  # type: ignore[arg-type] # checked by the preset
    print(explainer.verdict, flush=True)
    assert explainer.disagreement is not None
    assert explainer.checked is not None
    record: dict[str, Any] = {
        "command": f"python -m benchmarks.disagreement --train {args.train} --texts {args.texts} "
        f"--network {args.network} --checks {args.checks}"
        + ("" if args.beside is None else f" --beside {args.beside}")
        + ("" if args.device == "cpu" else f" --device {args.device}"),
        **machine(args.threads, args.device),
        "model": which,
        "training texts": args.train,
        "checks": args.checks,
        "verdict": explainer.verdict,
        "threshold": explainer.disagreement.threshold,
        "checked threshold": explainer.checked.threshold,
        "kinds": {kind: _kind(model, explainer, *source, args.texts) for kind, source in KINDS.items()},
    }
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    for kind, found in record["kinds"].items():
        print(kind, {name: value for name, value in found.items() if not isinstance(value, list)})


def _texts(source: str, split: str, count: int) -> list[Example]:
    """Texts of 5 to 40 words."""
    examples = load_data(source, split=split).examples
    fitting = [example for example in examples if FEWEST <= len(example.text.split()) <= MOST]
    order = np.random.default_rng(0).permutation(len(fitting))[:count]
    return [fitting[place] for place in order]


def _kind(model: NetworkModel, explainer: LearnedExplainer, source: str, split: str, count: int) -> dict[str, object]:
    """Expected and observed disagreement (1 - Spearman) of new texts, and the share above the threshold."""
    examples: Sequence[Example] = _texts(source, split, count)
    reference = Lrp().explain(model, examples)
    learned = explainer.explain(model, examples, predictions=[one.prediction for one in reference])
    observed = 1 - agreement_with_reference(learned, reference, explainer.signal)["spearman"]
    expected = np.array([one.details["disagreement"] for one in learned])
    known = np.isfinite(observed)
    checked = checked_disagreement(explainer, model, learned)
    assert explainer.disagreement is not None
    assert explainer.checked is not None
    threshold, doubtful = explainer.disagreement.threshold, checked > explainer.checked.threshold
    chance = Random().explain(model, examples)
    again = {"fallback": expected > threshold, "checked fallback": doubtful}
    return {
        **_correlation(expected[known], observed[known], "rank correlation"),
        **_correlation(checked[known], observed[known], "checked rank correlation"),
        "checked expected": float(checked[known].mean()),
        "checked above the threshold": float(doubtful[known].mean()),
        "observed after a checked fallback": float(np.where(doubtful, 0.0, observed)[known].mean()),
        "texts": int(known.sum()),
        "left out": int((~known).sum()),
        "expected": float(expected[known].mean()),
        "observed": float(observed[known].mean()),
        "above the threshold": float((expected[known] > threshold).mean()),
        "expected of each": [round(value, 4) for value in expected[known].tolist()],
        "observed of each": [round(value, 4) for value in observed[known].tolist()],
        "checked of each": [round(value, 4) for value in checked[known].tolist()],
        "metrics": {judge.name: _restored(judge, model, (learned, reference, chance), again) for judge in panel()},
    }


def _correlation(first: Floats, second: Floats, name: str) -> dict[str, float]:
    """Spearman's with its 95 % interval, by resampled texts."""
    rng = np.random.default_rng(0)
    drawn = [rng.integers(len(first), size=len(first)) for _ in range(RESAMPLES)]
    low, high = np.percentile([spearman(first[rows], second[rows]) for rows in drawn], (2.5, 97.5))
    return {name: spearman(first, second), f"{name} low": float(low), f"{name} high": float(high)}


def _restored(
    judge: Judge,
    model: NetworkModel,
    made: tuple[Sequence[Explanation], Sequence[Explanation], Sequence[Explanation]],
    again: Mapping[str, NDArray[np.bool_]],
) -> dict[str, float]:
    """Means of a metric: of the network, with the reference instead where it is run again, of it alone, by chance.

    Args:
        judge: of the metric.
        model: the explained model.
        made: explanations of the network and the reference, and random scores.
        again: where each kind of fallback runs the reference.
    """
    own, theirs, chance = (judge.grades(model, explanations) for explanations in made)
    values = {"network": own, **{name: np.where(rows, theirs, own) for name, rows in again.items()}}
    values |= {"reference": theirs, "random": chance}
    defined = np.isfinite(np.stack(list(values.values()))).all(0)
    return {name: float(each[defined].mean()) for name, each in values.items()} | {"n": int(defined.sum())}


if __name__ == "__main__":
    main()
