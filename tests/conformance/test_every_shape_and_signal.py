"""Every registered shape passes every check with every registered signal that fits it."""

import tempfile
from collections.abc import Mapping

import pytest
from torch import Tensor, nn

from didact.errors import CapabilityError
from didact.testing.learned import CASES, CHECKS, case_model, check, fits
from didact.testing.tiny import tiny_model
from didact.trained.samples import TrainingBatch
from didact.trained.shapes.base import SHAPES, Shape, ShapeBatch, check_shape
from didact.trained.signals.base import SIGNALS, Signal
from tests.third_party.installed import installed

with installed():
    from toybox.toy_shape import EmbeddingProbe
    from toybox.toy_signal import Follow

_FOLDER = tempfile.TemporaryDirectory()
_NETWORK, _TOKENIZER = tiny_model("bert")
_NETWORK.bert.encoder.layer = _NETWORK.bert.encoder.layer[:1]  # half the time of two
_NETWORK.config.num_hidden_layers = 1
for part in (_NETWORK, _TOKENIZER):
    part.save_pretrained(_FOLDER.name)

QUICK: Mapping[str, Mapping[str, object]] = {
    "scorer": {"width": 16, "blocks": 1, "min_count": 1},
    "probe": {"width": 32},
    "encoder": {"backbone": _FOLDER.name, "dropout": 0.0},
    "head_mix": {"normalise": "none", "temperature": 0.3},
    "head_gate": {"width": 64},
    "gradient_gate": {"normalise": "none", "temperature": 0.3},
}
"""Settings that make a shape small, or able to learn from random heads, some of which it must count negatively."""

QUICK_SIGNALS: Mapping[str, Mapping[str, object]] = {
    "ablate": {"pairs": 2, "rounds": 1},
    "erasure": {"pairs": 2, "rounds": 1, "warm": 1, "orders": 4},
    "contrast": {"pairs": 2, "rounds": 1, "warm": 1, "orders": 4},
    "scaffold": {
        "students": 2,
        "examples": 8,
        "batch": 8,
        "outer_batch": 8,
        "resets": 40,
        "inner_rate": 0.02,
        "student": {"model": _FOLDER.name, "max_length": 16},
    },
}
"""Settings that make a signal quick."""

ROWS = [
    (shape, signal, case, name)
    for shape in SHAPES.names()
    for signal in SIGNALS.names()
    for case in CASES
    if fits(SHAPES.card(shape), SIGNALS.card(signal), case)
    for name in CHECKS
]


@pytest.mark.parametrize(("shape", "signal", "case", "name"), ROWS)
def test_conforms(shape: str, signal: str, case: str, name: str) -> None:
    made = SHAPES.get(shape), SIGNALS.get(signal)
    check(name, *made, case, settings=QUICK.get(shape), signal_settings=QUICK_SIGNALS.get(signal))


def test_one_thing_is_one_file_of_its_name() -> None:
    shapes, signals = ({row[place] for row in ROWS} for place in (0, 1))
    assert {SHAPES.get(name).__module__ for name in shapes} == {f"didact.trained.shapes.{name}" for name in shapes}
    assert {SIGNALS.get(name).__module__ for name in signals} == {f"didact.trained.signals.{name}" for name in signals}


def test_a_model_that_does_not_offer_what_a_shape_needs_is_refused() -> None:
    assert not fits(EmbeddingProbe.card, Follow.card, "black_box")
    with pytest.raises(CapabilityError, match=r"needs a model that is differentiable, .* work with it: scorer"):
        check_shape(EmbeddingProbe.card, case_model("black_box"))


# The checks themselves, on planted faults in the toybox's shape and signal.


class Leaky(EmbeddingProbe):
    """Looks at its neighbours in the batch."""

    def forward(self, batch: ShapeBatch) -> Tensor:
        return super().forward(batch) + batch["states"].mean()


class Forgetful(EmbeddingProbe):
    """Draws its weights without a seed."""

    def __init__(self, size: int, outputs: int, seed: int = 0) -> None:
        super().__init__(size, outputs, seed)
        nn.init.normal_(self.output.weight)


class Stuck(Follow):
    """Has a loss that does not depend on the outputs."""

    def loss(self, outputs: Tensor, batch: TrainingBatch) -> Tensor:
        return super().loss(outputs * 0, batch)


@pytest.mark.parametrize(
    ("name", "shape", "signal"),
    [
        ("batches_do_not_matter", Leaky, Follow),
        ("same_seed_same_weights", Forgetful, Follow),
        ("losses_are_per_document", EmbeddingProbe, Stuck),
        ("learns", EmbeddingProbe, Stuck),
    ],
)
def test_a_planted_fault_is_found(name: str, shape: type[Shape], signal: type[Signal]) -> None:
    with pytest.raises(AssertionError):
        check(name, shape, signal, "bert")
