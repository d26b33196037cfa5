"""BERT's forward pass in plain tensor arithmetic, for methods that are derived from it by hand."""

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from didact.models.network import NetworkModel
from tests.reference.plain import encoded


def same(x: Tensor) -> Tensor:
    return x


def softmax(z: Tensor) -> Tensor:
    e = (z - z.max(-1, keepdim=True).values.detach()).exp()
    return e / e.sum(-1, keepdim=True)


@dataclass
class Bert:
    """One text through a tiny BERT; ``half``, ``spread`` and ``softmax`` are where methods differ.

    Attributes:
        half: applied to both factors of each product of activations.
        spread: applied to the standard deviation of each norm.
        softmax: attention's.
        kept: every intermediate value by name.
    """

    model: NetworkModel
    text: str
    half: Callable[[Tensor], Tensor] = same
    spread: Callable[[Tensor], Tensor] = same
    softmax: Callable[[Tensor], Tensor] = softmax
    kept: dict[str, Tensor] = field(default_factory=dict)

    def words(self) -> Tensor:
        ids = encoded(self.model, self.text)["input_ids"][0]
        return self.model.network.get_input_embeddings()(ids).detach()

    def weight(self, name: str) -> Tensor:
        return self.model.network.state_dict()[name]

    def linear(self, x: Tensor, name: str) -> Tensor:
        return x @ self.weight(name + ".weight").T + self.weight(name + ".bias")

    def norm(self, x: Tensor, name: str) -> Tensor:
        centred = x - x.mean(-1, keepdim=True)
        eps = self.model.network.config.layer_norm_eps
        deviation = self.spread(((centred**2).mean(-1, keepdim=True) + eps).sqrt())
        return centred / deviation * self.weight(name + ".weight") + self.weight(name + ".bias")

    def heads(self, x: Tensor) -> Tensor:
        return x.reshape(len(x), self.model.network.config.num_attention_heads, -1).transpose(0, 1)

    def logits(self, words: Tensor) -> Tensor:
        """Embeddings (tokens, dim) to logits (labels,)."""
        keep = self.kept
        fixed = self.weight("bert.embeddings.position_embeddings.weight")[: len(words)]
        keep["sum"] = words + fixed + self.weight("bert.embeddings.token_type_embeddings.weight")[0]
        h = self.norm(keep["sum"], "bert.embeddings.LayerNorm")
        for number in range(self.model.network.config.num_hidden_layers):
            h = self.layer(h, number)
        keep["top"] = h
        keep["pooled"] = self.linear(h[0], "bert.pooler.dense")
        return self.linear(keep["pooled"].tanh(), "classifier")

    def layer(self, h: Tensor, number: int) -> Tensor:
        at, keep = f"bert.encoder.layer.{number}", self.kept
        keep[f"{at}.in"] = h
        q, k, v = (self.heads(self.linear(h, f"{at}.attention.self.{name}")) for name in ("query", "key", "value"))
        z = self.half(q) @ self.half(k).mT / q.shape[-1] ** 0.5
        p = self.softmax(z)
        mixed = self.half(p) @ self.half(v)
        context = mixed.transpose(0, 1).reshape(h.shape)
        out = self.linear(context, f"{at}.attention.output.dense")
        middle = self.norm(out + h, f"{at}.attention.output.LayerNorm")
        wide = self.linear(middle, f"{at}.intermediate.dense")
        active = torch.nn.functional.gelu(wide)
        narrow = self.linear(active, f"{at}.output.dense")
        names = {"q": q, "k": k, "v": v, "z": z, "p": p, "mixed": mixed, "context": context, "out": out}
        names |= {"middle": middle, "wide": wide, "active": active, "narrow": narrow}
        keep.update({f"{at}.{name}": kept for name, kept in names.items()})
        return self.norm(narrow + middle, f"{at}.output.LayerNorm")
