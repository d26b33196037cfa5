"""captum's lines."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Protocol, cast

import torch
from torch import Tensor

from benchmarks.peers.setting import Bench, Case, Entry, Item, OfVectors, Run, best
from didact.models.hidden import hidden_layers

VARIANTS = {
    "occlusion": "FeatureAblation",
    "lime": "Lime",
    "kernel_shap": "KernelShap",
    "shapley_sampling": "ShapleyValueSampling",
}
Attribute = Callable[[Tensor, Tensor, Mapping[str, object], int], object]
"""Explains embeddings, with baselines, label and mask as captum takes them, with so many evaluations."""


def captum_entries(bench: Bench, case: Case, trial: Item, which: str) -> list[Entry]:
    """Set as well as captum allows: best batch size, embeddings in, no gradients for weights."""
    if case.method in VARIANTS:
        return _variants(bench, case, trial, which)
    if case.method not in GRADIENTS:
        return []
    make, differs, same = GRADIENTS[case.method]

    def with_batch(batch: int) -> Run:
        attribute = make(bench, batch)

        def run(items: Item, evaluations: int) -> None:
            vectors, baselines, mask = bench.embedded(items)
            options = {"target": torch.tensor([item.label for item in items]), "additional_forward_args": mask}
            attribute(vectors, baselines, options, evaluations)

        return run

    chosen = best(with_batch, trial, case, which)
    name = f"captum, {chosen} per pass" if len(case.batches) > 1 else "captum"
    return [Entry(name, differs, with_batch(chosen), same=same)]


def _variants(bench: Bench, case: Case, trial: Item, which: str) -> list[Entry]:
    explainer = _library(VARIANTS[case.method], bench.logits)

    def with_batch(batch: int) -> Run:
        def run(items: Item, evaluations: int) -> None:
            for item in items:
                orders = 2 * (evaluations // (2 * len(item.words) - 2))  # as many as didact takes
                samples = orders if case.method == "shapley_sampling" else evaluations
                with torch.inference_mode():
                    explainer.attribute(
                        item.ids,
                        baselines=bench.mask,
                        target=item.label,
                        feature_mask=item.owner,
                        perturbations_per_eval=batch,
                        **({} if case.method == "occlusion" else {"n_samples": max(1, samples)}),
                    )

        return run

    chosen = best(with_batch, trial, case, which)
    defaults = Entry("captum, defaults", "one row per pass", with_batch(1), same=False)
    tuned = Entry(f"captum, {chosen} per pass", "", with_batch(chosen))
    return [defaults, tuned] if case.method == "occlusion" else [tuned]


def _input_x_gradient(bench: Bench, batch: int) -> Attribute:
    explainer = _library("InputXGradient", OfVectors(bench.network))
    return lambda vectors, _, options, evaluations: explainer.attribute(vectors, **options)


def _saliency(bench: Bench, batch: int) -> Attribute:
    explainer = _library("Saliency", OfVectors(bench.network))
    return lambda vectors, _, options, evaluations: explainer.attribute(vectors, abs=False, **options).norm(dim=-1)


def _integrated_gradients(bench: Bench, batch: int) -> Attribute:
    explainer = _library("IntegratedGradients", OfVectors(bench.network))
    return lambda vectors, baselines, options, evaluations: explainer.attribute(
        vectors, baselines, n_steps=evaluations, internal_batch_size=batch, **options
    )


def _smoothgrad(bench: Bench, batch: int) -> Attribute:
    explainer = _library("NoiseTunnel", _library("Saliency", OfVectors(bench.network)))
    return lambda vectors, _, options, evaluations: explainer.attribute(
        vectors,
        nt_type="smoothgrad",
        nt_samples=evaluations,
        nt_samples_batch_size=batch,
        stdevs=0.1,
        abs=False,
        **options,
    )


def _gradient_shap(bench: Bench, batch: int) -> Attribute:
    """It has no setting for the batch size: called once for every batch, and averaged."""
    explainer = _library("GradientShap", OfVectors(bench.network))

    def attribute(vectors: Tensor, baselines: Tensor, options: Mapping[str, object], evaluations: int) -> Tensor:
        sizes = [min(batch, evaluations - start) for start in range(0, evaluations, batch)]
        parts = [explainer.attribute(vectors, baselines, n_samples=n, stdevs=0.1, **options) * n for n in sizes]
        return torch.stack(parts).sum(0) / evaluations

    return attribute


def _layer_conductance(bench: Bench, batch: int) -> Attribute:
    layers = hidden_layers(bench.network)
    if layers is None:
        raise ValueError("the network does not keep its layers in one list")
    explainer = _library("LayerConductance", OfVectors(bench.network), layers[0])
    return lambda vectors, baselines, options, evaluations: explainer.attribute(
        vectors, baselines, n_steps=evaluations, internal_batch_size=batch, **options
    )


def _deeplift(bench: Bench, batch: int) -> Attribute:
    explainer = _library("DeepLift", OfVectors(bench.network))
    return lambda vectors, baselines, options, evaluations: explainer.attribute(vectors, baselines, **options)


def _deep_shap(bench: Bench, batch: int) -> Attribute:
    explainer = _library("DeepLiftShap", OfVectors(bench.network))
    return lambda vectors, baselines, options, evaluations: explainer.attribute(
        vectors, baselines.expand(evaluations, -1, -1).clone(), **options
    )


class _Explainer(Protocol):
    def attribute(self, *arguments: object, **options: object) -> Tensor: ...


def _library(name: str, *arguments: object) -> _Explainer:
    return cast("_Explainer", getattr(importlib.import_module("captum.attr"), name)(*arguments))


_PARTIAL = "its rule reaches only the last tanh; elsewhere plain gradients, so scores do not add up"

GRADIENTS: dict[str, tuple[Callable[[Bench, int], Attribute], str, bool]] = {
    "gradient_x_input": (_input_x_gradient, "", True),
    "gradient_norm": (_saliency, "", True),
    "integrated_gradients": (_integrated_gradients, "", True),
    "smoothgrad": (_smoothgrad, "", True),
    "gradient_shap": (_gradient_shap, "", True),
    "layer_conductance": (_layer_conductance, "", True),
    "deeplift": (_deeplift, _PARTIAL, False),
    "deep_shap": (_deep_shap, _PARTIAL, False),
}
