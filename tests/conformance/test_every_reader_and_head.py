"""Every registered reader passes every check with every registered head that fits it; planted faults do not."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch
from torch import Tensor

from didact.errors import ParameterError
from didact.models.batch import EncodedBatch, Inputs
from didact.models.compose import compose
from didact.models.heads.base import HEADS, Head
from didact.models.heads.classes import ClassesHead
from didact.models.network import NetworkModel
from didact.models.prompting.prompts import Prompt
from didact.models.readers.base import READERS, AnyReader, Columns, Masked, ReaderOptions
from didact.models.readers.text import TextReader
from didact.models.tokens.encoding import Encoding
from didact.ops.masking import Absence
from didact.protocols import TargetLike
from didact.testing.models import CHECKS, applicable, check, sample
from didact.testing.tiny import tiny_image_model, tiny_language_model, tiny_model
from didact.types import Example, Prediction, Scale, Target, Units

LABELS = {"class": ("negative", "neutral", "positive"), "number": ("score",), "span": ("start", "end")}
"""Names of a tiny network's outputs by the kind of answer."""
ARCHITECTURES = {"text": ("bert", "gpt2"), "image": ("vit",)}
"""By the kind of the first field. With a mask token, reading the first position; without, reading the last."""


DECODERS = ("llama", "gpt2")
PROMPTS = {
    "prompt": Prompt("Review: {text}\nIt is", ["good", "dull"], shots=[("a warm heart", "good")], absence="token:."),
    "prompt_chat": Prompt("{text}", ["a warm film", "a dull plot", "an old heart"], instruction="Judge it.", chat=True),
}
"""Label words of one token each behind a plain prompt; of several tokens that share their first, in a chat."""


@cache
def model(reader: str, head: str, architecture: str) -> NetworkModel:
    if reader in PROMPTS:
        network, tokenizer = tiny_language_model(architecture)
        return compose(network, tokenizer, options=ReaderOptions(prompt=PROMPTS[reader]))
    card = HEADS.card(head)
    labels = LABELS[card.answers]
    if architecture == "vit":
        return compose(*tiny_image_model(labels), inputs=reader)
    network, tokenizer = tiny_model(architecture, labels, auto_class=card.auto_class)
    return compose(network, tokenizer, inputs=reader)


CASES = [
    (reader, head, name)
    for reader in READERS.names()
    for head in HEADS.names()
    for name in ARCHITECTURES[READERS.card(reader).fields[0]]
    if reader not in PROMPTS and head != "label_words"
    if name != "vit" or any("Image" in architecture for architecture, _ in HEADS.card(head).served)
]
CASES += [(prompt, "label_words", name) for prompt in PROMPTS for name in DECODERS]
ROWS = [(*case, name) for case in CASES for name in applicable(model(*case))]


@pytest.mark.parametrize(("reader", "head", "architecture", "name"), ROWS)
def test_conforms(reader: str, head: str, architecture: str, name: str) -> None:
    made = model(reader, head, architecture)
    assert (made.reader.card.name, made.head.card.name) == (reader.removesuffix("_chat"), head)
    check(name, made, sample(made.reader.card))


def test_every_check_is_used() -> None:
    assert {name for *_, name in ROWS} == set(CHECKS)


@pytest.mark.parametrize("reader", READERS.names())
def test_a_reader_is_a_file_of_its_name(reader: str) -> None:
    assert READERS.get(reader).__module__ == f"didact.models.readers.{reader}"


@pytest.mark.parametrize("head", HEADS.names())
def test_a_head_is_a_file_of_its_name(head: str) -> None:
    assert HEADS.get(head).__module__ == f"didact.models.heads.{head}"


# The checks themselves, on planted faults.


class Overlapping(TextReader):
    """Lets every unit cover the first unit's positions."""

    def units(self, examples: Sequence[Example], level: str) -> list[Units]:
        made = super().units(examples, level)
        return [Units(u.example, level, u.regions, (u.positions[0],) * len(u)) for u in made]


class Unpadded(TextReader):
    """Attends to padding."""

    def whole(self, codes: Sequence[Encoding]) -> Inputs:
        made = super().whole(codes)
        return made | {"attention_mask": torch.ones_like(made["attention_mask"])}


class Smearing(TextReader):
    """Replaces the first position of every variant, and shows no absent unit otherwise."""

    def masked(self, part: Masked[Encoding]) -> Columns:
        columns = super().masked(replace(part, present=np.ones_like(part.present)))
        columns["input_ids"][1:, 0] = 5
        return columns


class Blind(TextReader):
    """Shows the whole text whatever is absent."""

    def masked(self, part: Masked[Encoding]) -> Columns:
        return super().masked(replace(part, present=np.ones_like(part.present)))


class Mute(TextReader):
    """Refuses without the allowed names, and offers a level that is not its own."""

    def absence(self, name: str) -> Absence:
        if name not in ("mask", "blend"):
            raise ParameterError("no")
        return Absence(name)


class Shifted(TextReader):
    """Embeddings that are not those of the plain pass."""

    below = 1000

    def vectors(self, codes: Sequence[Encoding]) -> list[Tensor]:
        return [vectors.flip(-1) if len(vectors) < self.below else vectors for vectors in super().vectors(codes)]


class SometimesShifted(Shifted):
    """The same for texts that are shorter than the probe."""

    below = 12


class Clipped(NetworkModel):
    """Rounds soft masks."""

    def soft_score(
        self, units: Sequence[Units], targets: Sequence[Target], masks: Sequence[Tensor], absent: str = "mask"
    ) -> list[Tensor]:
        return super().soft_score(units, targets, [mask.round() for mask in masks], absent)


class Careless(TextReader):
    """Leaves the network in training mode, and a weight frozen."""

    def encode(self, examples: Sequence[Example]) -> list[Encoding]:
        self.network.train()
        next(self.network.parameters()).requires_grad_(False)
        return super().encode(examples)


class Anonymous(TextReader):
    """Another fingerprint at every look."""

    def identity(self) -> object:
        return id(object()), np.random.default_rng().random()


class Doubled(ClassesHead):
    """Explains twice the logit."""

    def values(self, outputs: Tensor, targets: Sequence[Target], batch: EncodedBatch | None = None) -> Tensor:
        return 2 * super().values(outputs, targets, batch)


class Detached(ClassesHead):
    """Half of the explained number has no gradient."""

    def values(self, outputs: Tensor, targets: Sequence[Target], batch: EncodedBatch | None = None) -> Tensor:
        value = super().values(outputs, targets, batch)
        return value / 2 + value.detach() / 2


class Agreeable(ClassesHead):
    """Takes any target for the first label."""

    def target(self, given: TargetLike, prediction: Prediction, scale: Scale) -> Target:
        return Target(0, self.labels[0], scale)


class Nameless(ClassesHead):
    """Predicts without the probabilities that classes have."""

    def predictions(self, outputs: Tensor, batch: EncodedBatch) -> list[Prediction]:
        return [Prediction(self.labels, tuple(row)) for row in outputs.tolist()]


@pytest.mark.parametrize(
    ("part", "name"),
    [
        (Overlapping, "units_lie_in_their_example"),
        (Unpadded, "one_example_equals_many"),
        (Smearing, "present_positions_are_left_alone"),
        (Blind, "absent_units_matter"),
        (Mute, "unknown_names_are_refused"),
        (Shifted, "embeddings_that_are_shown_are_taken"),
        (SometimesShifted, "embeddings_reproduce_the_plain_pass"),
        (SometimesShifted, "soft_masks_reach_both_ends"),
        (Clipped, "blending_is_a_soft_mask"),
        (Unpadded, "heads_score_every_unit"),
        (Careless, "the_network_is_left_as_it_was"),
        (Careless, "the_network_is_left_as_it_was_after_a_failure"),
        (Anonymous, "the_fingerprint_is_that_of_the_weights"),
        (Doubled, "the_full_mask_is_the_plain_prediction"),
        (Detached, "gradients_are_those_of_finite_differences"),
        (Agreeable, "what_is_predicted_is_the_default_target"),
        (Agreeable, "targets_by_name_and_index"),
        (Agreeable, "wrong_targets_are_refused"),
        (Nameless, "predictions_fit_the_card"),
    ],
    ids=lambda value: value if isinstance(value, str) else value.__name__,
)
def test_planted_faults_are_found(part: type[AnyReader | Head | NetworkModel], name: str) -> None:
    network, tokenizer = tiny_model("bert", LABELS["class"])
    reader = part if issubclass(part, TextReader) else TextReader
    head = part if issubclass(part, ClassesHead) else ClassesHead
    adapter = part if issubclass(part, NetworkModel) else NetworkModel
    faulty = adapter(network, reader(network, tokenizer), head(LABELS["class"]))
    examples = sample(TextReader.card)
    if part is Agreeable:  # the label that is never predicted first
        examples = [example for example in examples if faulty.predict([example])[0].index != 0]
    with pytest.raises(AssertionError):
        check(name, faulty, examples)


def test_a_probe_of_other_fields_is_found() -> None:
    made = model("text", "classes", "bert")
    network, tokenizer = made.network, made.tokenizer

    class Probing(TextReader):
        def probe(self) -> Example:
            return Example("two", "texts")

    with pytest.raises(AssertionError, match="the probe has the fields"):
        check("the_probe_is_predicted", NetworkModel(network, Probing(network, tokenizer), made.head), [])
