"""A copy of a model that has learnt to answer as the model does when a few units of the text are missing.

A model that was never shown mask tokens may answer anything when it sees some, and a metric that masks words then
measures that. The surrogate has seen them: it is fine-tuned on texts with random units absent, without knowing of any
explanation, to give the predictions that the model itself gives for the whole texts (F-Fidelity, Zheng et al. 2025).
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import save_file
from torch import Tensor
from torch.nn import functional

from didact.errors import FormatError, InputError, ModelError, ParameterError
from didact.models.encoding import Encoding
from didact.models.eval_mode import quiet
from didact.models.load import load_model
from didact.models.native import NativeBert
from didact.models.outputs import Activation
from didact.models.text import TextModel
from didact.models.variants import VariantRows
from didact.ops.masking import Absence
from didact.progress import advance, working
from didact.protocols import ExampleLike
from didact.types import Example, Keep, Level, Units

if TYPE_CHECKING:
    from transformers import PreTrainedModel

SETTINGS = "surrogate.json"

Ints = NDArray[np.int64]


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
    model: TextModel,
    examples: Sequence[ExampleLike],
    *,
    share: float = 0.1,
    epochs: int = 3,
    seed: int = 0,
    settings: FineTuning | None = None,
) -> TextModel:
    """Fine-tune a copy of the model on its own predictions for texts with random units absent.

    In each epoch every text is shown once, without a random number of its units, from none to ``share`` of them. The
    user's model is not touched. The same seed gives the same surrogate.

    Args:
        model: the explained model.
        examples: texts of the kind that is explained; labels are not looked at. Not the texts that are graded.
        share: largest share of the units that is absent at a time, at least one unit; the robust metrics must not take
            out more.
        epochs: how often each text is shown.
        seed: decides the order of the texts and the absent units.
        settings: the rest.
    """
    given = [Example.of(example) for example in examples]
    _check(model, given, share, epochs)
    settings = settings or FineTuning()
    wanted = torch.tensor(_answers(model, given))
    surrogate = _copy(model)
    material = _Material(surrogate, given, settings, share)
    try:
        with torch.enable_grad(), working("fine-tuning the surrogate", epochs * len(given)):
            _train(surrogate, material, wanted, epochs, seed)
    finally:
        surrogate.hf.requires_grad_(False)
    _set_precision(surrogate.hf, model.hf.dtype)
    return surrogate


def save_surrogate(surrogate: TextModel, folder: Path) -> None:
    """Write weights (safetensors), configuration and tokenizer into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    network: Any = surrogate.hf
    native = isinstance(network, NativeBert)
    with quiet():
        surrogate.tokenizer.save_pretrained(folder)
        if native:
            weights = {name: weight.contiguous() for name, weight in network.state_dict().items()}
            save_file(weights, folder / "model.safetensors")
            text = json.dumps(network.config.to_dict(), indent=1, sort_keys=True)
            (folder / "config.json").write_text(text, encoding="utf-8")
        else:
            network.save_pretrained(folder)
    encoder = surrogate.encoder
    facts = {"name": surrogate.name, "native": native, "inputs": surrogate.inputs}
    facts |= {"max_length": encoder.limit, "max_truncated": encoder.max_truncated}
    (folder / SETTINGS).write_text(json.dumps(facts, indent=1), encoding="utf-8")  # last: a torn folder lacks it


def load_surrogate(folder: Path, device: str | None = None) -> TextModel:
    """Read what ``save_surrogate`` wrote; it answers exactly as before."""
    place = folder / SETTINGS
    if not place.is_file():
        raise FormatError(f"{folder} holds no surrogate: there is no {SETTINGS} in it; make one with fine_tune_masked")
    facts = json.loads(place.read_text(encoding="utf-8"))
    limits = {"max_length": facts["max_length"], "max_truncated": facts["max_truncated"]}
    if facts["native"]:
        from transformers import PreTrainedTokenizerFast

        where = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
        network = cast("PreTrainedModel", NativeBert.from_pretrained(folder).to(where))
        found = TextModel(network, PreTrainedTokenizerFast.from_pretrained(folder), inputs=facts["inputs"], **limits)
    else:
        found = cast("TextModel", load_model(str(folder), inputs=facts["inputs"], device=device, **limits))
    found.name = facts["name"]
    return found


class _Material:
    """The texts, tokenised once, and their variants with random units absent."""

    def __init__(self, model: TextModel, examples: Sequence[Example], settings: FineTuning, share: float) -> None:
        self.model = model
        self.settings = settings
        self.units: list[Units] = model.units(examples, settings.level)
        self.codes: list[Encoding] = model.encoder.encode(examples)
        self.most = [int(np.ceil(round(share * len(units), 9))) for units in self.units]
        self.operator = Absence.parse(settings.absence or model.default_absence)
        if self.operator.kind == "blend":
            raise ParameterError("'blend' mixes embeddings and takes no unit out; use 'mask', 'delete' or 'token:X'")
        model.vocabulary.check(self.operator)
        _ = model.traits  # tried before training begins

    def __len__(self) -> int:
        return len(self.units)

    def batches(self, rng: np.random.Generator) -> Iterator[tuple[Ints, dict[str, Tensor]]]:
        """All texts once, in batches of similar length, in random order: their numbers and the model's inputs."""
        size = self.settings.batch
        mixed = rng.permutation(len(self))
        lengths = np.array([len(code.ids) for code in self.codes])
        pools = [mixed[start : start + 16 * size] for start in range(0, len(mixed), 16 * size)]
        ordered = np.concatenate([pool[np.argsort(lengths[pool], kind="stable")] for pool in pools])
        groups = [ordered[start : start + size] for start in range(0, len(ordered), size)]
        for number in rng.permutation(len(groups)):
            yield self._batch(groups[number], rng)

    def _batch(self, chosen: Ints, rng: np.random.Generator) -> tuple[Ints, dict[str, Tensor]]:
        model, units = self.model, [self.units[i] for i in chosen]
        keep = [self._keep(i, rng) for i in chosen]
        codes = [self.codes[i] for i in chosen]
        rows = VariantRows(units, codes, keep, self.operator, model.vocabulary, model.traits.position_offset)
        order = np.argsort(-rows.lengths, kind="stable")
        columns = rows.columns(order)
        tensors = {
            name: torch.from_numpy(np.ascontiguousarray(column)).to(model.hf.device) for name, column in columns.items()
        }
        return chosen[order], tensors

    def _keep(self, number: int, rng: np.random.Generator) -> Keep:
        n = len(self.units[number])
        keep = np.ones((1, n), dtype=np.bool_)
        keep[0, rng.permutation(n)[: rng.integers(self.most[number] + 1)]] = False
        return keep


def _train(surrogate: TextModel, material: _Material, wanted: Tensor, epochs: int, seed: int) -> None:
    """AdamW without dropout: the network stays in evaluation mode."""
    network = surrogate.hf
    optimizer = torch.optim.AdamW(network.parameters(), lr=material.settings.learning_rate)
    steps = epochs * -(-len(material) // material.settings.batch)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 1e-3, steps)
    rng = np.random.default_rng(seed)
    for _ in range(epochs):
        for chosen, inputs in material.batches(rng):
            outputs = network(**inputs).logits
            loss = _loss(outputs, wanted[torch.from_numpy(chosen)].to(outputs), surrogate.activation)
            optimizer.zero_grad()
            torch.autograd.backward(loss)
            torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            advance(len(chosen))


def _loss(outputs: Tensor, wanted: Tensor, activation: Activation) -> Tensor:
    """Distance from the wanted probabilities, or from the wanted number."""
    if activation == "identity":
        return functional.mse_loss(outputs, wanted)
    if activation == "sigmoid":
        return functional.binary_cross_entropy_with_logits(outputs, wanted)
    return functional.cross_entropy(outputs, wanted)


def _answers(model: TextModel, examples: Sequence[Example]) -> list[tuple[float, ...]]:
    found = model.predict(examples)
    return [one.outputs if one.is_regression else one.probabilities for one in found]


def _copy(model: TextModel) -> TextModel:
    """A model of its own, in float32, evaluation mode and with gradients."""
    network = copy.deepcopy(model.hf).float().eval().requires_grad_(True)
    encoder = model.encoder
    made = TextModel(
        network,
        model.tokenizer,
        inputs=model.inputs,
        max_length=encoder.limit,
        max_truncated=encoder.max_truncated,
        batch_tokens=model.budget.tokens,
    )
    made.name = f"surrogate of {model.name}"
    return made


def _set_precision(network: torch.nn.Module, dtype: torch.dtype) -> None:
    network.to(dtype)


def _check(model: TextModel, examples: Sequence[Example], share: float, epochs: int) -> None:
    if not isinstance(model, TextModel):
        raise ModelError(
            f"a surrogate is a fine-tuned copy of a network, and {type(model).__name__} shows none; leave the robust "
            "metrics out"
        )
    if not examples:
        raise InputError("no texts to fine-tune the surrogate on; give some hundreds of the kind that is explained")
    if not 0 < share <= 1:
        raise ParameterError(f"share must be above 0 and at most 1, got {share!r}")
    if epochs < 1:
        raise ParameterError(f"epochs must be at least 1, got {epochs!r}")
