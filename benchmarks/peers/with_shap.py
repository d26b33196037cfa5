"""shap's lines."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from types import ModuleType

import numpy as np
import torch

from benchmarks.peers.setting import Bench, Case, Entry, Item, OfVectors, Run, Text, best
from didact.ops.orders import balanced_orders
from didact.types import Floats


def shap_entries(bench: Bench, case: Case, trial: Item, which: str) -> list[Entry]:
    """Its explainers see all classes, so none needs the label."""
    if case.method not in _METHODS:
        return []
    make, name, differs = _METHODS[case.method]
    library = importlib.import_module("shap")

    def with_batch(batch: int) -> Run:
        return make(library, bench, batch)

    chosen = best(with_batch, trial, case, which)
    return [Entry(f"shap {name}, batches of {chosen}", differs, with_batch(chosen), finds_label=True)]


def _kernel(library: ModuleType, bench: Bench, batch: int) -> Run:
    def run(items: Item, evaluations: int) -> None:
        with torch.inference_mode():
            for item in items:
                explainer = library.KernelExplainer(_coalitions(bench, item, batch), np.zeros((1, len(item.words))))
                explainer.shap_values(np.ones(len(item.words)), nsamples=evaluations, l1_reg=False, silent=True)

    return run


def _permutation(library: ModuleType, bench: Bench, batch: int) -> Run:
    def run(items: Item, evaluations: int) -> None:
        with torch.inference_mode():
            for item in items:
                n = len(item.words)
                masker = library.maskers.Independent(np.zeros((1, n)))
                explainer = library.PermutationExplainer(_coalitions(bench, item, batch), masker)
                groups, orders, _ = balanced_orders(n, evaluations, np.random.default_rng(0)).shape
                most = groups * orders * 2 * n + 1  # as many orders and their reverses as didact takes
                explainer(np.ones((1, n)), max_evals=most, batch_size=batch, silent=True)

    return run


def _partition(library: ModuleType, bench: Bench, batch: int) -> Run:
    masker = library.maskers.Text(bench.tokenizer, mask_token=bench.tokenizer.mask_token, collapse_mask_token=False)
    explainer = library.PartitionExplainer(lambda texts: bench.predict([str(t) for t in texts], batch), masker)

    def run(items: Item, evaluations: int) -> None:
        with torch.inference_mode():
            for item in items:
                explainer([item.text], max_evals=evaluations, batch_size=batch, silent=True)

    return run


def _gradient(library: ModuleType, bench: Bench, batch: int) -> Run:
    network = OfVectors(bench.network)

    def run(items: Item, evaluations: int) -> None:
        for item in items:
            vectors, baselines, _ = bench.embedded([item])
            explainer = library.GradientExplainer(network, baselines, batch_size=batch, local_smoothing=0.1)
            explainer.shap_values(vectors, nsamples=evaluations, ranked_outputs=1)

    return run


def _coalitions(bench: Bench, item: Text, batch: int) -> Callable[[Floats], Floats]:
    """From rows of 0 and 1 per word to all logits, by token ids."""

    def score(rows: Floats) -> Floats:
        present = torch.from_numpy(np.asarray(rows) > 0)[:, item.owner[0]]
        ids = torch.where(present, item.ids, bench.mask)
        return torch.cat([bench.logits(part) for part in torch.split(ids, batch)]).double().numpy()

    return score


_METHODS: dict[str, tuple[Callable[[ModuleType, Bench, int], Run], str, str]] = {
    "kernel_shap": (_kernel, "KernelExplainer", ""),
    "shapley_sampling": (_permutation, "PermutationExplainer", ""),
    "partition_shap": (_partition, "PartitionExplainer", "masks strings"),
    "gradient_shap": (_gradient, "GradientExplainer", ""),
}
