"""lime's line."""

from __future__ import annotations

import importlib

import torch

from benchmarks.peers.setting import Bench, Case, Entry, Item, Run, best


def lime_entries(bench: Bench, case: Case, trial: Item, which: str) -> list[Entry]:
    """It masks strings, and explains the class that its first row predicts."""
    if case.method != "lime":
        return []
    library = importlib.import_module("lime.lime_text")
    explainer = library.LimeTextExplainer(
        split_expression=str.split, bow=False, mask_string=bench.tokenizer.mask_token, feature_selection="none"
    )

    def with_batch(batch: int) -> Run:
        def run(items: Item, evaluations: int) -> None:
            with torch.inference_mode():
                for item in items:
                    explainer.explain_instance(
                        item.text, lambda texts: bench.predict(texts, batch), top_labels=1, num_samples=evaluations
                    )

        return run

    chosen = best(with_batch, trial, case, which)
    return [Entry(f"lime, batches of {chosen}", "one mask token per word", with_batch(chosen), finds_label=True)]
