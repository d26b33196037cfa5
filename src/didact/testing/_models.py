"""What the checks of ``didact.testing.models`` share: targets, variants and values of a model, and its state in use."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from didact.errors import ParameterError
from didact.models.heads.base import Head
from didact.models.network import NetworkModel
from didact.protocols import ATTENTIVE, DIFFERENTIABLE, HEADS
from didact.testing.conformance import network_state
from didact.types import Example, Floats, Keep, Target, Units


def all_targets(model: NetworkModel, examples: Sequence[Example]) -> Iterator[list[Target]]:
    """Targets of all examples: what is predicted and, where outputs have names, each of them; on every scale."""
    plain = model.predict(examples)
    named = model.labels if model.head.card.answers in ("class", "number") else ()
    for scale in model.scales:
        for given in (None, *named):
            yield [model.target(given, prediction, scale) for prediction in plain]


def first_example(model: NetworkModel, examples: Sequence[Example]) -> tuple[list[Units], list[Target]]:
    """Units and predicted target of the first example."""
    return model.units(examples[:1]), next(all_targets(model, examples[:1]))


def plain_values(model: NetworkModel, examples: Sequence[Example], targets: Sequence[Target]) -> Floats:
    """The explained numbers of plain predictions."""
    return np.array([own.value(target) for own, target in zip(model.predict(examples), targets, strict=True)])


def embedding_values(
    model: NetworkModel, units: Sequence[Units], targets: Sequence[Target], vectors: Sequence[Tensor]
) -> Floats:
    """The explained numbers at these embeddings, evaluated together."""
    made = model.gradients(units, targets, [own[None] for own in vectors], [np.ones(1)] * len(units))
    return np.concatenate([values for values, _ in made])


def some_masks(units: Units) -> Keep:
    """All units, none, each absent by itself, then all and none again."""
    ends = np.stack([np.ones(len(units), dtype=np.bool_), np.zeros(len(units), dtype=np.bool_)])
    return np.concatenate([ends, ~np.eye(len(units), dtype=np.bool_), ends])


def some_scores(model: NetworkModel, examples: Sequence[Example]) -> list[Floats]:
    """The predicted target under the masks of ``some_masks``."""
    units = model.units(examples)
    return model.score(units, next(all_targets(model, examples)), [some_masks(own) for own in units])


def all_uses(model: NetworkModel, examples: Sequence[Example]) -> Iterator[Callable[[], object]]:
    """All that a model may be asked for, on one example."""
    units, targets = first_example(model, examples)
    masks = [some_masks(own) for own in units]
    yield lambda: model.predict(examples[:1])
    yield lambda: model.score(units, targets, masks)
    if DIFFERENTIABLE in model.capabilities:
        points = [vectors[None] for vectors in model.embed(units)]
        soft = [torch.ones(1, len(own), device=model.reader.device) for own in units]
        yield lambda: model.gradients(units, targets, points, [np.ones(1)])
        yield lambda: model.values_at(units[0], targets[0], points[0])
        yield lambda: model.soft_score(units, targets, soft)
        if type(model.head).readout is not Head.readout:
            yield lambda: model.soft_outputs(units, soft)
            yield lambda: model.keep_outputs(units, masks)
    if ATTENTIVE in model.capabilities:
        yield lambda: model.attention(units)
    if HEADS in model.capabilities:
        yield lambda: model.head_scores(units)


@contextlib.contextmanager
def lived_in(model: NetworkModel) -> Iterator[dict[str, object]]:
    """The network as users leave it, partly in training mode and partly frozen; yields its state."""
    modes = [(module, module.training) for module in model.network.modules()]
    learned = [(weight, weight.requires_grad) for weight in model.network.parameters()]
    for number, (module, _) in enumerate(modes):
        module.training = number % 3 != 1
    for number, (weight, _) in enumerate(learned):
        weight.requires_grad_(number % 2 == 0)
    try:
        yield network_state(model)
    finally:
        for module, mode in modes:
            module.training = mode
        for weight, requires in learned:
            weight.requires_grad_(requires)


def can_blend(model: NetworkModel) -> bool:
    """Whether the reader can mix embeddings with those of something absent; one without a mask token may not."""
    try:
        model.reader.absence("blend")
    except ParameterError:
        return False
    return True


def assert_close(model: NetworkModel, actual: Floats, expected: Floats | float) -> None:
    """Equal up to what another batch or kernel rounds differently."""
    np.testing.assert_allclose(actual, expected, rtol=model.precision, atol=model.precision)


def assert_refused(call: Callable[[], object], error: type[Exception], named: Sequence[str]) -> None:
    """The call raises this error, and its message has these names."""
    message = None
    try:
        call()
    except error as problem:
        message = str(problem)
    assert message is not None, f"nothing was refused; expected {error.__name__}"
    assert all(name in message for name in named), f"{message!r} does not name {', '.join(named)}"
