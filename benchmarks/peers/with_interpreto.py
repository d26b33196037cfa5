"""interpreto's lines."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable

import torch

from benchmarks.peers.setting import Bench, Case, Entry, Item, Run, best

METHODS: dict[str, tuple[str, str]] = {
    "occlusion": ("Occlusion", ""),
    "lime": ("Lime", "each word absent with probability 1/2"),
    "kernel_shap": ("KernelShap", ""),
    "gradient_x_input": ("Saliency", "mean over dimensions of the absolute product"),
    "gradient_norm": ("Saliency", "mean over dimensions of the absolute gradient"),
    "integrated_gradients": ("IntegratedGradients", "without the difference to the baseline"),
    "smoothgrad": ("SmoothGrad", ""),
    "gradient_shap": ("GradientShap", ""),
}


def interpreto_entries(bench: Bench, case: Case, trial: Item, which: str) -> list[Entry]:
    """Its best batch size; texts of different length share batches."""
    if case.method not in METHODS:
        return []
    kind, differs = METHODS[case.method]
    library = importlib.import_module("interpreto")
    gradients = case.method not in ("occlusion", "lime", "kernel_shap")

    @functools.cache
    def explainer(batch: int, evaluations: int) -> Callable[..., object]:
        more: dict[str, object] = {} if kind in ("Occlusion", "Saliency") else {"n_perturbations": evaluations}
        if gradients:
            more["input_x_gradient"] = case.method != "gradient_norm"
        built: Callable[..., object] = getattr(library, kind)(bench.network, bench.tokenizer, batch_size=batch, **more)
        return built

    def with_batch(batch: int) -> Run:
        def run(items: Item, evaluations: int) -> None:
            with torch.inference_mode(not gradients):
                explainer(batch, evaluations)(
                    [item.text for item in items], torch.tensor([item.label for item in items])
                )

        return run

    chosen = best(with_batch, trial, case, which)
    return [Entry(f"interpreto, batches of {chosen}", differs, with_batch(chosen))]
