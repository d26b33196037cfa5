"""The embedded model's network in plain torch.

Transformers' own BERT gives the same numbers, to which the tests hold this one, but importing it takes longer than
everything else between a command and its first result. Modules and weights bear the names they have there.
"""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Protocol, cast

import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn import functional
from transformers import PreTrainedConfig

from didact.models.attention import function_in_force


class BertSizes(Protocol):
    """What of a BERT's configuration shapes its modules."""

    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    vocab_size: int
    max_position_embeddings: int
    type_vocab_size: int
    num_labels: int
    pad_token_id: int
    layer_norm_eps: float


class NativeBertForSequenceClassification(nn.Module):
    """A BERT classifier that takes what Transformers' does and returns ``.logits``."""

    def __init__(self, config: PreTrainedConfig) -> None:
        super().__init__()
        self.config = config
        self.name_or_path = ""
        sizes = cast("BertSizes", config)
        self.bert = _Bert(sizes)
        self.classifier = nn.Linear(sizes.hidden_size, sizes.num_labels)

    @classmethod
    def from_pretrained(cls, folder: Path) -> NativeBertForSequenceClassification:
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
        hidden = self.bert(input_ids, attention_mask, token_type_ids, position_ids, inputs_embeds).last_hidden_state
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
        return self.bert.embeddings.word_embeddings

    def _can_set_attn_implementation(self) -> bool:
        return True

    def set_attn_implementation(self, name: str) -> None:
        """Nothing to set: its attention asks which function is in force."""


class _Bert(nn.Module):
    def __init__(self, config: BertSizes) -> None:
        super().__init__()
        self.embeddings = _Embeddings(config)
        self.encoder = _Encoder(config)
        self.pooler = _Pooler(config)

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        position_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
    ) -> SimpleNamespace:
        hidden: Tensor = self.embeddings(input_ids, token_type_ids, position_ids, inputs_embeds)
        mask = None
        exported = torch.compiler.is_exporting()  # a graph cannot look whether anything is padded
        if attention_mask is not None and (exported or not bool(attention_mask.all())):
            lowest = torch.finfo(hidden.dtype).min
            mask = hidden.new_zeros(attention_mask.shape).masked_fill(attention_mask == 0, lowest)[:, None, None]
        for layer in self.encoder.layer:
            hidden = layer(hidden, mask)
        return SimpleNamespace(last_hidden_state=hidden)


class _Encoder(nn.Module):
    def __init__(self, config: BertSizes) -> None:
        super().__init__()
        self.layer = nn.ModuleList(_Layer(config) for _ in range(config.num_hidden_layers))


class _Pooler(nn.Module):
    def __init__(self, config: BertSizes) -> None:
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)
        self.activation = nn.Tanh()


class _Embeddings(nn.Module):
    def __init__(self, config: BertSizes) -> None:
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
        normed: Tensor = self.LayerNorm(summed)
        return normed


class _Layer(nn.Module):
    """Attention and feed-forward block, each followed by the residual connection and a norm.

    The modules inside only hold weights: calling each of them would cost a twentieth of a short text's pass.
    """

    def __init__(self, config: BertSizes) -> None:
        super().__init__()
        self.attention = _Attention(config)
        self.intermediate = _Intermediate(config)
        self.output = _SumAndNorm(config.intermediate_size, config)

    def forward(self, hidden: Tensor, mask: Tensor | None) -> Tensor:
        first, inside, second = self.attention.output, self.intermediate, self.output
        block = first.LayerNorm(first.dense(self._attend(hidden, mask)) + hidden)
        inner = inside.intermediate_act_fn(inside.dense(block))
        summed: Tensor = second.LayerNorm(second.dense(inner) + block)
        return summed

    def _attend(self, hidden: Tensor, mask: Tensor | None) -> Tensor:
        own = self.attention.self
        split = (*hidden.shape[:2], own.num_attention_heads, -1)
        q, k, v = (linear(hidden).view(split).transpose(1, 2) for linear in (own.query, own.key, own.value))
        function = function_in_force()
        if function is not None:
            return function(self, q, k, v, mask)[0].flatten(2)
        return functional.scaled_dot_product_attention(q, k, v, mask).transpose(1, 2).flatten(2)


class _Attention(nn.Module):
    def __init__(self, config: BertSizes) -> None:
        super().__init__()
        self.self = _SelfAttention(config)
        self.output = _SumAndNorm(config.hidden_size, config)


class _SelfAttention(nn.Module):
    def __init__(self, config: BertSizes) -> None:
        super().__init__()
        size = config.hidden_size
        self.num_attention_heads = config.num_attention_heads
        self.query, self.key, self.value = (nn.Linear(size, size) for _ in range(3))


class _Intermediate(nn.Module):
    def __init__(self, config: BertSizes) -> None:
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.intermediate_size)
        self.intermediate_act_fn = nn.GELU()


class _SumAndNorm(nn.Module):
    def __init__(self, inner: int, config: BertSizes) -> None:
        super().__init__()
        self.dense = nn.Linear(inner, config.hidden_size)
        self.LayerNorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
