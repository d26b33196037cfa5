"""``load_model``: from whatever the user has to a ``Model``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch

from didact.errors import ModelError
from didact.models.blackbox import BlackBox
from didact.models.eval_mode import quiet
from didact.models.text import Inputs, TextModel
from didact.protocols import Model

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

DEFAULT = "default"
"""Name of the embedded sentiment classifier."""

_PAIR_LABELS = ("entail", "contradict", "duplicate", "paraphrase", "equivalent")


def load_model(  # noqa: PLR0913 - the one door, and every option has a default
    source: object = DEFAULT,
    *,
    inputs: Inputs | None = None,
    labels: Sequence[str] | None = None,
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
        inputs: "text" or "pair"; guessed from label names such as "entailment" when not given.
        labels: names for the columns of a function's answer.
        device: where to put a model that is loaded here ("cpu", "cuda"); the GPU when there is one. A model object
            stays where it is.
        max_length: length limit in tokens, below the model's own.
        max_truncated: largest share of a text's characters that the limit may cut off before that is an error.
        batch_tokens: tokens per batch, if the default does not suit the machine.
        trust_remote_code: whether a Hub model may run code of its own.
    """
    if isinstance(source, (TextModel, BlackBox)):
        return source
    if callable(source) and not _is_network(source) and not _is_pipeline(source):
        return BlackBox(source, labels=labels)
    if source == DEFAULT:
        network, tokenizer = _read_embedded(_device(device))
    else:
        network, tokenizer = _obtain(source, device, trust_remote_code)
        _check(network, tokenizer)
    return TextModel(
        network,
        tokenizer,
        inputs=inputs or _guess_inputs(network),
        max_length=max_length,
        max_truncated=max_truncated,
        batch_tokens=batch_tokens,
    )


def embedded_path() -> Path:
    """Directory of the embedded model."""
    return Path(str(files("didact.embedded"))) / "sentiment"


def _obtain(source: object, device: str | None, trust: bool) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """Network and tokenizer from any of the forms that have them."""
    if isinstance(source, (str, Path)):
        return _read(str(source), _device(device), trust)
    if _is_network(source):
        raise ModelError("a model alone cannot read text; give (model, tokenizer)")
    if _is_model_and_tokenizer(source):
        network, tokenizer = source  # type: ignore[misc]
    elif _is_pipeline(source):
        network, tokenizer = _from_pipeline(source)
    else:
        raise ModelError(
            f"cannot load a model from {type(source).__name__}; allowed: a Hub id or directory, (model, tokenizer), a "
            "text-classification pipeline, or a function from a list of texts to probabilities"
        )
    _stays(network, device)
    return network, tokenizer


def _read(name: str, device: torch.device, trust: bool) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    path = Path(name)
    place = str(path) if path.exists() else name
    if path.is_dir() and not (path / "config.json").is_file():
        raise ModelError(f"the directory {name} holds no model: there is no config.json in it")
    if path.is_file():
        raise ModelError(f"{name} is a file; give the directory that holds config.json and model.safetensors")
    from transformers import AutoConfig, AutoModelForSequenceClassification, AutoTokenizer

    try:
        config = AutoConfig.from_pretrained(place, trust_remote_code=trust)
        _check_head(name, config)
        tokenizer = AutoTokenizer.from_pretrained(place, trust_remote_code=trust)
        with quiet():
            network, report = AutoModelForSequenceClassification.from_pretrained(
                place, config=config, trust_remote_code=trust, use_safetensors=True, output_loading_info=True
            )
    except (OSError, ValueError, KeyError, ImportError) as problem:
        raise ModelError(f"cannot load {name!r}: {_first_line(problem)} {_hint(name, path)}") from problem
    if report["missing_keys"]:
        missing = ", ".join(sorted(report["missing_keys"])[:3])
        raise ModelError(f"the weights of {name!r} lack {missing}: it was not trained as a text classifier")
    return network.to(device).eval(), tokenizer


def _read_embedded(device: torch.device) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    from transformers import PreTrainedTokenizerFast

    from didact.models.native import NativeBert

    network = NativeBert.from_pretrained(embedded_path())
    network.name_or_path = "didact/sentiment (embedded)"
    return cast("PreTrainedModel", network.to(device)), PreTrainedTokenizerFast.from_pretrained(embedded_path())


def _check_head(name: str, config: Any) -> None:
    named = config.architectures or []
    if named and not any("SequenceClassification" in architecture for architecture in named):
        raise ModelError(f"{name!r} is a {named[0]}, not a text classifier (...ForSequenceClassification)")


def _first_line(problem: BaseException) -> str:
    lines = [line.strip() for line in str(problem).splitlines() if line.strip()]
    return (lines[0] if lines else type(problem).__name__)[:200]


def _hint(name: str, path: Path) -> str:
    if path.is_dir():
        return "(weights must be safetensors)"
    return f"({name!r} is not a directory here, so it was asked for at the Hub; 'default' is the embedded model)"


def _from_pipeline(pipeline: Any) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
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
            f"{type(tokenizer).__name__} is not a fast tokenizer, so it does not say which characters a token stands "
            "for; load one with AutoTokenizer.from_pretrained(..., use_fast=True)"
        )
    if network.config.is_encoder_decoder:
        raise ModelError(f"{type(network).__name__} is an encoder-decoder; only encoders and decoders can be explained")
    if "SequenceClassification" not in type(network).__name__:
        raise ModelError(f"{type(network).__name__} is not a text classifier (...ForSequenceClassification)")


def _guess_inputs(network: PreTrainedModel) -> Inputs:
    labels = " ".join(str(label).lower() for label in (network.config.id2label or {}).values())
    return "pair" if any(word in labels for word in _PAIR_LABELS) else "text"


def _device(asked: str | None) -> torch.device:
    if asked is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(asked)
    except RuntimeError:
        raise ModelError(f"unknown device {asked!r}; allowed: 'cpu', 'cuda', 'cuda:0', ...") from None
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ModelError("device 'cuda' was asked for, but no CUDA device is available here; use device='cpu'")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise ModelError(f"device {asked!r} does not exist; there are {torch.cuda.device_count()} CUDA devices")
    return device


def _stays(network: PreTrainedModel, asked: str | None) -> None:
    if asked is not None and _device(asked).type != network.device.type:
        raise ModelError(
            f"the model is on {network.device} and is never moved; move it with model.to({asked!r}) or leave device out"
        )
