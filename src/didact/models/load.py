"""``load_model``: from whatever the user has to a ``Model``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

import torch

from didact.errors import ModelError, ParameterError
from didact.models.blackbox import BlackBox
from didact.models.compose import choose_head, compose
from didact.models.device import choose_device
from didact.models.encoders import embedded_path, first_line
from didact.models.eval_mode import quiet
from didact.models.heads.classes import ClassesHead
from didact.models.network import NetworkModel
from didact.models.readers.base import READERS, ReaderOptions
from didact.models.readers.text import TextReader
from didact.protocols import Model

if TYPE_CHECKING:
    from transformers import Pipeline, PreTrainedModel, PreTrainedTokenizerBase

DEFAULT = "default"
"""Name of the embedded sentiment classifier."""


class AutoClass(Protocol):
    """A Transformers ``Auto...`` class."""

    @classmethod
    def from_pretrained(cls, name: str, **options: object) -> Any:
        """What is stored under a name; with ``output_loading_info`` a pair."""
        ...


def load_model(  # noqa: PLR0913 - the one door, and every option has a default
    source: object = DEFAULT,
    *,
    inputs: str | None = None,
    labels: Sequence[str] | None = None,
    name: str | None = None,
    version: str | None = None,
    device: str | None = None,
    max_length: int | None = None,
    max_truncated: float = 0.5,
    batch_tokens: int | None = None,
    trust_remote_code: bool = False,
) -> Model:
    """Wrap a model so that it can be explained; nothing about it is changed.

    Args:
        source: a Hub id or directory, ``(model, tokenizer)``, a Transformers text-classification pipeline, a function
            from a list of texts to probabilities, or "default" for the embedded English sentiment classifier.
        inputs: name of a reader, "text" or "pair"; guessed from label names such as "entailment" when not given.
        labels: names for the columns of what a function returns.
        name: of a function, as results show it; the function's own name when not given.
        version: of a function: stored results are used again as long as name and version stay the same. Where it is
            not given, a function is identified by its code, its state and its answers to a few texts.
        device: where to put a model that is loaded here ("cpu", "cuda"); the GPU when there is one. A model object
            stays where it is.
        max_length: length limit in tokens, below the model's own.
        max_truncated: largest share of a text's characters that the limit may cut off before that is an error.
        batch_tokens: tokens per batch, if the default does not suit the machine.
        trust_remote_code: whether a Hub model may run code of its own.
    """
    if callable(source) and not _is_network(source) and not _is_pipeline(source):
        return BlackBox(source, labels=labels, name=name, version=version)
    if name is not None or version is not None:
        raise ParameterError("name and version are for functions; a network is identified by its content")
    if isinstance(source, (NetworkModel, BlackBox)):
        return source
    options = ReaderOptions(max_length, max_truncated)
    if source == DEFAULT:
        network, tokenizer = _read_embedded(choose_device(device))
        if inputs is None:  # known, so that the first result need not wait for a search of all entry points
            reader, head = TextReader(network, tokenizer, options), ClassesHead.of(network.config)
            return NetworkModel(network, reader, head, batch_tokens=batch_tokens)
    else:
        network, tokenizer = _obtain(source, inputs, device, trust_remote_code)
        _check(network, tokenizer)
    return compose(network, tokenizer, inputs=inputs, options=options, batch_tokens=batch_tokens)


def _obtain(
    source: object, inputs: str | None, device: str | None, trust: bool
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """Network and tokenizer from any of the forms that have them."""
    if isinstance(source, (str, Path)):
        return _read(str(source), inputs, choose_device(device), trust)
    if _is_network(source):
        raise ModelError("a model alone cannot read text; give (model, tokenizer)")
    if _is_model_and_tokenizer(source):
        network, tokenizer = source  # type: ignore[misc]
    elif _is_pipeline(source):
        network, tokenizer = _from_pipeline(cast("Pipeline", source))
    else:
        raise ModelError(
            f"cannot load a model from {type(source).__name__}; allowed: a Hub id or directory, (model, tokenizer), a "
            "text-classification pipeline, or a function from a list of texts to probabilities"
        )
    _stays(network, device)
    return network, tokenizer


def _read(
    name: str, inputs: str | None, device: torch.device, trust: bool
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    path = Path(name)
    place = str(path) if path.exists() else name
    if path.is_dir() and not (path / "config.json").is_file():
        raise ModelError(f"the directory {name} holds no model: there is no config.json in it")
    if path.is_file():
        raise ModelError(f"{name} is a file; give the directory that holds config.json and model.safetensors")
    import transformers

    try:
        config = transformers.AutoConfig.from_pretrained(place, trust_remote_code=trust)
        head = choose_head(config.architectures or (), config)
        processor = _auto(_processor_class(inputs)).from_pretrained(place, trust_remote_code=trust)
        with quiet():
            network, report = _auto(head.card.auto_class).from_pretrained(
                place, config=config, trust_remote_code=trust, use_safetensors=True, output_loading_info=True
            )
    except (OSError, ValueError, KeyError, ImportError) as problem:
        raise ModelError(f"cannot load {name!r}: {first_line(problem)} {_hint(name, path)}") from problem
    if report["missing_keys"]:
        missing = ", ".join(sorted(report["missing_keys"])[:3])
        raise ModelError(f"the weights of {name!r} lack {missing}: it was not trained as a {head.card.architecture}")
    return network.to(device).eval(), processor


def _auto(name: str) -> type[AutoClass]:
    import transformers

    loader: type[AutoClass] = getattr(transformers, name)
    return loader


def _processor_class(inputs: str | None) -> str:
    """What loads a tokenizer or the like: as on the card of the named reader, or of the first registered."""
    return READERS.card(inputs).processor if inputs is not None else READERS.cards()[0].processor


def _read_embedded(device: torch.device) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    from transformers import PreTrainedTokenizerFast

    from didact.models.native import NativeBertForSequenceClassification

    network = NativeBertForSequenceClassification.from_pretrained(embedded_path())
    network.name_or_path = "didact/sentiment (embedded)"
    return cast("PreTrainedModel", network.to(device)), PreTrainedTokenizerFast.from_pretrained(embedded_path())


def _hint(name: str, path: Path) -> str:
    if path.is_dir():
        return "(weights must be safetensors)"
    return f"({name!r} is not a directory here, so it was looked for at the Hub; 'default' is the embedded model)"


def _from_pipeline(pipeline: Pipeline) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    if pipeline.task != "text-classification":
        raise ModelError(f"the pipeline's task is {pipeline.task!r}; only 'text-classification' can be explained")
    if pipeline.tokenizer is None:
        raise ModelError("the pipeline has no tokenizer")
    return pipeline.model, pipeline.tokenizer


# Whoever has a model or a pipeline has loaded its module; loading it here would cost everybody else seconds.


def _is_network(source: object) -> bool:
    module = sys.modules.get("transformers.modeling_utils")
    return module is not None and isinstance(source, module.PreTrainedModel)


def _is_pipeline(source: object) -> bool:
    module = sys.modules.get("transformers.pipelines.base")
    return module is not None and isinstance(source, module.Pipeline)


def _is_model_and_tokenizer(source: object) -> bool:
    return isinstance(source, tuple) and len(source) == 2 and _is_network(source[0])


def _check(network: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
    from transformers import PreTrainedTokenizerBase

    if not isinstance(tokenizer, PreTrainedTokenizerBase):
        raise ModelError(f"the second part of (model, tokenizer) must be a tokenizer, got {type(tokenizer).__name__}")
    if not tokenizer.is_fast:
        raise ModelError(
            f"{type(tokenizer).__name__} is not a fast tokenizer, so it does not show which characters a token stands "
            "for; load one with AutoTokenizer.from_pretrained(..., use_fast=True)"
        )
    if network.config.is_encoder_decoder:
        raise ModelError(f"{type(network).__name__} is an encoder-decoder; only encoders and decoders can be explained")


def _stays(network: PreTrainedModel, device: str | None) -> None:
    if device is not None and choose_device(device).type != network.device.type:
        raise ModelError(
            f"the model is on {network.device} and is never moved; move it with model.to({device!r}) or leave device "
            "out"
        )
