"""Label words: the classes of a language model are what it may write next."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np
import torch
from torch import Tensor, nn

from didact.errors import CapabilityError, ModelError, ParameterError
from didact.models.batch import EncodedBatch, Ints
from didact.models.heads._label_trie import LabelTrie
from didact.models.heads.base import HEADS, HasLogits, HeadCard, Predict
from didact.models.heads.classes import ClassesHead
from didact.models.readers.prompt import PromptReader, writes_text
from didact.types import Example, Scale

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedModel

    from didact.models.readers.base import AnyReader


@HEADS.register(
    HeadCard(
        name="label_words",
        family="classification",
        summary="The log-likelihood that a language model gives the words of each label.",
        answers="class",
        architecture="ForCausalLM",
        auto_class="AutoModelForCausalLM",
    )
)
class LabelWordsHead(ClassesHead):
    """Probabilities of labels are the shares of their words' likelihoods, all words read in one pass.

    Words of several tokens count with all of them. The tokens of all words, their beginnings shared, are read behind
    the prompt, each seeing the prompt and what comes before it in its own word; so labels may share first
    tokens. With calibration, the probabilities that texts without content get are divided out.

    Args:
        labels: names of the labels.
        trie: the tokens of their words.
        neutral: texts without content, for calibration.
    """

    def __init__(self, labels: Sequence[str], trie: LabelTrie, neutral: Sequence[str] = ()) -> None:
        scales: tuple[Scale, ...] = ("log_probability", "probability", "logit")
        super().__init__(labels, scales=scales)
        self.trie = trie
        self.neutral = tuple(neutral)
        self.offsets = (0.0,) * len(self.labels)

    @classmethod
    def serves(cls, architecture: str, config: PreTrainedConfig) -> bool:
        """Networks that predict the next token."""
        return writes_text(architecture)

    @classmethod
    def beside(cls, reader: AnyReader, config: PreTrainedConfig) -> Self:
        """With the labels and words of the reader's prompt."""
        if not isinstance(reader, PromptReader):
            raise CapabilityError(f"label words stand in a prompt, and the {reader.card.name} reader has none")
        prompt = reader.prompt
        tokens = reader.continuations(prompt.words)
        _check_apart(prompt.words, tokens)
        trie = LabelTrie.of(tokens)
        if trie.branches and getattr(config, "sliding_window", None):
            raise ParameterError(
                f"{reader.special.owner} attends to a window of positions, so label words of several tokens cannot be "
                f"read side by side; choose words of one token each, got {', '.join(map(repr, prompt.words))}"
            )
        return cls(prompt.names, trie, prompt.calibration)

    def fitted(self, predict: Predict) -> Self:
        """With calibration, where there are texts for it (Zhao et al. 2021)."""
        if not self.neutral:
            return self
        shares = np.mean([own.probabilities for own in predict([Example(text) for text in self.neutral])], axis=0)
        made = copy.copy(self)
        made.offsets = tuple((-np.log(np.maximum(shares, 1e-30))).tolist())
        return made

    def feeding(self, network: nn.Module, batch: EncodedBatch) -> dict[str, Any]:
        """The batch with the tokens of label words behind it; logits are wanted where a label's token comes next."""
        taken = inspect.signature(network.forward).parameters
        inputs: dict[str, Any] = dict(batch.inputs)
        if self.trie.nodes:
            inputs |= self._extended(cast("PreTrainedModel", network), batch, "position_ids" in taken)
        if "logits_to_keep" in taken:
            columns = self._columns(batch)
            inputs["logits_to_keep"] = torch.from_numpy(columns).to(inputs["attention_mask"].device)
        if "use_cache" in taken:
            inputs["use_cache"] = False
        return inputs

    def answers(self, result: object, batch: EncodedBatch) -> Tensor:
        """Log-likelihoods of the labels' words, calibrated: (rows, labels)."""
        logits = cast("HasLogits", result).logits
        roots, columns = _roots(batch), self._columns(batch)
        at = np.searchsorted(columns, roots) if logits.shape[1] == len(columns) else roots
        rows = torch.arange(len(roots), device=logits.device)
        root = logits[rows, torch.from_numpy(at).to(logits.device)][:, None]
        likelihoods = self.trie.likelihoods(torch.cat([root, logits[:, logits.shape[1] - len(self.trie.nodes) :]], 1))
        return likelihoods + likelihoods.new_tensor(self.offsets)

    def loss(self, outputs: Tensor, wanted: Tensor) -> Tensor:
        """Refused: the language model would have to be trained to classify."""
        raise CapabilityError("a prompted language model is not fine-tuned here; train a classifier instead")

    def _columns(self, batch: EncodedBatch) -> Ints:
        """The columns whose logits are needed: the last of each prompt, and those of label words, in order."""
        width = _width(batch)
        return np.concatenate([np.unique(_roots(batch)), width + np.arange(len(self.trie.nodes))])

    def _extended(self, network: PreTrainedModel, batch: EncodedBatch, positioned: bool) -> dict[str, Any]:
        inputs, rows, width = batch.inputs, len(batch.codes), _width(batch)
        mask = inputs["attention_mask"]
        nodes = torch.tensor(self.trie.nodes, device=mask.device).expand(rows, -1)
        made: dict[str, Any] = {"attention_mask": torch.cat([mask, mask.new_ones(nodes.shape)], 1)}
        if "input_ids" in inputs:
            made["input_ids"] = torch.cat([inputs["input_ids"], nodes], 1)
        else:
            vectors = network.get_input_embeddings()(nodes)
            made["inputs_embeds"] = torch.cat([inputs["inputs_embeds"], vectors.to(inputs["inputs_embeds"])], 1)
        if positioned:
            steps = torch.arange(width, device=mask.device).expand(rows, -1)
            positions = inputs.get("position_ids", steps)
            last = positions.gather(1, torch.from_numpy(_roots(batch))[:, None].to(mask.device))
            made["position_ids"] = torch.cat([positions, last + last.new_tensor(self.trie.depths)], 1)
        if self.trie.branches:
            if not positioned:
                raise ModelError(
                    f"{type(network).__name__} takes no position ids, so label words of several tokens cannot be read "
                    "side by side; choose words of one token each"
                )
            made["attention_mask"] = tree_mask(made["attention_mask"], width + len(self.trie.nodes), self.trie)
            made["attention_mask"] = _additive(made["attention_mask"], network.dtype)
        return made


def _check_apart(words: Sequence[str], tokens: Sequence[Sequence[int]]) -> None:
    """Refuse words of which one is the beginning of another: it would always be the more likely of both."""
    for word, own in zip(words, tokens, strict=True):
        for other, ids in zip(words, tokens, strict=True):
            if word is not other and list(ids[: len(own)]) == list(own):
                raise ParameterError(
                    f"the label words {word!r} are the first tokens of {other!r}, so they are ambiguous; give "
                    "words of which none begins with another"
                )


def tree_mask(mask: Tensor, queries: int, trie: LabelTrie) -> Tensor:
    """Which key each query may look at: (rows, keys) -> (rows, 1, queries, keys).

    Queries are the last columns of the keys, and the tree's nodes the last columns of both. Every query sees itself
    and what comes before it, except for nodes, of which each sees only those above it.
    """
    keys, nodes = mask.shape[1], len(trie.nodes)
    columns = torch.arange(keys, device=mask.device)
    seen = columns <= columns[keys - queries :, None]
    seen[-nodes:, -nodes:] = trie.sees().to(mask.device)
    return seen & mask[:, None, None].bool() | (columns == columns[keys - queries :, None])


def _additive(seen: Tensor, dtype: torch.dtype) -> Tensor:
    """0 where a key is seen, and the smallest number where not."""
    return torch.zeros(seen.shape, dtype=dtype, device=seen.device).masked_fill(~seen, torch.finfo(dtype).min)


def _width(batch: EncodedBatch) -> int:
    """Columns of the batch that are fed."""
    fed = batch.inputs["input_ids" if "input_ids" in batch.inputs else "inputs_embeds"]
    return int(fed.shape[1])


def _roots(batch: EncodedBatch) -> Ints:
    """The last column of each row that shows a position."""
    shown = batch.places >= 0
    roots: Ints = shown.shape[1] - 1 - np.argmax(shown[:, ::-1], axis=1)
    return roots
