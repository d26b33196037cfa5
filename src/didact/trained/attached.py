"""A model with its explainer attached: one call, one pass, predictions and scores."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Literal, ParamSpec, TypeVar, cast

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from didact.attribution.base import checked
from didact.errors import CapabilityError, InputError, ParameterError
from didact.meter import count
from didact.models.batch import Encoded, EncodedBatch, Inputs, Ints
from didact.models.eval_mode import evaluating, parameters
from didact.models.heads.base import Head
from didact.models.load import load_model
from didact.models.network import NetworkModel
from didact.models.outputs import check_defined
from didact.models.planner import run
from didact.models.replay import NO_PADDING, Padding, Replay, recorded_beside
from didact.ops.masking import unit_of_position, units_of_positions
from didact.protocols import ExampleLike
from didact.settings import shown
from didact.trained.explainer import LearnedExplainer
from didact.trained.one_graph import OWNER, OneGraph, written
from didact.trained.shapes._located import Located
from didact.trained.shapes.base import check_shape
from didact.types import Example, Prediction, Units

STEP = 16
"""Rows that are replayed have a multiple of so many positions."""
Replayed = bool | Literal["scores"]
P = ParamSpec("P")
T = TypeVar("T")
Seen = tuple[Located, Tensor]
"""Where units stand, and which of them are there, (rows, 1, units)."""


def attach(model: object, explainer: object, *, replay: Replayed = False, fuse: bool = False) -> AttachedModel:
    """As ``didact.attach``, for anything that ``load_model`` takes."""
    adapter = load_model(model)
    if not isinstance(adapter, NetworkModel):
        raise CapabilityError(f"an explainer is attached to a network, and {adapter.name} is a function")
    return AttachedModel(adapter, _learned(explainer), replay=replay, fuse=fuse)


class AttachedOutput:
    """What one call returned, a row for each text.

    The tensors stay on the model's device. What is read from them, labels and all that depends on them, is computed
    when it is read: that waits for a GPU, and a model that returned NaN or infinite numbers is refused there.

    Args:
        model: the explained one.
        logits: its outputs as it returns them, (rows, labels).
        scores: of the units for every label, (rows, labels, units or more), 0 where a row has fewer units.
        units: where the words stand; empty where only token ids and ``owner`` were given.
        owner: counts the units, where ``scores`` may have more.
    """

    def __init__(
        self, model: NetworkModel, logits: Tensor, scores: Tensor, units: list[Units], owner: Tensor | None = None
    ) -> None:
        self.logits = logits
        self.units = units
        self._model, self._scores, self._owner = model, scores, owner

    @cached_property
    def label_scores(self) -> Tensor:
        """Scores of the units for every label, (rows, labels, units), 0 where a row has fewer units."""
        return self._scores if self._owner is None else self._scores[..., : _most(self._owner)]

    @cached_property
    def scores(self) -> Tensor:
        """Scores of the units for the predicted label, (rows, units)."""
        device = self._scores.device
        index = torch.tensor([own.index for own in self.predictions], device=device)
        return self.label_scores[torch.arange(len(index), device=device), index]

    @cached_property
    def predictions(self) -> list[Prediction]:
        """Label, outputs and probabilities of each row."""
        outputs = self.logits.float().cpu()
        examples = [own.example for own in self.units] or [Example("")] * len(outputs)
        check_defined(outputs, examples, self._model.name)
        return self._model.head.predictions(outputs, EncodedBatch({}, ()))

    @property
    def labels(self) -> list[str]:
        """The predicted label of each row."""
        return [own.label for own in self.predictions]

    @property
    def words(self) -> list[tuple[str, ...]]:
        """The units of each row as written in its text; empty where ``units`` is."""
        return [own.texts for own in self.units]


class AttachedModel:
    """A network and the explainer that reads its pass; called like the network, or with texts.

    The network is borrowed: it is in evaluation mode during a call and as it was afterwards. Tensors are one pass of
    the whole batch; texts are computed in batches of similar lengths, each text in one pass. The fingerprint of the
    model is checked once, here, and not at every call.

    Args:
        model: the explained model.
        explainer: trained for it.
        replay: whether a GPU records the pass for each shape of a batch and replays it; rows are padded to lengths
            that come again. With "scores" the network is called as it is, and what follows it is replayed.
        fuse: whether ``torch.compile`` makes few kernels of what follows the network.
    """

    def __init__(
        self, model: NetworkModel, explainer: LearnedExplainer, *, replay: Replayed = False, fuse: bool = False
    ) -> None:
        if not isinstance(replay, bool) and replay != "scores":
            raise ParameterError(f"replay must be True, False or 'scores', got {shown(replay)}")
        _check(model, explainer)
        with evaluating(model.network):
            _ = model.traits  # sets how many rows a batch may have
        self.model = model
        self.explainer = explainer
        self.graph = OneGraph(model.network, model.head, explainer.shape, explainer.signal)
        self._seen, self._by_label = self._stand, self._scored
        if fuse:
            self._seen, self._by_label = _fused(self._stand), _fused(self._scored)
        own, every = parameters(explainer.shape), [*parameters(model.network), *parameters(explainer.shape)]
        self._anchor = every[0]  # to know the device without a walk through the network
        self.replay = Replay(self._pass, every, padding=self.padding) if replay is True else None
        self.replay_scores = Replay(self._scores, own) if replay == "scores" else None

    def __call__(
        self,
        texts: Sequence[ExampleLike] | None = None,
        *,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        **inputs: Tensor,
    ) -> AttachedOutput:
        """Predictions and scores of a batch, each from one pass.

        Args:
            texts: texts, pairs or images; or, instead of them, what the network takes:
            input_ids: (rows, positions); without ``owner`` the words are recovered from the ids.
            attention_mask: 0 for padding.
            **inputs: what else the network takes, and ``owner`` as ``encode`` returns it.
        """
        given = {"input_ids": input_ids, "attention_mask": attention_mask, **inputs}
        fed = {name: _tensor(name, value) for name, value in given.items() if value is not None}
        if (texts is None) == (not fed):
            raise InputError(
                "give either texts or what the network takes (input_ids and attention_mask); "
                f"got {'both' if fed else 'neither'}"
            )
        if texts is not None:
            return self._of_texts(texts)
        units: list[Units] = []
        if OWNER not in fed:
            units, fed[OWNER] = self._recovered(fed)
        waits = fed[OWNER].device.type != "cpu"  # units are counted when they are read
        logits, scores = self._computed(fed, None if waits else _most(fed[OWNER]))
        return AttachedOutput(self.model, logits, scores, units, fed[OWNER] if waits else None)

    def encode(self, texts: Sequence[ExampleLike]) -> Inputs:
        """What the network and an exported graph take for texts: its inputs, and ``owner``.

        ``owner`` (rows, positions) has the number of the unit that each position belongs to, -1 for special tokens
        and padding.
        """
        return self._read(texts)[1]

    def export(self, file: str | Path) -> Path:
        """Write network and explainer as one graph for any number of rows and positions.

        Its inputs are what ``encode`` returns, by name and in that order. Its outputs are ``logits`` (rows, labels) and
        ``scores`` (rows, positions, labels), of which the first in a row belong to its units and the others to nothing.

        Args:
            file: ends in ".pt2" for ``torch.export.load``, or in ".onnx" (needs the extra ``onnx``).
        """
        return written(self.graph, self.encode(self._sample()), Path(file))

    @property
    def padding(self) -> Padding:
        """Of rows that are replayed: to a multiple of ``STEP`` positions, if the network has so many.

        There is none where the network would not know padding: without a mask, or without an id for it.
        """
        config = getattr(self.model.network, "config", None)
        nothing, longest = (getattr(config, name, None) for name in ("pad_token_id", "max_position_embeddings"))
        if nothing is None:
            return NO_PADDING
        return Padding(STEP, longest, {OWNER: -1, "input_ids": nothing}, needs="attention_mask")

    def _of_texts(self, texts: Sequence[ExampleLike]) -> AttachedOutput:
        """Batches of similar lengths, so that little is padded."""
        units, codes = self._encoded(texts)
        made: dict[int, tuple[Tensor, Tensor]] = {}

        def evaluate(rows: Ints) -> None:
            some = [units[row] for row in rows]
            fed = self._fed(some, [codes[row] for row in rows])
            logits, scores = self._computed(fed, max(1, *map(len, some)))
            made.update(zip(rows.tolist(), zip(logits, scores, strict=True), strict=True))

        run("predicting", np.array([len(code) for code in codes], dtype=np.int64), self.model.budget, True, evaluate)
        rows = [made[number] for number in range(len(codes))]
        most = max(scores.shape[1] for _, scores in rows)
        padded = [functional.pad(scores, (0, most - scores.shape[1])) for _, scores in rows]
        return AttachedOutput(self.model, torch.stack([logits for logits, _ in rows]), torch.stack(padded), units)

    def _computed(self, fed: Inputs, most: int | None) -> tuple[Tensor, Tensor]:
        """One pass: logits (rows, labels) and scores (rows, labels, most), 0 where a row has fewer units.

        Args:
            fed: what the graph takes.
            most: units of a row at most; as many as positions where not given.
        """
        device = self._anchor.device
        placed = {name: own if own.device == device else own.to(device) for name, own in fed.items()}
        wide = most or placed[OWNER].shape[1]
        if self.replay is not None:
            logits, by_label = self.replay(placed)
        else:
            with torch.inference_mode():
                logits, states = self._passed(placed)
                by_label = self._of_states(states, placed[OWNER], wide)
        rows = logits.shape[0]
        count(forwards=rows, evaluated=rows)
        return logits, by_label if by_label.shape[-1] == wide else by_label[..., :wide]

    def _passed(self, placed: Inputs) -> tuple[Tensor, list[Tensor]]:
        with evaluating(self.model.network):
            return self.graph.passed(placed)

    def _pass(self, placed: Inputs) -> tuple[Tensor, ...]:
        """The whole of it, for as many units as positions; where they stand does not wait for the network."""
        owner = placed[OWNER]
        with recorded_beside(owner.device) as join:
            seen = self._seen(owner, owner.shape[1])
        logits, states = self._passed(placed)
        join()
        return logits, self._by_label(states, seen)

    def _of_states(self, states: Sequence[Tensor], owner: Tensor, most: int) -> Tensor:
        if self.replay_scores is None:
            return self._by_label(states, self._seen(owner, most))
        named = {str(number): own for number, own in enumerate(states)}
        return self.replay_scores({OWNER: owner, **named})[0]

    def _scores(self, read: Inputs) -> tuple[Tensor, ...]:
        """What follows the network, from its states by number and ``owner``."""
        owner = read[OWNER]
        states = [own for name, own in read.items() if name != OWNER]
        return (self._by_label(states, self._seen(owner, owner.shape[1])),)

    def _stand(self, owner: Tensor, most: int) -> Seen:
        known = torch.arange(most, device=owner.device) <= owner.amax(1, keepdim=True)
        return self.graph.shape.located(owner, most), known[:, None]

    def _scored(self, states: Sequence[Tensor], seen: Seen) -> Tensor:
        where, known = seen
        return self.graph.scored(states, where).transpose(1, 2) * known

    def _read(self, texts: Sequence[ExampleLike]) -> tuple[list[Units], Inputs]:
        units, codes = self._encoded(texts)
        return units, self._fed(units, codes)

    def _encoded(self, texts: Sequence[ExampleLike]) -> tuple[list[Units], list[Encoded]]:
        examples, _ = checked(texts)
        if not examples:
            raise InputError("a batch needs at least one text")
        units = self.model.units(examples, self.explainer.about.level)
        codes = list(self.model.reader.encode(examples))
        self.model.reader.check_single_pass(codes)
        return units, codes

    def _fed(self, units: Sequence[Units], codes: Sequence[Encoded]) -> Inputs:
        """What the graph takes for some texts as one batch."""
        width = max(map(len, codes))
        owner = torch.from_numpy(units_of_positions(units, width))
        return {**self.model.reader.whole(codes), OWNER: owner.to(self.model.reader.device)}

    def _recovered(self, fed: Mapping[str, Tensor]) -> tuple[list[Units], Tensor]:
        """Words of token ids, where decoding them gives a text that is encoded as the same ids."""
        if "input_ids" not in fed:
            raise InputError(f"{self.model.name} is called with {', '.join(fed)}: give texts, or add owner of encode()")
        ids = fed["input_ids"].cpu()
        seen = fed.get("attention_mask", torch.ones_like(ids)).cpu().bool()
        if ids.ndim != 2 or seen.shape != ids.shape:
            raise InputError(
                f"input_ids and attention_mask must both be (rows, positions), got {tuple(ids.shape)} and "
                f"{tuple(seen.shape)}"
            )
        rows = [row[kept].tolist() for row, kept in zip(ids, seen, strict=True)]
        decode = self.model.tokenizer.decode
        texts = [cast("str", decode(row, skip_special_tokens=True)) for row in rows]
        units, again = self._read(texts)
        owner = torch.full_like(ids, -1)
        for number, (row, kept) in enumerate(zip(rows, seen, strict=True)):
            size = len(row)
            if again["input_ids"].shape[1] < size or again["input_ids"][number, :size].tolist() != row:
                raise InputError(
                    f"the words of row {number} cannot be recovered from its token ids ({texts[number]!r:.60} is "
                    "encoded as other ids); give texts, or what encode(texts) returns"
                )
            owner[number, kept] = torch.from_numpy(unit_of_position(units[number], size))
        return units, owner

    def _sample(self) -> list[Example]:
        """Examples of several lengths to trace the pass with."""
        example = self.model.reader.probe()
        if not example.is_textual:
            return [example] * 3
        return [Example(*(" ".join([text] * times) for text in example.texts)) for times in (1, 2, 3)]


def _fused(function: Callable[P, T]) -> Callable[P, T]:
    """The function compiled for any number of rows and positions, when it is called."""
    from torch._dynamo.exc import TorchDynamoException  # imports much that nothing else needs

    compiled = torch.compile(function, dynamic=True)

    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return compiled(*args, **kwargs)
        except TorchDynamoException as problem:
            reason = " ".join(str(problem).split())
            raise CapabilityError(
                f"torch.compile cannot fuse the explainer on this machine: {reason:.300}; attach it without fuse=True"
            ) from problem

    return call


def _most(owner: Tensor) -> int:
    """Units of the row that has most."""
    return max(1, int(owner.max()) + 1)


def _learned(explainer: object) -> LearnedExplainer:
    if isinstance(explainer, (str, Path)):
        return LearnedExplainer.from_pretrained(explainer)
    if isinstance(explainer, LearnedExplainer):
        return explainer
    raise ParameterError(
        f"what is attached is a learned explainer that reads the pass which predicts, or the folder it was saved to; "
        f"got {shown(explainer)}. Train one with didact.train('probe', ...), or use didact.explain"
    )


def _check(model: NetworkModel, explainer: LearnedExplainer) -> None:
    """Refuse what cannot be computed in a single plain pass, or was not trained for this model."""
    shape, signal, head = explainer.shape, explainer.signal, model.head
    if explainer.runtime != "torch" or not shape.rides:
        raise ParameterError(
            f"this explainer's {shape.card.name} does not read the pass that predicts, so it cannot be attached; "
            "train didact.train('probe', ...) with per_class=True and norm='position', its defaults"
        )
    if signal.evaluations:
        raise ParameterError(
            f"this explainer needs {signal.evaluations} more evaluations of the model for each text (complete=True), "
            "so it is not attached to a single pass; train it without, or use didact.explain"
        )
    if type(head).readout is Head.readout or type(head).feeding is not Head.feeding:
        raise CapabilityError(
            f"a model with a {head.card.name} head does not predict one class or a number in a plain pass, so nothing "
            "is attached to it; use didact.explain"
        )
    check_shape(shape.card, model)
    if not explainer.force:
        explainer.check_model(model, model.fingerprint())


def _tensor(name: str, value: object) -> Tensor:
    if not isinstance(value, Tensor):
        raise InputError(
            f"{name} must be a tensor, as tokenizer(..., return_tensors='pt') makes it; got {shown(value)}"
        )
    return value
