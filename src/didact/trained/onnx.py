"""Another runtime for trained shapes: ONNX on the CPU, with 8-bit numbers where that keeps the ranks of the scores."""

from __future__ import annotations

import contextlib
import copy
import logging
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, TypedDict

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from didact import disk
from didact.errors import InputError, MismatchError, ModelError, ParameterError
from didact.stats.correlation import spearman
from didact.trained.shapes._attention import attention
from didact.trained.shapes.base import Item, Shape, ShapeBatch
from didact.types import Example, Floats, Level, Prediction, Span, Units

NAME = "onnx"
FILE = "model.onnx"
LIMIT = 0.99
"""Smallest mean rank correlation with torch's scores that an export may have."""
TOP = 3
"""How many of the highest units are compared as a set."""

_OPSET = 20
_TEXTS, _LONGEST = 64, 40
_PLAIN = ("a", "bad", "film", "good", "it", "not", "of", "the", "very", "was")


@dataclass(frozen=True, eq=False)
class Runtime:
    """What computes a shape's pass instead of torch.

    Attributes:
        name: written into explanations.
        forward: the pass.
        weights: hash of the weights that were exported.
        rows: most texts of one pass.
    """

    name: str
    forward: Callable[[ShapeBatch], Tensor]
    weights: str
    rows: int


class Figures(TypedDict):
    """The measured fields of an ``ExportAgreement``."""

    texts: str
    rank_correlation: float
    lowest_rank_correlation: float
    top: float
    largest_difference: float


@dataclass(frozen=True, kw_only=True)
class ExportAgreement:
    """How alike the scores of a runtime and of torch are; a mean over texts unless stated otherwise.

    Attributes:
        texts: how many were compared, and what they are.
        rank_correlation: Spearman's rho of the scores of a text.
        lowest_rank_correlation: that of the text with the lowest one.
        top: share of the ``TOP`` highest units that are among the highest of both.
        largest_difference: of any score.
        int8: whether weights have 8 bits.
        int8_embeddings: whether those of the embeddings have, too.
    """

    texts: str
    rank_correlation: float
    lowest_rank_correlation: float
    top: float
    largest_difference: float
    int8: bool
    int8_embeddings: bool

    @property
    def good(self) -> bool:
        """Whether ranks are kept."""
        return self.rank_correlation >= LIMIT

    def __str__(self) -> str:
        return (
            f"mean rank correlation {self.rank_correlation:.4f} (lowest {self.lowest_rank_correlation:.4f}), the same "
            f"top {TOP} in {self.top:.1%}, largest difference {self.largest_difference:.2g}, on {self.texts}"
        )


def export(
    shape: Shape, file: Path, sample: Sequence[Item], compare: Callable[[Runtime], Figures], *, int8: bool
) -> ExportAgreement:
    """Write a shape as ONNX for any number of texts of any length, and return how well it agrees.

    With ``int8`` all weights get 8 bits; those of the embeddings stay floats where ranks would change too much.

    Args:
        shape: trained, in evaluation mode.
        file: what to write.
        sample: items to trace the pass with.
        compare: the figures of an ``ExportAgreement`` for what was written.
        int8: whether weights get 8 bits.
    """
    _library("onnxruntime")
    with tempfile.TemporaryDirectory() as name:
        floats = Path(name) / FILE
        _trace(shape, sample, floats)
        if not int8:
            disk.write_bytes(file, floats.read_bytes())
            return ExportAgreement(**compare(load(file, "", int8=False)), int8=False, int8_embeddings=False)
        for embeddings in (True, False):
            _quantise(floats, file, embeddings=embeddings)
            measured = ExportAgreement(**compare(load(file, "", int8=True)), int8=True, int8_embeddings=embeddings)
            if measured.good:
                break
    return measured


def load(file: Path, weights: str, *, int8: bool, threads: int = 1) -> Runtime:
    """The runtime of an exported shape.

    With 8 bits the values of a whole pass share one scale, so each text goes through it alone: its scores do not depend
    on the texts beside it.

    Args:
        file: what ``export`` wrote.
        weights: hash of the weights it came from.
        int8: whether these have 8 bits.
        threads: for one pass; more than one pays for long texts only.
    """
    if threads < 1:
        raise ParameterError(f"threads of the onnx runtime must be at least 1, got {threads!r}")
    runtime = _library("onnxruntime")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    try:
        session = runtime.InferenceSession(
            str(file),
            options,
            providers=["CPUExecutionProvider"],
            # The fused kernel adds up number by number; apart, adding and normalising take a fraction of its time.
            disabled_optimizers=["SkipLayerNormFusion"],
        )
    except Exception as problem:  # its errors share no class
        raise ModelError(f"{file} cannot be loaded: {problem!s:.200}; export it again") from None
    names = [column.name for column in session.get_inputs()]

    def forward(batch: ShapeBatch) -> Tensor:
        return torch.from_numpy(session.run(None, {name: batch[name].numpy() for name in names})[0])

    return Runtime(f"{NAME} int8" if int8 else NAME, forward, weights, 1 if int8 else 1 << 30)


def agreement(scores: Sequence[Floats], others: Sequence[Floats], kind: str) -> Figures:
    """The figures of an ``ExportAgreement`` for the scores of the same texts.

    Texts whose units all have one score have no order and are left out of the correlation. Words that are alike to the
    network (all unknown ones, where it has no positions) differ by rounding alone, which is no order either.
    """
    pairs = list(zip(scores, others, strict=True))
    ordered = [(_stepped(ours), _stepped(theirs)) for ours, theirs in pairs]
    orders = [spearman(ours, theirs) for ours, theirs in ordered if len(ours) > 1 and np.ptp(ours) > 0]
    if not orders:
        raise InputError(
            f"no agreement can be measured on {len(pairs)} {kind}: give explanations of texts with several words"
        )
    # A constant list beside one with an order agrees in nothing.
    orders = [0.0 if np.isnan(order) else order for order in orders]
    return {
        "texts": f"{len(pairs)} {kind}",
        "rank_correlation": float(np.mean(orders)),
        "lowest_rank_correlation": float(min(orders)),
        "top": float(np.mean([_shared_top(ours, theirs) for ours, theirs in ordered])),
        "largest_difference": float(max(np.abs(ours - theirs).max() for ours, theirs in pairs)),
    }


def check(measured: ExportAgreement) -> None:
    """Refuse an export that changes the ranks."""
    if not measured.good:
        cure = "use int8=False" if measured.int8 else "report it"
        raise MismatchError(
            f"the exported explainer ranks differently: {measured}; the mean must be at least {LIMIT}. "
            f"{cure[0].upper()}{cure[1:]}, give explanations of real texts to compare on, or write it "
            "nevertheless with force=True"
        )


def made_up(shape: Shape, labels: Sequence[str], level: Level) -> list[Item]:
    """Texts of random words that the shape knows, of 2 to 40 words, as it reads them; the same each time."""
    rng = np.random.default_rng(0)
    words = list(shape.vocabulary()) or list(_PLAIN)
    likely = 1.0 / np.arange(10, len(words) + 10)  # as words are in texts, where the frequent ones come first
    lengths = rng.integers(2, _LONGEST + 1, _TEXTS)
    texts = [rng.choice(words, length, p=likely / likely.sum()).tolist() for length in lengths]
    return _items(shape, texts, labels, level)


def sample(shape: Shape, labels: Sequence[str], level: Level) -> list[Item]:
    """Texts to trace the pass with, of three lengths and long enough to take its general course."""
    words = (*_PLAIN, *shape.vocabulary()[:90])
    lengths = (shape.traced_units + extra for extra in (0, 3, 5))
    texts = [np.resize(words, length).tolist() for length in lengths]
    return _items(shape, texts, labels, level)


def _items(shape: Shape, texts: Sequence[Sequence[str]], labels: Sequence[str], level: Level) -> list[Item]:
    """Texts of these words, explained for the outputs in turn."""
    units = [Units(Example(" ".join(words)), level, _spans(words)) for words in texts]
    targets = [number % len(labels) for number in range(len(texts))]
    return shape.read(None, units, targets, [Prediction(tuple(labels), (0.0,) * len(labels))] * len(texts))


def _spans(words: Sequence[str]) -> tuple[Span, ...]:
    """Where the words stand in a text that blanks keep apart."""
    ends = np.cumsum([len(word) + 1 for word in words]) - 1
    return tuple(Span(int(end) - len(word), int(end)) for word, end in zip(words, ends, strict=True))


def _stepped(scores: Floats) -> Floats:
    """Scores in whole steps of a ten-thousandth of the largest."""
    largest = np.abs(scores).max(initial=0)
    return np.round(scores / largest * 1e4) if largest > 0 else scores


def _shared_top(ours: Floats, theirs: Floats) -> float:
    """Share of the highest units that are the highest in both."""
    count = min(TOP, len(ours))
    first, second = (set(np.argsort(-scores, kind="stable")[:count].tolist()) for scores in (ours, theirs))
    return len(first & second) / count


class _Columns(nn.Module):
    """A shape that takes its columns one by one, as exported graphs do."""

    def __init__(self, shape: Shape, names: Sequence[str]) -> None:
        super().__init__()
        self.shape = shape
        self.names = names

    def forward(self, *columns: Tensor) -> Tensor:
        numbers: Tensor = self.shape(dict(zip(self.names, columns, strict=True)))
        return numbers


class _Fused(TorchFunctionMode):
    """Attention as one node of the graph where the runtime has one for it; as many small ones it takes longer."""

    def __torch_function__(
        self,
        func: Callable[..., Tensor],
        types: object,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, object] | None = None,
    ) -> Tensor:
        if func is attention and not args[-1]:
            q, k, v, seen, heads, _ = args
            return _one_node((q, k, v), seen.flatten(1).to(torch.int32), None, heads)
        plain = func is F.scaled_dot_product_attention and not kwargs and len(args) in (4, 5) and not any(args[4:])
        if not plain or args[3] is None or args[3].dtype != torch.bool:
            return func(*args, **(kwargs or {}))
        q, k, v, seen = args[:4]
        rows, heads, positions, size = q.shape
        inputs = tuple(x.transpose(1, 2).flatten(2) for x in (q, k, v))
        if isinstance(seen.shape[2], int) and seen.shape[2] == 1:  # (rows, 1, 1, keys): the same for all queries
            attended = _one_node(inputs, seen.flatten(1).to(torch.int32), None, heads)
        else:
            bias = torch.zeros_like(seen, dtype=q.dtype).masked_fill(~seen, -1e4)
            attended = _one_node(inputs, None, bias, heads)
        return attended.view(rows, positions, heads, size).transpose(1, 2)


def _one_node(inputs: Sequence[Tensor], seen: Tensor | None, bias: Tensor | None, heads: int) -> Tensor:
    """Attention of queries, keys and values (rows, positions, width) as the runtime has it."""
    node: Tensor = torch.onnx.ops.symbolic(
        "com.microsoft::MultiHeadAttention",
        [*inputs, None, *([seen] if bias is None else [None, bias])],
        {"num_heads": heads},
        dtype=inputs[0].dtype,
        shape=inputs[0].shape,
        version=1,
    )
    return node


def _trace(shape: Shape, items: Sequence[Item], file: Path) -> None:
    """Write the shape's pass as floats."""
    _library("onnxscript")
    columns = shape.collate(items)
    module = _Columns(copy.deepcopy(shape).cpu(), list(columns)).eval()
    anything = torch.export.Dim.DYNAMIC
    sizes = tuple(
        dict.fromkeys(range(1 if name in shape.fixed else column.ndim), anything) for name, column in columns.items()
    )
    with quietly(), torch.no_grad(), _Fused():
        program = torch.export.export(module, tuple(columns.values()), dynamic_shapes=(sizes,))
    write_program(program, file, list(columns), ["numbers"])


def write_program(
    program: torch.export.ExportedProgram, file: Path, inputs: Sequence[str], outputs: Sequence[str]
) -> None:
    """Write what ``torch.export`` made as one ONNX file, with these names of its inputs and outputs."""
    _library("onnxscript")
    with quietly(), torch.no_grad():
        made = torch.onnx.export(
            program,
            dynamo=True,
            input_names=list(inputs),
            output_names=list(outputs),
            opset_version=_OPSET,
            verbose=False,
        )
        if made is None:  # torch's signature allows it; with dynamo there is always a program
            raise ModelError(f"torch gave no ONNX program with the outputs {', '.join(outputs)}")
        made.save(file, external_data=False)


def _quantise(source: Path, file: Path, *, embeddings: bool) -> None:
    """Weights of 8 bits, each column with its own scale; what comes in is brought to 8 bits at every pass."""
    _library("onnx")
    from onnxruntime.quantization import QuantType, quantize_dynamic

    with quietly():
        quantize_dynamic(
            source,
            file,
            op_types_to_quantize=["MatMul", "Gemm", "Gather"] if embeddings else ["MatMul", "Gemm"],
            per_channel=True,
            weight_type=QuantType.QInt8,
            reduce_range=True,  # seven bits: eight overflow on processors without products of bytes (VNNI)
            extra_options={"MatMulConstBOnly": True},
        )


@contextlib.contextmanager
def quietly() -> Iterator[None]:
    """Exporters warn of what they lack for other networks; not inside the block."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


def _library(name: str) -> ModuleType:
    try:
        if name == "onnxruntime":
            import onnxruntime as library
        elif name == "onnxscript":
            import onnxscript as library
        else:
            import onnx as library
    except ImportError:
        raise ParameterError(f"the onnx runtime needs the library {name}: pip install 'didact[onnx]'") from None
    return library  # type: ignore[no-any-return] # untyped or a module
