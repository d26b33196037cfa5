"""The scaffold signal: its gradient, its populations, what is apart from what, and that a kill changes nothing."""

import copy
import dataclasses
from pathlib import Path
from typing import cast

import numpy as np
import pytest
import torch
from torch import Tensor

from didact.data.corpus import generate
from didact.errors import CapabilityError, ParameterError
from didact.models.compose import compose
from didact.models.load import load_model
from didact.models.network import NetworkModel
from didact.ops.units import word_spans
from didact.protocols import Model
from didact.students.base import Hint, LabelledExample, StudentRun, TaskSetup
from didact.students.channels.prior import PriorChannel
from didact.students.kinds.ridge import Ridge
from didact.students.tokenized import WordNumbers, worded
from didact.testing.tiny import keyword_predict, tiny_image_model, tiny_model
from didact.trained.explainer import LearnedExplainer
from didact.trained.fit import fit
from didact.trained.fit_types import FitConfig, Fitted
from didact.trained.metadata import ExplainerMetadata
from didact.trained.samples import TrainingBatch, TrainingSamples, batch_of
from didact.trained.scaffolding.closed_form import ClosedFormConfig, ClosedFormStudents
from didact.trained.scaffolding.group import GroupTexts, StudentGroup
from didact.trained.scaffolding.lives import Lives
from didact.trained.scaffolding.population import Population
from didact.trained.scaffolding.positions import UnitPositions
from didact.trained.shapes.base import Shape
from didact.trained.shapes.head_mix import HeadMixShape
from didact.trained.shapes.probe import Probe
from didact.trained.shapes.scorer import Scorer
from didact.trained.signals.base import SignalTask
from didact.trained.signals.scaffold import ScaffoldSignal
from didact.types import Example, Image

EXAMPLES = generate(60, seed=3)
TRAIN, VALIDATION = EXAMPLES[:48], EXAMPLES[48:]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("student")
    for part in tiny_model("bert", seed=1):
        part.save_pretrained(path)
    return str(path)


@pytest.fixture(scope="module")
def model() -> NetworkModel:
    return compose(*tiny_model("bert"))


def scaffold(folder: str, **settings: object) -> ScaffoldSignal:
    own = {"students": 2, "examples": 16, "batch": 4, "outer_batch": 8, "resets": 4, "inner_rate": 0.05}
    return ScaffoldSignal.configured(**{**own, "student": {"model": folder, "max_length": 16}, **settings})


def probe(model: NetworkModel, seed: int = 0) -> Shape:
    return Probe.build(model, model.units(TRAIN[:1]), 1, {"width": 8, "seed": seed})


def prepared(signal: ScaffoldSignal, model: NetworkModel) -> tuple[Shape, TrainingSamples]:
    shape = probe(model)
    return shape, signal.prepare(SignalTask(model, TRAIN, VALIDATION), shape)


def first_batch(shape: Shape, samples: TrainingSamples) -> TrainingBatch:
    assert samples.batches is not None
    rows = samples.batches(0)[0]
    return batch_of(shape, samples.of_epoch(0), rows, torch.device("cpu"), samples.shared)


@pytest.mark.parametrize("meta", ["linear", "look_ahead:1", "unrolled:2", "closed_form"])
def test_its_derivative_is_that_of_the_outer_loss(meta: str, folder: str, model: NetworkModel) -> None:
    """Finite differences along a direction of the outputs, through softmax, positions, students and their steps."""
    signal = scaffold(folder, meta=meta, radius=1e-4, difference="central")
    shape, samples = prepared(signal, model)
    batch = first_batch(shape, samples)
    group = cast("StudentGroup", samples.shared["students"])
    if isinstance(group, Population):
        group.double()
    outputs, direction = (
        torch.randn(*batch.present.shape, 1, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        for seed in (0, 1)
    )

    def losses(given: Tensor) -> Tensor:
        shared = {**samples.shared, "students": copy.deepcopy(group)}
        drawn = torch.Generator().manual_seed(7)
        return signal.loss(given, dataclasses.replace(batch, shared=shared, generator=drawn))

    live = outputs.clone().requires_grad_()
    each = losses(live)
    assert each.shape == (len(batch.extra),)
    (gradient,) = torch.autograd.grad(each.mean(), live)
    ends = [float(losses(outputs + sign * 1e-5 * direction).mean()) for sign in (1, -1)]
    assert float((gradient * direction).sum()) == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-4)
    assert gradient.abs().max() > 1e-7
    assert not gradient[~batch.present].any()


def test_the_explainer_learns_which_words_decide() -> None:
    """The teacher knows a few words; after training with exact gradients, explanations lie on these."""
    model = load_model(keyword_predict, labels=("negative", "positive"))
    rng = np.random.default_rng(0)
    words = ("wonderful", "warm", "dull", "worse", *(f"filler{number}" for number in range(30)))
    texts = [Example(" ".join(rng.choice(words, size=8))) for _ in range(160)]
    signal = ScaffoldSignal(meta="closed_form", students=4, examples=60, student={"penalty": 0.3})
    shape = Scorer.build(model, model.units(texts), 1, {"width": 8, "blocks": 1, "min_count": 1, "seed": 0})
    samples = signal.prepare(SignalTask(model, texts[:140], texts[140:]), shape)
    config = FitConfig(epochs=30, learning_rate=2e-2, device="cpu", patience=None, schedule="constant", warmup=0.0)
    fitted = fit(shape, signal, samples, config)
    before, after = (_on_keywords(signal, own, model, texts[140:]) for own in (shape, fitted.shape))
    assert after > before + 0.2
    assert fitted.run.best.validation_loss < fitted.history[0].validation_loss  # type: ignore[operator]


def _on_keywords(signal: ScaffoldSignal, shape: Shape, model: Model, texts: list[Example]) -> float:
    """Mean share of e_T that lies on words that the teacher knows."""
    explained = LearnedExplainer(shape, signal, ExplainerMetadata.of(model, method="test")).explain(model, texts)
    shares = []
    for one in explained:
        e_t = np.exp(one.array) / np.exp(one.array).sum()
        shares.append(sum(share for share, word in zip(e_t, one.units.texts, strict=True) if "filler" not in word))
    return float(np.mean(shares))


def test_students_learn_along(folder: str, model: NetworkModel) -> None:
    fitted = trained(scaffold(folder, resets=0, ages="equal", inner_rate=0.01, beta=0.1), model, epochs=6)
    losses = [epoch.validation_loss for epoch in fitted.history]
    assert min(losses[1:]) < losses[0]  # type: ignore[type-var, operator]
    before = probe(model).state_dict()
    assert any(not torch.equal(before[name], weight) for name, weight in fitted.shape.state_dict().items())


def trained(signal: ScaffoldSignal, model: NetworkModel, where: Path | None = None, **changes: object) -> Fitted:
    shape, samples = prepared(signal, model)
    settings = {"epochs": 3, "learning_rate": 1e-2, "device": "cpu", "patience": None, **changes}
    return fit(shape, signal, samples, FitConfig.configured(**settings), folder=where)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Killed(ScaffoldSignal):
    """Raises in the middle of an epoch, once per number in the file."""

    def loss(self, outputs: Tensor, batch: TrainingBatch) -> Tensor:
        students = cast("Population", batch.shared["students"])
        if batch.generator is not None and int(students.done) == KILLS.get("at"):
            del KILLS["at"]
            raise KeyboardInterrupt
        return super().loss(outputs, batch)


KILLS: dict[str, int] = {}


@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
def test_a_killed_training_goes_on_exactly(optimizer: str, folder: str, model: NetworkModel, tmp_path: Path) -> None:
    student = {"model": folder, "max_length": 16, "optimizer": optimizer}
    signal = Killed(**scaffold(folder, student=student, resets=2, examples=8).parameters)  # type: ignore[arg-type]
    whole = trained(signal, model, checkpoint_every=1)
    for at in (1, 4):
        KILLS["at"] = at
        with pytest.raises(KeyboardInterrupt):
            trained(signal, model, tmp_path, checkpoint_every=1)
    resumed = trained(signal, model, tmp_path, checkpoint_every=1)
    for name, weight in whole.shape.state_dict().items():
        assert torch.equal(weight, resumed.shape.state_dict()[name]), name
    assert [epoch.validation_loss for epoch in whole.history] == [epoch.validation_loss for epoch in resumed.history]


def test_pool_outer_and_validation_texts_are_apart(folder: str, model: NetworkModel) -> None:
    """The published code chooses the epoch by the texts of the outer loss."""
    _, samples = prepared(scaffold(folder, student={"model": folder}), model)
    population = cast("Population", samples.shared["students"])
    parts = [population.tokens.ids[:34], population.tokens.ids[34:48], population.tokens.ids[48:]]
    assert [len(part) for part in parts] == [34, 14, 12]
    assert len(samples.of_epoch(0)) == 34
    assert len(samples.validation) == 12
    rows = {tuple(row) for part in parts for row in part.tolist()}
    assert len(rows) == len(EXAMPLES)
    assert samples.batches is not None
    assert max(int(window.max()) for epoch in range(6) for window in samples.batches(epoch)) < 34


def test_validation_does_not_teach(folder: str, model: NetworkModel) -> None:
    signal = scaffold(folder)
    shape, samples = prepared(signal, model)
    population = cast("Population", samples.shared["students"])
    before = copy.deepcopy(population.state_dict())
    rows = np.arange(len(samples.validation))
    batch = batch_of(shape, samples.validation, rows, torch.device("cpu"), samples.shared)
    losses = signal.loss(shape(batch.inputs), batch)
    assert losses.shape == (12,)
    assert not losses.requires_grad
    together = population.objective(population.batch(np.tile(rows + 48, (2, 1)))).task.mean()
    assert losses.mean().item() == pytest.approx(together.item(), rel=1e-5)
    for name, value in population.state_dict().items():
        assert torch.equal(value, before[name])


def test_students_of_images_learn_from_patches(tmp_path: Path) -> None:
    for part in tiny_image_model(seed=1):
        part.save_pretrained(tmp_path)
    model = compose(*tiny_image_model())
    rng = np.random.default_rng(0)
    images = [Example(Image(rng.integers(0, 255, (16, 16, 3)).astype(np.uint8))) for _ in range(20)]
    signal = scaffold(str(tmp_path), examples=8, student={"model": str(tmp_path)}, radius=1e-4, difference="central")
    shape = HeadMixShape.build(model, model.units(images[:1]), 1, {}).double()
    samples = signal.prepare(SignalTask(model, images[:16], images[16:]), shape)
    population = cast("Population", samples.shared["students"])
    population.double()
    batch = first_batch(shape, samples)
    inputs = {name: value.double() if value.is_floating_point() else value for name, value in batch.inputs.items()}

    def losses() -> Tensor:
        shared = {**samples.shared, "students": copy.deepcopy(population)}
        drawn = torch.Generator().manual_seed(7)
        return signal.loss(shape(inputs), dataclasses.replace(batch, shared=shared, generator=drawn)).mean()

    (gradient,) = torch.autograd.grad(losses(), shape.phi)
    direction = torch.randn(gradient.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    ends = []
    for step in (1e-4, -2e-4):
        shape.phi.data += step * direction
        ends.append(float(losses().detach()))
    assert float(gradient @ direction) == pytest.approx((ends[0] - ends[1]) / 2e-4, rel=1e-4)


def test_a_copy_of_a_population_learns_by_itself(folder: str, model: NetworkModel) -> None:
    _, samples = prepared(scaffold(folder), model)
    population = cast("Population", samples.shared["students"])
    other, before = copy.deepcopy(population), copy.deepcopy(population.state_dict())
    places = other.windows(0)[0].reshape(2, 1, 4)
    hints = torch.from_numpy(other.tokens.text[places]).float()
    other.window(places, hints, torch.Generator())
    for name, value in population.state_dict().items():
        assert torch.equal(value, before[name])
    assert any(not torch.equal(value, before[name]) for name, value in other.state_dict().items())
    assert other.tokens is population.tokens


def test_mixed_ages_have_a_student_at_every_stage() -> None:
    lives = Lives(students=4, examples=20, batch=4, resets=8, ages="mixed", seed=5)
    ages = [sorted(lives.age(student, epoch) for student in range(4)) for epoch in range(40)]
    assert ages[0] == [0, 0, 0, 0]
    assert ages[24:32] == [sorted((epoch + offset) % 8 for offset in (0, 2, 4, 6)) for epoch in range(24, 32)]
    assert [lives.born(epoch) for epoch in (1, 2, 4, 6, 8)] == [[], [3], [2], [1], [0]]
    equal = dataclasses.replace(lives, ages="equal")
    assert {equal.age(student, 11) for student in range(4)} == {3}
    assert equal.born(8) == [0, 1, 2, 3]


def test_each_student_learns_its_own_texts_and_a_fresh_one_learns_others() -> None:
    lives = Lives(students=3, examples=10, batch=4, window=3, resets=4, ages="equal", seed=5)
    lengths = np.arange(3, 53)
    assert (lives.passes, lives.windows, lives.life) == (2, 1, 2)
    epochs = [lives.places(lengths, epoch) for epoch in range(4)]
    assert all(one.shape == (1, 3, 3, 4) for one in epochs)
    own = [[set(one[:, student].ravel().tolist()) for one in epochs] for student in range(3)]
    for sets in own:
        assert len(sets[0] | sets[1]) <= 10
        assert len(sets[0] | sets[2]) > 10
    assert own[0][0] != own[1][0]
    np.testing.assert_array_equal(lives.places(lengths, 2), epochs[2])


def test_a_fresh_student_takes_the_place_of_an_old_one(folder: str, model: NetworkModel) -> None:
    signal = scaffold(folder, students=3, resets=3)
    shape, samples = prepared(signal, model)
    population = cast("Population", samples.shared["students"])
    first = {
        n: p.detach().clone() for n, p in population.objective.named_parameters() if "encoder" in n and p.requires_grad
    }
    assert samples.batches is not None
    for epoch in range(2):
        for rows in samples.batches(epoch):
            batch = batch_of(shape, samples.of_epoch(0), rows, torch.device("cpu"), samples.shared)
            if population.done == 4:
                old = {n: value.detach().clone() for n, value in population.objective.named_parameters()}
            signal.loss(shape(batch.inputs), dataclasses.replace(batch, generator=torch.Generator()))
            if population.done == 5:
                break
    own = {name: value.detach() for name, value in population.objective.named_parameters()}
    moved = [
        [float(sum((at[name][student] - value[student]).norm() for name, value in first.items())) for at in (old, own)]
        for student in range(3)
    ]
    assert moved[0][1] > 0.9 * moved[0][0]
    assert moved[2][1] < 0.5 * moved[2][0], "the third student was replaced and has made one step since"


def test_weights_of_units_reach_the_positions_that_share_their_characters(model: NetworkModel) -> None:
    (own,) = model.units([Example("a truly wonderful film")], "word")
    words = worded([own.example], WordNumbers(()), 100)
    weights = torch.tensor([[0.1, 0.2, 0.3, 0.4]], dtype=torch.float64)
    same = UnitPositions(words, [own], torch.device("cpu")).weights(weights, torch.tensor([0]))
    assert torch.equal(same, weights)
    pieces = dataclasses.replace(
        words,
        starts=np.array([[0, 2, 8, 14]]),
        ends=np.array([[1, 7, 14, 22]]),
    )
    split = UnitPositions(pieces, [own], torch.device("cpu")).weights(weights, torch.tensor([0]))
    torch.testing.assert_close(split, torch.tensor([[0.1, 0.2, 0.3, 0.35]], dtype=torch.float64))


def labelled(texts: list[Example]) -> list[LabelledExample]:
    return [LabelledExample(text, int(text.label == "positive")) for text in texts]


def test_students_in_closed_form_are_the_ridge_students() -> None:
    setup = TaskSetup(channel=PriorChannel())
    texts = GroupTexts(labelled(TRAIN[:30]), labelled(TRAIN[30:]), labelled(VALIDATION))
    group = ClosedFormStudents(Ridge(), texts, setup, ClosedFormConfig(students=1, examples=20))
    (window,) = group.windows(0)
    hints = torch.rand(group.tokens.text[window].shape, generator=torch.Generator().manual_seed(0)).double()
    hints = torch.where(torch.from_numpy(group.tokens.text[window]), hints, 0.0)
    given = [own[: int(count)].numpy() for own, count in zip(hints, group.tokens.lengths[window], strict=True)]
    as_hints = [Hint(tuple(word_spans(TRAIN[k].text)), w) for k, w in zip(window.tolist(), given, strict=True)]
    (outcome,) = Ridge().train_and_predict(
        texts.pool,
        [StudentRun(window, as_hints, 1.0, 0)],
        [one.example for one in [*texts.outer, *texts.validation]],
        setup,
    )
    outputs = group.outputs(window, hints)
    np.testing.assert_array_equal((outputs[:, 0] > 0).long().numpy(), outcome.answers)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"meta": "quadratic"}, "linear, exact, closed_form, unrolled:K or look_ahead:K"),
        ({"meta": "linear:3"}, "got 'linear:3'"),
        ({"students": 0}, "students of scaffold must be at least 1"),
        ({"resets": 0}, "set ages to 'equal'"),
        ({"outer": 1.0}, "outer of scaffold is a share"),
        ({"inner_rate": 0.0}, "inner_rate of scaffold must be above 0"),
        ({"beta": 0.0}, "beta of scaffold must be above 0"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, object], message: str, folder: str) -> None:
    with pytest.raises(ParameterError, match=message):
        scaffold(folder, **settings)


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"student_kind": "ridge", "student": {}}, CapabilityError, "make no steps; use meta='closed_form'"),
        ({"channel": "prior"}, CapabilityError, "does not reach the student transformer"),
        ({"meta": "closed_form", "student": {"features": "frozen"}}, CapabilityError, "ridge students on words"),
        ({"student": {"dropout": 0.1}}, ParameterError, "set dropout of transformer to 0"),
    ],
)
def test_students_that_do_not_fit_are_refused(
    settings: dict[str, object], error: type[Exception], message: str, folder: str, model: NetworkModel
) -> None:
    with pytest.raises(error, match=message):
        prepared(scaffold(folder, **settings), model)
