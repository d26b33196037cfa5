"""Images as patches of a vision transformer: curves of many methods beside random ones, and other libraries' scores.

    python scripts/kinds_patches.py curves --images 300 --train 1000      # best on a GPU
    python scripts/kinds_patches.py agreement --images 6                  # needs captum and shap
    python scripts/kinds_patches.py page                                  # the page from both files

``curves`` explains test images of CIFAR-10 by every method of ``METHODS``, and by a probe that learned from SHAP values
of ``--train`` other images, and measures the areas under the deletion and insertion curves, with absent patches painted
in the mean colour or blurred. ``agreement`` computes the same patches' scores with captum and shap, on the same network
and baseline; for methods that sample, two seeds of ours show how far sampling alone goes.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from didact.attribution.base import ATTRIBUTIONS
from didact.data.load import load_data
from didact.metrics.base import METRICS
from didact.models.load import load_model
from didact.models.network import NetworkModel
from didact.models.readers.patches import PatchesReader
from didact.protocols import Evidence, Explainer
from didact.provenance import versions
from didact.stats.bootstrap import interval
from didact.stats.correlation import spearman
from didact.stats.means import mean_tests
from didact.trained.train import train
from didact.types import Example, Explanation, Floats

OUT = Path("docs/results/kinds")
SHARED = Path(os.environ.get("DIDACT_SHARED", "."))
METHODS: Mapping[str, Mapping[str, object]] = {
    "occlusion": {},
    "lime": {"samples": 500},
    "kernel_shap": {"evaluations": 500},
    "shapley_sampling": {"evaluations": 1000},
    "partition_shap": {"evaluations": 500},
    "integrated_gradients": {"steps": 50, "max_steps": 50},
    "smoothgrad": {},
    "deeplift": {},
    "gradient_x_input": {},
    "gradient_norm": {},
    "lrp": {},
    "gim": {},
    "attention": {},
    "attention_rollout": {},
    "attention_x_gradient": {},
}
REFERENCE = ("kernel_shap", {"evaluations": 256})
"""What the probe learns from."""
CURVES = ("deletion_area", "insertion_area")
ABSENCES = ("mean", "blur")
CHANCE = "random"


def main() -> None:
    """Run a part."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=("curves", "agreement", "page"))
    parser.add_argument("--model", default=SHARED / "weights" / "vit-cifar10", help="directory of the network")
    parser.add_argument("--data", default="cifar10", help="preset or folder of images")
    parser.add_argument("--images", type=int, default=300)
    parser.add_argument("--train", type=int, default=1000, help="images that the probe learns from; 0 for no probe")
    parser.add_argument("--device")
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    if options.part == "page":
        (options.out / "patches.md").write_text(page(options.out), encoding="utf-8")
        return
    model = cast("NetworkModel", load_model(options.model, device=options.device))
    examples = list(load_data(options.data, split="test", limit=options.images))
    facts = {"versions": versions(), "device": str(model.reader.device), "images": len(examples)}
    name = "patches.json" if options.part == "curves" else "patches_agreement.json"
    for made in curves(model, examples, options) if options.part == "curves" else agreement(model, examples):
        (options.out / name).write_text(json.dumps(made | facts, indent=1) + "\n", encoding="utf-8")


# Deletion and insertion.


def curves(model: NetworkModel, examples: Sequence[Example], options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Areas of every method per image, after each method."""
    right = [own.label == example.label for own, example in zip(model.predict(examples), examples, strict=True)]
    explainers: dict[str, Explainer] = {name: ATTRIBUTIONS.get(name).configured(**own) for name, own in METHODS.items()}
    made: dict[str, Any] = {"accuracy": float(np.mean(right)), "settings": METHODS, "values": {}, "seconds": {}}
    if options.train:
        explainers["probe"], made["probe"] = learned(model, options)
    for name, explainer in {CHANCE: ATTRIBUTIONS.get(CHANCE)(), **explainers}.items():
        start = time.perf_counter()
        explanations = explainer.explain(model, examples)
        made["seconds"][name] = round(time.perf_counter() - start, 2)
        made["values"][name] = areas(model, explanations)
        print(f"{name:24s} {made['seconds'][name]:8.1f} s", flush=True)
        yield made


def learned(model: NetworkModel, options: argparse.Namespace) -> tuple[Explainer, dict[str, object]]:
    """A probe that learned from SHAP values of training images."""
    name, settings = REFERENCE
    images = list(load_data(options.data, split="train", limit=options.train))
    start = time.perf_counter()
    explained = ATTRIBUTIONS.get(name).configured(**settings).explain(model, images)
    middle = time.perf_counter()
    probe = train("probe", model, explained, data=f"{len(images)} training images")
    facts = {"reference": name, **settings, "images": len(images), "verdict": probe.verdict}
    seconds = {
        "seconds to explain": round(middle - start, 1),
        "seconds to train": round(time.perf_counter() - middle, 1),
    }
    return probe, facts | seconds


def areas(model: NetworkModel, explanations: Sequence[Explanation]) -> dict[str, list[float]]:
    """Area per image, for each curve and colour."""
    made = {}
    for metric in CURVES:
        for absence in ABSENCES:
            measure = METRICS.get(metric).configured(steps=16, absence=absence)
            grades = measure.measure(Evidence(explanations, model))
            made[f"{metric} {absence}"] = [round(grade.value, 4) for grade in grades]
    return made


# Other libraries.


class OtherLibraries:
    """The same network, patches and mean colour as captum and shap take them, for one image."""

    def __init__(self, model: NetworkModel, example: Example) -> None:
        self.model, self.example = model, example
        self.grid = cast("PatchesReader", model.reader).grid
        self.pixels = model.reader.whole(model.reader.encode([example]))["pixel_values"]
        self.mean = self.pixels.mean((2, 3), keepdim=True).expand_as(self.pixels)
        self.target = model.predict([example])[0].index
        numbers = torch.arange(self.grid.rows * self.grid.columns).view(self.grid.rows, self.grid.columns)
        wide = numbers.repeat_interleave(self.grid.height, 0).repeat_interleave(self.grid.width, 1)
        self.owner = wide[None, None].to(self.pixels.device)
        self.known: dict[str, Floats] = {}
        self.captum = importlib.import_module("captum.attr")
        self.shap = importlib.import_module("shap")

    @property
    def patches(self) -> int:
        """How many there are."""
        return self.grid.rows * self.grid.columns

    def forward(self, pixels: Tensor) -> Tensor:
        """Logits."""
        logits: Tensor = self.model.network(pixel_values=pixels).logits
        return logits

    def coalitions(self, keep: Floats) -> Floats:
        """The explained logit of rows of 0 and 1 per patch."""
        values = []
        with torch.inference_mode():
            for rows in torch.from_numpy(np.asarray(keep, dtype=np.float32)).split(64):  # type: ignore[no-untyped-call]
                share = rows.to(self.pixels.device)[:, self.owner[0, 0]][:, None]
                values.append(self.forward(share * self.pixels + (1 - share) * self.mean)[:, self.target])
        return torch.cat(values).double().cpu().numpy()

    def summed(self, numbers: Tensor) -> Floats:
        """Numbers per pixel added up over each patch."""
        return np.asarray(self.grid.cut(numbers.detach())[0].double().sum(-1).cpu().numpy())

    def each(self, numbers: Tensor) -> Floats:
        """The number that all pixels of a patch have."""
        return np.asarray(numbers[0, 0, :: self.grid.height, :: self.grid.width].flatten().double().cpu().numpy())

    def captum_integrated_gradients(self) -> Floats:
        """50 steps of Gauss-Legendre from the mean colour."""
        explainer = self.captum.IntegratedGradients(self.forward)
        return self.summed(explainer.attribute(self.pixels, self.mean, target=self.target, n_steps=50))

    def captum_input_x_gradient(self) -> Floats:
        """Pixels times gradient."""
        pixels = self.pixels.clone().requires_grad_()
        return self.summed(self.captum.InputXGradient(self.forward).attribute(pixels, target=self.target))

    @torch.inference_mode()
    def captum_feature_ablation(self) -> Floats:
        """One patch at a time in the mean colour."""
        explainer = self.captum.FeatureAblation(self.forward)
        given = {"target": self.target, "feature_mask": self.owner, "perturbations_per_eval": 64}
        return self.each(explainer.attribute(self.pixels, self.mean, **given))

    @torch.inference_mode()
    def captum_shapley_sampling(self) -> Floats:
        """Eight orders of the patches."""
        torch.manual_seed(0)
        explainer = self.captum.ShapleyValueSampling(self.forward)
        given = {"target": self.target, "feature_mask": self.owner, "n_samples": 8, "perturbations_per_eval": 64}
        return self.each(explainer.attribute(self.pixels, self.mean, **given))

    def shap_kernel(self) -> Floats:
        """Weighted least squares on 512 coalitions."""
        np.random.seed(0)  # what shap draws from
        explainer = self.shap.KernelExplainer(self.coalitions, np.zeros((1, self.patches)))
        values = explainer.shap_values(np.ones(self.patches), nsamples=512, l1_reg=False, silent=True)
        return np.asarray(values, dtype=np.float64)

    def shap_permutation(self) -> Floats:
        """Four orders of the patches and their reverses."""
        masker = self.shap.maskers.Independent(np.zeros((1, self.patches)))
        explainer = self.shap.PermutationExplainer(self.coalitions, masker, seed=0)
        found = explainer(np.ones((1, self.patches)), max_evals=8 * self.patches + 1, batch_size=64, silent=True)
        return np.asarray(found.values[0], dtype=np.float64)

    def ours(self, method: str, **settings: object) -> Floats:
        """Our scores, computed once."""
        explainer = ATTRIBUTIONS.get(method).configured(**settings)
        if str(explainer) not in self.known:
            self.known[str(explainer)] = explainer.explain(self.model, [self.example])[0].array
        return self.known[str(explainer)]


SAMPLING = {"evaluations": 8 * 64}
PAIRS: Mapping[str, tuple[str, Mapping[str, object], Callable[[OtherLibraries], Floats]]] = {
    "captum IntegratedGradients": (
        "integrated_gradients",
        {"steps": 50, "max_steps": 50, "baseline": "mean"},
        OtherLibraries.captum_integrated_gradients,
    ),
    "captum InputXGradient": ("gradient_x_input", {}, OtherLibraries.captum_input_x_gradient),
    "captum FeatureAblation": ("occlusion", {"absence": "mean"}, OtherLibraries.captum_feature_ablation),
    "captum ShapleyValueSampling": ("shapley_sampling", SAMPLING, OtherLibraries.captum_shapley_sampling),
    "shap KernelExplainer": ("kernel_shap", {**SAMPLING, "fit": "linear"}, OtherLibraries.shap_kernel),
    "shap PermutationExplainer": ("shapley_sampling", SAMPLING, OtherLibraries.shap_permutation),
}
"""Another library's explainer -> our method, its settings, and theirs."""


def agreement(model: NetworkModel, examples: Sequence[Example]) -> Iterator[dict[str, Any]]:
    """Rank correlation and largest difference per image; for methods that sample, also of two seeds of ours."""
    libraries = {name: version(name) for name in ("captum", "shap")}
    values: dict[str, Any] = {name: {"method": PAIRS[name][0], "spearman": [], "difference": []} for name in PAIRS}
    for number, example in enumerate(examples):
        others = OtherLibraries(model, example)
        for name, (method, settings, theirs) in PAIRS.items():
            ours = partial(others.ours, method, **settings)
            mine, given = ours(), theirs(others)
            values[name]["spearman"].append(round(spearman(mine, given), 4))
            values[name]["difference"].append(float(np.abs(mine - given).max() / np.abs(given).max()))
            if ATTRIBUTIONS.card(method).seeded:
                values[name].setdefault("two seeds", []).append(round(spearman(mine, ours(seed=1)), 4))
        print(f"image {number + 1} of {len(examples)}", flush=True)
        yield {"values": values, "libraries": libraries}


# The page.


def page(folder: Path) -> str:
    """The tables of what was measured, in Markdown."""
    parts = (("patches.json", _curve_lines), ("patches_agreement.json", _agreement_lines))
    made = [
        write(json.loads((folder / name).read_text(encoding="utf-8")))
        for name, write in parts
        if (folder / name).is_file()
    ]
    return "\n\n".join(["# Patches of a vision transformer", *("\n".join(lines) for lines in made)]) + "\n"


def _curve_lines(made: Mapping[str, Any]) -> list[str]:
    values = made["values"]
    names = [name for name in values if name != CHANCE]
    columns = list(values[CHANCE])
    rows = [np.array(values[name][column]) - np.array(values[CHANCE][column]) for name in names for column in columns]
    better = dict(zip([(n, c) for n in names for c in columns], mean_tests(np.stack(rows)).significant, strict=True))
    lines = [
        f"ViT of {made['accuracy']:.1%} accuracy on the {made['images']} test images of CIFAR-10 that are explained; "
        f"64 patches each; {made['device']}, `python scripts/kinds_patches.py curves --images {made['images']} --train "
        f"{made.get('probe', {}).get('images', 0)}`. Area under the probability of the predicted class while patches "
        "leave (deletion, lower is better) or enter (insertion, higher is better), most important first, mean over "
        "images with 95 % interval; chance is the line *random*. Bold: the mean difference from random is significant "
        "in the right direction (max-T over the whole table, 5 %). Seconds are for all images together.",
        "",
        f"| method | {' | '.join(columns)} | s |",
        f"|---|{'---|' * (len(columns) + 1)}",
    ]
    for name in (CHANCE, *sorted(names, key=lambda own: np.mean(values[own][columns[0]]))):
        cells = [_cell(values, name, column, bool(better.get((name, column)))) for column in columns]
        lines.append(f"| {name} | {' | '.join(cells)} | {made['seconds'][name]:.1f} |")
    if "probe" in made:
        lines += ["", f"*probe* is learned: {json.dumps(made['probe'])}."]
    return lines


def _cell(values: Mapping[str, Any], name: str, column: str, significant: bool) -> str:
    own = interval(values[name][column])
    lower = column.startswith("deletion")
    right = (own.mean < np.mean(values[CHANCE][column])) == lower
    text = f"{own.mean:.3f}"
    return f"{f'**{text}**' if significant and right else text} ({own.low:.3f} to {own.high:.3f})"


def _agreement_lines(made: Mapping[str, Any]) -> list[str]:
    lines = [
        f"Beside captum {made['libraries']['captum']} and shap {made['libraries']['shap']} on {made['images']} images, "
        f"the same patches and mean colour (`python scripts/kinds_patches.py agreement --images {made['images']}`). "
        "Difference: largest over patches and images, in units of the other library's largest score. Where both sample "
        "(512 evaluations), two seeds of ours show what sampling noise alone does to the ranks. Means over images, "
        "with 95 % intervals where there are enough images for one.",
        "",
        "| theirs | ours | Spearman | lowest | two seeds of ours | difference |",
        "|---|---|---|---|---|---|",
    ]
    for name, own in made["values"].items():
        seeds = _ranks(own["two seeds"]) if "two seeds" in own else "–"
        lines.append(
            f"| {name} | {own['method']} | {_ranks(own['spearman'])} | {np.min(own['spearman']):.4f} | {seeds} | "
            f"{np.max(own['difference']):.1e} |"
        )
    return lines


def _ranks(values: Sequence[float]) -> str:
    """Mean correlation, with its interval where there are enough images that differ."""
    own = interval(values)
    known = min(values) < max(values) and np.isfinite([own.low, own.high]).all()
    return f"{own.mean:.3f}" + (f" ({own.low:.3f} to {own.high:.3f})" if known else "")


if __name__ == "__main__":
    main()
