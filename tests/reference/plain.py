"""Plain passes written out by hand: what a user of Transformers would type, without anything of didact's hot path."""

import copy
import warnings
from collections.abc import Iterable, Sequence

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedModel

from didact.models.load import load_model
from didact.models.network import NetworkModel
from didact.testing.tiny import tiny_model
from didact.types import Units

with warnings.catch_warnings():  # DeBERTa-v2 scripts functions when it is imported, which torch calls deprecated
    warnings.simplefilter("ignore", DeprecationWarning)
    import transformers.models.deberta_v2.modeling_deberta_v2  # noqa: F401

TEXT = "An unforgettable evening, good and warm"
"""Words of one piece and of many, and a comma."""


def text_model(architecture: str = "bert", **options: object) -> NetworkModel:
    model = load_model(tiny_model(architecture), **options)  # type: ignore[arg-type]
    assert isinstance(model, NetworkModel)
    return model


def encoded(model: NetworkModel, text: str) -> dict[str, Tensor]:
    """The tokenizer's own answer: a batch of one."""
    return dict(model.tokenizer(text, return_tensors="pt"))


def read(logits: Tensor, index: int, scale: str = "logit") -> Tensor:
    """The explained number per row, in torch's own words."""
    values = {"logit": logits, "log_probability": logits.log_softmax(-1), "probability": logits.softmax(-1)}
    return values[scale][:, index]


def value(model: NetworkModel, index: int, scale: str = "logit", **inputs: Tensor) -> float:
    """One plain pass over a batch of one."""
    with torch.no_grad():
        return float(read(model.network(**inputs).logits, index, scale)[0])


def word_vectors(model: NetworkModel, ids: Tensor) -> Tensor:
    return model.network.get_input_embeddings()(ids).detach()


def special(model: NetworkModel, text: str) -> Tensor:
    """Which positions hold special tokens: (tokens,)."""
    return torch.tensor(model.tokenizer(text, return_special_tokens_mask=True)["special_tokens_mask"]).bool()


def without(units: Units, absent: Iterable[int], length: int) -> Tensor:
    """Which token positions stay when these units are absent: (tokens,)."""
    stays = torch.ones(length, dtype=torch.bool)
    for unit in absent:
        stays[list(units.positions[unit])] = False
    return stays


def per_unit(units: Units, token_scores: Tensor | Sequence[float]) -> np.ndarray:
    """Sums of token scores over each unit's pieces."""
    scores = torch.as_tensor(token_scores)
    return np.array([sum(float(scores[position]) for position in positions) for positions in units.positions])


def eager(model: PreTrainedModel) -> PreTrainedModel:
    """A copy that uses Transformers' own plain attention."""
    twin = copy.deepcopy(model)
    twin.set_attn_implementation("eager")
    return twin
