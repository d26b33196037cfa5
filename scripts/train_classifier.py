"""Fine-tune an encoder as a classifier of a data set, for studies whose own model cannot be had.

    python scripts/train_classifier.py --data cola --encoder $DIDACT_SHARED/weights/minilm-base --out runs/cola

What it reaches on the validation texts stands in training.json beside the model.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from didact.data.load import load_data
from didact.models.compose import compose
from didact.models.device import choose_device
from didact.models.encoders import load_encoder
from didact.models.finetune import MaskedTexts, Optimization, finetune
from didact.models.network import NetworkModel
from didact.models.readers.base import ReaderOptions
from didact.types import Example


def main() -> None:
    """Train, measure and save."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="with the splits train and validation")
    parser.add_argument("--encoder", required=True, help="directory of a Transformers encoder")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--learning-rate", type=float, default=5e-5)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--limit", type=int, help="at most so many training texts")
    parser.add_argument("--max-length", type=int, default=64)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    train = list(load_data(options.data, split="train", limit=options.limit, seed=options.seed).examples)
    labels = tuple(sorted({str(example.label) for example in train}))
    network, tokenizer = load_encoder(options.encoder, labels=labels, seed=options.seed)
    torch.nn.Module.to(network, choose_device(options.device))
    reading = ReaderOptions(options.max_length, max_truncated=1.0)
    model = compose(network, tokenizer, inputs="text", options=reading)
    settings = Optimization(
        epochs=options.epochs, learning_rate=options.learning_rate, batch=options.batch, seed=options.seed
    )
    losses = finetune(_texts(model, train, labels), _loss, settings, what="training the classifier")
    network.requires_grad_(False).eval()
    validation = list(load_data(options.data, split="validation").examples)
    facts = {"losses": losses, "validation texts": len(validation), **measured(model, validation)}
    network.save_pretrained(options.out)
    tokenizer.save_pretrained(options.out)
    (options.out / "training.json").write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
    print(facts)


def measured(model: NetworkModel, examples: Sequence[Example]) -> dict[str, float]:
    """Accuracy, that of always naming the most frequent label, and Matthews' correlation, by which CoLA is measured."""
    gold = [str(example.label) for example in examples]
    found = [prediction.label for prediction in model.predict(examples)]
    numbers = {label: number for number, label in enumerate(model.labels)}
    pairs = np.array([[numbers[label] for label in names] for names in (gold, found)])
    correlation = float(np.corrcoef(pairs)[0, 1]) if all(len(set(row)) > 1 for row in pairs.tolist()) else 0.0
    most = max(gold.count(label) for label in numbers)
    return {
        "accuracy": float((pairs[0] == pairs[1]).mean()),
        "most frequent label": most / len(gold),
        "correlation": correlation,
    }


def _texts(model: NetworkModel, examples: Sequence[Example], labels: Sequence[str]) -> MaskedTexts:
    """Every text whole."""
    units = model.units(examples)
    wanted = [torch.tensor([labels.index(str(example.label))]) for example in examples]
    return MaskedTexts(model, units, lambda number, _: np.ones((1, len(units[number])), dtype=bool), wanted, "mask")


def _loss(outputs: Tensor, labels: Tensor, texts: int) -> Tensor:
    return functional.cross_entropy(outputs, labels, reduction="sum") / texts


if __name__ == "__main__":
    main()
