"""didact's own lines."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.peers.setting import Bench, Case, Entry, Item, Run
from didact.attribution.base import Attribution
from didact.attribution.deep_shap import DeepShap
from didact.attribution.deeplift import DeepLift
from didact.attribution.gradient_norm import GradientNorm
from didact.attribution.gradient_shap import GradientShap
from didact.attribution.gradient_x_input import GradientXInput
from didact.attribution.integrated_gradients import IntegratedGradients
from didact.attribution.kernel_shap import KernelShap
from didact.attribution.layer_conductance import LayerConductance
from didact.attribution.lime import Lime
from didact.attribution.occlusion import Occlusion
from didact.attribution.partition_shap import PartitionShap
from didact.attribution.shapley_sampling import ShapleySampling
from didact.attribution.smoothgrad import SmoothGrad

GRADIENTS: dict[str, Callable[[int], Attribution]] = {
    "gradient_x_input": lambda _: GradientXInput(),
    "gradient_norm": lambda _: GradientNorm(),
    "integrated_gradients": lambda steps: IntegratedGradients(steps=steps),
    "smoothgrad": lambda samples: SmoothGrad(samples=samples),
    "gradient_shap": lambda samples: GradientShap(samples=samples),
    "layer_conductance": lambda steps: LayerConductance(steps=steps, rule="left"),
    "deeplift": lambda _: DeepLift(baseline="mask"),
    "deep_shap": lambda samples: DeepShap(samples=samples),
}

VARIANTS: dict[str, Callable[[int, str], Attribution]] = {
    "occlusion": lambda _, absence: Occlusion(absence=absence),
    "lime": lambda samples, absence: Lime(samples=samples, absence=absence),
    "kernel_shap": lambda evaluations, absence: KernelShap(evaluations=evaluations, absence=absence),
    "shapley_sampling": lambda evaluations, absence: ShapleySampling(evaluations=evaluations, absence=absence),
    "partition_shap": lambda evaluations, absence: PartitionShap(
        evaluations=evaluations, absence=absence, level="token"
    ),
}


LABEL_GIVEN = "didact, label given"
"""The line that peers are compared with where the prediction is not counted."""


def own_entries(bench: Bench, case: Case) -> list[Entry]:
    """The line all others are compared with comes first."""
    if case.method in GRADIENTS:
        make = GRADIENTS[case.method]
        labelled = Entry(LABEL_GIVEN, "the label is given", _run(bench, make, labelled=True), finds_label=True)
        return [Entry("didact", "", _run(bench, make), finds_label=True), labelled]
    vary = VARIANTS[case.method]
    mask, drop = (
        _run(bench, lambda evaluations, absence=absence: vary(evaluations, absence))  # type: ignore[misc]
        for absence in ("mask", "drop")
    )

    def one_by_one(items: Item, evaluations: int) -> None:
        for item in items:
            mask([item], evaluations)

    dropped = "absent words take no time; the model sees attention mask 0"
    entries = [Entry("didact", "", mask, finds_label=True), Entry("didact, drop", dropped, drop, finds_label=True)]
    if case.together > 1:
        entries.append(Entry("didact, one by one", "a call per text instead of one for all", one_by_one, True))
    return entries


def _run(bench: Bench, make: Callable[[int], Attribution], *, labelled: bool = False) -> Run:
    def run(items: Item, evaluations: int) -> None:
        targets = [item.label for item in items] if labelled else None
        make(evaluations).explain(bench.didact, [item.text for item in items], targets)

    return run
