"""Adapter for Transformers text classifiers and regressors: single texts and pairs."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from didact.errors import CapabilityError, InputError, ParameterError
from didact.meter import count
from didact.models import precision
from didact.models.attention import goes_through_interface, observed
from didact.models.attention_gradients import maps_times_gradient
from didact.models.encoding import Encoder, Encoding
from didact.models.eval_mode import evaluating, parameters
from didact.models.gradients import PointRows, Value, frozen, graph_budget, weighted_gradients
from didact.models.hidden import hidden_gradients, hidden_layers
from didact.models.layers import Trace, is_layered, trace
from didact.models.outputs import Activation, predictions, read
from didact.models.planner import Budget, run
from didact.models.special_tokens import SpecialTokens
from didact.models.traits import Traits, find_traits
from didact.models.variants import VariantRows, pad
from didact.ops.masking import Absence, unit_of_position
from didact.protocols import (
    ATTENTIVE,
    DIFFERENTIABLE,
    HIDDEN,
    LAYERED,
    AttentionKind,
    AttentionRows,
    Points,
    Reads,
    Visit,
)
from didact.provenance import content_hash
from didact.registry import unknown
from didact.types import SCALES, Example, Floats, Keep, Level, Prediction, Scale, Target, Units

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

Ints = NDArray[np.int64]
Inputs = Literal["text", "pair"]

# On CPUs within about 10 % of the best for 20 and 250 tokens, 384-wide and 768-wide (benchmarks/planner.py).
CPU_TOKENS, CPU_FIXED = 2048, 12
GPU_TOKENS, GPU_FIXED = 65536, 8192


class TextModel:
    """A ``...ForSequenceClassification`` model with its fast tokenizer, borrowed and never changed.

    Args:
        model: the user's model, wherever it is and in whatever mode.
        tokenizer: its fast tokenizer.
        inputs: whether it reads single texts or pairs.
        max_length: length limit in tokens; the model's own when not given.
        max_truncated: largest share of a text's characters that the limit may cut off before that is an error.
        batch_tokens: tokens per batch (rows times padded length).
    """

    levels: tuple[Level, ...] = ("word", "token")

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        *,
        inputs: Inputs = "text",
        max_length: int | None = None,
        max_truncated: float = 0.5,
        batch_tokens: int | None = None,
    ) -> None:
        self.hf = model
        self.inputs = inputs
        self.name = str(getattr(model, "name_or_path", "") or type(model).__name__)
        self.labels = tuple(str(label) for _, label in sorted((model.config.id2label or {}).items()))
        self.activation = _activation(model.config)
        self.scales: tuple[Scale, ...] = ("logit",) if self.activation == "identity" else SCALES
        self.encoder = Encoder(tokenizer, _limit(model, tokenizer, max_length), max_truncated)
        tokens, fixed = (GPU_TOKENS, GPU_FIXED) if model.device.type == "cuda" else (CPU_TOKENS, CPU_FIXED)
        self.budget = Budget(batch_tokens or tokens, fixed=fixed)
        self.vocabulary = SpecialTokens(tokenizer, model)
        self._hashed: tuple[object, str] | None = None

    @property
    def precision(self) -> float:
        """How far the explained pass may lie from the plain one: further where products are rounded."""
        return 1e-3 if precision.step(self.hf.dtype, self.hf.device) < 1e-4 else 3e-2

    @property
    def tokenizer(self) -> PreTrainedTokenizerBase:
        """The user's tokenizer."""
        return self.encoder.tokenizer

    @functools.cached_property
    def traits(self) -> Traits:
        """What the model tolerates; tried once, on first need."""
        with evaluating(self.hf):
            code = self.encoder.encode([Example("a short probe", "of two" if self.inputs == "pair" else None)])[0]
            facts = find_traits(self.hf, self._inputs(code.ids[None], [code]))
        if not facts.batches:
            self.budget.rows = 1
        return facts

    @functools.cached_property
    def default_absence(self) -> str:
        """The mask token where there is one; else taking units out in the way the model understands best."""
        if self.tokenizer.mask_token_id is not None:
            return "mask"
        return "delete" if self._must_not_hide else "drop"

    @property
    def _must_not_hide(self) -> bool:
        """Whether it reads its last position, which hiding from attention does not take out, and knows no positions."""
        return self.traits.position_offset is None and self.traits.reads_last

    @functools.cached_property
    def capabilities(self) -> frozenset[str]:
        """What methods may ask of it beyond ``score``."""
        takes = self.traits.takes_embeddings
        tried = {
            DIFFERENTIABLE: takes,
            ATTENTIVE: self.traits.shows_attention,
            HIDDEN: takes and hidden_layers(self.hf) is not None,
            LAYERED: is_layered(self.hf),
        }
        return frozenset(name for name, holds in tried.items() if holds)

    def fingerprint(self) -> str:
        """Hash of the configuration and of 64 evenly spaced values of every weight, renewed when a weight changed."""
        state = tuple((weight.data_ptr(), weight._version) for weight in parameters(self.hf))
        if self._hashed is None or self._hashed[0] != state:
            self._hashed = (state, self._hash())
        return self._hashed[1]

    def _hash(self) -> str:
        parts: list[object] = [self.hf.config.to_dict(), len(self.tokenizer)]
        for name, weight in self.hf.state_dict().items():
            flat = weight.detach().reshape(-1)
            sample = flat[:: max(1, flat.numel() // 64)][:64].double().cpu().numpy()
            parts.append([name, list(weight.shape), sample.tobytes().hex()])
        return content_hash(parts)

    def units(self, examples: Sequence[Example], level: Level | None = None) -> list[Units]:
        """Words or tokens by character offsets."""
        if level not in (None, *self.levels):
            raise ParameterError(unknown("level", level, self.levels))
        for example in examples:
            self._check_kind(example)
        return self.encoder.units(examples, level or self.levels[0])

    def predict(self, examples: Sequence[Example]) -> list[Prediction]:
        """Plain passes: padded batches of token ids with an attention mask and nothing else."""
        for example in examples:
            self._check_kind(example)
        codes = self.encoder.encode(examples)
        lengths = np.array([len(code.ids) for code in codes], dtype=np.int64)
        outputs = torch.zeros(len(codes), len(self.labels))

        def evaluate(rows: Ints) -> None:
            width = int(lengths[rows[0]])
            ids = np.stack([pad(codes[row].ids, width, self.vocabulary.pad_id) for row in rows])
            outputs[rows] = self.hf(**self._inputs(ids, [codes[row] for row in rows])).logits.float().cpu()

        with evaluating(self.hf), torch.inference_mode():
            _ = self.traits
            run("predicting", lengths, self.budget, True, evaluate)
        count(forwards=len(codes), evaluated=len(codes))
        return predictions(outputs, self.labels, self.activation)

    def score(
        self, units: Sequence[Units], targets: Sequence[Target], keep: Sequence[Keep], absence: str | None = None
    ) -> list[Floats]:
        """The target under each keep mask.

        Variants of all examples share batches; a variant that repeats is evaluated once; with "delete" and "drop"
        absent tokens are not computed at all.
        """
        operator = self._absence(absence)
        with evaluating(self.hf), torch.inference_mode():
            codes = self.encoder.encode([unit.example for unit in units])
            rows = VariantRows(units, codes, keep, operator, self.vocabulary, self.traits.position_offset)
            values = np.zeros(len(rows.owner))

            def evaluate(batch: Ints) -> None:
                tensors = {name: self._tensor(column) for name, column in rows.columns(batch).items()}
                outputs = self.hf(**self._blend(tensors) if operator.kind == "blend" else tensors).logits.float()
                values[batch] = read(outputs, [targets[i] for i in rows.owner[batch]], self.activation).cpu().numpy()

            pads = operator.kind != "blend" or self.traits.pads_embeddings
            run("evaluating variants", rows.lengths, self.budget, pads, evaluate)
        count(forwards=sum(len(masks) for masks in keep), evaluated=len(rows.owner))
        return rows.spread(values)

    def embed(self, units: Sequence[Units], absent: str | None = None) -> list[Tensor]:
        """Input embeddings (tokens, dim); with ``absent`` ("mask", "pad", "zero", "token:X"), units replaced by it."""
        self._need_embeddings()
        table = self.hf.get_input_embeddings()
        found = []
        with torch.no_grad():
            for unit, code in zip(units, self.encoder.encode([u.example for u in units]), strict=True):
                vectors = table(self._tensor(code.ids)).detach()
                if absent is not None:
                    covered = unit_of_position(unit, len(code.ids)) >= 0
                    vectors = vectors.clone()
                    vectors[torch.from_numpy(covered).to(vectors.device)] = self._absent_vector(absent, vectors)
                found.append(vectors)
        return found

    def gradients(
        self,
        units: Sequence[Units],
        targets: Sequence[Target],
        points: Sequence[Points],
        weights: Sequence[Floats | Points],
    ) -> list[tuple[Floats, Tensor]]:
        """Values at the points, and the weighted sum over the first points of the gradient (tokens, dim)."""
        rows, value = self._points(units, targets, points)
        with evaluating(self.hf), frozen(self.hf), torch.enable_grad():
            budget = graph_budget(self.budget, self.hf.device)
            return weighted_gradients(rows, weights, value, budget, self.traits.pads_embeddings)

    def hidden_gradients(
        self,
        units: Sequence[Units],
        targets: Sequence[Target],
        points: Sequence[Points],
        layer: int,
        visit: Visit,
    ) -> list[Floats]:
        """Values at the points; ``visit`` gets the states after a layer and the gradient there."""
        layers = hidden_layers(self.hf)
        if layers is None:
            raise CapabilityError(f"{type(self.hf).__name__} does not keep its layers in one list")
        if not -len(layers) <= layer < len(layers):
            raise ParameterError(f"layer {layer} does not exist; the model has {len(layers)} layers")
        rows, value = self._points(units, targets, points)
        with evaluating(self.hf), frozen(self.hf), torch.enable_grad():
            budget = graph_budget(self.budget, self.hf.device)
            return hidden_gradients(rows, layers[layer], value, visit, budget, self.traits.pads_embeddings)

    def _points(
        self, units: Sequence[Units], targets: Sequence[Target], points: Sequence[Points]
    ) -> tuple[PointRows, Value]:
        """Points as rows, and the function that evaluates such rows."""
        self._need_embeddings()
        codes = self.encoder.encode([unit.example for unit in units])

        def value(owners: Ints, vectors: Tensor) -> Tensor:
            logits = self.hf(**self._inputs(None, [codes[i] for i in owners], vectors=vectors)).logits
            return read(logits, [targets[i] for i in owners], self.activation)

        return PointRows(points, [len(code.ids) for code in codes]), value

    def outputs(self, units: Units, vectors: Tensor) -> Tensor:
        """Outputs at given embeddings of one example, differentiable: (k, tokens, dim) -> (k, labels)."""
        self._need_embeddings()
        code = self.encoder.encode([units.example])[0]
        with evaluating(self.hf), torch.enable_grad():
            found: Tensor = self.hf(**self._inputs(None, [code] * len(vectors), vectors=vectors)).logits
        count(forwards=len(vectors), evaluated=len(vectors))
        return found

    def read(self, outputs: Tensor, target: Target) -> Tensor:
        """The explained number per row of outputs, differentiable: (k, labels) -> (k,)."""
        return read(outputs, [target] * len(outputs), self.activation)

    def attention(
        self, units: Sequence[Units], rows: AttentionRows = "pooled", kind: AttentionKind = "probabilities"
    ) -> list[tuple[Prediction, Tensor]]:
        """Prediction of the observed pass and attention (layers, heads, [queries,] keys), example by example."""
        self._need_attention()
        found = []
        with evaluating(self.hf), torch.inference_mode():
            for code in self.encoder.encode([u.example for u in units]):
                outputs, layers = self._observe(code, rows, kind)
                plain = predictions(outputs.float().cpu()[None], self.labels, self.activation)[0]
                found.append((plain, torch.stack(layers)))
        count(forwards=len(units), evaluated=len(units))
        return found

    def attention_times_gradient(
        self, units: Sequence[Units], targets: Sequence[Target], rows: AttentionRows = "pooled"
    ) -> list[tuple[Prediction, Tensor]]:
        """Like ``attention``, every probability multiplied by the gradient of the target with respect to it."""
        self._need_attention()
        found = []
        vectors = self.embed(units)
        codes = self.encoder.encode([u.example for u in units])
        with evaluating(self.hf), frozen(self.hf), torch.enable_grad():
            for code, at, target in zip(codes, vectors, targets, strict=True):
                batch = self._inputs(None, [code], vectors=at[None].requires_grad_(True))
                outputs, layers = maps_times_gradient(self.hf, batch, functools.partial(self.read, target=target))
                plain = predictions(outputs.float().cpu(), self.labels, self.activation)[0]
                found.append((plain, torch.stack([self._rows(layer[0].float(), rows) for layer in layers])))
        count(forwards=len(units), backwards=len(units), evaluated=len(units))
        return found

    @property
    def reads(self) -> Reads:
        """Which position the classifier reads."""
        if getattr(self.hf.config, "classifier_pooling", "cls") == "mean":
            return "mean"
        return "last" if self.traits.reads_last else "first"

    def trace(self, units: Units) -> tuple[Prediction, Trace]:
        """All that the layers computed for one example, recomputed from an observed pass, and the prediction there."""
        if LAYERED not in self.capabilities:
            raise CapabilityError(f"{type(self.hf).__name__} is not one of the encoders that can be taken apart")
        (code,) = self.encoder.encode([units.example])
        with evaluating(self.hf), torch.inference_mode():
            _, attention = self._observe(code, "all", "probabilities")
            found = trace(self.hf, self._inputs(code.ids[None], [code]), attention)
        count(forwards=1, evaluated=1)
        return predictions(found.logits.cpu()[None], self.labels, self.activation)[0], found

    def _observe(self, code: Encoding, rows: AttentionRows, kind: AttentionKind) -> tuple[Tensor, list[Tensor]]:
        layers: list[Tensor] = []

        def watch(logits: Tensor, probabilities: Tensor) -> None:
            layers.append(self._rows((probabilities if kind == "probabilities" else logits)[0].float(), rows))

        batch = self._inputs(code.ids[None], [code])
        if goes_through_interface(self.hf):
            with observed(self.hf, watch):
                return self.hf(**batch).logits[0], layers
        if kind == "logits":
            raise CapabilityError(
                f"{type(self.hf).__name__} does not use Transformers' attention interface: its attention "
                "probabilities can be read, its attention logits cannot; use kind='probabilities'"
            )
        result = self.hf(**batch, output_attentions=True)
        return result.logits[0], [self._rows(matrix[0].float(), rows) for matrix in result.attentions]

    def _rows(self, matrix: Tensor, rows: AttentionRows) -> Tensor:
        """Reduce (heads, queries, keys) over queries as asked."""
        if rows == "all":
            return matrix
        if rows == "mean" or self.reads == "mean":
            return matrix.mean(1)
        return matrix[:, -1 if self.reads == "last" else 0]

    def _blend(self, batch: dict[str, Tensor]) -> dict[str, Tensor]:
        vectors = self.hf.get_input_embeddings()(batch.pop("input_ids"))
        share = batch.pop("weights")[..., None].to(vectors.dtype)
        return {**batch, "inputs_embeds": share * vectors + (1 - share) * self._absent_vector("mask", vectors)}

    def _inputs(self, ids: Ints | None, codes: Sequence[Encoding], vectors: Tensor | None = None) -> dict[str, Tensor]:
        """Inputs of a plain pass over whole examples, given as padded ids or as padded embeddings."""
        width = ids.shape[1] if ids is not None else vectors.shape[1] if vectors is not None else 0
        mask = np.stack([pad(np.ones(len(code.ids), dtype=np.int64), width, 0) for code in codes])
        batch = {"attention_mask": self._tensor(mask)}
        if ids is not None:
            batch["input_ids"] = self._tensor(ids)
        if vectors is not None:
            batch["inputs_embeds"] = vectors
        if codes[0].types is not None:
            types = [code.types for code in codes if code.types is not None]
            batch["token_type_ids"] = self._tensor(np.stack([pad(row, width, 0) for row in types]))
        return batch

    def _tensor(self, array: NDArray[Any]) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(array)).to(self.hf.device)

    def _check_kind(self, example: Example) -> None:
        if self.inputs == "text" and example.text_pair is not None:
            raise InputError(
                f"{self.name} explains single texts, but a pair was given; if it was trained on pairs, "
                "load it with inputs='pair' (command line: --inputs pair)"
            )
        if self.inputs == "pair" and example.text_pair is None:
            raise InputError(
                f"{self.name} explains pairs of texts, but a single text was given; give (text, text_pair)"
            )

    def _need_attention(self) -> None:
        if ATTENTIVE not in self.capabilities:
            raise CapabilityError(
                f"{type(self.hf).__name__} neither uses Transformers' attention interface nor returns full attention "
                "maps; use a method that does not need attention"
            )

    def _need_embeddings(self) -> None:
        if DIFFERENTIABLE not in self.capabilities:
            raise CapabilityError(f"{type(self.hf).__name__} does not take input embeddings, so it has no gradients")

    def _absence(self, text: str | None) -> Absence:
        operator = Absence.parse(text or self.default_absence)
        if operator.kind == "drop" and self._must_not_hide:
            raise ParameterError(
                f"{self.name} reads its last token and takes no positions; use 'delete' instead of 'drop'"
            )
        self.vocabulary.check(operator)
        if operator.kind == "blend":
            self._need_embeddings()
        return operator

    def _absent_vector(self, absent: str, like: Tensor) -> Tensor:
        """Embedding that stands for an absent token: (dim,)."""
        if absent == "zero":
            return like.new_zeros(like.shape[-1])
        if absent == "mask" and self.tokenizer.mask_token_id is None:
            absent = "pad" if self.tokenizer.pad_token_id is not None else "zero"
            return self._absent_vector(absent, like)
        operator = Absence("token", "pad") if absent == "pad" else Absence.parse(absent)
        index = torch.tensor(self.vocabulary.absent_id(operator), device=like.device)
        vector: Tensor = self.hf.get_input_embeddings()(index).detach()
        return vector


def _activation(config: Any) -> Activation:
    if config.num_labels == 1 or config.problem_type == "regression":
        return "identity"
    return "sigmoid" if config.problem_type == "multi_label_classification" else "softmax"


def _limit(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, asked: int | None) -> int | None:
    """The smallest of the user's, the tokenizer's and the position table's limits."""
    limits = [asked, tokenizer.model_max_length if tokenizer.model_max_length < 1_000_000 else None]
    table = getattr(model.config, "max_position_embeddings", None)
    if isinstance(table, int) and table > 0:
        offset = getattr(model.config, "pad_token_id", None)
        shifted = getattr(getattr(model.base_model, "embeddings", None), "padding_idx", None) is not None
        limits.append(table - (offset + 1) if shifted and offset is not None else table)
    known = [limit for limit in limits if limit is not None]
    return min(known) if known else None
