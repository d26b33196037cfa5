"""What every model of a reader and a head must pass, as plain functions that third parties can run too.

``CHECKS`` maps a name to a check; ``applicable`` lists the checks that make sense for a model; ``check`` runs one and
raises AssertionError with what went wrong. A third party's test file::

    import pytest
    from didact.testing.models import applicable, check

    model = NetworkModel(my_network, MyReader(my_network), MyHead())

    @pytest.mark.parametrize("name", applicable(model))
    def test_my_reader_and_head(name): check(name, model, my_examples)

Examples should differ in length where the reader allows it, and be short: each has a variant per unit.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import torch

from didact.errors import CapabilityError, DidactError, ParameterError, TargetError
from didact.models.heads.base import Head
from didact.models.network import NetworkModel
from didact.models.outputs import resolve_target
from didact.models.readers.base import Masked, ReaderCard
from didact.ops.masking import present_tokens, unit_of_position
from didact.protocols import DIFFERENTIABLE, HEADS
from didact.testing._models import (
    all_targets,
    all_uses,
    assert_close,
    assert_refused,
    can_blend,
    embedding_values,
    first_example,
    lived_in,
    plain_values,
    some_masks,
    some_scores,
)
from didact.testing.conformance import network_state
from didact.testing.tiny import TEXTS, tiny_images
from didact.types import ANSWER_KINDS, SCALES, Example

NOTHING = "no_such_name"

Check = Callable[[NetworkModel, Sequence[Example]], None]


def sample(card: ReaderCard) -> list[Example]:
    """Examples of different lengths for a reader of texts, or of different sizes for a reader of an image."""
    if card.fields == ("image",):
        return tiny_images()
    assert set(card.fields) == {"text"}, f"give examples for a reader of {', '.join(card.fields)} yourself"
    texts = (TEXTS[0], "dull", *TEXTS[2:])
    return [Example(*(texts[(number + at) % len(texts)] for at in range(len(card.fields)))) for number in range(3)]


def applicable(model: NetworkModel) -> list[str]:
    """Names of the checks that are meaningful for this model."""
    skipped = set() if DIFFERENTIABLE in model.capabilities else set(WITH_EMBEDDINGS)
    if HEADS not in model.capabilities:
        skipped.add("heads_score_every_unit")
    if model.head.card.answers not in ("class", "number"):
        skipped |= {"targets_by_name_and_index", "wrong_targets_are_refused"}
    if model.reader.absence(model.default_absence).removes:
        skipped.add("present_positions_are_left_alone")  # they move
    if not can_blend(model):
        skipped.add("blending_is_a_soft_mask")
    if type(model.head).readout is Head.readout:  # predicts neither a class nor a number of the whole input
        skipped.add("soft_outputs_are_what_is_predicted")
    return [name for name in CHECKS if name not in skipped]


def check(name: str, model: NetworkModel, examples: Sequence[Example]) -> None:
    """Run one check."""
    CHECKS[name](model, examples)


def cards_are_complete(model: NetworkModel, examples: Sequence[Example]) -> None:
    """Both cards have a name, a family and a sentence; what reader and head offer is known to the library."""
    reader, head = model.reader, model.head
    for card in (reader.card, head.card):
        assert re.fullmatch(r"[a-z][a-z0-9_]*", card.name), card.name
        assert card.family, f"{card.name} has no family"
        assert card.summary.endswith("."), f"the summary of {card.name} is one sentence"
    assert reader.card.fields, "a reader reads at least one field"
    assert set(reader.card.fields) <= {"text", "image"}, reader.card.fields
    assert head.card.answers in ANSWER_KINDS, f"{head.card.answers!r} is none of {ANSWER_KINDS}"
    assert model.levels, "a reader offers at least one level of units"
    assert model.scales, "a head has at least one scale"
    assert set(model.scales) <= set(SCALES), f"scales {model.scales} are none of {SCALES}"
    reader.absence(model.default_absence)  # refused where the default is not one of the reader's
    assert model.inputs == reader.card.name


def the_probe_is_predicted(model: NetworkModel, examples: Sequence[Example]) -> None:
    """The reader's own small example goes through the network, and is of the fields on the card."""
    probe = model.reader.probe()
    kinds = tuple("text" if isinstance(field, str) else "image" for field in probe.fields)
    assert kinds == model.reader.card.fields, f"the probe has the fields {kinds}"
    assert np.isfinite(model.predict([probe])[0].outputs).all()


def units_lie_in_their_example(model: NetworkModel, examples: Sequence[Example]) -> None:
    """On every level, units are of the example, and their positions lie inside the encoding and do not overlap."""
    codes = model.reader.encode(examples)
    for level in model.levels:
        for example, code, units in zip(examples, codes, model.units(examples, level), strict=True):
            covered = [position for positions in units.positions for position in positions]
            own = units.example.fields[: len(example.fields)]  # a level may spell out more of what the network reads
            assert own == example.fields
            assert units.level == level
            assert len(units) == len(units.positions) > 0, "a unit has no positions"
            assert all(units.positions), "a unit covers nothing"
            assert len(set(covered)) == len(covered), "two units cover one position"
            assert set(covered) <= set(range(len(code))), f"positions {covered} of a code of length {len(code)}"
            assert len(set(units.regions)) == len(units), "two units are one region"


def predictions_fit_the_card(model: NetworkModel, examples: Sequence[Example]) -> None:
    """Every prediction is of the card's kind, with the head's labels and finite outputs."""
    for prediction in model.predict(examples):
        assert prediction.kind == model.head.card.answers, f"predicts a {prediction.kind}"
        assert prediction.labels == model.labels
        assert np.isfinite(prediction.outputs).all()
        assert all(0 <= share <= 1 for share in prediction.probabilities)


def the_full_mask_is_the_plain_prediction(model: NetworkModel, examples: Sequence[Example]) -> None:
    """With every unit present, the score is what the plain pass gives, for every level and target."""
    for level in model.levels:
        units = model.units(examples, level)
        keep = [np.ones((1, len(own)), dtype=np.bool_) for own in units]
        for targets in all_targets(model, examples):
            assert_close(
                model, np.concatenate(model.score(units, targets, keep)), plain_values(model, examples, targets)
            )


def one_example_equals_many(model: NetworkModel, examples: Sequence[Example]) -> None:
    """Neither who else is in the batch, nor padding, nor the size of batches changes a prediction or a score."""
    narrow = NetworkModel(model.network, model.reader, model.head, batch_tokens=1)
    plain, together = model.predict(examples), some_scores(model, examples)
    for number, example in enumerate(examples):
        for other in (model, narrow):
            assert_close(model, np.array(other.predict([example])[0].outputs), np.array(plain[number].outputs))
            assert_close(model, some_scores(other, [example])[0], together[number])
    for own, backwards in zip(together, some_scores(model, examples[::-1])[::-1], strict=True):
        assert_close(model, backwards, own)


def absent_units_matter(model: NetworkModel, examples: Sequence[Example]) -> None:
    """Scores without some or all units are finite, the same in every row, and not all that of the whole example."""
    moved = 0.0
    for values in some_scores(model, examples):  # rows: all, none, each unit absent, all and none again
        assert np.isfinite(values).all()
        assert_close(model, values[-2:], values[:2])
        moved = max(moved, float(np.abs(values[1:-2] - values[0]).max()))
    assert moved > model.precision, "no absent unit changes the score of any example"


def present_positions_are_left_alone(model: NetworkModel, examples: Sequence[Example]) -> None:
    """Where a unit is absent, inputs at all other positions are those of the whole example."""
    operator = model.reader.absence(model.default_absence)
    codes = model.reader.encode(examples)
    for units, code in zip(model.units(examples), codes, strict=True):
        present = present_tokens(some_masks(units), unit_of_position(units, len(code)))
        numbers = np.arange(len(present), dtype=np.int64)
        columns = model.reader.masked(Masked(units.example, code, present, numbers, len(code), operator, None))
        for name, column in columns.items():
            if column.ndim > 1 and column.shape[1] == len(code):  # others do not belong to positions
                rows, places = np.nonzero(present)
                same = column[rows, places] == column[0, places]
                assert same.all(), f"{name} differs where nothing is absent"


def unknown_names_are_refused(model: NetworkModel, examples: Sequence[Example]) -> None:
    """An unknown level, absence or scale is refused with the names that are allowed."""
    units, targets = first_example(model, examples)
    keep = [np.ones((1, len(own)), dtype=np.bool_) for own in units]
    prediction = model.predict(examples[:1])[0]
    assert_refused(lambda: model.units(examples, NOTHING), ParameterError, model.levels)
    assert_refused(
        lambda: model.score(units, targets, keep, NOTHING), DidactError, [model.default_absence.partition(":")[0]]
    )
    assert_refused(lambda: resolve_target(model, None, prediction, NOTHING), TargetError, model.scales)  # type: ignore[arg-type]


def what_is_predicted_is_the_default_target(model: NetworkModel, examples: Sequence[Example]) -> None:
    """No target means what is predicted, and a target means itself."""
    for prediction in model.predict(examples):
        for scale in model.scales:
            target = model.target(None, prediction, scale)
            assert target.scale == scale
            assert np.isfinite(prediction.value(target))
            assert (target.index, target.label) == (prediction.index, prediction.label)
            assert model.target(target, prediction, scale) == target


def targets_by_name_and_index(model: NetworkModel, examples: Sequence[Example]) -> None:
    """A label's name and its index mean the same target, also where it is not predicted."""
    (prediction,) = model.predict(examples[:1])
    for index, label in enumerate(model.labels):
        by_index, by_name = (model.target(given, prediction, model.scales[0]) for given in (index, label))
        assert by_index == by_name
        assert (by_name.index, by_name.label) == (index, label)


def wrong_targets_are_refused(model: NetworkModel, examples: Sequence[Example]) -> None:
    """A label or an index that the head does not have is refused with those that it has."""
    (prediction,) = model.predict(examples[:1])
    wrong: tuple[str | int, ...] = (NOTHING, len(model.labels), -1)
    for given in wrong:
        assert_refused(partial(model.target, given, prediction, model.scales[0]), TargetError, model.labels)


def embeddings_that_are_shown_are_taken(model: NetworkModel, examples: Sequence[Example]) -> None:
    """Where the reader shows embeddings, the network gives its plain outputs for them, so there are gradients."""
    shown = True
    try:
        model.reader.vectors(model.reader.encode(examples[:1]))
    except CapabilityError:
        shown = False
    assert shown == (DIFFERENTIABLE in model.capabilities), "the reader's embeddings do not give the plain outputs"


def embeddings_reproduce_the_plain_pass(model: NetworkModel, examples: Sequence[Example]) -> None:
    """The embeddings of an example give the value of its plain prediction, alone and in padded batches."""
    units = model.units(examples)
    vectors = model.embed(units)
    for targets in all_targets(model, examples):
        wanted = plain_values(model, examples, targets)
        assert_close(model, embedding_values(model, units, targets, vectors), wanted)
        for own, target, at, value in zip(units, targets, vectors, wanted, strict=True):
            assert_close(model, model.values_at(own, target, at[None]).detach().double().cpu().numpy(), value)


def gradients_are_those_of_finite_differences(model: NetworkModel, examples: Sequence[Example]) -> None:
    """A gradient per position and dimension, finite, and as steep as the values a small step apart."""
    units, targets = first_example(model, examples)
    (vectors,) = model.embed(units)
    ((_, gradient),) = model.gradients(units, targets, [vectors[None]], [np.ones(1)])
    assert gradient.shape == vectors.shape
    assert gradient.isfinite().all()
    slope = gradient.double().norm()
    assert slope > 0, "the target does not depend on the embeddings"
    step = 1e-2 * gradient / slope.to(gradient.dtype)
    ends = model.values_at(units[0], targets[0], torch.stack([vectors + step, vectors - step])).detach().double()
    torch.testing.assert_close((ends[0] - ends[1]) / 2e-2, slope, rtol=0.1, atol=1e-3)


def soft_masks_reach_both_ends(model: NetworkModel, examples: Sequence[Example]) -> None:
    """Soft masks of ones give the plain value, of zeros that of the absent embeddings, with finite gradients."""
    units = model.units(examples)
    ends = [torch.stack([torch.ones(len(own)), torch.zeros(len(own))]).requires_grad_() for own in units]
    for targets in all_targets(model, examples):
        soft = model.soft_score(units, targets, [own.to(model.reader.device) for own in ends])
        ones, zeros = (np.array([float(values[end].detach()) for values in soft]) for end in (0, 1))
        assert_close(model, ones, plain_values(model, examples, targets))
        assert_close(model, zeros, embedding_values(model, units, targets, model.embed(units, absent="mask")))
        grads = torch.autograd.grad(torch.cat(soft).sum(), ends)
        assert all(bool(grad.isfinite().all()) for grad in grads)
        assert any(bool(grad.any()) for grad in grads), "the values do not depend on the masks"


def soft_outputs_are_what_is_predicted(model: NetworkModel, examples: Sequence[Example]) -> None:
    """Masks of ones give all log-probabilities or numbers, with gradients with respect to a given absent vector."""
    units, predictions = model.units(examples), model.predict(examples)
    (vectors,) = model.embed(units[:1])
    absent = torch.zeros(vectors.shape[1]).requires_grad_()
    whole, half = (
        model.soft_outputs(units, [torch.full((1, len(u)), share) for u in units], absent) for share in (1.0, 0.5)
    )
    kept = model.keep_outputs(units, [np.ones((1, len(own)), dtype=np.bool_) for own in units])
    for own, same, prediction in zip(whole, kept, predictions, strict=True):
        known = np.log(prediction.probabilities) if prediction.probabilities else np.array(prediction.outputs)
        assert {tuple(own.shape), same.shape} == {(1, len(model.labels))}
        assert_close(model, own[0].detach().double().cpu().numpy(), known)
        assert_close(model, same[0], known)
    (slope,) = torch.autograd.grad(torch.cat(half)[:, 0].sum(), absent)
    assert slope.isfinite().all()
    assert slope.any(), "the outputs do not depend on the absent vector"


def blending_is_a_soft_mask(model: NetworkModel, examples: Sequence[Example]) -> None:
    """The absence "blend" gives the values of soft masks, at both ends and between."""
    units, targets = first_example(model, examples)
    shares = np.linspace(0, 1, 3, dtype=np.float32)[:, None].repeat(len(units[0]), 1)
    (blended,) = model.score(units, targets, [shares], "blend")  # weights for this operator
    (soft,) = model.soft_score(units, targets, [torch.from_numpy(shares).to(model.reader.device)])
    assert_close(model, soft.detach().double().cpu().numpy(), blended)


def heads_score_every_unit(model: NetworkModel, examples: Sequence[Example]) -> None:
    """A finite number per head and unit, which neighbours do not change, and heads that differ."""
    layers, heads = model.head_grid
    for level in model.levels:
        units = model.units(examples, level)
        for own, seen in zip(units, model.head_scores(units), strict=True):
            assert seen.shape == (layers * heads, len(own))
            assert seen.isfinite().all()
            assert len(own) < 2 or bool((seen != seen[:1]).any()), "all heads are alike"
            assert_close(model, model.head_scores([own])[0].double().numpy(), seen.double().numpy())
            last = model.head_scores([own], [-1])[0].double().numpy()
            assert_close(model, last, seen[-heads:].double().numpy())


def the_network_is_left_as_it_was(model: NetworkModel, examples: Sequence[Example]) -> None:
    """Hooks, modes, gradients and weights are as before, after all that the model offers."""
    with lived_in(model) as before:
        for use in all_uses(model, examples):
            use()
            assert network_state(model) == before


def the_network_is_left_as_it_was_after_a_failure(model: NetworkModel, examples: Sequence[Example]) -> None:
    """The same when the network fails half way."""
    uses = list(all_uses(model, examples))
    assert model.capabilities is not None  # computed before the network starts to fail

    def fail(*_: object) -> None:
        raise KeyError("planted failure")

    part = getattr(model.network, "base_model", model.network)  # every pass goes through it
    hook = part.register_forward_hook(fail)
    try:
        with lived_in(model) as before:
            for use in uses:
                assert_refused(use, KeyError, ["planted failure"])
                assert network_state(model) == before
    finally:
        hook.remove()


def the_fingerprint_is_that_of_the_weights(model: NetworkModel, examples: Sequence[Example]) -> None:
    """It is the same for another adapter and after use, another when a weight changes, and the first one again."""
    first = model.fingerprint()
    model.predict(examples[:1])
    assert NetworkModel(model.network, model.reader, model.head).fingerprint() == model.fingerprint() == first
    weight = next(model.network.parameters())
    kept = weight.detach().clone()
    with torch.no_grad():
        weight.add_(1.0)
        changed = model.fingerprint()
        weight.copy_(kept)
    assert changed != first, "another weight, the same fingerprint"
    assert model.fingerprint() == first


WITH_EMBEDDINGS = (
    "embeddings_reproduce_the_plain_pass",
    "gradients_are_those_of_finite_differences",
    "soft_masks_reach_both_ends",
    "soft_outputs_are_what_is_predicted",
    "blending_is_a_soft_mask",
)
"""Checks of models that are differentiable."""

CHECKS: dict[str, Check] = {
    function.__name__: function
    for function in (
        cards_are_complete,
        the_probe_is_predicted,
        units_lie_in_their_example,
        predictions_fit_the_card,
        the_full_mask_is_the_plain_prediction,
        one_example_equals_many,
        absent_units_matter,
        present_positions_are_left_alone,
        unknown_names_are_refused,
        what_is_predicted_is_the_default_target,
        targets_by_name_and_index,
        wrong_targets_are_refused,
        embeddings_that_are_shown_are_taken,
        embeddings_reproduce_the_plain_pass,
        gradients_are_those_of_finite_differences,
        soft_masks_reach_both_ends,
        soft_outputs_are_what_is_predicted,
        blending_is_a_soft_mask,
        heads_score_every_unit,
        the_network_is_left_as_it_was,
        the_network_is_left_as_it_was_after_a_failure,
        the_fingerprint_is_that_of_the_weights,
    )
}
