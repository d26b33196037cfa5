"""The pretrained network of an encoder: read from a directory or the Hub, copied from the explained model, rebuilt."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import nn

from didact.errors import CapabilityError, FormatError, ModelError
from didact.models.encoders import embedded_path, load_encoder, load_image_encoder, read_config, reading, set_dropout
from didact.models.eval_mode import quiet
from didact.models.load import DEFAULT, EMBEDDED
from didact.models.network import NetworkModel
from didact.models.packed import is_packed
from didact.models.readers.base import AnyReader, network_name
from didact.models.readers.patches import PatchesReader
from didact.protocols import DIFFERENTIABLE, GENERATIVE, Model
from didact.trained.shapes._encoder_config import EXPLAINED, EncoderConfig

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedModel

FOLDER = "backbone"
"""Where a saved explainer keeps the configuration and the tokenizer of its backbone."""

WANTED = (
    "give a directory with config.json, a tokenizer and safetensors, a Hub id, 'default' for the embedded English "
    "encoder, or 'explained' for a copy of the explained model's own"
)
CURE = "give backbone= a directory or Hub id of an encoder (for English texts 'default' is the embedded one)"


def load_backbone(model: Model, config: EncoderConfig) -> tuple[PreTrainedModel, object]:
    """The network without a head, in float32 on the CPU, and its tokenizer or image processor."""
    if config.backbone == EXPLAINED:
        return explained_backbone(model, config)
    name = str(embedded_path()) if config.backbone == DEFAULT else config.backbone
    if name.startswith(EMBEDDED):
        name = str(embedded_path(name.removeprefix(EMBEDDED)))
    if config.reads == "image":
        return load_image_encoder(name, dropout=config.dropout)
    return load_encoder(name, dropout=config.dropout, hint=WANTED)


def explained_backbone(model: Model, settings: EncoderConfig) -> tuple[PreTrainedModel, object]:
    """A copy of the explained model's own network, which keeps its weights and is not changed by training."""
    if not isinstance(model, NetworkModel):
        raise CapabilityError(f"{model.name} is no network whose encoder could be copied; {CURE}")
    if is_packed(model.network):
        raise CapabilityError(f"{model.name} has packed weights, which cannot be trained; {CURE}")
    if not model.traits.one_stack:
        raise CapabilityError(f"{model.name} is an encoder-decoder, of which no encoder can be copied; {CURE}")
    body = model.network.base_model
    config = copy.deepcopy(getattr(body, "config", model.network.config))
    set_dropout(config, settings.dropout)
    with reading(f"the encoder of {model.name}", f"({CURE})"):
        network = built(config)
        report = network.load_state_dict(body.state_dict(), strict=False)
    missing = [name for name in report.missing_keys if "pooler" not in name]
    if missing:
        raise ModelError(f"the encoder of {model.name} lacks the weights {', '.join(missing[:3])}; {CURE}")
    return network, _processor(model.reader) if settings.reads == "image" else model.tokenizer


def can_copy(model: Model) -> bool:
    """Whether a copy of the explained model's own network could read its inputs, each position all others."""
    return (
        isinstance(model, NetworkModel)
        and DIFFERENTIABLE in model.capabilities
        and GENERATIVE not in model.capabilities
        and model.traits.one_stack
        and not model.traits.reads_last
        and not is_packed(model.network)
    )


def _processor(reader: AnyReader) -> object:
    if not isinstance(reader, PatchesReader):
        raise CapabilityError(f"{network_name(reader.network)} has no image processor to copy; {CURE}")
    return reader.processor


def built(config: PreTrainedConfig) -> PreTrainedModel:
    """A network of this configuration with random weights, without a pooler, which nothing reads."""
    import transformers
    from transformers import AutoModel

    if type(config) is transformers.PreTrainedConfig:  # the embedded model's, read without Transformers' classes
        kind = getattr(transformers, (config.architectures or ["BertModel"])[0]).config_class
        config = kind.from_dict({name: value for name, value in config.to_dict().items() if name != "model_type"})
    with torch.random.fork_rng(devices=[]), quiet():
        network: PreTrainedModel = AutoModel.from_config(config, dtype=torch.float32, trust_remote_code=False)
    if getattr(network, "pooler", None) is not None:
        network.pooler = None  # type: ignore[assignment]
    network.eval()
    return network


def save_network(network: PreTrainedModel, folder: Path) -> None:
    """Write the configuration; the weights are those of the shape."""
    network.config.save_pretrained(folder / FOLDER)


def rebuilt(folder: Path) -> PreTrainedModel:
    """The network whose configuration ``save_network`` wrote, with random weights."""
    place = folder / FOLDER
    if not (place / "config.json").is_file():
        raise FormatError(f"{place} has no config.json of the encoder's backbone; save the explainer again")
    try:
        return built(read_config(str(place)))
    except (OSError, ValueError, KeyError, TypeError) as problem:
        raise FormatError(f"{place} does not describe the encoder's backbone: {problem!s:.200}") from None


def embeddings_of(network: PreTrainedModel) -> nn.Module:
    """The part of a network that embeds its inputs: tokens or patches, with positions where these are learned."""
    table = network.get_input_embeddings()
    return next((part for part in network.children() if any(own is table for own in part.modules())), table)
