"""What the engine needs to know about a network's inputs."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from didact.errors import CapabilityError
from didact.models.batch import Encoded, Inputs, Ints, placed
from didact.models.prompting.prompts import Prompt
from didact.ops.masking import Absence
from didact.protocols import Reads
from didact.registry import Registry
from didact.types import Example, Keep, Level, Units

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

Numbers = NDArray[np.int64] | NDArray[np.float32]
Columns = dict[str, Numbers]
"""Arguments of a network's forward pass as arrays, rows first."""

E = TypeVar("E", bound=Encoded)


@dataclass(frozen=True)
class ReaderCard:
    """What a registered reader is.

    Attributes:
        name: registered name; also its file, its test id and the value of ``load_model``'s ``inputs``.
        family: heading in lists.
        summary: one sentence.
        fields: kinds of the fields that an example has, in order: "text" or "image".
        processor: the Transformers class that loads what turns fields into inputs.
        main_input: the argument that it feeds, as Transformers names it ("pixel_values"). ``load_model`` chooses the
            processor by it; among readers that feed the same, ``serves`` decides.
    """

    name: str
    family: str
    summary: str
    fields: tuple[str, ...]
    processor: str = "AutoTokenizer"
    main_input: str = "input_ids"


@dataclass(frozen=True)
class ReaderOptions:
    """What a user may set about reading.

    Attributes:
        max_length: length limit in positions, below the network's own.
        max_truncated: largest share of an example that the limit may cut off before that is an error.
        prompt: of a language model.
    """

    max_length: int | None = None
    max_truncated: float = 0.5
    prompt: Prompt | None = None


@dataclass(frozen=True, eq=False)
class Masked(Generic[E]):
    """Variants of one example, with some of its units absent.

    Attributes:
        example: the example.
        code: the same, encoded.
        present: whether each position is present, (rows, positions).
        numbers: the rows' numbers among the example's variants, which decide what is drawn at random.
        width: columns to fill up to.
        operator: how absence is shown.
        first_position: number of the first position, where the others are to stay in place when some are taken out.
    """

    example: Example
    code: E
    present: Keep
    numbers: Ints
    width: int
    operator: Absence
    first_position: int | None


class Reader(ABC, Generic[E]):
    """Feeds one network: encodes examples, offers units, shows them without some, and as embeddings.

    The engine knows neither token ids nor pixels: it hands encoded examples (of any type that has a length, the number
    of positions) back to the reader. The last three methods are for gradients; a reader without them gives a model
    that is not differentiable.

    Attributes:
        levels: levels of units, the default first.
        default_absence: the operator used when none is named.
        network: the network that is fed.
        tokenizer: of a reader of texts.
        options: the limits in force.
        reads: which position the answer is read from, where the reader knows; else the network is tried.
        shares_prefix: whether variants begin alike and the network, a decoder, may compute that beginning once.
        writes: whether the network can answer requests in words.
    """

    card: ClassVar[ReaderCard]
    levels: tuple[Level, ...]
    default_absence: str
    network: nn.Module
    tokenizer: PreTrainedTokenizerBase | None = None
    options = ReaderOptions()
    reads: Reads | None = None
    shares_prefix: bool = False
    writes: bool = False

    @classmethod
    def serves(cls, network: nn.Module, processor: object) -> bool:
        """Whether ``load_model`` takes this reader when the user names none."""
        return False

    @classmethod
    def of(cls, network: nn.Module, processor: object, options: ReaderOptions) -> Self:
        """The reader of a network with what came along with it: a tokenizer or an image processor."""
        raise CapabilityError(f"the {cls.card.name} reader cannot be made by load_model; make it yourself")

    def on(self, network: nn.Module) -> Self:
        """The same reader for another network, which reads the same."""
        made = copy.copy(self)
        made.network = network
        return made

    @property
    def device(self) -> torch.device:
        """Where the network is."""
        return next(self.network.parameters()).device

    def identity(self) -> object:
        """What of the reader and its settings decides the network's outputs, for the model's fingerprint."""
        return self.card.name

    def tensor(self, array: Numbers) -> Tensor:
        """An array where the network is."""
        return placed(array, self.device)

    def check(self, example: Example) -> None:
        """Refuse an example that the network cannot read."""

    @abstractmethod
    def probe(self) -> Example:
        """A small example, on which it is tried what the network tolerates."""

    @abstractmethod
    def encode(self, examples: Sequence[Example]) -> list[E]:
        """Examples as the network is fed them."""

    @abstractmethod
    def units(self, examples: Sequence[Example], level: Level) -> list[Units]:
        """What gets a score, and the positions that each covers."""

    @abstractmethod
    def whole(self, codes: Sequence[E]) -> Inputs:
        """Inputs of a plain pass over whole examples, padded to the longest."""

    def run(self, inputs: Inputs, forward: Callable[[Inputs], Tensor]) -> Tensor:
        """Outputs for these inputs, a row for each of theirs, by ``forward``, which calls the network once.

        A reader whose examples may need several passes overrides this and ``check_single_pass``.
        """
        return forward(inputs)

    def check_single_pass(self, codes: Sequence[E]) -> None:
        """Refuse what the network reads in several passes: attention and hidden layers are those of one pass."""

    @abstractmethod
    def absence(self, name: str) -> Absence:
        """The operator of this name; refused where it cannot be shown here."""

    @abstractmethod
    def masked(self, part: Masked[E]) -> Columns:
        """Inputs of variants of one example, filled up to a width; "blend" never comes here."""

    def answers(self, requests: Sequence[str], length: int) -> list[str]:
        """What the network writes upon each request, of at most so many tokens."""
        raise CapabilityError(f"a network with the {self.card.name} reader writes no text")

    def vectors(self, codes: Sequence[E]) -> list[Tensor]:
        """Input embeddings of each example, (positions, dim)."""
        raise CapabilityError(f"the {self.card.name} reader shows no embeddings, so there are no gradients")

    def absent_vector(self, name: str, like: Tensor) -> Tensor:
        """The embedding that stands for an absent position, by name: (dim,), or one per position of ``like``."""
        raise CapabilityError(f"the {self.card.name} reader shows no embeddings, so there are no gradients")

    def embedded(self, codes: Sequence[E], vectors: Tensor) -> Inputs:
        """Inputs of a plain pass from padded embeddings (rows, width, dim), differentiable."""
        raise CapabilityError(f"the {self.card.name} reader shows no embeddings, so there are no gradients")


def network_name(network: nn.Module) -> str:
    """The name that the network was loaded by, or its class."""
    return str(getattr(network, "name_or_path", "") or type(network).__name__)


AnyReader = Reader[Any]

READERS: Registry[AnyReader, ReaderCard] = Registry(
    "reader", "didact.models.readers", [str(Path(__file__).parent)], "didact.readers"
)
