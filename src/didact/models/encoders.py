"""Pretrained networks and their tokenizers, read from a directory or the Hub: the one place where that happens."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from didact.errors import DidactError, ModelError, ParameterError, UnknownNameError
from didact.models.device import choose_device
from didact.models.eval_mode import quiet
from didact.models.tokens.vocabulary import check_vocabulary
from didact.registry import unknown

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase
    from transformers.image_processing_utils import BaseImageProcessor

Loaded = tuple["PreTrainedModel", "PreTrainedTokenizerBase"]

Report = Mapping[str, Any]
"""What Transformers reports about the weights that it read, by kind."""

MOST_LAYERS = 2000
"""More layers than any network has; to build what a damaged configuration names could take hours."""

WANTED = (
    "give a directory with config.json, a tokenizer and safetensors, a Hub id, or leave it out for the embedded one"
)


DTYPES = {str(own).removeprefix("torch."): own for own in (torch.float32, torch.bfloat16, torch.float16, torch.float64)}
"""Types that weights may be read as, by name."""


@dataclass(frozen=True)
class Placement:
    """Where the weights of a network that is read go, and as what.

    Attributes:
        given_device: as the user named it; None for the GPU when there is one.
        dtype: of the weights; None for what they are stored as.
        trust: whether code that comes along may run.
    """

    given_device: str | torch.device | None = None
    dtype: torch.dtype | None = None
    trust: bool = False

    @classmethod
    def of(
        cls, device: str | torch.device | None, dtype: str | torch.dtype | None = None, *, trust: bool = False
    ) -> Placement:
        """From what a user names."""
        name = str(dtype).removeprefix("torch.")
        if dtype is not None and name not in DTYPES:
            raise ParameterError(f"dtype must be one of {', '.join(DTYPES)}, got {name!r:.60}")
        return cls(device, None if dtype is None else DTYPES[name], trust)

    @cached_property
    def device(self) -> torch.device:
        """Where the network goes."""
        return choose_device(self.given_device)

    @property
    def options(self) -> dict[str, object]:
        """What Transformers is told about the weights."""
        return {"trust": self.trust, **({} if self.dtype is None else {"dtype": self.dtype})}


SENTIMENT = "sentiment"
"""The embedded model that is the default."""


def embedded_path(name: str = SENTIMENT) -> Path:
    """Directory of an embedded model."""
    root = Path(str(files("didact.embedded")))
    names = sorted(path.parent.name for path in root.glob("*/config.json"))
    if name not in names:
        raise UnknownNameError(unknown("embedded model", name, names))
    return root / name


def load_encoder(
    name: str | Path | None,
    *,
    dropout: float | None = None,
    labels: Sequence[str] = (),
    seed: int = 0,
    hint: str = WANTED,
) -> Loaded:
    """Network and fast tokenizer, in float32 on the CPU and in evaluation mode; code that comes along never runs.

    Args:
        name: a directory or a Hub id; None for the encoder of the embedded sentiment model.
        dropout: everywhere in the network; as configured when not given.
        labels: with names, a new classification head for them is put on; without, the encoder comes without any head
            and pooler.
        seed: decides the first weights of such a head.
        hint: what may be given instead of one that cannot be read, for the message.
    """
    place = str(embedded_path() if name is None else name)
    with reading(f"the encoder {name!r}", f"({hint})"):
        config = read_config(place)
        _configure(config, dropout, labels)
        tokenizer: PreTrainedTokenizerBase = pretrained("AutoTokenizer", place)
        with _seeded(seed) if labels else contextlib.nullcontext():
            kind = "AutoModelForSequenceClassification" if labels else "AutoModel"
            network, report = read_network(kind, place, config)
    if not tokenizer.is_fast:
        raise ModelError(f"{name!r} has no fast tokenizer, which is needed to know the characters of a token")
    if network.config.is_encoder_decoder:
        raise ModelError(f"{name!r} is an encoder-decoder; give an encoder")
    own = f"{network.base_model_prefix}." if labels else ""  # what is outside of it is the new head
    check_weights(report, repr(name), lambda key: key.startswith(own) and "pooler" not in key)
    check_vocabulary(network, tokenizer, name=repr(name), folder=local_folder(place))
    if not labels and getattr(network, "pooler", None) is not None:
        network.pooler = None  # type: ignore[assignment] # nothing reads it
    return network.float().eval(), tokenizer


def load_image_encoder(name: str | Path, *, dropout: float | None = None) -> tuple[PreTrainedModel, BaseImageProcessor]:
    """Vision transformer without a head, in float32 on the CPU and in evaluation mode, and its image processor."""
    with reading(f"the encoder {str(name)!r}", "(give a directory or Hub id of a vision transformer)"):
        config = read_config(str(name))
        _configure(config, dropout, ())
        processor: BaseImageProcessor = pretrained("AutoImageProcessor", str(name))
        with _seeded(0):  # a pooler, which nothing reads, may be drawn
            network, report = read_network("AutoModel", str(name), config)
    check_weights(report, repr(str(name)), lambda key: "pooler" not in key)
    if getattr(network, "pooler", None) is not None:
        network.pooler = None  # type: ignore[assignment] # nothing reads it
    return network.float().eval(), processor


def pretrained(kind: str, place: str, *, trust: bool = False, **options: object) -> Any:
    """What a Transformers ``Auto...`` class of this name reads.

    Args:
        kind: name of the class.
        place: a directory or a Hub id.
        trust: whether code that lies there may run; Transformers, left to itself, asks on standard input.
        **options: of ``from_pretrained``.
    """
    import transformers

    with quiet():
        return getattr(transformers, kind).from_pretrained(place, trust_remote_code=trust, **options)


def read_config(place: str, *, trust: bool = False) -> PreTrainedConfig:
    """The configuration; one that no network can have is refused before it is built."""
    config: PreTrainedConfig = pretrained("AutoConfig", place, trust=trust)
    layers = getattr(config, "num_hidden_layers", 0)
    if isinstance(layers, int) and layers > MOST_LAYERS:
        raise ModelError(f"config.json of {place!r} names {layers:,} layers; no more than {MOST_LAYERS:,} are built")
    return config


def read_network(
    kind: str, place: str, config: PreTrainedConfig, placement: Placement | None = None
) -> tuple[PreTrainedModel, Report]:
    """The network, and which of its weights were not read or do not fit; to be checked with ``check_weights``."""
    network, report = pretrained(
        kind,
        place,
        config=config,
        use_safetensors=True,
        output_loading_info=True,
        ignore_mismatched_sizes=True,
        **(placement or Placement()).options,  # type: ignore[arg-type] # trust is a truth value
    )
    return network, report


def check_weights(report: Report, name: str, needed: Callable[[str], bool], purpose: str = "") -> None:
    """Refuse a network some of whose weights are not the stored ones.

    Args:
        report: of ``read_network``.
        name: of the network.
        needed: which weights must have been read, by their names.
        purpose: what the network cannot be without them, for the message.
    """
    missing = sorted(key for key in report["missing_keys"] if needed(key))
    if missing:
        raise ModelError(f"the weights of {name} lack {', '.join(missing[:3])}{purpose}")
    unfit = sorted(entry for entry in report["mismatched_keys"] if needed(entry[0]))
    if unfit:
        key, stored, wanted = unfit[0]
        raise ModelError(
            f"the weights of {name} do not fit its config.json: {key} has the shape {tuple(stored)}, and "
            f"{tuple(wanted)} is needed"
        )


@contextlib.contextmanager
def reading(what: str, hint: str) -> Iterator[None]:
    """Turn whatever damaged or strange files make a library raise into one plain line."""
    try:
        yield
    except DidactError:
        raise
    except Exception as problem:
        raise ModelError(f"cannot load {what}: {first_line(problem)} {hint}") from problem


def local_folder(place: str) -> Path | None:
    """The directory of this name, if there is one; None for what only the Hub can have."""
    try:
        return Path(place) if Path(place).is_dir() else None
    except (OSError, ValueError):  # a name that no file can have
        return None


def first_line(problem: BaseException) -> str:
    """The first line of an error's message that is not blank, shortened."""
    lines = [line.strip() for line in str(problem).splitlines() if line.strip()]
    return (lines[0] if lines else type(problem).__name__)[:200]


@contextlib.contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """New weights depend on the seed alone, and the caller's random numbers do not change."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


def set_dropout(config: PreTrainedConfig, dropout: float) -> None:
    """Set all shares of numbers that a network drops in training."""
    for key, value in config.to_dict().items():
        if "drop" in key and isinstance(value, float):
            setattr(config, key, dropout)


def _configure(config: PreTrainedConfig, dropout: float | None, labels: Sequence[str]) -> None:
    if dropout is not None:
        set_dropout(config, dropout)
    if labels:
        config.id2label = dict(enumerate(labels))
        config.label2id = {label: number for number, label in enumerate(labels)}
        config.problem_type = "single_label_classification"
