"""``load_model``: from whatever the user has to a ``Model``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch

from didact import checksums
from didact.errors import ModelError, ParameterError
from didact.models.compose import choose_head, compose
from didact.models.encoders import (
    Placement,
    check_weights,
    embedded_path,
    local_folder,
    pretrained,
    read_config,
    read_network,
    reading,
)
from didact.models.functions.blackbox import BlackBox
from didact.models.functions.classifiers import class_names, classifier_name, is_classifier, probabilities_of
from didact.models.functions.images import ImageInputs
from didact.models.functions.inputs import FunctionInputs, TextInputs
from didact.models.functions.zero_shot import TASK, TEMPLATE, ZeroShot, pipeline_settings
from didact.models.heads.classes import ClassesHead
from didact.models.language_models import GGUF, is_adapter, read_adapter, read_gguf
from didact.models.network import NetworkModel
from didact.models.prompting.prompts import Prompt, PromptLike
from didact.models.readers.base import READERS, ReaderOptions, network_name
from didact.models.readers.patches import is_image_processor
from didact.models.readers.text import TextReader
from didact.models.tokens.vocabulary import check_vocabulary
from didact.models.wrapped import unwrapped
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
    TASK: "tokenizer",
}
"""Tasks of Transformers' pipelines that can be explained, and what of each turns examples into inputs."""
ZERO_SHOT = "zero_shot"
"""The value of ``inputs`` with which a network of pairs classifies single texts by candidate labels."""


@checked
def load_model(  # noqa: PLR0913 - the one door, and every option has a default
    source: object = DEFAULT,
    *,
    inputs: str | None = None,
    labels: Sequence[str] | None = None,
    name: str | None = None,
    version: str | None = None,
    device: str | torch.device | None = None,
    dtype: str | torch.dtype | None = None,
    max_length: int | None = None,
    max_truncated: float = 0.5,
    batch_tokens: int | None = None,
    trust_remote_code: bool = False,
    prompt: PromptLike | None = None,
) -> Model:
    """Wrap a model so that it can be explained; nothing about it is changed.

    Args:
        source: a Hub id or directory, a directory with a LoRA adapter, a GGUF file, ``(model, tokenizer)`` or ``(model,
            image processor)`` (the model also inside of peft or ``torch.compile``), a Transformers pipeline that
            classifies texts or images, anything with ``predict_proba`` such as a scikit-learn pipeline, a function from
            a list of texts (with ``inputs="image"`` of arrays of pixels) to probabilities, or "default" for the
            embedded English sentiment classifier ("default:shapes", "default:questions", "default:quality" and
            "default:reviews" are tiny models of other kinds of input).
        inputs: name of a reader, such as "text", "pair", "patches" or "prompt"; when not given, by what the network
            takes, and for texts by label names such as "entailment". "zero_shot" has a network of pairs choose among
            candidate labels for a single text. Of a function: "text", or "image".
        labels: names for the outputs in order, in place of the model's own; as many as it has outputs. For zero-shot
            classification, the candidates.
        name: of a function, as results show it; the function's own name when not given.
        version: of a function: stored results are used again as long as name and version stay the same. Where it is
            not given, a function is identified by its code, its state and its answers to a few inputs.
        device: where to put a model that is loaded here ("cpu", "cuda"); the GPU when there is one. A model object
            stays where it is.
        dtype: of the weights of a model that is loaded here: "float32", "bfloat16", "float16", "float64"; as they are
            stored when not given. A model object stays as it is.
        max_length: length limit in tokens, below the model's own.
        max_truncated: largest share of a text's characters that the limit may cut off before that is an error.
        batch_tokens: tokens per batch, if the default does not suit the machine.
        trust_remote_code: whether code that comes with a directory or Hub model may run; a file never switches it on.
        prompt: what makes a language model a classifier: a ``Prompt``, its entries, or a TOML file with them.
    """
    names = _names(labels)
    source = unwrapped(source)
    if isinstance(source, (NetworkModel, BlackBox)):
        given = {"inputs": inputs, "labels": labels, "device": device, "dtype": dtype, "prompt": prompt}
        _refuse_options(source, **given, max_length=max_length, name=name, version=version)
        return source
    function = _black_box(source, inputs, names, name, version)
    placement = Placement.of(device, dtype, trust=trust_remote_code)
    if function is not None:
        if dtype is not None:
            raise ParameterError(f"dtype is for networks that are loaded here, and {function.name} is a function")
        return function
    if name is not None or version is not None:
        raise ParameterError("name and version are for functions; a network is identified by its content")
    options = ReaderOptions(max_length, max_truncated, None if prompt is None else Prompt.of(prompt))
    if inputs == ZERO_SHOT or _task(source) == TASK:
        network, tokenizer = _obtain(source, "pair", placement)
        candidates = (names, TEMPLATE) if _task(source) != TASK else pipeline_settings(cast("Pipeline", source), names)
        classify = ZeroShot(compose(network, tokenizer, inputs="pair", options=options), *candidates)
        return BlackBox(classify, labels=classify.labels)
    if isinstance(source, str) and source == DEFAULT and inputs is None and prompt is None:
        network, tokenizer = _read_embedded(placement)  # known: the first result need not wait for entry points
        reader, head = TextReader(network, tokenizer, options), ClassesHead.of(network.config).named(names)
        return NetworkModel(network, reader, head, batch_tokens=batch_tokens)
    network, tokenizer = _obtain(source, inputs, placement)
    return compose(network, tokenizer, inputs=inputs, options=options, labels=names, batch_tokens=batch_tokens)


def _black_box(
    source: Any, inputs: str | None, labels: tuple[str, ...] | None, name: str | None, version: str | None
) -> BlackBox | None:
    """The adapter of a function or of a classifier with ``predict_proba``; None for anything else."""
    if is_classifier(source):
        named, title = labels or class_names(source), name or classifier_name(source)
        return BlackBox(probabilities_of(source), _view(inputs), labels=named, name=title, version=version)
    if callable(source) and not _is_network(source) and not _is_pipeline(source):
        return BlackBox(source, _view(inputs), labels=labels, name=name, version=version)
    return None


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
    source: object, inputs: str | None, placement: Placement
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """Network and tokenizer from any of the forms that have them, checked to belong together."""
    if isinstance(source, str) and source == DEFAULT:
        return _read_embedded(placement)
    folder = local_folder(str(source)) if isinstance(source, (str, Path)) else None
    network, processor = _found(source, inputs, placement)
    _check(network, processor, folder)
    return network, processor


def _found(source: object, inputs: str | None, placement: Placement) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    if isinstance(source, str) and source.startswith(EMBEDDED):
        name = source.removeprefix(EMBEDDED)
        network, processor = _read(str(embedded_path(name)), inputs, placement)
        network.name_or_path = f"didact/{name} (embedded)"
        return network, processor
    if isinstance(source, (str, Path)):
        return _read(str(source), inputs, placement)
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
            f"(model, image processor), a pipeline ({' or '.join(PIPELINES)}), anything with predict_proba, or a "
            "function from a list of texts to probabilities"
        )
    _stays(network, placement)
    return network, tokenizer


def _read(name: str, inputs: str | None, placement: Placement) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    path = local_folder(name)
    if name.endswith(GGUF) and _is_file(name):
        return read_gguf(Path(name), placement)
    if path is not None and is_adapter(path):
        return read_adapter(path, placement)
    if path is not None and not (path / "config.json").is_file():
        raise ModelError(f"the directory {name} holds no model: there is no config.json in it")
    if path is None and _is_file(name):
        raise ModelError(f"{name} is a file; give the directory of config.json and model.safetensors, or a {GGUF} file")
    if path is not None:
        cure = f"copy the folder again, or delete {checksums.HASHES} if you changed it yourself"
        checksums.check_hashes(path, cure)
    with reading(repr(name), _hint(name, path)):
        config = read_config(name, trust=placement.trust)
        head = choose_head(config.architectures or (), config)
        architecture, auto_class = head.card.loader(config.architectures or ())
        network, report = read_network(auto_class, name, config, placement)
        processor = pretrained(_processor_class(inputs, network), name, trust=placement.trust)
    untrained = f": it was not trained as a {architecture}"
    check_weights(report, repr(name), lambda key: True, untrained)
    return network.to(placement.device).eval(), processor  # type: ignore[arg-type] # as torch's own


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


def _read_embedded(placement: Placement) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    from transformers import PreTrainedTokenizerFast

    from didact.models.native import NativeBertForSequenceClassification

    network = NativeBertForSequenceClassification.from_pretrained(embedded_path())
    network.name_or_path = "didact/sentiment (embedded)"
    placed = network.to(device=placement.device, dtype=placement.dtype)
    return cast("PreTrainedModel", placed), PreTrainedTokenizerFast.from_pretrained(embedded_path())


def _hint(name: str, path: Path | None) -> str:
    if path is not None:
        return "(weights must be safetensors, and no file there damaged)"
    return f"({name!r} is not a directory here, so it was looked for at the Hub; 'default' is the embedded model)"


def _from_pipeline(pipeline: Pipeline) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    if pipeline.task not in PIPELINES:
        raise ModelError(
            f"the pipeline's task is {pipeline.task!r}; only {', '.join(map(repr, PIPELINES))} can be explained"
        )
    processor = getattr(pipeline, PIPELINES[pipeline.task])
    if processor is None:
        raise ModelError(f"the pipeline has no {PIPELINES[pipeline.task]}")
    return unwrapped(pipeline.model), processor


# Whoever has a model or a pipeline has loaded its module; loading it here would cost everybody else seconds.


def _is_network(source: object) -> bool:
    module = sys.modules.get("transformers.modeling_utils")
    return module is not None and isinstance(source, module.PreTrainedModel)


def _is_pipeline(source: object) -> bool:
    module = sys.modules.get("transformers.pipelines.base")
    return module is not None and isinstance(source, module.Pipeline)


def _task(source: object) -> str:
    """What a pipeline is for; "" for anything else."""
    return str(cast("Pipeline", source).task) if _is_pipeline(source) else ""


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


def _stays(network: PreTrainedModel, placement: Placement) -> None:
    """Refuse another place or precision than those of a model that the user has loaded."""
    if placement.given_device is not None and placement.device.type != network.device.type:
        raise ModelError(
            f"the model is on {network.device} and is never moved; move it with model.to({placement.given_device!r}) "
            "or leave device out"
        )
    if placement.dtype not in (None, network.dtype):
        raise ModelError(
            f"the weights of the model are {network.dtype} and are never changed; convert them with "
            f"model.to({placement.dtype}) or leave dtype out"
        )
