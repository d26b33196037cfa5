"""The embedded model's network in plain torch.

Transformers' own BERT gives the same numbers, to which the tests hold this one, but importing it takes longer than
everything else between a command and its first answer. Modules and weights bear the names they have there.
"""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn import functional
from transformers import PreTrainedConfig

from didact.models.attention import attend, is_observed


class NativeBert(nn.Module):
    """A BERT classifier that takes what Transformers' does and answers with ``.logits``."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.config = config
        self.name_or_path = ""
        self.bert = _Bert(config)
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)

    @classmethod
    def from_pretrained(cls, folder: Path) -> NativeBert:
        """Read config.json and model.safetensors; weights become float32."""
        config = PreTrainedConfig.from_dict(json.loads((folder / "config.json").read_text(encoding="utf-8")))
        network = cls(config)
        network.load_state_dict(load_file(folder / "model.safetensors"))
        return network.eval()

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        position_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
    ) -> SimpleNamespace:
        """Logits for token ids or embeddings, both (batch, tokens, ...)."""
        hidden = self.bert.embeddings(input_ids, token_type_ids, position_ids, inputs_embeds)
        mask = None
        if attention_mask is not None and not bool(attention_mask.all()):
            lowest = torch.finfo(hidden.dtype).min
            mask = hidden.new_zeros(attention_mask.shape).masked_fill(attention_mask == 0, lowest)[:, None, None]
        for layer in self.bert.encoder.layer:
            hidden = layer(hidden, mask)
        pooled = self.bert.pooler.activation(self.bert.pooler.dense(hidden[:, 0]))
        return SimpleNamespace(logits=self.classifier(pooled))

    @property
    def base_model(self) -> nn.Module:
        """The part without the classifier."""
        return self.bert

    @property
    def device(self) -> torch.device:
        """Where it is."""
        return self.classifier.weight.device

    @property
    def dtype(self) -> torch.dtype:
        """Its precision."""
        return self.classifier.weight.dtype

    def get_input_embeddings(self) -> nn.Module:
        """The table of word embeddings."""
        found: nn.Module = self.bert.embeddings.word_embeddings
        return found

    def _can_set_attn_implementation(self) -> bool:
        return True

    def set_attn_implementation(self, name: str) -> None:
        """Nothing to set: its attention looks for an observer by itself."""


class _Bert(nn.Module):
    def __init__(self, config: Any) -> None:
        super().__init__()
        self.embeddings = _Embeddings(config)
        self.encoder: Any = nn.Module()
        self.encoder.layer = nn.ModuleList(_Layer(config) for _ in range(config.num_hidden_layers))
        self.pooler: Any = nn.Module()
        self.pooler.dense = nn.Linear(config.hidden_size, config.hidden_size)
        self.pooler.activation = nn.Tanh()


class _Embeddings(nn.Module):
    def __init__(self, config: Any) -> None:
        super().__init__()
        size = config.hidden_size
        self.word_embeddings = nn.Embedding(config.vocab_size, size, padding_idx=config.pad_token_id)
        self.position_embeddings = nn.Embedding(config.max_position_embeddings, size)
        self.token_type_embeddings = nn.Embedding(config.type_vocab_size, size)
        self.LayerNorm = nn.LayerNorm(size, eps=config.layer_norm_eps)

    def forward(
        self,
        input_ids: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        position_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
    ) -> Tensor:
        words = self.word_embeddings(input_ids) if inputs_embeds is None else inputs_embeds
        if position_ids is None:
            position_ids = torch.arange(words.shape[1], device=words.device)[None]
        types = torch.zeros_like(position_ids) if token_type_ids is None else token_type_ids
        summed = words + self.position_embeddings(position_ids) + self.token_type_embeddings(types)
        found: Tensor = self.LayerNorm(summed)
        return found


class _Layer(nn.Module):
    """Attention and feed-forward block, each followed by the residual connection and a norm."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        size, inner, eps = config.hidden_size, config.intermediate_size, config.layer_norm_eps
        self.attention: Any = nn.Module()
        self.attention.self = nn.Module()
        self.attention.self.num_attention_heads = config.num_attention_heads
        for name in ("query", "key", "value"):
            setattr(self.attention.self, name, nn.Linear(size, size))
        self.attention.output = _sum_and_norm(size, size, eps)
        self.intermediate: Any = nn.Module()
        self.intermediate.dense = nn.Linear(size, inner)
        self.intermediate.intermediate_act_fn = nn.GELU()
        self.output: Any = _sum_and_norm(inner, size, eps)

    def forward(self, hidden: Tensor, mask: Tensor | None) -> Tensor:
        attended = self.attention.output.dense(self._attend(hidden, mask))
        block = self.attention.output.LayerNorm(attended + hidden)
        inner = self.intermediate.intermediate_act_fn(self.intermediate.dense(block))
        found: Tensor = self.output.LayerNorm(self.output.dense(inner) + block)
        return found

    def _attend(self, hidden: Tensor, mask: Tensor | None) -> Tensor:
        own: Any = self.attention.self
        split = (*hidden.shape[:2], own.num_attention_heads, -1)
        q, k, v = (getattr(own, name)(hidden).view(split).transpose(1, 2) for name in ("query", "key", "value"))
        if is_observed():
            return attend(self, q, k, v, mask)[0].flatten(2)
        return functional.scaled_dot_product_attention(q, k, v, mask).transpose(1, 2).flatten(2)


def _sum_and_norm(inner: int, size: int, eps: float) -> nn.Module:
    part: Any = nn.Module()
    part.dense = nn.Linear(inner, size)
    part.LayerNorm = nn.LayerNorm(size, eps=eps)
    found: nn.Module = part
    return found
