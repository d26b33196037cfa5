"""A network in which known words decide, as the truth that explainers are trained towards."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from didact.models.load import load_model
from didact.protocols import Model
from didact.testing.tiny import tiny_model


def planted_model(weights: Mapping[str, float]) -> Model:
    """A small network whose embeddings of some words are moved along one direction, by so much each."""
    network, tokenizer = tiny_model("bert")
    with torch.no_grad():
        vectors = network.get_input_embeddings().weight
        direction = torch.randn(vectors.shape[1], generator=torch.Generator().manual_seed(0))
        for word, weight in weights.items():
            for token in tokenizer.encode(word, add_special_tokens=False):
                vectors[token] += weight * direction
    return load_model((network, tokenizer), device="cpu")
