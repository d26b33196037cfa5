"""Encoder-decoder classifiers such as BART's and T5's: both stacks read the input, the decoder one position later."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from didact.errors import InputError
from didact.models.batch import Inputs
from didact.models.tokens.encoding import Encoding


def is_encoder_decoder(network: nn.Module) -> bool:
    """Whether a decoder reads the input a second time, where hiding a position from attention does not take it out."""
    return bool(getattr(getattr(network, "config", None), "is_encoder_decoder", False))


def embedded_twice(network: Any, inputs: Inputs, vectors: Tensor) -> Inputs:
    """Inputs of a pass in which both stacks read these embeddings, differentiable.

    Args:
        network: its encoder is run here.
        inputs: token ids, which show where the text ends, and the attention mask.
        vectors: embeddings in place of the ids, (rows, width, dim).
    """
    start = torch.tensor(network.config.decoder_start_token_id, device=vectors.device)
    first = network.get_input_embeddings()(start).detach().to(vectors.dtype).expand(len(vectors), 1, -1)
    encoded = network.get_encoder()(inputs_embeds=vectors, attention_mask=inputs["attention_mask"])
    return {
        **inputs,
        "encoder_outputs": encoded.last_hidden_state[None],  # Transformers reads the first entry of what it gets
        "decoder_inputs_embeds": torch.cat([first, vectors[:, :-1]], 1),
    }


def check_ends(network: Any, codes: Sequence[Encoding]) -> None:
    """Refuse texts in which the token stands that marks their end: the network would read its answer there."""
    end = network.config.eos_token_id
    for code in codes:
        inside = [token for index, token in zip(code.ids, code.tokens, strict=True) if index == end and token]
        if inside:
            field, first, last = inside[0]
            raise InputError(
                f"{code.texts[field][first:last]!r} at character {first} is the token that marks the end of a text for "
                f"{type(network).__name__}, which reads its answer there; take it out of the text"
            )
