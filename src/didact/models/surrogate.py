"""A copy of a model that is fine-tuned to predict as the model does when a few units of the text are missing.

A model that was never trained on mask tokens may predict anything when there are some, and a metric that masks words
then measures that. The surrogate has seen them: it is fine-tuned on texts with random units absent, without knowing of
any explanation, to give the predictions that the model gives for the whole texts (F-Fidelity, Zheng et al. 2025).
"""

from __future__ import annotations

import copy
import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np
import torch
from safetensors.torch import save_file

from didact import checksums, disk
from didact.errors import FormatError, InputError, ModelError, ParameterError
from didact.models.compose import compose
from didact.models.device import choose_device
from didact.models.eval_mode import quiet
from didact.models.exclusive import exclusive
from didact.models.finetune import MaskedTexts, Optimization, finetune
from didact.models.load import load_model
from didact.models.native import NativeBertForSequenceClassification
from didact.models.network import NetworkModel
from didact.models.readers.base import ReaderOptions
from didact.protocols import ExampleLike
from didact.types import Example, Keep, Level

SETTINGS = "surrogate.json"


@dataclass(frozen=True)
class FineTuning:
    """How the copy is trained.

    Attributes:
        learning_rate: of AdamW, falling to 0 in a straight line.
        batch: texts per step.
        level: whether words or tokens are taken out.
        absence: how an absent unit is shown; the model's default when not given.
    """

    learning_rate: float = 5e-5
    batch: int = 16
    level: Level = "word"
    absence: str | None = None

    def __post_init__(self) -> None:
        if not self.learning_rate > 0 or self.batch < 1:
            raise ParameterError(f"learning_rate must be above 0 and batch at least 1, got {self}")


def fine_tune_masked(
    model: NetworkModel,
    examples: Sequence[ExampleLike],
    *,
    share: float = 0.1,
    epochs: int = 3,
    seed: int = 0,
    settings: FineTuning | None = None,
) -> NetworkModel:
    """Fine-tune a copy of the model on its own predictions for texts with random units absent.

    In each epoch every text is shown once, without a random number of its units, from none to ``share`` of them. The
    user's model is not touched. The same seed gives the same surrogate.

    Args:
        model: the explained model.
        examples: texts of the kind that is explained; labels are ignored. Not the texts that are graded.
        share: largest share of the units that is absent at a time, at least one unit; the robust metrics must not take
            out more.
        epochs: how often each text is shown.
        seed: decides the order of the texts and the absent units.
        settings: the rest.
    """
    given = [Example.of(example) for example in examples]
    _check(model, given, share, epochs)
    settings = settings or FineTuning()
    head = model.head
    wanted = [torch.tensor([head.imitated(prediction)]) for prediction in model.predict(given)]
    surrogate = _copy(model)
    units = surrogate.units(given, settings.level)
    most = [int(np.ceil(round(share * len(unit), 9))) for unit in units]

    def shown(number: int, rng: np.random.Generator) -> Keep:
        keep = np.ones((1, len(units[number])), dtype=np.bool_)
        keep[0, rng.permutation(keep.shape[1])[: rng.integers(most[number] + 1)]] = False
        return keep

    texts = MaskedTexts(surrogate, units, shown, wanted, settings.absence or surrogate.default_absence)
    rates = Optimization(epochs=epochs, learning_rate=settings.learning_rate, batch=settings.batch, seed=seed)
    try:
        finetune(
            texts,
            lambda outputs, wish, _: head.loss(outputs, wish.to(outputs)),
            rates,
            what="fine-tuning the surrogate",
        )
    finally:
        surrogate.network.requires_grad_(False)
    torch.nn.Module.to(surrogate.network, model.dtype)
    return surrogate


def save_surrogate(surrogate: NetworkModel, folder: Path) -> None:
    """Write weights (safetensors), configuration and tokenizer into a folder, with a checksum of every file."""
    network = surrogate.network
    native = isinstance(network, NativeBertForSequenceClassification)
    facts = {"name": surrogate.name, "native": native, "inputs": surrogate.inputs}
    facts |= dataclasses.asdict(surrogate.reader.options)
    with disk.filling(folder, checksums.HASHES) as beside, quiet():
        surrogate.tokenizer.save_pretrained(beside)
        if native:
            weights = {name: weight.contiguous() for name, weight in network.state_dict().items()}
            save_file(weights, beside / "model.safetensors")
            disk.write_text(beside / "config.json", json.dumps(network.config.to_dict(), indent=1, sort_keys=True))
        else:
            network.save_pretrained(beside)
        disk.write_text(beside / SETTINGS, json.dumps(facts, indent=1))
        checksums.write_hashes(beside)


def load_surrogate(folder: Path, device: str | None = None) -> NetworkModel:
    """Read what ``save_surrogate`` wrote; its predictions are exactly the same."""
    place = folder / SETTINGS
    if not place.is_file():
        raise FormatError(f"{folder} holds no surrogate: there is no {SETTINGS} in it; make one with fine_tune_masked")
    checksums.check_hashes(folder, "delete the folder and run again", needed=True)
    facts = json.loads(place.read_text(encoding="utf-8"))
    limits = ReaderOptions(facts["max_length"], facts["max_truncated"])
    if facts["native"]:
        from transformers import PreTrainedTokenizerFast

        network = NativeBertForSequenceClassification.from_pretrained(folder).to(choose_device(device))
        made = compose(network, PreTrainedTokenizerFast.from_pretrained(folder), inputs=facts["inputs"], options=limits)
    else:
        kept = dataclasses.asdict(limits)
        made = cast("NetworkModel", load_model(str(folder), inputs=facts["inputs"], device=device, **kept))
    made.name = facts["name"]
    return made


def _copy(model: NetworkModel) -> NetworkModel:
    """A model of its own, in float32, evaluation mode and with gradients."""
    with exclusive(model.network):  # another thread may have it in a state that is not the user's
        network = copy.deepcopy(model.network).float().eval().requires_grad_(True)
    made = NetworkModel(network, model.reader.on(network), model.head, batch_tokens=model.budget.tokens)
    made.name = f"surrogate of {model.name}"
    return made


def _check(model: NetworkModel, examples: Sequence[Example], share: float, epochs: int) -> None:
    if not isinstance(model, NetworkModel):
        raise ModelError(
            f"a surrogate is a fine-tuned copy of a network, and {type(model).__name__} has none; leave the robust "
            "metrics out"
        )
    if not examples:
        raise InputError("no texts to fine-tune the surrogate on; give some hundreds of the kind that is explained")
    if not 0 < share <= 1:
        raise ParameterError(f"share must be above 0 and at most 1, got {share!r}")
    if epochs < 1:
        raise ParameterError(f"epochs must be at least 1, got {epochs!r}")
