"""Tries threads on one network: 8 threads, 200 mixed calls each, while the network is in train mode.

    python scripts/trust_threads.py --out docs/results/trust/threads.json
    python scripts/trust_threads.py --threads 4 --calls 20

Each call explains by a random method that fits, predicts, scores masks, grades explanations or takes the fingerprint,
through adapters that the threads share and through ones of their own. Every result is compared with that of the same
call made alone, and the network with what it was before. Everything follows from --seed.
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import torch
from torch import nn

import didact
from didact.attribution.base import ATTRIBUTIONS
from didact.metrics.base import METRICS
from didact.models.load import load_model
from didact.models.network import NetworkModel
from didact.protocols import Evidence
from didact.provenance import versions
from didact.testing.tiny import TEXTS, tiny_model
from didact.types import Example

METRICS_USED = ("comprehensiveness", "sufficiency", "deletion_area")
Call = Callable[[NetworkModel], list[float]]


def main() -> None:
    """Run the calls alone and in threads, and report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=17)
    parser.add_argument("--threads", type=int, default=8)
    parser.add_argument("--calls", type=int, default=200, help="per thread")
    parser.add_argument("--architecture", default="bert")
    parser.add_argument("--out", type=Path, help="where the record goes, as JSON")
    args = parser.parse_args()
    torch.set_num_threads(1)
    record = trial(args)
    text = json.dumps(record, indent=1)
    print(text)
    if args.out:
        args.out.parent.mkdir(parents=True, exist_ok=True)
        args.out.write_text(text + "\n", encoding="utf-8")
    sys.exit(0 if record["wrong"] == 0 and not record["errors"] and record["model as it was"] else 1)


def trial(args: argparse.Namespace) -> dict[str, object]:
    """All calls alone, then in threads on the same network in train mode."""
    given = tiny_model(args.architecture)
    network = given[0]
    names, calls = planned(given, args.threads * args.calls, args.seed)
    alone = [call(adapter(given)) for call in calls]
    network.train()
    next(iter(network.base_model.children())).eval()  # a mixture of modes, which must come back too
    before, shared = condition(network), adapter(given)
    together = threading.Barrier(args.threads)
    errors: list[str] = []
    wrong: list[str] = []

    def work(thread: int) -> None:
        together.wait()
        for number in range(thread, len(calls), args.threads):
            try:
                made = calls[number](shared if number % 3 else adapter(given))
            except Exception as problem:  # what went wrong is the result
                errors.append(f"{names[number]}: {type(problem).__name__}: {problem!s:.120}")
            else:
                if len(made) != len(alone[number]) or not np.allclose(made, alone[number], rtol=1e-5, atol=1e-6):
                    wrong.append(names[number])

    begun = time.perf_counter()
    with ThreadPoolExecutor(args.threads) as pool:
        list(pool.map(work, range(args.threads)))
    unharmed = condition(network) == before
    figures = [
        {"what": f"of {len(calls)} calls by {args.threads} threads: another result than alone", "value": len(wrong)},
        {"what": "of these calls: an exception", "value": len(errors)},
    ]
    return {
        "command": "python scripts/trust_threads.py",
        "figures": [
            *({**row, "bar": "0"} for row in figures),
            {"what": "the network as it was", "value": str(unharmed), "bar": "True"},
        ],
        "seed": args.seed,
        "architecture": args.architecture,
        "threads": args.threads,
        "calls": len(calls),
        "kinds": dict(Counter(names).most_common()),
        "errors": errors,
        "wrong": len(wrong),
        "wrong calls": wrong,
        "model as it was": unharmed,
        "seconds": round(time.perf_counter() - begun, 1),
        "versions": versions(),
    }


def adapter(given: tuple[nn.Module, object]) -> NetworkModel:
    """A new adapter, which has tried nothing yet."""
    made = load_model(given)
    assert isinstance(made, NetworkModel)
    return made


def planned(given: tuple[nn.Module, object], count: int, seed: int) -> tuple[list[str], list[Call]]:
    """Names and calls, drawn at random."""
    rng = np.random.default_rng(seed)
    model = adapter(given)
    methods = [
        card.name for card in ATTRIBUTIONS.cards() if card.needs <= model.capabilities and not card.needs_rationale
    ]
    kinds = [*methods, "predict", "score", *METRICS_USED, "fingerprint"]
    names: list[str] = []
    calls: list[Call] = []
    for _ in range(count):
        name = kinds[rng.integers(len(kinds))]
        text = TEXTS[rng.integers(len(TEXTS))]
        words = text.split()
        names.append(name)
        calls.append(call_of(name, " ".join(words[: int(rng.integers(3, len(words) + 1))]), int(rng.integers(1 << 30))))
    return names, calls


def call_of(name: str, text: str, seed: int) -> Call:
    """A call that returns plain numbers."""

    def call(model: NetworkModel) -> list[float]:
        if name == "predict":
            return list(model.predict([Example(text)])[0].outputs)
        if name == "fingerprint":
            return [float(int(model.fingerprint()[:8], 16))]
        if name == "score":
            (units,), (prediction,) = model.units([Example(text)]), model.predict([Example(text)])
            keep = np.random.default_rng(seed).random((6, len(units))) < 0.5
            return list(model.score([units], [model.target(None, prediction, "logit")], [keep])[0])
        if name in METRICS_USED:
            explained = didact.explain(text, model, "occlusion", progress=False)
            metric = METRICS.get(name)()
            return [grade.value for grade in metric.measure(Evidence(explanations=[explained], model=model))]
        explained = didact.explain(text, model, name, progress=False)
        return [*explained.scores, *explained.prediction.outputs]

    return call


def condition(network: nn.Module) -> dict[str, object]:
    """What must be the same before and after."""
    hooks = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    return {
        "mode": [module.training for module in network.modules()],
        "attention": getattr(network.config, "_attn_implementation", None),
        "requires_grad": [weight.requires_grad for weight in network.parameters()],
        "grads": [weight.grad is None for weight in network.parameters()],
        "hooks": [len(getattr(module, kind)) for module in network.modules() for kind in hooks],
        "weights": [weight.tolist() for weight in network.state_dict().values()],
    }


if __name__ == "__main__":
    main()
