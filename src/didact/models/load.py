"""``load_model``: from whatever the user has to a ``Model``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

import torch

from didact import checksums
from didact.errors import ModelError, ParameterError
from didact.models.compose import choose_head, compose
from didact.models.device import choose_device
from didact.models.encoders import (
    check_weights,
    embedded_path,
    local_folder,
    pretrained,
    read_config,
    read_network,
    reading,
)
from didact.models.functions.blackbox import BlackBox
from didact.models.functions.images import ImageInputs
from didact.models.functions.inputs import FunctionInputs, TextInputs
from didact.models.heads.classes import ClassesHead
from didact.models.language_models import GGUF, is_adapter, read_adapter, read_gguf, without_peft
from didact.models.network import NetworkModel
from didact.models.prompting.prompts import Prompt, PromptLike
from didact.models.readers.base import READERS, ReaderOptions, network_name
from didact.models.readers.patches import is_image_processor
from didact.models.readers.text import TextReader
from didact.models.tokens.vocabulary import check_vocabulary
from didact.protocols import Model
from didact.settings import checked

if TYPE_CHECKING:
    from transformers import Pipeline, PreTrainedModel, PreTrainedTokenizerBase

DEFAULT = "default"
"""Name of the embedded sentiment classifier."""
EMBEDDED = "default:"
"""Stands before the names of other embedded models, such as "default:shapes": tiny ones, for demonstrations."""
PIPELINES = {
    "text-classification": "tokenizer",
    "token-classification": "tokenizer",
    "question-answering": "tokenizer",
    "image-classification": "image_processor",
}
"""Tasks of Transformers' pipelines that can be explained, and what of each turns examples into inputs."""


@checked
def load_model(  # noqa: PLR0913 - the one door, and every option has a default
    source: object = DEFAULT,
    *,
    inputs: str | None = None,
    labels: Sequence[str] | None = None,
    name: str | None = None,
    version: str | None = None,
    device: str | torch.device | None = None,
    max_length: int | None = None,
    max_truncated: float = 0.5,
    batch_tokens: int | None = None,
    trust_remote_code: bool = False,
    prompt: PromptLike | None = None,
) -> Model:
    """Wrap a model so that it can be explained; nothing about it is changed.

    Args:
        source: a Hub id or directory, a directory with a LoRA adapter, a GGUF file, ``(model, tokenizer)`` or ``(model,
            image processor)``, a Transformers pipeline that classifies texts or images, a function from a list of texts
            (with ``inputs="image"`` of arrays of pixels) to probabilities, or "default" for the embedded English
            sentiment classifier ("default:shapes", "default:questions", "default:quality" and "default:reviews" are
            tiny models of other kinds of input).
        inputs: name of a reader, such as "text", "pair", "patches" or "prompt"; when not given, by what the network
            takes, and for texts by label names such as "entailment". Of a function: "text", or "image".
        labels: names for the outputs in order, in place of the model's own; as many as it has outputs.
        name: of a function, as results show it; the function's own name when not given.
        version: of a function: stored results are used again as long as name and version stay the same. Where it is
            not given, a function is identified by its code, its state and its answers to a few inputs.
        device: where to put a model that is loaded here ("cpu", "cuda"); the GPU when there is one. A model object
            stays where it is.
        max_length: length limit in tokens, below the model's own.
        max_truncated: largest share of a text's characters that the limit may cut off before that is an error.
        batch_tokens: tokens per batch, if the default does not suit the machine.
        trust_remote_code: whether code that comes with a directory or Hub model may run; a file never switches it on.
        prompt: what makes a language model a classifier: a ``Prompt``, its entries, or a TOML file with them.
    """
    names = _names(labels)
    if callable(source) and not _is_network(source) and not _is_pipeline(source):
        return BlackBox(source, _view(inputs), labels=names, name=name, version=version)
    if name is not None or version is not None:
        raise ParameterError("name and version are for functions; a network is identified by its content")
    if isinstance(source, (NetworkModel, BlackBox)):
        _refuse_options(source, inputs=inputs, labels=labels, device=device, max_length=max_length, prompt=prompt)
        return source
    options = ReaderOptions(max_length, max_truncated, None if prompt is None else Prompt.of(prompt))
    if isinstance(source, str) and source == DEFAULT:
        network, tokenizer = _read_embedded(choose_device(device))
        if inputs is None and prompt is None:  # known: the first result need not wait for a search of entry points
            reader, head = TextReader(network, tokenizer, options), ClassesHead.of(network.config).named(names)
            return NetworkModel(network, reader, head, batch_tokens=batch_tokens)
    else:
        network, tokenizer = _obtain(source, inputs, device, trust_remote_code)
        folder = local_folder(str(source)) if isinstance(source, (str, Path)) else None
        _check(network, tokenizer, folder)
    return compose(network, tokenizer, inputs=inputs, options=options, labels=names, batch_tokens=batch_tokens)


def _view(inputs: str | None) -> FunctionInputs:
    """What a function is called with."""
    kinds: dict[str, type[TextInputs] | type[ImageInputs]] = {"text": TextInputs, "image": ImageInputs}
    if inputs is not None and inputs not in kinds:
        raise ParameterError(f"inputs of a function are {' or '.join(map(repr, kinds))}, got {inputs!r}")
    return kinds[inputs or "text"]()


def _names(labels: Sequence[str] | None) -> tuple[str, ...] | None:
    """Label names as given; what cannot name outputs is refused."""
    if labels is None:
        return None
    if not all(label.strip() for label in labels):
        raise ParameterError(f"labels must be names, one for each output, none of them blank, got {labels!r:.100}")
    if len(set(labels)) < len(labels):
        raise ParameterError(f"labels must differ from each other, got {list(labels)!r:.100}")
    return tuple(labels)


def _refuse_options(model: Model, **options: object) -> None:
    given = [name for name, value in options.items() if value is not None]
    if given:
        raise ParameterError(f"{model.name} is loaded already, so {', '.join(given)} cannot be set; set it on loading")


def _obtain(
    source: object, inputs: str | None, device: str | torch.device | None, trust: bool
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """Network and tokenizer from any of the forms that have them."""
    if isinstance(source, str) and source.startswith(EMBEDDED):
        name = source.removeprefix(EMBEDDED)
        network, processor = _read(str(embedded_path(name)), inputs, choose_device(device), trust)
        network.name_or_path = f"didact/{name} (embedded)"
        return network, processor
    if isinstance(source, (str, Path)):
        return _read(str(source), inputs, choose_device(device), trust)
    source = without_peft(source)
    if _is_network(source):
        raise ModelError(
            "a model alone cannot read text; give (model, tokenizer), or for images (model, image processor)"
        )
    if _is_model_and_tokenizer(source):
        network, tokenizer = source  # type: ignore[misc]
    elif _is_pipeline(source):
        network, tokenizer = _from_pipeline(cast("Pipeline", source))
    else:
        raise ModelError(
            f"cannot load a model from {type(source).__name__}; allowed: a Hub id or directory, (model, tokenizer), "
            f"(model, image processor), a pipeline ({' or '.join(PIPELINES)}), or a function from a list of texts to "
            "probabilities"
        )
    _stays(network, device)
    return network, tokenizer


def _read(
    name: str, inputs: str | None, device: torch.device, trust: bool
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    path = local_folder(name)
    if name.endswith(GGUF) and _is_file(name):
        return read_gguf(Path(name), device)
    if path is not None and is_adapter(path):
        return read_adapter(path, device, trust)
    if path is not None and not (path / "config.json").is_file():
        raise ModelError(f"the directory {name} holds no model: there is no config.json in it")
    if path is None and _is_file(name):
        raise ModelError(f"{name} is a file; give the directory of config.json and model.safetensors, or a {GGUF} file")
    if path is not None:
        cure = f"copy the folder again, or delete {checksums.HASHES} if you changed it yourself"
        checksums.check_hashes(path, cure)
    with reading(repr(name), _hint(name, path)):
        config = read_config(name, trust=trust)
        head = choose_head(config.architectures or (), config)
        architecture, auto_class = head.card.loader(config.architectures or ())
        network, report = read_network(auto_class, name, config, trust=trust)
        processor = pretrained(_processor_class(inputs, network), name, trust=trust)
    untrained = f": it was not trained as a {architecture}"
    check_weights(report, repr(name), lambda key: True, untrained)
    return network.to(device).eval(), processor  # type: ignore[arg-type] # as torch's own


def _is_file(name: str) -> bool:
    try:
        return Path(name).is_file()
    except (OSError, ValueError):  # a name that no file can have
        return False


def _processor_class(inputs: str | None, network: PreTrainedModel) -> str:
    """What loads a tokenizer or the like: as on the card of the named reader, or of one that feeds the network."""
    if inputs is not None:
        return READERS.card(inputs).processor
    cards = [card for card in READERS.cards() if card.main_input == network.main_input_name]
    if not cards:
        raise ModelError(f"no reader feeds {type(network).__name__}, which takes {network.main_input_name}")
    return cards[0].processor


def _read_embedded(device: torch.device) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    from transformers import PreTrainedTokenizerFast

    from didact.models.native import NativeBertForSequenceClassification

    network = NativeBertForSequenceClassification.from_pretrained(embedded_path())
    network.name_or_path = "didact/sentiment (embedded)"
    return cast("PreTrainedModel", network.to(device)), PreTrainedTokenizerFast.from_pretrained(embedded_path())


def _hint(name: str, path: Path | None) -> str:
    if path is not None:
        return "(weights must be safetensors, and no file there damaged)"
    return f"({name!r} is not a directory here, so it was looked for at the Hub; 'default' is the embedded model)"


def _from_pipeline(pipeline: Pipeline) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    if pipeline.task not in PIPELINES:
        raise ModelError(
            f"the pipeline's task is {pipeline.task!r}; only {' and '.join(map(repr, PIPELINES))} can be explained"
        )
    processor = getattr(pipeline, PIPELINES[pipeline.task])
    if processor is None:
        raise ModelError(f"the pipeline has no {PIPELINES[pipeline.task]}")
    return pipeline.model, processor


# Whoever has a model or a pipeline has loaded its module; loading it here would cost everybody else seconds.


def _is_network(source: object) -> bool:
    module = sys.modules.get("transformers.modeling_utils")
    return module is not None and isinstance(source, module.PreTrainedModel)


def _is_pipeline(source: object) -> bool:
    module = sys.modules.get("transformers.pipelines.base")
    return module is not None and isinstance(source, module.Pipeline)


def _is_model_and_tokenizer(source: object) -> bool:
    return isinstance(source, tuple) and len(source) == 2 and _is_network(source[0])


def _check(network: PreTrainedModel, processor: object, folder: Path | None) -> None:
    """Refuse what cannot belong together; a reader checks what it needs beyond that."""
    if is_image_processor(processor):
        if network.main_input_name != "pixel_values":
            raise ModelError(f"{type(network).__name__} reads no images; give its tokenizer, not an image processor")
        return
    _check_tokenizer(network, cast("PreTrainedTokenizerBase", processor))
    check_vocabulary(network, cast("PreTrainedTokenizerBase", processor), name=network_name(network), folder=folder)


def _check_tokenizer(network: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
    from transformers import PreTrainedTokenizerBase

    if network.main_input_name == "pixel_values":
        raise ModelError(
            f"{type(network).__name__} reads images; give its image processor "
            f"(AutoImageProcessor.from_pretrained), got {type(tokenizer).__name__}"
        )
    if not isinstance(tokenizer, PreTrainedTokenizerBase):
        raise ModelError(f"the second part of (model, tokenizer) must be a tokenizer, got {type(tokenizer).__name__}")
    if not tokenizer.is_fast:
        raise ModelError(
            f"{type(tokenizer).__name__} is not a fast tokenizer, so it does not show which characters a token stands "
            "for; load one with AutoTokenizer.from_pretrained(..., use_fast=True)"
        )
    if network.config.is_encoder_decoder:
        raise ModelError(f"{type(network).__name__} is an encoder-decoder; only encoders and decoders can be explained")


def _stays(network: PreTrainedModel, device: str | torch.device | None) -> None:
    if device is not None and choose_device(device).type != network.device.type:
        raise ModelError(
            f"the model is on {network.device} and is never moved; move it with model.to({device!r}) or leave device "
            "out"
        )
