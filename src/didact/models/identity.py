"""What identifies a network and a tokenizer: all of their content, and neither where it lies nor who loaded it.

Every value of every parameter and buffer is hashed. As long as a checksum over all bytes stays the same the hashes are
not computed again; the checksum reads everything too, since weights can change without a trace anywhere else (as by
``weight.data.mul_``).
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar, cast
from weakref import WeakKeyDictionary

import numpy as np
import torch
import xxhash
from numpy.typing import NDArray
from torch import Tensor, nn

from didact.code_identity import STANDS_FOR, digest_of, full_name, is_library
from didact.models.eval_mode import modules, named_modules
from didact.models.exclusive import exclusive

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

T = TypeVar("T")
Words = NDArray[np.int64]

BLOCK = 1 << 24
"""Bytes that one thread hashes at a time."""
_COLUMNS = 1021
"""Words per row of a checksum: a prime, so that rows of weights do not fall upon each other."""
_ODD = -7046029254386353131
"""An odd number of 64 bits: what is multiplied by it cannot become 0 by wrapping around."""

_WEIGHTS: WeakKeyDictionary[nn.Module, dict[str, tuple[object, str]]] = WeakKeyDictionary()
"""Checksum and hash of every tensor of a network, so that all adapters round it share them."""
_TOKENIZERS: WeakKeyDictionary[object, tuple[str, object]] = WeakKeyDictionary()

_LOOKING = threading.local()

_NEUTRAL = frozenset(
    {"_name_or_path", "name_or_path", "transformers_version", "_commit_hash", "architectures", "tokenizer_class"}
    | {"dtype", "torch_dtype", "_attn_implementation", "_attn_implementation_internal", "attn_implementation"}
    | {"_experts_implementation", "_experts_implementation_internal", "experts_implementation", "_use_kernels"}
    | {"id2label", "label2id", "num_labels", "finetuning_task", "task_specific_params", "problem_type"}
    | {"output_attentions", "_output_attentions", "output_hidden_states", "return_dict", "use_return_dict"}
    | {"use_cache", "is_encoder_decoder"}
)
"""Entries of a configuration that name places and versions, that the weights or the head hold, or that only decide
what is returned beside the outputs."""


def network_identity(network: nn.Module) -> list[object]:
    """What decides a network's outputs: configuration, modules and weights."""
    config = getattr(network, "config", None)
    facts = {} if config is None else cast("Mapping[str, object]", config.to_dict())
    return [
        {name: value for name, value in sorted(facts.items()) if name not in _NEUTRAL and value is not None},
        list(_structure(network)),
        weight_digests(network),
    ]


def weight_digests(network: nn.Module) -> dict[str, str]:
    """A hash of every parameter and buffer by its name: type, shape and all values."""
    with exclusive(network), torch.no_grad():
        tensors = dict(_tensors(network))
        known = _WEIGHTS.setdefault(network, {})
        checks = dict(zip(tensors, _in_threads(_checksum, list(tensors.values())), strict=True))
        changed = [name for name in tensors if name not in known or known[name][0] != checks[name]]
        digests = tensor_digests([tensors[name] for name in changed])
        for gone in known.keys() - tensors.keys():
            del known[gone]
        known.update({name: (checks[name], digest) for name, digest in zip(changed, digests, strict=True)})
        return {name: known[name][1] for name in tensors}


def tensor_digests(tensors: Iterable[Tensor]) -> list[str]:
    """A hash of each tensor's type, shape and values, the same on every device; blocks are hashed in threads."""
    given = [(tensor, _as_bytes(tensor)) for tensor in tensors]
    blocks = [data[start : start + BLOCK] for _, data in given for start in range(0, data.numel(), BLOCK)]
    digests = iter(_in_threads(_block_digest, blocks))
    made = []
    for tensor, data in given:
        out = hashlib.sha256(json.dumps([str(tensor.dtype), list(tensor.shape)]).encode())
        for _ in range(0, data.numel(), BLOCK):
            out.update(next(digests))
        made.append(out.hexdigest()[:32])
    return made


def tokenizer_identity(tokenizer: PreTrainedTokenizerBase) -> object:
    """What decides a tokenizer's ids: vocabulary, every rule, special and added tokens, and a few settings."""
    settings: list[object] = [tokenizer.special_tokens_map, list(tokenizer.model_input_names)]
    settings += [tokenizer.truncation_side, bool(getattr(tokenizer, "split_special_tokens", False))]
    with exclusive(tokenizer):
        if not tokenizer.is_fast:
            return [full_name(type(tokenizer)), settings, sorted(tokenizer.get_vocab().items())]
        raw = tokenizer.backend_tokenizer.to_str()
        seen = xxhash.xxh3_128_hexdigest(raw.encode("utf-8", "surrogatepass"))
        known = _TOKENIZERS.get(tokenizer)
        if known is None or known[0] != seen:
            known = _TOKENIZERS[tokenizer] = (seen, _rules_digest(raw))
        return [settings, known[1]]


def _structure(network: nn.Module) -> Iterator[list[object]]:
    """Every module's class and its numbers such as epsilons; of classes that no library defines the code, too."""
    foreign: dict[type, str] = {}
    for name, module in named_modules(network, twice=False):
        kind = type(module)
        numbers = {label: value for label, value in sorted(vars(module).items()) if isinstance(value, float)}
        replaced = _replaced_forward(module) if "forward" in vars(module) else ""
        if not is_library(kind.__module__) and kind not in foreign:
            foreign[kind] = digest_of(kind)
        yield [name, kind.__name__, numbers, replaced, foreign.get(kind, "")]


def _replaced_forward(module: nn.Module) -> str:
    """Hash of a function that was set in place of a module's own, which mostly holds that module."""
    if id(module) in _looking_at():
        return "above"
    _looking_at().append(id(module))
    try:
        return digest_of(vars(module)["forward"])
    finally:
        _looking_at().pop()


def _looking_at() -> list[int]:
    """Modules whose functions this thread is looking into."""
    if not hasattr(_LOOKING, "at"):
        _LOOKING.at = []
    modules_above: list[int] = _LOOKING.at
    return modules_above


def _tensors(network: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Parameters, buffers (also those that are not saved), and what else the network would save."""
    named: set[str] = set()
    every = list(named_modules(network, twice=True))
    parameters: Iterable[tuple[str, Mapping[str, Tensor | None]]] = ((name, own._parameters) for name, own in every)
    buffers: Iterable[tuple[str, Mapping[str, Tensor | None]]] = ((name, own._buffers) for name, own in every)
    for place, members in (*parameters, *buffers):
        for last, tensor in members.items():
            if tensor is not None:
                name = f"{place}.{last}" if place else last
                named.add(name)
                yield from _plain_tensors(name, tensor)
    for name, value in network.state_dict(keep_vars=True).items():
        if name not in named:
            yield from _plain_tensors(name, value)


def _plain_tensors(name: str, value: object) -> Iterator[tuple[str, Tensor]]:
    """A value as tensors that have bytes: packed and quantised weights taken apart, other objects by their hash."""
    if isinstance(value, (tuple, list)):
        for number, part in enumerate(value):
            yield from _plain_tensors(f"{name}.{number}", part)
    elif not isinstance(value, Tensor):
        yield f"{name}: {digest_of(value)}", torch.empty(0)
    elif value.is_quantized:
        whole = value.dequantize()
        yield f"{name}.values", whole
        yield f"{name}.integers", value.int_repr()
    elif value.layout != torch.strided:
        yield f"{name}.dense", value.to_dense()
    else:
        yield name, value


def _as_bytes(tensor: Tensor) -> Tensor:
    return tensor.detach().contiguous().reshape(-1).view(torch.uint8)


def _block_digest(data: Tensor) -> bytes:
    return hashlib.sha256(data.cpu().numpy().data).digest()


def _in_threads(compute: Callable[[Tensor], T], tensors: Sequence[Tensor]) -> list[T]:
    """A result for each tensor; large ones are read by as many threads as torch may use, hashing lets them run."""
    threads = min(8, os.cpu_count() or 1, torch.get_num_threads())
    if threads == 1 or sum(tensor.numel() * tensor.element_size() for tensor in tensors) < BLOCK:
        return [compute(tensor) for tensor in tensors]
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(compute, tensors))


def _checksum(tensor: Tensor) -> object:
    """Type, shape and a checksum over all bytes, which are read where they lie."""
    data = _as_bytes(tensor)
    on_gpu = data.is_cuda and data.storage_offset() % 8 == 0
    check = _gpu_checksum(data) if on_gpu else xxhash.xxh3_128_digest(data.cpu().numpy().data)
    return (tensor.dtype, tensor.shape, tensor.device, check)


def _gpu_checksum(data: Tensor) -> object:
    """Sums that differ whenever a single value does, and when values swap places.

    Words of 64 bits stand in rows. The sums of columns and of rows, each times an odd number of its own, wrap around;
    a change of one word changes both.
    """
    full = data.numel() // 8 // _COLUMNS * _COLUMNS
    if not full:
        return data.cpu().numpy().tobytes()
    rows = data[: full * 8].view(torch.int64).view(-1, _COLUMNS)
    columns, lines = rows.sum(0).cpu().numpy(), rows.sum(1).cpu().numpy()
    return _weighted(columns), _weighted(lines), data[full * 8 :].cpu().numpy().tobytes()


def _weighted(values: Words) -> int:
    """The sum of values times numbers that are odd and all different; it wraps around."""
    return int(np.dot(values, _FACTORS.first(len(values))))


class _Factors:
    """As many odd numbers of 64 bits as are needed."""

    def __init__(self) -> None:
        self.numbers = np.empty(0, np.int64)

    def first(self, count: int) -> Words:
        if len(self.numbers) < count:
            self.numbers = (np.arange(2 * count, dtype=np.int64) * _ODD) | 1
        return self.numbers[:count]


_FACTORS = _Factors()


def _rules_digest(raw: str) -> str:
    """Hash of a serialised fast tokenizer, whichever version wrote it; padding and truncation are each call's own."""
    rules: dict[str, Any] = json.loads(raw)
    for name in ("version", "truncation", "padding"):
        rules.pop(name, None)
    merges = (rules.get("model") or {}).get("merges")
    if merges:
        rules["model"]["merges"] = [merge.split(" ") if isinstance(merge, str) else merge for merge in merges]
    text = json.dumps(rules, sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _network_in_a_function(network: nn.Module) -> object:
    """As ``network_identity``, and its mode: a function's own network is not put into evaluation mode here."""
    if id(network) in _looking_at():
        return "above"
    return json.dumps([network_identity(network), [module.training for module in modules(network)]], default=str)


STANDS_FOR["torch.nn.modules.module.Module"] = _network_in_a_function
STANDS_FOR["torch.Tensor"] = lambda tensor: tensor_digests([tensor])
STANDS_FOR["torch.device"] = lambda device: ""
STANDS_FOR["transformers.tokenization_utils_base.PreTrainedTokenizerBase"] = lambda given: json.dumps(
    tokenizer_identity(given), default=str
)
