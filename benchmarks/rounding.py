"""What half precision changes of an explanation on a GPU, beside what the method's own draws change.

The same texts are explained three times: by the full model, by the model in float16 with the same draws, and by the
full model with other draws. All three are graded by the full model.

    python -m benchmarks.rounding --model ../shared/weights/minilm-imdb --data imdb --device cuda --tf32
"""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from benchmarks.common import machine, prepare
from didact.attribution.base import Attribution
from didact.attribution.kernel_shap import KernelShap
from didact.attribution.lime import Lime
from didact.data.load import load_data
from didact.metrics.base import METRICS
from didact.models.half_precision import HalfPrecision
from didact.models.load import load_model
from didact.models.network import NetworkModel
from didact.protocols import Evidence
from didact.stats.correlation import spearman
from didact.types import Example, Explanation

METHODS: tuple[Attribution, ...] = (Lime(samples=1000), KernelShap(evaluations=500))
GRADED = ("log_odds_difference", "comprehensiveness", "sufficiency", "deletion_area", "insertion_area")


def main() -> None:
    """Explain, compare and write the record."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--model", required=True, help="a directory")
    options.add_argument("--data", default="imdb")
    options.add_argument("--max-length", type=int, default=256, help="tokens that the model reads at most")
    options.add_argument("--texts", type=int, default=64, help="test texts (default 64)")
    options.add_argument("--device", default="cuda", help="cpu or cuda (default cuda)")
    options.add_argument("--tf32", action="store_true", help="a GPU may round the factors of products to ten bits")
    options.add_argument("--out", type=Path, default=Path("docs/results/rounding.json"))
    args = options.parse_args()
    prepare(1)
    if args.tf32:
        torch.set_float32_matmul_precision("high")
    full, half = _loaded(args), HalfPrecision(_loaded(args))
    texts = load_data(args.data, split="test").examples[: args.texts]
    record = {
        "command": f"python -m benchmarks.rounding --model {Path(args.model).name} --data {args.data} "
        f"--max-length {args.max_length} --texts {args.texts} --device {args.device}" + " --tf32" * args.tf32,
        **machine(1, args.device),
        "methods": {method.card.name: _compared(method, full, half, texts) for method in METHODS},
    }
    args.out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(record["methods"], indent=1))


def _loaded(args: argparse.Namespace) -> NetworkModel:
    model = load_model(args.model, device=args.device, max_length=args.max_length, max_truncated=1.0)
    assert isinstance(model, NetworkModel)
    return model


def _compared(
    method: Attribution, full: NetworkModel, half: NetworkModel, texts: Sequence[Example]
) -> dict[str, object]:
    """Rank correlation with the scores of the full model, mean absolute difference, and the means of the grades."""
    predicted = [one.label for one in full.predict(texts)]
    plain = method.explain(full, texts, predicted)
    others = {
        "float16": method.explain(half, texts, predicted),
        "other draws": dataclasses.replace(method, seed=1).explain(full, texts, predicted),  # type: ignore[call-arg]
    }
    size = float(np.mean([np.abs(one.array).mean() for one in plain]))
    found: dict[str, object] = {"full": _graded(full, plain)}
    for name, made in others.items():
        made = [dataclasses.replace(one, prediction=own.prediction) for one, own in zip(made, plain, strict=True)]
        pairs = [(first.array, second.array) for first, second in zip(plain, made, strict=True)]
        found[name] = {
            "rank correlation": round(float(np.mean([spearman(*pair) for pair in pairs])), 5),
            "difference / mean size": round(float(np.mean([np.abs(a - b).mean() for a, b in pairs])) / size, 5),
            **_graded(full, made),
        }
    return found


def _graded(model: NetworkModel, explained: Sequence[Explanation]) -> dict[str, float]:
    evidence = Evidence(explained, model)
    measured = {name: METRICS.get(name).configured().measure(evidence) for name in GRADED}
    return {name: round(float(np.nanmean([grade.value for grade in own])), 5) for name, own in measured.items()}


if __name__ == "__main__":
    main()
