"""What a network tolerates, tried once instead of keeping a list of architectures."""

from __future__ import annotations

import inspect
import math
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional

from didact.errors import CapabilityError
from didact.models import precision
from didact.models.attention import goes_through_interface
from didact.models.batch import EncodedBatch, Inputs, Ints
from didact.models.encoder_decoder import is_encoder_decoder
from didact.models.eval_mode import quiet
from didact.models.fused_attention import HeadTap
from didact.models.head_scores import watched
from didact.models.heads.base import Head
from didact.models.last_layer import shortened
from didact.models.packed import is_packed
from didact.models.prefix_cache import can_reuse
from didact.models.readers.base import AnyReader
from didact.protocols import Reads

_TOLERANCE = 1e-5
_ROUNDING = 0.05  # what 8-bit layers may change when there is padding beside the text


@dataclass(frozen=True)
class Traits:
    """Tried properties of one model.

    Attributes:
        position_offset: first position id to pass so that nothing changes; None when a token taken out, with the
            positions of the others kept, is not the same as a token hidden from attention.
        batches: whether several rows may go through at once, each with the outputs it has alone.
        shows_attention: whether its attention maps can be observed.
        heads: how many layers and heads in each show their queries and keys; None where they do not, or where plain
            attention over these does not reproduce the outputs.
        takes_embeddings: whether ``inputs_embeds`` reproduces the plain pass, and gradients reach it.
        pads_embeddings: whether right-padded embeddings do too.
        reads_last: whether they are accepted and change the outputs: the network reads its last position.
        reuses_prefix: whether variants may be evaluated from their first absent position on.
        one_stack: whether all that is computed goes through one stack of layers, and no decoder reads the input again.
        reads_first_alone: whether the last layer may be ``shortened`` to its first position.
    """

    position_offset: int | None
    batches: bool
    shows_attention: bool
    heads: tuple[int, int] | None
    takes_embeddings: bool
    pads_embeddings: bool
    reads_last: bool
    reuses_prefix: bool
    one_stack: bool = True
    reads_first_alone: bool = False

    @property
    def must_delete(self) -> bool:
        """Whether hiding a position from attention does not take it out, and no positions are taken.

        So it is where the last position is read whatever it holds, and where a decoder reads the input once more.
        """
        return not self.one_stack or (self.position_offset is None and self.reads_last)


def find_traits(network: nn.Module, reader: AnyReader, head: Head) -> Traits:
    """Try the network on one small example (a batch of one, no padding).

    Args:
        network: in evaluation mode.
        reader: feeds it.
        head: what matters of its result.
    """
    trial = _Trial(network, reader, head)
    packed, one_stack = is_packed(network), not is_encoder_decoder(network)
    config, evaluate = getattr(network, "config", None), partial(head.evaluate, network)
    with quiet(), torch.inference_mode():
        vectors = trial.vectors()
        takes = vectors is not None and trial.agrees(trial.plain, reader.embedded(trial.codes, vectors))
        padded = trial.padding_gap(vectors) if vectors is not None and takes else math.inf
        return Traits(
            position_offset=_position_offset(trial) if one_stack else None,
            batches=not packed and trial.agrees(torch.cat([trial.plain] * 2), reader.whole(trial.codes * 2)),
            shows_attention=one_stack and _shows_attention(trial),
            heads=_heads(trial) if one_stack else None,
            takes_embeddings=takes and not packed,
            pads_embeddings=padded <= _TOLERANCE,
            reads_last=(_ROUNDING if packed else _TOLERANCE) < padded < math.inf,
            reuses_prefix=one_stack and not packed and not _is_local(config) and can_reuse(network, reader, evaluate),
            one_stack=one_stack,
            reads_first_alone=one_stack and not packed and _reads_first_alone(trial, vectors),
        )


def read_position(network: nn.Module, traits: Traits) -> Reads:
    """Which position a classifier reads, where neither its head nor its reader decides."""
    config = getattr(network, "config", None)
    if getattr(config, "classifier_pooling", "cls") == "mean" or getattr(config, "use_mean_pooling", False):
        return "mean"
    return "last" if traits.reads_last else "first"


class _Trial:
    """One small example, its plain outputs, and other ways to the same outputs."""

    def __init__(self, network: nn.Module, reader: AnyReader, head: Head) -> None:
        self.network = network
        self.reader = reader
        self.head = head
        self.codes = reader.encode([reader.probe()])
        self.inputs = reader.whole(self.codes)
        with quiet(), torch.inference_mode():
            self.plain = self.outputs(self.inputs)

    def outputs(self, inputs: Inputs, places: Ints | None = None) -> Tensor:
        """Outputs for these inputs of the example, once or repeated; ``places`` where positions were taken out."""
        codes = self.codes * len(next(iter(inputs.values())))
        moved = None if places is None else (lambda: places)
        return self.head.evaluate(self.network, EncodedBatch(inputs, codes, moved))

    def vectors(self) -> Tensor | None:
        """The example's embeddings, (1, positions, dim); None where the reader shows none."""
        try:
            return self.reader.vectors(self.codes)[0][None]
        except (CapabilityError, NotImplementedError):
            return None

    def padding_gap(self, vectors: Tensor) -> float:
        """What two positions of padding change; infinite where a row cannot be padded."""
        try:
            inputs = self.reader.embedded(self.codes, functional.pad(vectors, (0, 0, 0, 2)))
        except (ValueError, RuntimeError):
            return math.inf
        return self.gap(self.plain, inputs)

    def agrees(self, plain: Tensor, inputs: Inputs, places: Ints | None = None) -> bool:
        """Whether these inputs give these outputs."""
        return self.gap(plain, inputs, places) <= _TOLERANCE

    def gap(self, plain: Tensor, inputs: Inputs, places: Ints | None = None) -> float:
        """Largest difference to plain outputs, relative to their size; infinite when the network refuses the call.

        Outputs of positions that are padding, behind those of the plain pass, are left out.
        """
        try:
            outputs = self.outputs(inputs, places)
        except (TypeError, ValueError, IndexError, RuntimeError):
            return math.inf
        outputs = outputs[:, : plain.shape[1]]
        floor = 16 * precision.step(plain.dtype, plain.device) / _TOLERANCE  # half precision cannot agree to 1e-5
        return float((outputs - plain).abs().max() / (plain.abs().max() + 1) / max(1.0, floor))


def _position_offset(trial: _Trial) -> int | None:
    config = getattr(trial.network, "config", None)
    if "position_ids" not in inspect.signature(trial.network.forward).parameters or _is_local(config):
        return None
    pad = getattr(config, "pad_token_id", None)
    steps = torch.arange(len(trial.codes[0]), device=trial.plain.device)[None]
    gaps = {
        offset: trial.gap(trial.plain, {**trial.inputs, "position_ids": steps + offset})
        for offset in (0, *([pad + 1] if pad is not None else []))
    }
    best = min(gaps, key=gaps.__getitem__)
    return best if gaps[best] <= _TOLERANCE and _drops(trial, steps + best) else None


def _drops(trial: _Trial, positions: Tensor) -> bool:
    """Whether taking out the second position equals hiding it from attention."""
    inputs = trial.inputs
    if "attention_mask" not in inputs:
        return False
    seen = inputs["attention_mask"].clone()
    seen[0, 1] = 0
    hidden = trial.outputs({**inputs, "attention_mask": seen})
    left = seen[0].bool()
    if hidden.ndim > 2:  # outputs of positions, of which one is taken out
        hidden = hidden[:, left]
    dropped = {name: value[:, left] for name, value in (inputs | {"position_ids": positions}).items()}
    return trial.agrees(hidden, dropped, left.nonzero().T.cpu().numpy())


def _reads_first_alone(trial: _Trial, vectors: Tensor | None) -> bool:
    """Whether the outputs are the same without the last layer's other positions, beside padding too."""
    if trial.plain.ndim > 2 or len(trial.codes[0]) < 2:
        return False
    with shortened(trial.network) as short:
        return (
            short
            and trial.agrees(trial.plain, trial.inputs)
            and (vectors is None or trial.padding_gap(vectors) <= _TOLERANCE)
        )


def _shows_attention(trial: _Trial) -> bool:
    if goes_through_interface(trial.network):
        return True
    taken = inspect.signature(trial.network.forward).parameters
    if "output_attentions" not in taken and all(own.kind != own.VAR_KEYWORD for own in taken.values()):
        return False
    seen = getattr(trial.network(**trial.inputs, output_attentions=True), "attentions", None)
    return seen is not None and len(seen) > 0 and seen[0].shape[-1] == len(trial.codes[0])


def _heads(trial: _Trial) -> tuple[int, int] | None:
    """How many layers and heads a watched pass shows, where it gives the plain outputs and every head all positions."""
    if not goes_through_interface(trial.network):
        return None
    size = len(trial.codes[0])
    share = torch.ones(1, size, device=trial.plain.device)
    with watched(trial.network, HeadTap(share)) as tap:
        agrees = trial.agrees(trial.plain, trial.inputs)
    shapes = {tuple(scores.shape) for scores in tap.kept}
    if not agrees or len(shapes) != 1 or next(iter(shapes))[2] != size:
        return None
    return len(tap.kept), next(iter(shapes))[1]


def _is_local(config: object) -> bool:
    windows = ("sliding_window", "local_attention", "attention_window")
    return any(getattr(config, name, None) for name in windows)
