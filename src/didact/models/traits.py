"""What a model tolerates, found out by trying it once instead of keeping a list of architectures."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from didact.models import precision
from didact.models.attention import goes_through_interface
from didact.models.eval_mode import quiet

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_TOLERANCE = 1e-5


@dataclass(frozen=True)
class Traits:
    """Tried properties of one model.

    Attributes:
        position_offset: first position id to pass so that nothing changes; None when a token taken out, with the
            positions of the others kept, is not the same as a token hidden from attention.
        batches: whether several rows may go through at once.
        shows_attention: whether its attention maps can be seen.
        takes_embeddings: whether ``inputs_embeds`` reproduces the plain pass.
        pads_embeddings: whether right-padded embeddings do too; if not, the model reads its last position.
    """

    position_offset: int | None
    batches: bool
    shows_attention: bool
    takes_embeddings: bool
    pads_embeddings: bool

    @property
    def reads_last(self) -> bool:
        """Whether the classifier reads the last position rather than the first."""
        return self.takes_embeddings and not self.pads_embeddings


def find_traits(model: PreTrainedModel, inputs: dict[str, Tensor]) -> Traits:
    """Try the model on one short encoded text (batch of one, no padding)."""
    with quiet(), torch.inference_mode():
        plain = model(**inputs).logits
        takes = _agrees(model, plain, _embedded(model, inputs))
        return Traits(
            position_offset=_position_offset(model, plain, inputs),
            batches=_agrees(model, plain.expand(2, -1), {k: v.expand(2, -1) for k, v in inputs.items()}),
            shows_attention=_shows_attention(model, inputs),
            takes_embeddings=takes,
            pads_embeddings=takes and _agrees(model, plain, _padded(_embedded(model, inputs))),
        )


def _position_offset(model: PreTrainedModel, plain: Tensor, inputs: dict[str, Tensor]) -> int | None:
    if "position_ids" not in inspect.signature(model.forward).parameters or _is_local(model.config):
        return None
    pad = getattr(model.config, "pad_token_id", None)
    steps = torch.arange(inputs["input_ids"].shape[1], device=plain.device)[None]
    gaps = {
        offset: _gap(model, plain, {**inputs, "position_ids": steps + offset})
        for offset in (0, *([pad + 1] if pad is not None else []))
    }
    best = min(gaps, key=gaps.__getitem__)
    return best if gaps[best] <= _TOLERANCE and _drops(model, inputs, steps + best) else None


def _drops(model: PreTrainedModel, inputs: dict[str, Tensor], positions: Tensor) -> bool:
    """Whether taking out the second token equals hiding it from attention."""
    seen = inputs["attention_mask"].clone()
    seen[0, 1] = 0
    hidden = model(**{**inputs, "attention_mask": seen}).logits
    left = seen[0].bool()
    shorter = {name: value[:, left] for name, value in (inputs | {"position_ids": positions}).items()}
    return _agrees(model, hidden, shorter)


def _shows_attention(model: PreTrainedModel, inputs: dict[str, Tensor]) -> bool:
    if goes_through_interface(model):
        return True
    seen = model(**inputs, output_attentions=True).attentions
    return bool(seen) and seen[0].shape[-1] == inputs["input_ids"].shape[1]


def _is_local(config: Any) -> bool:
    windows = ("sliding_window", "local_attention", "attention_window")
    return any(getattr(config, name, None) for name in windows)


def _embedded(model: PreTrainedModel, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
    rest = {name: value for name, value in inputs.items() if name != "input_ids"}
    return {**rest, "inputs_embeds": model.get_input_embeddings()(inputs["input_ids"])}


def _padded(inputs: dict[str, Tensor]) -> dict[str, Tensor]:
    pad = torch.nn.functional.pad
    return {k: pad(v, (0, 0, 0, 2)) if v.ndim == 3 else pad(v, (0, 2)) for k, v in inputs.items()}


def _agrees(model: PreTrainedModel, plain: Tensor, inputs: dict[str, Tensor]) -> bool:
    return _gap(model, plain, inputs) <= _TOLERANCE


def _gap(model: PreTrainedModel, plain: Tensor, inputs: dict[str, Tensor]) -> float:
    """Largest difference to the plain logits, relative to their size; infinite when the model refuses the call."""
    try:
        logits = model(**inputs).logits
    except (TypeError, ValueError, IndexError, RuntimeError, NotImplementedError):
        return float("inf")
    floor = 16 * precision.step(plain.dtype, plain.device) / _TOLERANCE  # half precision cannot agree to 1e-5
    return float((logits - plain).abs().max() / (plain.abs().max() + 1) / max(1.0, floor))
