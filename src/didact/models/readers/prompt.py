"""Texts in the slot of a prompt, for language models that classify by what they would write next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from torch import Tensor, nn

from didact.errors import InputError, ParameterError
from didact.models.eval_mode import quiet
from didact.models.prompting.encoding import SHOT, PromptEncoder
from didact.models.prompting.written import chat_text, write
from didact.models.readers.base import READERS, ReaderCard, ReaderOptions
from didact.models.readers.text import TextReader, has_tokenizer
from didact.ops.masking import Absence
from didact.types import Example

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


@READERS.register(
    ReaderCard(
        name="prompt", family="text", summary="A text in the slot of a prompt, for a language model.", fields=("text",)
    )
)
class PromptReader(TextReader):
    """Feeds prompt and text as one sequence; only what stands in the slot has units, or on request the shots.

    Prompt and text are tokenised together, as the model would be called. A token that runs over the edge of the slot
    belongs to the text. What the prompt, its shots and the chat template add is always present and never scored; on the
    level "shot" each shot is a unit, and the explained example has the shots as further fields.

    Args:
        network: a decoder that takes token ids, or embeddings, with an attention mask.
        tokenizer: its fast tokenizer.
        options: with the prompt; length limits.
    """

    reads = "last"
    shares_prefix = True

    def __init__(
        self, network: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, options: ReaderOptions | None = None
    ) -> None:
        prompt = None if options is None else options.prompt
        if prompt is None:
            raise ParameterError(
                f"{type(network).__name__} is a language model; give the prompt that makes it a classifier: "
                "prompt=didact.Prompt(template, labels) (command line: --prompt FILE)"
            )
        super().__init__(network, tokenizer, options)
        self.prompt = prompt
        self.written = write(prompt, tokenizer)
        shots = [question + ("\n" if prompt.chat else "") + answer for question, answer in prompt.solved]
        limits = self.options.max_length, self.options.max_truncated
        self.encoder = PromptEncoder(tokenizer, self.written, shots, *limits)
        self.levels = (*TextReader.levels, *([SHOT] if shots else []))
        self.default_absence = prompt.absence or ("delete" if tokenizer.unk_token_id is None else "token:unk")
        self.absence(self.default_absence)
        self.writes = bool(network.can_generate())

    @classmethod
    def serves(cls, network: nn.Module, processor: object) -> bool:
        """Language models with a tokenizer."""
        return has_tokenizer(processor) and writes_text(type(network).__name__)

    def identity(self) -> object:
        """As of texts, and the prompt as it is written."""
        return [super().identity(), self.written.before, self.written.after]

    def check(self, example: Example) -> None:
        """Refuse pairs."""
        shots = cast("PromptEncoder", self.encoder).shots
        if len(example.fields) > 1 and example.fields[1:] != shots:
            raise InputError(
                f"the prompt of {self.special.owner} has one slot, but {len(example.fields)} texts were given; give "
                "one, and put what belongs to the prompt into its template"
            )

    def continuations(self, words: Sequence[str]) -> list[list[int]]:
        """Token ids of words as they go on behind the prompt."""
        return [cast("PromptEncoder", self.encoder).continuation(word) for word in words]

    def absence(self, name: str) -> Absence:
        """Any operator that the vocabulary has a token for, and "blend"."""
        operator = Absence.parse(name)
        return operator if operator.kind == "blend" else super().absence(name)

    def answers(self, requests: Sequence[str], length: int) -> list[str]:
        """Greedy answers, one request at a time; written by the chat template where the prompt is."""
        return [self._answer(request, length) for request in requests]

    def _answer(self, request: str, length: int) -> str:
        from transformers import GenerationConfig

        chat = self.prompt.chat
        request = "\n\n".join(part for part in (self.prompt.instruction, request) if part)
        text = chat_text(self.tokenizer, [{"role": "user", "content": request}]) if chat else f"{request}\n\nWords:"
        row = self.tokenizer(text, return_tensors="pt", add_special_tokens=not chat).to(self.device)
        settings = GenerationConfig(
            max_new_tokens=length, eos_token_id=self.tokenizer.eos_token_id, pad_token_id=self.special.pad_id
        )
        network = cast("PreTrainedModel", self.network)
        with quiet():
            written = network.generate(  # type: ignore[operator] # mixed in by Transformers
                input_ids=row["input_ids"], attention_mask=row["attention_mask"], generation_config=settings
            )
        return str(self.tokenizer.decode(written[0, row["input_ids"].shape[1] :], skip_special_tokens=True))

    def absent_vector(self, name: str, like: Tensor) -> Tensor:
        """As of texts; "mask" is the unknown token where there is one."""
        unknown = name == "mask" and None is self.tokenizer.mask_token_id is not self.tokenizer.unk_token_id
        return super().absent_vector("token:unk" if unknown else name, like)


def writes_text(architecture: str) -> bool:
    """Whether networks of a class of this name predict the next token of a text."""
    return "ForCausalLM" in architecture or "LMHead" in architecture
