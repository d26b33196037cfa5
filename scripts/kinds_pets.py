"""Images: do explanations of cats and dogs point to the animal? Areas under the ROC curve against masks of the pets.

    python scripts/kinds_pets.py --model DIR    # 370 images; writes docs/results/kinds/pets.json and pets.md
    python scripts/kinds_pets.py --model DIR --images 12 --methods attention occlusion --out few.json --page few.html

The model is a classifier of CIFAR-10, which knows cats and dogs among ten classes; the images are test images of
Oxford-IIIT Pet (Parkhi et al. 2012) with their trimaps. Each method explains the predicted class of every image that
the model gets right, cat or dog. A patch belongs to the pet when at least half of its pixels do, those of the boundary
aside; AUC is the probability that a patch of the pet has a higher score than another one (chance 0.5). Photographers
put pets in the middle, so beside the methods stands what nearness to the middle alone reaches. Methods named
"superpixel: ..." see the model as a function of images and score about 64 superpixels. Intervals are bootstrap-t over
images, 95 %.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import platform
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

import didact
from didact.data.load import load_data
from didact.metrics.plausibility.rationale_auc import RationaleAuc
from didact.protocols import Evidence, Model
from didact.provenance import versions
from didact.stats.bootstrap import differences, interval
from didact.types import Box, Example, Explanation, Floats, Mask

METHODS = (
    "attention",
    "attention_rollout",
    "attention_x_gradient",
    "gradient_norm",
    "gradient_x_input",
    "integrated_gradients",
    "lrp",
    "occlusion",
    "kernel_shap",
    "lime",
    "random",
)
FUNCTION = "superpixel: "
SUPERPIXEL = ("occlusion", "kernel_shap", "random")
PAGE_METHODS = ("integrated_gradients", "lrp", "occlusion", "kernel_shap", "attention_x_gradient")
CHUNK = 50
OUT = Path("docs/results/kinds/pets.json")


def main() -> None:
    """Explain, judge and write."""
    options = _options()
    examples = list(load_data("oxford_pets", split="test", limit=options.images, seed=options.seed).examples)
    model = didact.load_model(options.model, device=options.device)
    predictions = model.predict(examples)
    right = [example for example, made in zip(examples, predictions, strict=True) if made.label == example.label]
    results: dict[str, Any] = {
        "command": f"python scripts/kinds_pets.py --model DIR --images {options.images}",
        "model": {"name": Path(model.name).name, "fingerprint": model.fingerprint()},
        "data": {"name": "oxford_pets", "split": "test", "images": len(examples), "seed": options.seed},
        "right": {"images": len(right), "accuracy": len(right) / len(examples)},
        "machine": {"device": str(torch.cuda.get_device_name() if torch.cuda.is_available() else platform.machine())},
        "versions": dict(versions()),
        "methods": {},
    }
    function = didact.load_model(_function(model), inputs="image", labels=model.labels, name="vit", version="1")
    jobs = [(name, model, name) for name in options.methods]
    jobs += [(FUNCTION + name, function, name) for name in options.superpixel]
    centre: dict[str, Floats] = {}
    for label, explained, method in jobs:
        results["methods"][label] = _judged(explained, method, right, centre)
        print(label, json.dumps(results["methods"][label]), flush=True)
    results["nearness to the middle"] = {level: _summary(values) for level, values in centre.items()}
    print(json.dumps(results["nearness to the middle"]))
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    options.out.with_suffix(".md").write_text(page(results), encoding="utf-8")
    if options.page is not None:
        _write_page(options.page, model, function, right[: options.shown])


_INTRODUCTION = """
{model} on {images} test images of Oxford-IIIT Pet. It calls {accuracy:.1%} of them cat or dog rightly, and these
{rightly} are explained; the others are left out, since the mask of a cat is no evidence for a horse. AUC of the scores
against the masks of the pets (chance 0.5), with 95 % bootstrap-t intervals over images. *Beyond the middle* is the
difference, image by image, from scoring parts by nearness to the middle of the image, where photographers put pets: a
method below zero points to the animal less well than knowing only that.
""".strip()


def page(results: dict[str, Any]) -> str:
    """The results as a section of Markdown."""
    data, right = results["data"], results["right"]
    lines = [
        "# Images: do explanations point to the animal?",
        "",
        _INTRODUCTION.format(
            model=results["model"]["name"],
            images=data["images"],
            rightly=right["images"],
            accuracy=right["accuracy"],
        ),
        "",
        "| method | AUC | 95 % interval | beyond the middle | 95 % interval | n |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for name, made in results["methods"].items():
        cells = [_cell(made["auc"]), _cell(made["beyond the middle"], "+")]
        lines.append(f"| {name} | {' | '.join(cells)} | {made['auc']['n']} |")
    for level, made in results["nearness to the middle"].items():
        lines.append(f"| nearness to the middle, {level} | {_cell(made)} | – | – | {made['n']} |")
    device, command = results["machine"]["device"], results["command"]
    return "\n".join([*lines, "", f"`{command}` ({device}); the figures are in `pets.json`.", ""])


def _cell(made: dict[str, float], sign: str = "") -> str:
    return f"{made['mean']:{sign}.3f} | {made['low']:{sign}.3f} to {made['high']:{sign}.3f}"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="directory of a classifier that knows 'cat' and 'dog'")
    parser.add_argument("--images", type=int, default=370)
    parser.add_argument("--methods", nargs="*", default=METHODS)
    parser.add_argument("--superpixel", nargs="*", default=SUPERPIXEL, help="methods on the model as a function")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device")
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--page", type=Path, help="also write a page of overlays")
    parser.add_argument("--shown", type=int, default=6, help="images on the page")
    return parser.parse_args()


def _judged(model: Model, method: str, examples: Sequence[Example], centre: dict[str, Floats]) -> dict[str, Any]:
    """AUC of one method with its interval, beside that of nearness to the middle, and what it took."""
    started = time.perf_counter()
    values: list[float] = []
    middle: list[float] = []
    forwards = 0
    for start in range(0, len(examples), CHUNK):
        made = didact.explain(list(examples[start : start + CHUNK]), model, method, progress=False)
        values += _auc(made)
        middle += _auc([_by_nearness(each) for each in made])
        forwards += sum(each.cost.forwards for each in made)
    centre[model.levels[0]] = np.array(middle)
    return {
        "auc": _summary(np.array(values)),
        "beyond the middle": _summary(differences(values, middle)),
        "seconds": round(time.perf_counter() - started, 1),
        "forwards": forwards,
    }


def _auc(explanations: Sequence[Explanation]) -> list[float]:
    return [grade.value for grade in RationaleAuc().measure(Evidence(explanations))]


def _by_nearness(explanation: Explanation) -> Explanation:
    """The same units, scored by how near to the middle of the image each lies."""
    boxes = [each.bounds if isinstance(each, Mask) else each for each in explanation.units.regions]
    image = explanation.example.fields[0]
    width, height = image.size  # type: ignore[union-attr]
    places = [
        ((box.left + box.right) / (2 * width) - 0.5, (box.top + box.bottom) / (2 * height) - 0.5)
        for box in boxes
        if isinstance(box, Box)
    ]
    scores = tuple(-float(np.hypot(x, y)) for x, y in places)
    return dataclasses.replace(explanation, scores=scores, errors=())


def _summary(values: Floats) -> dict[str, float | int]:
    made = interval(values)
    return {"mean": made.mean, "low": made.low, "high": made.high, "n": made.n, "undefined": made.dropped}


def _function(model: Model) -> Any:
    """The model as a plain function from images to probabilities."""

    def predict(images: list[NDArray[np.uint8]]) -> Floats:
        predictions = model.predict([Example(didact.Image(image)) for image in images])
        return np.array([made.probabilities for made in predictions])

    return predict


def _write_page(path: Path, model: Model, function: Model, examples: Sequence[Example]) -> None:
    """Overlays of some images, people's own marks beside them."""
    made = [each for one in examples for each in didact.compare(one, model, ["human", *PAGE_METHODS], progress=False)]
    found = [didact.explain(one, function, "kernel_shap", progress=False) for one in examples]
    alike = {each.example.fingerprint: each for each in made}
    didact.save(made + [_beside(one, alike[one.example.fingerprint]) for one in found], path)


def _beside(explanation: Explanation, other: Explanation) -> Explanation:
    """The same as made of the model itself, whose predictions the function returns: a page shows them together."""
    return dataclasses.replace(explanation, model=other.model, prediction=other.prediction)


if __name__ == "__main__":
    main()
