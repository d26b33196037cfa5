"""A network between a reader and a head: the engine that all methods run on, whatever goes in and comes out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, cast

import numpy as np
import torch
from torch import Tensor, nn

from didact.code_identity import digest_of, foreign_code
from didact.errors import CapabilityError, ParameterError
from didact.meter import count
from didact.models import precision
from didact.models.attention_gradients import attention_maps, maps_times_gradient, query_rows
from didact.models.batch import Encoded, EncodedBatch, Ints, Read
from didact.models.capabilities import need, offered
from didact.models.eval_mode import evaluating, frozen, several_rows
from didact.models.exclusive import exclusive
from didact.models.gradients import PointRows, Value, graph_budget, weighted_gradients
from didact.models.head_scores import head_scores, layer_numbers
from didact.models.heads.base import Head
from didact.models.hidden import Reduce, hidden_gradients, hidden_states, layer_of, watched
from didact.models.identity import network_identity
from didact.models.last_layer import shortened
from didact.models.layers import Trace, trace
from didact.models.outputs import described
from didact.models.packed import is_packed
from didact.models.pending import PendingTargets, guard_of, reading
from didact.models.planner import default_budget, run
from didact.models.predicting import About, outputs_of, predictions
from didact.models.prefix_cache import without_prefix
from didact.models.readers.base import AnyReader, network_name
from didact.models.recent import RecentFingerprint
from didact.models.soft_masks import mixtures, replaced, soft_values, tensors_of
from didact.models.traits import Traits, find_traits, read_position
from didact.models.variants import VariantRows
from didact.ops.masking import Absence, unique_rows
from didact.protocols import (
    ATTENTIVE,
    DIFFERENTIABLE,
    HEADS,
    LAYERED,
    Absent,
    AttentionKind,
    AttentionRows,
    Points,
    Reads,
    TargetLike,
    Visit,
    VisitStates,
)
from didact.provenance import fingerprint
from didact.registry import unknown
from didact.types import Example, Floats, Keep, Level, Prediction, Scale, Target, Units

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


class NetworkModel:
    """A network with its reader and head, borrowed and never changed; one thread at a time uses the network.

    Args:
        network: the user's, wherever it is and in whatever mode.
        reader: what it is fed, which units there are, how an absent unit is shown.
        head: what it predicts and which number is explained.
        batch_tokens: positions per batch (rows times padded length).
    """

    def __init__(self, network: nn.Module, reader: AnyReader, head: Head, *, batch_tokens: int | None = None) -> None:
        self.network = cast("PreTrainedModel", network)  # most are; the engine calls what every module has
        self.reader, self.head = reader, head
        self.name = network_name(network)
        self.labels, self.scales, self.levels = head.labels, head.scales, reader.levels
        self.budget = default_budget(reader.device, batch_tokens)
        self._traits: Traits | None = None
        self._capabilities: frozenset[str] | None = None
        self.recent_fingerprint = RecentFingerprint(network, self.fingerprint)

    __repr__ = described

    @property
    def inputs(self) -> str:
        """Name of the reader."""
        return self.reader.card.name

    @property
    def precision(self) -> float:
        """How far the explained pass may lie from the plain one: further where products are rounded."""
        exact = precision.step(self.dtype, self.reader.device) < 1e-4 and not is_packed(self.network)
        return 1e-3 if exact else 3e-2

    @property
    def dtype(self) -> torch.dtype:
        """Of the weights."""
        return next(self.network.parameters()).dtype

    @property
    def tokenizer(self) -> PreTrainedTokenizerBase:
        """The user's tokenizer, where the reader has one."""
        if self.reader.tokenizer is None:
            raise CapabilityError(f"{self.name} reads no text, so it has no tokenizer")
        return self.reader.tokenizer

    @property
    def traits(self) -> Traits:
        """What the network tolerates; tried once, on first need."""
        return self._traits or self._try()

    def _try(self) -> Traits:
        with evaluating(self.network):  # not a cached_property, whose lock would be taken before the network's
            if self._traits is None:
                self._traits = find_traits(self.network, self.reader, self.head)
                if not self._traits.batches:
                    self.budget.rows = 1
            return self._traits

    @property
    def default_absence(self) -> str:
        """The reader's own; where positions would be dropped and the network cannot do without, they are deleted."""
        default = self.reader.default_absence
        return "delete" if default == "drop" and self.traits.must_delete else default

    @property
    def capabilities(self) -> frozenset[str]:
        """What methods may need beyond ``score``."""
        if self._capabilities is None:
            self._capabilities = offered(self.network, self.traits, writes=self.reader.writes)
        return self._capabilities

    def fingerprint(self) -> str:
        """Hash of what decides predictions: every weight, the configuration, reader and tokenizer, the head."""
        with exclusive(self.network):
            reading = [self.reader.identity(), foreign_code(type(self.reader))]
            return fingerprint([network_identity(self.network), reading, digest_of(self.head)])

    def target(self, given: TargetLike, prediction: Prediction, scale: Scale) -> Target:
        """What the head makes of a user's wish; nothing means what is predicted."""
        return self.head.target(given, prediction, scale)

    def units(self, examples: Sequence[Example], level: Level | None = None) -> list[Units]:
        """What gets a score, on a level that the reader offers."""
        if level not in (None, *self.levels):
            raise ParameterError(unknown("level", level, self.levels))
        for example in examples:
            self.reader.check(example)
        return self.reader.units(examples, level or self.levels[0])

    def predict(
        self, examples: Sequence[Example], about: About | None = None, then: Callable[[Ints], None] | None = None
    ) -> list[Prediction]:
        """Plain passes with nothing but what the reader feeds; ``about`` has spans or texts that need an output."""
        for example in examples:
            self.reader.check(example)
        with evaluating(self.network):
            _ = self.traits  # sets how many rows a batch may have
            return predictions(self.reader, self.head, examples, self.budget, about, then)

    def predict_with_states(
        self, examples: Sequence[Example], layers: Sequence[int], visit: VisitStates
    ) -> list[Prediction]:
        """The same predictions; ``visit`` gets the states after chosen layers in the very passes that predict."""
        with watched(self.network, layers) as states:
            return self.predict(examples, then=lambda rows: visit(rows, states()))

    def score(
        self, units: Sequence[Units], targets: Sequence[Target], keep: Sequence[Keep], absence: str | None = None
    ) -> list[Floats]:
        """The target under each keep mask.

        Variants of all examples share batches; a variant that repeats is evaluated once; with "delete" and "drop"
        absent positions are not computed at all.
        """
        operator = self._absence(absence)
        if operator.kind == "blend":
            return self._blended(units, targets, keep)
        return self._varied(units, keep, operator, self._explained(targets))

    def keep_outputs(self, units: Sequence[Units], keep: Sequence[Keep], absence: str | None = None) -> list[Floats]:
        """All outputs as of ``soft_outputs``, under each keep mask: (variants, outputs); not differentiable."""
        operator = self._absence(absence)
        if operator.kind == "blend":
            raise ParameterError("keep_outputs takes masks of 0 and 1; use soft_outputs for what is between")
        return self._varied(units, keep, operator, self._all_outputs, (len(self.labels),))

    def label_scores(
        self, units: Sequence[Units], keep: Sequence[Keep], scale: Scale, absence: str | None = None
    ) -> list[Floats]:
        """The number of every label under each keep mask, from one evaluation for all: (variants, labels)."""
        targets = [Target(index, label, scale) for index, label in enumerate(self.labels)]

        def read(outputs: Tensor, owners: Ints, batch: EncodedBatch) -> Tensor:
            return torch.stack([self.head.values(outputs, [one] * len(owners), batch) for one in targets], 1)

        return self._varied(units, keep, self._absence(absence), read, (len(targets),))

    def _varied(
        self, units: Sequence[Units], keep: Sequence[Keep], operator: Absence, read: Read, shape: tuple[int, ...] = ()
    ) -> list[Floats]:
        """What is read of the outputs under each keep mask: (variants, *shape) per example."""
        with evaluating(self.network), self._short_passes(), torch.inference_mode():
            codes = self._encode(units)
            rows = VariantRows(units, codes, keep, operator, self.reader, self.traits.position_offset)
            made: list[tuple[Ints, Tensor]] = []  # a GPU computes a batch while the next one is put together
            source, budget = without_prefix(rows, self.network, self.budget, self.traits.reuses_prefix)

            def evaluate(batch: Ints) -> None:
                fed = source.batch(batch)
                made.append((batch, read(self._outputs(fed).float(), rows.owner[batch], fed)))

            run("evaluating variants", source.lengths, budget, True, evaluate)
            values = np.zeros((len(rows.owner), *shape))
            for batch, own in made:
                values[batch] = own.cpu().numpy()
        count(forwards=sum(len(masks) for masks in keep), evaluated=len(rows.owner))
        return rows.spread(values)

    def _blended(self, units: Sequence[Units], targets: Sequence[Target], keep: Sequence[Keep]) -> list[Floats]:
        """The target under weights between 0 and 1, by mixing embeddings."""
        distinct = [unique_rows(masks) for masks in keep]
        masks = [torch.from_numpy(rows.astype(np.float32)) for rows, _ in distinct]
        blended = self._soft(units, masks, "mask", self._explained(targets))
        count(forwards=sum(map(len, keep)) - sum(map(len, masks)))  # those that repeat were not evaluated
        return [own.float().cpu().double().numpy()[back] for own, (_, back) in zip(blended, distinct, strict=True)]

    def soft_score(
        self, units: Sequence[Units], targets: Sequence[Target], masks: Sequence[Tensor], absent: str = "mask"
    ) -> list[Tensor]:
        """The target under soft masks (rows, units) per example, differentiable with respect to them: (rows,) each."""
        return self._soft(units, masks, absent, self._explained(targets))

    def soft_outputs(self, units: Sequence[Units], masks: Sequence[Tensor], absent: Absent = "mask") -> list[Tensor]:
        """Log-probabilities or a regressor's numbers, (rows, outputs) each; masks and absent vectors may be live."""
        return self._soft(units, masks, absent, self._all_outputs)

    def _soft(self, units: Sequence[Units], masks: Sequence[Tensor], absent: Absent, read: Read) -> list[Tensor]:
        need(DIFFERENTIABLE, self.capabilities, self.network)
        live = any(one.requires_grad for one in (*masks, *tensors_of(absent)))
        with evaluating(self.network), frozen(self.network), self._short_passes(), torch.set_grad_enabled(live):
            blends = mixtures(self.reader, self._encode(units), units, masks, absent)
            rows, value = self._points(units, blends, read)
            budget = graph_budget(self.budget, self.reader.device) if live else self.budget
            return soft_values(rows, value, budget, self.traits.pads_embeddings)

    def _explained(self, targets: Sequence[Target]) -> Read:
        return reading(self.head, self.name, targets)

    def pending(
        self, examples: Sequence[Example], wanted: Sequence[TargetLike], scale: Scale | None, method: str
    ) -> PendingTargets | None:
        """Targets that the pass which a method differentiates settles; None where a plain pass must come first."""
        return PendingTargets.of(self, examples, wanted, scale, guard_of(self.network, f"{method} {self.inputs}"))

    def _all_outputs(self, outputs: Tensor, owners: Ints, batch: EncodedBatch) -> Tensor:
        return self.head.readout(outputs, batch)

    def embed(self, units: Sequence[Units], absent: str | None = None) -> list[Tensor]:
        """Input embeddings (positions, dim); with ``absent``, units replaced by what the reader has of that name."""
        need(DIFFERENTIABLE, self.capabilities, self.network)
        made = self.reader.vectors(self._encode(units))
        if absent is None:
            return made
        return [replaced(*pair, self.reader.absent_vector(absent, pair[1])) for pair in zip(units, made, strict=True)]

    def gradients(
        self,
        units: Sequence[Units],
        targets: Sequence[Target],
        points: Sequence[Points],
        weights: Sequence[Floats | Points],
    ) -> list[tuple[Floats, Tensor]]:
        """Values at the points, and the weighted sum over the first points of the gradient (positions, dim)."""
        rows, value = self._points(units, points, self._explained(targets))
        with evaluating(self.network), frozen(self.network), self._short_passes(), torch.enable_grad():
            budget = graph_budget(self.budget, self.reader.device)
            return weighted_gradients(rows, weights, value, budget, self.traits.pads_embeddings)

    def hidden_gradients(
        self, units: Sequence[Units], targets: Sequence[Target], points: Sequence[Points], layer: int, visit: Visit
    ) -> list[Floats]:
        """Values at the points; ``visit`` gets the states after a layer and the gradient there."""
        chosen = layer_of(self.network, layer)
        self._encode(units, single_pass=True)
        rows, value = self._points(units, points, self._explained(targets))
        whole = chosen is layer_of(self.network, -1)
        passes = nullcontext() if whole else self._short_passes()
        with evaluating(self.network), frozen(self.network), passes, torch.enable_grad():
            budget = graph_budget(self.budget, self.reader.device)
            return hidden_gradients(rows, chosen, value, visit, budget, self.traits.pads_embeddings)

    def states(
        self, examples: Sequence[Example], layers: Sequence[int] = (-1,), reduce: Reduce | None = None
    ) -> list[Tensor]:
        """Hidden states of chosen layers, (layers, positions, dim) per example, or what ``reduce`` keeps of them."""
        _ = self.traits  # sets how many rows a batch may have
        codes = self.reader.encode(examples)
        self.reader.check_single_pass(codes)
        count(forwards=len(examples), evaluated=len(examples))
        return hidden_states(self.reader, codes, self.budget, layers, reduce)

    @property
    def head_grid(self) -> tuple[int, int]:
        """How many layers, and attention heads in each."""
        need(HEADS, self.capabilities, self.network)
        return self.traits.heads or (0, 0)

    def head_scores(self, units: Sequence[Units], layers: Sequence[int] | None = None) -> list[Tensor]:
        """Scores of the units by each head of chosen layers, (layers x heads, units) per example, on the CPU."""
        chosen = layer_numbers(layers, self.head_grid[0])
        count(forwards=len(units), evaluated=len(units))
        return head_scores(self.reader, self._encode(units, single_pass=True), units, self.budget, chosen)

    def values_at(self, units: Units, target: Target | Sequence[Target], vectors: Tensor) -> Tensor:
        """The target at given embeddings of one example, differentiable: (k, positions, dim) -> (k,)."""
        given = [target] if isinstance(target, Target) else target
        _, value = self._points([units], [vectors], self._explained(given))
        with evaluating(self.network), several_rows(self.network), torch.enable_grad():
            values = value(np.zeros(len(vectors), dtype=np.int64), vectors)
        count(forwards=len(vectors), evaluated=len(vectors))
        return values

    def _points(self, units: Sequence[Units], points: Sequence[Points], read: Read) -> tuple[PointRows, Value]:
        """Points as rows, and the function that evaluates such rows."""
        need(DIFFERENTIABLE, self.capabilities, self.network)
        codes = self._encode(units)

        def value(owners: Ints, vectors: Tensor) -> Tensor:
            own = [codes[i] for i in owners]
            batch = EncodedBatch(self.reader.embedded(own, vectors), own)
            return read(self._outputs(batch), owners, batch)

        return PointRows(points, [len(code) for code in codes]), value

    def attention(
        self, units: Sequence[Units], rows: AttentionRows = "pooled", kind: AttentionKind = "probabilities"
    ) -> list[tuple[Prediction, Tensor]]:
        """Prediction of the observed pass and attention (layers, heads, [queries,] keys), example by example."""
        need(ATTENTIVE, self.capabilities, self.network)
        seen = []
        with evaluating(self.network), torch.inference_mode():
            for code in self._encode(units, single_pass=True):
                batch = EncodedBatch(self.reader.whole([code]), [code])
                keep = partial(query_rows, rows=rows, reads=self.reads, size=len(code))
                result, layers = attention_maps(self.network, self.head.feeding(self.network, batch), keep, kind)
                seen.append((self._prediction(self.head.answers(result, batch), batch), torch.stack(layers)))
        count(forwards=len(units), evaluated=len(units))
        return seen

    def attention_times_gradient(
        self, units: Sequence[Units], targets: Sequence[Target], rows: AttentionRows = "pooled"
    ) -> list[tuple[Prediction, Tensor]]:
        """Like ``attention``, every probability multiplied by the gradient of the target with respect to it."""
        need(ATTENTIVE, self.capabilities, self.network)
        seen, read = [], self._explained(targets)
        vectors, codes = self.embed(units), self._encode(units, single_pass=True)
        with evaluating(self.network), frozen(self.network), torch.enable_grad():
            for number, (code, at) in enumerate(zip(codes, vectors, strict=True)):
                batch = EncodedBatch(self.reader.embedded([code], at[None].requires_grad_(True)), [code])
                outputs, layers = maps_times_gradient(self.network, self.head, batch, read, number)
                maps = torch.stack([query_rows(layer, rows, self.reads, len(code)) for layer in layers])
                seen.append((self._prediction(outputs, batch), maps))
        count(forwards=len(units), backwards=len(units), evaluated=len(units))
        return seen

    def generate(self, requests: Sequence[str], length: int) -> list[str]:
        """Answers of a network that writes text."""
        count(forwards=len(requests), evaluated=len(requests))
        with evaluating(self.network), torch.inference_mode():
            return self.reader.answers(requests, length)

    @property
    def reads(self) -> Reads:
        """Which position the classifier reads."""
        return self.head.reads or self.reader.reads or read_position(self.network, self.traits)

    def trace(self, units: Units) -> tuple[Prediction, Trace]:
        """All that the layers computed for one example, recomputed from an observed pass, and the prediction there."""
        need(LAYERED, self.capabilities, self.network)
        codes = self._encode([units], single_pass=True)
        batch = EncodedBatch(self.reader.whole(codes), codes)
        with evaluating(self.network), torch.inference_mode():
            _, attention = attention_maps(self.network, batch.inputs, lambda matrix: matrix[0].float())
            traced = trace(self.network, batch.inputs, attention)
        count(forwards=1, evaluated=1)
        return self._prediction(traced.logits[None], batch), traced

    def _encode(self, units: Sequence[Units], *, single_pass: bool = False) -> list[Encoded]:
        codes = self.reader.encode([unit.example for unit in units])
        if single_pass:
            self.reader.check_single_pass(codes)
        return codes

    def _short_passes(self) -> AbstractContextManager[object]:
        """Passes without what no output needs; plain ones, which guard explanations, are whole."""
        return shortened(self.network) if self.traits.reads_first_alone else nullcontext()

    def _outputs(self, batch: EncodedBatch) -> Tensor:
        return outputs_of(self.reader, self.head, batch)

    def _prediction(self, outputs: Tensor, batch: EncodedBatch) -> Prediction:
        return self.head.predictions(outputs.float().cpu(), batch)[0]

    def _absence(self, name: str | None) -> Absence:
        operator = self.reader.absence(name or self.default_absence)
        if operator.kind == "drop" and self.traits.must_delete:
            raise ParameterError(f"{self.name} reads tokens that are hidden from attention; use 'delete', not 'drop'")
        return operator
