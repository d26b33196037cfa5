"""Refinement: texts together equal texts alone, the best map is kept, and its cost and choice are stated."""

import copy
import dataclasses
from collections.abc import Sequence
from dataclasses import astuple
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
from torch import Tensor

from didact.api import estimates
from didact.errors import CapabilityError, ModelError, ParameterError, TargetError
from didact.meter import metered
from didact.models.load import load_model
from didact.progress import listening
from didact.protocols import Model
from didact.testing.conformance import CHECKS, applicable, make_case, sample
from didact.testing.tiny import TEXTS, keyword_predict, tiny_model
from didact.trained import _refine_memory
from didact.trained._refine_copies import RowCopies
from didact.trained._refine_steps import Objective, refine_rows
from didact.trained.checkpoints import tensors_hash
from didact.trained.explainer import LearnedExplainer
from didact.trained.judging import Judge
from didact.trained.metadata import ExplainerMetadata
from didact.trained.refine import RefineConfig, RefinedExplainer
from didact.trained.samples import TrainingBatch, batch_of
from didact.trained.shapes.base import SHAPES, Shape, ShapeBatch
from didact.trained.shapes.probe import Probe
from didact.trained.signals.base import Signal, SignalTask
from didact.trained.signals.labelling import Labelling
from didact.trained.signals.mask import MaskSignal
from didact.trained.signals.regression import Regression
from didact.types import Example, Explanation, Floats

OTHERS = ("good", "a wonderful heart, a dull plot", "the bill in an old cinema was too high and the evening was rainy")


@pytest.fixture(scope="module")
def model() -> Model:
    return load_model(tiny_model("bert"), device="cpu")


OBJECTIVE = Objective(MaskSignal().loss, MaskSignal().scores)


def learned(model: Model, shape: str = "probe", signal: Signal | None = None, **settings: object) -> LearnedExplainer:
    """An explainer with random weights: refinement starts from whatever there is."""
    signal = signal or MaskSignal()
    own = {"seed": 0, "width": 16, **({"min_count": 1} if shape == "scorer" else {}), **settings}
    units = model.units([Example(text) for text in TEXTS])
    built = SHAPES.get(shape).build(model, units, signal.outputs, own)
    return LearnedExplainer(built, signal, ExplainerMetadata.of(model, method="aml"))


def refined(model: Model, explainer: LearnedExplainer, **settings: object) -> list[Explanation]:
    config = RefineConfig(**{"steps": 5, "learning_rate": 0.02, **settings})  # type: ignore[arg-type]
    return RefinedExplainer(explainer, config).explain(model, [*TEXTS, *OTHERS])


def mean_score(*, lower: bool = True, seen: list[Explanation] | None = None) -> Judge:
    """A judge that runs no model."""

    def grade(model: Model, explanations: Sequence[Explanation]) -> Floats:
        if seen is not None:
            seen.extend(explanations)
        return np.array([one.array.mean() for one in explanations])

    return Judge("mean score", lower, grade)


@pytest.mark.parametrize("rank", [None, 2])
@pytest.mark.parametrize("shape", ["probe", "scorer"])
def test_together_equals_one_at_a_time(model: Model, shape: str, rank: int | None) -> None:
    explainer = learned(model, shape)
    together = refined(model, explainer, rank=rank)
    alone = refined(model, explainer, rank=rank, rows=1)
    unrefined = explainer.explain(model, [*TEXTS, *OTHERS])
    for first, second in zip(together, alone, strict=True):
        np.testing.assert_allclose(first.array, second.array, atol=5e-4)  # Adam's first steps enlarge rounding
        assert first.details["chosen step"] == second.details["chosen step"]
    assert max(abs(a.array - b.array).max() for a, b in zip(together, unrefined, strict=True)) > 1e-2


def test_the_same_twice(model: Model) -> None:
    explainer = learned(model)
    first, second = (refined(model, explainer, steps=2) for _ in range(2))
    assert [one.scores for one in first] == [one.scores for one in second]


@pytest.mark.parametrize("shape", ["probe", "scorer"])
def test_every_map_is_that_of_a_network_trained_on_the_text_alone(model: Model, shape: str) -> None:
    explainer = learned(model, shape)
    config = RefineConfig(steps=3, learning_rate=0.02)
    batch = batch_of_texts(explainer, model, TEXTS)
    maps = refine_rows(RowCopies(explainer.shape), batch, OBJECTIVE, config)
    assert maps.scores.shape[0] == maps.losses.shape[0] == 4
    for row, text in enumerate(TEXTS):
        expected = trained_alone(explainer.shape, batch_of_texts(explainer, model, [text]), config)
        here = batch.present[row]
        np.testing.assert_allclose(maps.scores[:, row, here].numpy(), expected.numpy(), atol=1e-4)


def batch_of_texts(explainer: LearnedExplainer, model: Model, texts: Sequence[str]) -> TrainingBatch:
    samples = MaskSignal().prepare(SignalTask(model, [Example(text) for text in texts]), explainer.shape)
    return batch_of(explainer.shape, samples.of_epoch(0), np.arange(len(texts)), torch.device("cpu"), samples.shared)


def trained_alone(shape: Shape, batch: TrainingBatch, config: RefineConfig) -> Tensor:
    """Maps of one text by plain training of a copy, the tables of embeddings frozen: (steps + 1, units)."""
    own = copy.deepcopy(shape).eval()
    frozen = {id(module.weight) for module in own.modules() if isinstance(module, torch.nn.Embedding)}
    weights = [weight for weight in own.parameters() if id(weight) not in frozen]
    optimizer = torch.optim.AdamW(weights, lr=config.rate, weight_decay=config.weight_decay)
    steps = config.steps or 0
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - step / steps)
    maps = [MaskSignal().scores(own(batch.inputs)).detach()[0]]
    for _ in range(steps):
        optimizer.zero_grad()
        MaskSignal().loss(own(batch.inputs), batch).sum().backward()
        optimizer.step()
        schedule.step()
        maps.append(MaskSignal().scores(own(batch.inputs)).detach()[0])
    return torch.stack(maps)


def test_the_judge_chooses_among_all_maps_the_last_and_the_unrefined_one_included(model: Model) -> None:
    explainer = learned(model)
    unrefined = explainer.explain(model, TEXTS)
    config = RefineConfig(steps=3, learning_rate=0.02)
    for lower in (True, False):
        seen: list[Explanation] = []
        chosen = RefinedExplainer(explainer, config, judge=mean_score(lower=lower, seen=seen)).explain(model, TEXTS)
        assert len(seen) == 4 * len(TEXTS)
        for number, (one, first) in enumerate(zip(chosen, unrefined, strict=True)):
            values = [each.array.mean() for each in seen[4 * number : 4 * number + 4]]
            assert values[0] == pytest.approx(first.array.mean(), abs=1e-12)
            best = min(values) if lower else max(values)
            assert one.array.mean() == pytest.approx(best, abs=1e-12)
            assert one.details["mean score, unrefined"] == pytest.approx(values[0])
            assert one.details["mean score, chosen"] == pytest.approx(best)
            assert one.details["chosen step"] == values.index(best)
            assert one.details["steps"] == 3


def test_without_a_judge_the_lowest_loss_decides(model: Model) -> None:
    for one in refined(model, learned(model)):
        assert one.details["loss of mask, chosen"] <= one.details["loss of mask, unrefined"]


@pytest.mark.parametrize("undefined", [slice(None), slice(1, None)])
def test_a_map_without_a_grade_is_not_chosen(model: Model, undefined: slice) -> None:
    def grade(model: Model, explanations: Sequence[Explanation]) -> Floats:
        values = -np.arange(float(len(explanations)))
        values[undefined] = np.nan
        return values

    explainer = learned(model)
    refining = RefinedExplainer(explainer, RefineConfig(steps=2, learning_rate=0.02), judge=Judge("odd", True, grade))
    (one,) = refining.explain(model, TEXTS[:1])
    assert one.details["chosen step"] == 0
    assert one.scores == explainer.explain(model, TEXTS[:1])[0].scores


def test_explanations_say_how_they_were_chosen(model: Model) -> None:
    refining = RefinedExplainer(learned(model), RefineConfig(steps=2), judge=mean_score())
    (one,) = refining.explain(model, TEXTS[:1])
    assert any("Selected on this text by mean score, out of 3 maps" in line for line in one.warnings)
    assert one.method == refining.card.name == "aml_refined"
    assert one.parameters["chosen_by"] == "mean score"
    assert one.parameters["signal"] == "mask"
    assert one.parameters["signal.sparse"] == 1.0
    assert one.parameters["learned.shape"] == "probe"


@pytest.mark.parametrize("judge", [None, mean_score()])
def test_cost_is_counted_and_declared(model: Model, judge: Judge | None) -> None:
    refining = RefinedExplainer(learned(model), RefineConfig(steps=2), judge=judge)
    with metered() as meter:
        made = refining.explain(model, TEXTS)
    assert meter.backwards == sum(one.cost.backwards for one in made) == 2 * 2 * len(TEXTS)
    assert meter.forwards == sum(one.cost.forwards for one in made)
    units = model.units([Example(TEXTS[0])])[0]
    assert (made[0].cost.forwards, made[0].cost.backwards) == astuple(refining.cost(units))[:2]
    assert made[0].cost.seconds
    assert made[0].cost.evaluated


def test_an_estimate_has_the_memory_of_the_copies(model: Model) -> None:
    few, many = (RefinedExplainer(learned(model), RefineConfig(rows=rows)) for rows in (1, 32))
    assert many.memory(32, 10) == 32 * few.memory(1, 10)
    assert few.memory(1, 10) > 4 * 4 * sum(weight.numel() for weight in RowCopies(few.learned.shape).first.values())
    one, thirty_two = estimates(TEXTS, model, [few, many])
    assert one.memory
    assert thirty_two.memory
    assert thirty_two.memory - one.memory == pytest.approx(31 * few.memory(1, 12), rel=0.3)
    assert one.backwards == 10 * len(TEXTS) * 2


def test_fewer_rows_where_memory_is_short(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    copies = RowCopies(learned(model).shape)
    for free, rows in ((None, 32), (1, 1), (10 * copies.row_bytes, 5), (1 << 40, 32)):
        monkeypatch.setattr(_refine_memory, "free_bytes", lambda device, free=free: free)
        assert _refine_memory.rows_that_fit(copies, 32, torch.device("cpu")) == rows


def test_seconds_end_refinement(model: Model) -> None:
    explainer = learned(model)
    (one,) = RefinedExplainer(explainer, RefineConfig(steps=None, seconds=1e-9)).explain(model, TEXTS[:1])
    assert one.details["steps"] == 1
    (one,) = RefinedExplainer(explainer, RefineConfig(steps=1000, seconds=0.2)).explain(model, TEXTS[:1])
    assert 1 < one.details["steps"] < 1000


def test_any_learned_signal_is_refined_by_one_number_per_unit(model: Model) -> None:
    for signal in (Regression(), Labelling()):
        explainer = learned(model, "scorer", signal)
        made = refined(model, explainer, steps=2)
        for one, first in zip(made, explainer.explain(model, [*TEXTS, *OTHERS]), strict=True):
            assert one.signed == first.signed
            assert one.details["chosen step"] > 0


def test_the_explainer_is_not_changed(model: Model) -> None:
    explainer = learned(model, "scorer")
    before = explainer.parameters, [weight.requires_grad for weight in explainer.shape.parameters()]
    weights = tensors_hash(explainer.shape.state_dict())
    refined(model, explainer, steps=1, rank=1)
    assert tensors_hash(explainer.shape.state_dict()) == weights
    assert (explainer.parameters, [weight.requires_grad for weight in explainer.shape.parameters()]) == before
    assert not explainer.shape.training


def test_changes_of_low_rank_are_learned_faster_unless_a_rate_is_given() -> None:
    assert RefineConfig().rate == 4e-5
    assert RefineConfig(rank=4).parameters["learning_rate"] == 1e-3
    assert RefineConfig(rank=4, learning_rate=0.1).rate == 0.1


def test_low_rank_learns_fewer_numbers(model: Model) -> None:
    shape = learned(model, "scorer").shape
    full, low = RowCopies(shape), RowCopies(shape, rank=1)
    assert low.size < full.size / 3
    items = shape.collate(shape.read_explained(model, learned(model, "scorer").explain(model, TEXTS)))
    with torch.no_grad():
        np.testing.assert_allclose(low.outputs(low.weights(4), items), shape(items), atol=1e-5)


class Branching(Probe):
    """Decides by values what it computes, which cannot be done for all rows at once."""

    def forward(self, batch: ShapeBatch) -> Tensor:
        return super().forward(batch) if bool(batch["present"].all()) else super().forward(dict(batch))


def test_a_network_that_cannot_be_computed_together_is_computed_row_by_row(model: Model) -> None:
    plain = learned(model)
    branching = Branching(cast("Probe", plain.shape).config)
    branching.load_state_dict(plain.shape.state_dict())
    copies = RowCopies(branching)
    batch = batch_of_texts(plain, model, TEXTS)
    config = RefineConfig(steps=2, learning_rate=0.02)
    alike, other = (refine_rows(own, batch, OBJECTIVE, config) for own in (RowCopies(plain.shape), copies))
    assert not copies.together
    np.testing.assert_allclose(alike.scores, other.scores, atol=1e-5)


def test_a_text_that_diverges_keeps_its_unrefined_map_and_disturbs_no_other(model: Model) -> None:
    class Breaking(MaskSignal):
        def loss(self, outputs: Tensor, batch: TrainingBatch) -> Tensor:
            broken = torch.tensor([row["units"].example.text == TEXTS[1] for row in batch.extra])  # type: ignore[attr-defined]
            return super().loss(outputs, batch) * torch.where(broken, torch.nan, 1.0)

    explainer = learned(model)
    config = RefineConfig(steps=2, learning_rate=0.02)
    made = RefinedExplainer(explainer, config, signal=Breaking()).explain(model, TEXTS)
    sound = RefinedExplainer(explainer, config, signal=MaskSignal()).explain(model, TEXTS)
    assert made[1].scores == explainer.explain(model, TEXTS)[1].scores
    for number in (0, 2, 3):
        np.testing.assert_allclose(made[number].array, sound[number].array, atol=1e-6)


def test_a_text_without_units_stays_as_it_is(model: Model) -> None:
    explainer = learned(model, "scorer")
    (first,) = explainer.explain(model, TEXTS[:1])
    empty = dataclasses.replace(first, units=dataclasses.replace(first.units, regions=(), positions=()), scores=())
    assert RefinedExplainer(explainer, RefineConfig(steps=1)).revise(model, [empty]) == [empty]
    assert RefinedExplainer(explainer, RefineConfig(steps=1)).revise(model, []) == []


def test_what_cannot_be_refined_is_refused(model: Model) -> None:
    explainer = learned(model, "scorer")
    (prediction,) = model.predict([Example(TEXTS[0])])
    other = next(label for label in model.labels if label != prediction.label)
    with pytest.raises(TargetError, match="explains what is predicted"):
        RefinedExplainer(explainer).explain(model, TEXTS[:1], [other])
    black_box = load_model(keyword_predict, labels=model.labels)
    with pytest.raises(CapabilityError, match="differentiable"):
        RefinedExplainer(learned(black_box, "scorer")).explain(black_box, TEXTS[:1])
    with pytest.raises(ParameterError, match="refine by a signal without a reference"):
        RefinedExplainer(explainer, signal=Regression()).explain(model, TEXTS[:1])
    with pytest.raises(ParameterError, match="5 numbers per unit"):
        RefinedExplainer(explainer, signal=Labelling())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"steps": 0}, "steps of refinement must be at least 1, got 0"),
        ({"steps": 2.5}, "steps of refinement must be an int"),
        ({"step": 2}, "unknown setting of refinement 'step'"),
        ({"steps": None}, "needs an end"),
        ({"seconds": 0.0}, "seconds of refinement must be above 0"),
        ({"learning_rate": float("nan")}, "learning_rate of refinement"),
        ({"rows": 0}, "rows of refinement"),
        ({"rank": True}, "rank of refinement"),
        ({"weight_decay": -1.0}, "must not be negative"),
    ],
)
def test_bad_settings_are_named(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        RefineConfig.configured(**settings)


@pytest.mark.parametrize("architecture", ["bert", "distilbert", "albert", "modernbert", "deberta-v2"])
def test_encoders_are_computed_together(architecture: str) -> None:
    model = load_model(tiny_model(architecture), device="cpu")
    copies = compared_with_texts_alone(model, TEXTS[:3], steps=2, learning_rate=1e-3)
    assert copies.together
    names = set(copies.first)
    assert names
    assert not any("word_embeddings" in name for name in names)
    assert not names & {"prediction", "other"}, "vectors of labels are not refined"


def test_a_real_encoder_is_computed_together(shared: Path) -> None:
    model = load_model(str(shared / "weights" / "minilm-sst2"), device="cpu")
    assert compared_with_texts_alone(model, TEXTS[:2], steps=2).together


def compared_with_texts_alone(model: Model, texts: Sequence[str], **settings: Any) -> RowCopies:
    """Refine by an encoder that is a copy of the model, and compare with texts alone."""
    units = model.units([Example(text) for text in TEXTS])
    shape = SHAPES.get("encoder").build(model, units, 1, {"backbone": "explained", "seed": 0})
    explainer = LearnedExplainer(shape, MaskSignal(), ExplainerMetadata.of(model, method="aml"))
    together, alone = (RefinedExplainer(explainer, RefineConfig(rows=rows, **settings)) for rows in (32, 1))
    for first, second in zip(together.explain(model, texts), alone.explain(model, texts), strict=True):
        np.testing.assert_allclose(first.array, second.array, atol=1e-4)
    return together._copies


# It explains what is predicted, and refuses the other labels that this check gives.
CONFORMANCE = [
    (case, check)
    for case in ("bert", "vit", "prompt")
    for check in applicable(RefinedExplainer.card, case)
    if check != "target_by_name_and_index"
]


@pytest.mark.parametrize(("case", "check"), CONFORMANCE)
def test_it_conforms(case: str, check: str) -> None:
    target = make_case(case)
    shape = Probe.build(target, target.units(sample(target)), 1, {"width": 8, "seed": 0})
    about = ExplainerMetadata.of(target, method="aml", level=target.levels[0])
    explainer = LearnedExplainer(shape, MaskSignal(), about, force=check == "regression")
    CHECKS[check](RefinedExplainer(explainer, RefineConfig(steps=2, learning_rate=0.02)), target)


@pytest.mark.parametrize("wrapped", [False, True])
def test_fewer_texts_together_where_memory_runs_out(model: Model, wrapped: bool) -> None:
    class Large(MaskSignal):
        def loss(self, outputs: Tensor, batch: TrainingBatch) -> Tensor:
            if len(outputs) > 2:
                problem = torch.OutOfMemoryError("planted")
                if wrapped:
                    raise ModelError("out of memory on a single row of 9 tokens") from problem
                raise problem
            return super().loss(outputs, batch)

    explainer, config = learned(model), RefineConfig(steps=2, learning_rate=0.02)
    same = (text.replace("wonderful", word) for text in TEXTS[:1] for word in ("dull", "warm", "good", "old"))
    texts = [TEXTS[0], *same]
    made = RefinedExplainer(explainer, config, signal=Large()).explain(model, texts)
    for one, plain in zip(made, RefinedExplainer(explainer, config).explain(model, texts), strict=True):
        np.testing.assert_allclose(one.array, plain.array, atol=1e-4)


def test_progress_is_reported(model: Model) -> None:
    class Recorder:
        def __init__(self) -> None:
            self.works: list[str] = []
            self.done: dict[str, int] = {}

        def start(self, what: str, total: int) -> None:
            self.works.append(what)

        def advance(self, steps: int) -> None:
            self.done[self.works[-1]] = self.done.get(self.works[-1], 0) + steps

        def stop(self) -> None:
            self.works.pop()

    recorder = Recorder()
    explainer = RefinedExplainer(learned(model), RefineConfig(steps=3, rows=1))
    with listening(recorder):
        explainer.explain(model, TEXTS[:2])
    assert recorder.done["refining"] == 2
    assert recorder.done["updating"] == 2 * 100
    assert not recorder.works
