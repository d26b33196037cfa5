"""The mask signal: its loss against slow sums, its ways of masking, and what its published code got wrong."""

import contextlib
import dataclasses
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from didact.errors import CapabilityError, FormatError, ParameterError
from didact.models.compose import compose
from didact.models.network import NetworkModel
from didact.testing.tiny import TEXTS, tiny_image_model, tiny_images, tiny_model
from didact.trained.fit import fit
from didact.trained.fit_types import FitConfig
from didact.trained.samples import TrainingBatch, TrainingSamples, batch_of
from didact.trained.shapes.base import Shape
from didact.trained.shapes.probe import Probe
from didact.trained.shapes.scorer import Scorer
from didact.trained.signals.base import SignalTask
from didact.trained.signals.mask import MaskSignal
from didact.types import Example, Prediction, Units

EXAMPLES = [Example(text) for text in TEXTS]


def scorer(model: NetworkModel, outputs: int = 1) -> Shape:
    settings = {"width": 16, "blocks": 1, "min_count": 1, "seed": 0}
    return Scorer.build(model, model.units(EXAMPLES), outputs, settings)


def prepared(signal: MaskSignal, model: NetworkModel) -> tuple[TrainingSamples, TrainingBatch]:
    shape = scorer(model)
    samples = signal.prepare(SignalTask(model, EXAMPLES, EXAMPLES[:1]), shape)
    train = samples.of_epoch(0)
    return samples, batch_of(shape, train, np.arange(len(train)), torch.device("cpu"), samples.shared)


def logits_for(batch: TrainingBatch) -> Tensor:
    drawn = torch.randn(*batch.present.shape, 1, generator=torch.Generator().manual_seed(3))
    return drawn.requires_grad_(True)


def slow(signal: MaskSignal, model: NetworkModel, logits: Tensor, units: Units, prediction: Prediction) -> float:
    """The objective as it is printed, of one text, from probabilities in double precision."""
    a = 1 / (1 + np.exp(-logits.detach().double().numpy()))
    both = torch.from_numpy(np.stack([a, 1 - a]).astype(np.float32))
    (log_p,) = model.soft_outputs([units], [both])
    kept, left = log_p.double().numpy()
    l_p = -sum(share * value for share, value in zip(prediction.probabilities, kept, strict=True))
    l_a = float(np.mean(-np.log(1 - a))) if signal.penalty == "bce" else float(np.mean(a))
    l_inv = -math.log(1 - math.exp(left[prediction.index]))
    return float(signal.preserve * l_p + signal.sparse * l_a + signal.destroy * l_inv)


@pytest.mark.parametrize("penalty", ["bce", "l1"])
def test_the_loss_is_the_published_one_and_padding_does_not_count(penalty: str) -> None:
    model = compose(*tiny_model("bert", ("a", "b", "c")))
    signal = MaskSignal.configured(preserve=0.7, sparse=0.4, destroy=1.3, penalty=penalty)
    samples, batch = prepared(signal, model)
    outputs = logits_for(batch)
    losses = signal.loss(outputs, batch)
    for row, (sample, loss) in enumerate(zip(samples.of_epoch(0), losses.tolist(), strict=True)):
        units, prediction = sample.extra["units"], sample.extra["prediction"]
        own = outputs[row, : len(units), 0]
        assert loss == pytest.approx(slow(signal, model, own, units, prediction), rel=1e-4)
    (gradient,) = torch.autograd.grad(losses.sum(), outputs)
    assert not gradient[~batch.present].any()
    assert gradient[batch.present].abs().min() > 0


def test_a_loss_does_not_depend_on_its_neighbours() -> None:
    model = compose(*tiny_model("bert"))
    for masking in ("soft", "hard", "top", "replace", "omit", "learned"):
        signal = MaskSignal.configured(masking=masking)
        _samples, batch = prepared(signal, model)
        outputs = logits_for(batch)
        together = signal.loss(outputs, batch)
        for row in range(len(together)):
            alone = dataclasses.replace(
                batch, present=batch.present[[row]], targets=batch.targets[[row]], extra=[batch.extra[row]]
            )
            torch.testing.assert_close(signal.loss(outputs[[row]], alone), together[[row]], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_certain_prediction_has_a_finite_loss_and_gradient(dtype: torch.dtype) -> None:
    """-log(1 - p + 1e-30), as published, is 69 with no gradient, or with an infinite one, where p rounds to 1."""
    network, tokenizer = tiny_model("bert")
    with torch.no_grad():
        network.classifier.weight.mul_(100)
        network.classifier.bias.copy_(torch.tensor([-200.0, 200.0]))
    model = compose(network.to(dtype), tokenizer)
    signal = MaskSignal(preserve=0.0, sparse=0.0, destroy=1.0)
    _samples, batch = prepared(signal, model)
    outputs = logits_for(batch)
    losses = signal.loss(outputs, batch)
    assert max(one.probabilities[one.index] for one in model.predict(EXAMPLES)) == 1.0
    assert losses.isfinite().all()
    assert losses.max() > 69.1  # further than what 1e-30 allows: the distance still counts
    (gradient,) = torch.autograd.grad(losses.sum(), outputs)
    assert gradient.isfinite().all()
    assert gradient[batch.present].any()


def test_the_ends_of_a_mask_are_the_text_and_its_absence() -> None:
    model = compose(*tiny_model("bert"))
    for masking in ("soft", "hard", "omit", "learned", "replace"):
        signal = MaskSignal.configured(masking=masking, sparse=0.0, destroy=0.0)
        samples, batch = prepared(signal, model)
        whole = signal.loss(torch.full((*batch.present.shape, 1), 50.0), batch)
        for loss, sample in zip(whole.tolist(), samples.of_epoch(0), strict=True):
            shares = np.array(sample.extra["prediction"].probabilities)
            assert loss == pytest.approx(-(shares * np.log(shares)).sum(), abs=1e-4)  # the entropy of F(x): x' is x


def test_hard_masks_are_drawn_in_training_and_have_the_soft_gradient() -> None:
    model = compose(*tiny_model("bert"))
    signal = MaskSignal(masking="hard", sparse=0.0)
    _samples, batch = prepared(signal, model)
    outputs = logits_for(batch)
    drawn = {
        tuple(signal.loss(outputs, dataclasses.replace(batch, generator=torch.Generator().manual_seed(seed))).tolist())
        for seed in range(4)
    }
    assert len(drawn) > 1
    losses = signal.loss(outputs, batch)
    rounded = torch.where(outputs > 0, 60.0, -60.0)
    torch.testing.assert_close(losses, MaskSignal(sparse=0.0).loss(rounded, batch), rtol=1e-4, atol=1e-5)
    assert torch.autograd.grad(losses.sum(), outputs)[0][batch.present].any()


def test_top_marks_exactly_a_share_of_the_units() -> None:
    """In validation the highest ones, rounded down; in training noise and the drawn share decide."""
    model = compose(*tiny_model("bert"))
    signal = MaskSignal.configured(masking="top", shares=[0.1, 0.5, 0.9], sparse=0.0)
    _samples, batch = prepared(signal, model)
    outputs = logits_for(batch)
    ends = torch.full_like(outputs, -60.0)
    for row, present in enumerate(batch.present):
        count = max(1, int(present.sum()) // 2)
        ends[row, outputs[row, present, 0].topk(count).indices] = 60.0
    losses = signal.loss(outputs, batch)
    torch.testing.assert_close(losses, MaskSignal(sparse=0.0).loss(ends, batch), rtol=1e-4, atol=1e-5)
    assert torch.autograd.grad(losses.sum(), outputs)[0][batch.present].any()
    drawn = {
        tuple(signal.loss(outputs, dataclasses.replace(batch, generator=torch.Generator().manual_seed(seed))).tolist())
        for seed in range(4)
    }
    assert len(drawn) > 1


def test_omitted_units_are_taken_out() -> None:
    model = compose(*tiny_model("bert"))
    signal = MaskSignal(masking="omit", sparse=0.0, destroy=0.0)
    samples, batch = prepared(signal, model)
    outputs = logits_for(batch)
    losses = signal.loss(outputs, batch).tolist()
    for row, sample in enumerate(samples.of_epoch(0)):
        units, prediction = sample.extra["units"], sample.extra["prediction"]
        words = [
            units.example.text[r.start : r.end] for r, out in zip(units.regions, outputs[row], strict=False) if out > 0
        ]
        (shorter,) = model.predict([Example(" ".join(words))])
        wanted = -sum(p * math.log(q) for p, q in zip(prediction.probabilities, shorter.probabilities, strict=True))
        assert losses[row] == pytest.approx(wanted, rel=1e-4)


def test_a_learned_absent_vector_is_trained_and_the_given_one_is_not_changed() -> None:
    model = compose(*tiny_model("bert"))
    signal = MaskSignal(masking="learned", destroy=0.0)
    shape = scorer(model)
    samples = signal.prepare(SignalTask(model, EXAMPLES), shape)
    before = samples.shared["absent"].vector.detach().clone()
    mask = model.reader.absent_vector("mask", model.embed(model.units(EXAMPLES[:1]))[0])
    torch.testing.assert_close(before, mask, rtol=1e-4, atol=1e-5)
    config = FitConfig(epochs=6, learning_rate=0.05, device="cpu", warmup=0.0, schedule="constant", seed=1)
    fixed = dataclasses.replace(samples, trained=())
    learned, constant = (fit(shape, signal, given, config).history[-1].train_loss for given in (samples, fixed))
    assert learned != constant
    torch.testing.assert_close(samples.shared["absent"].vector.detach(), before)


class KilledError(Exception):
    """What ends a training in the middle."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Dying(MaskSignal):
    """Stops in its n-th step, as a killed process does."""

    def loss(self, outputs: Tensor, batch: TrainingBatch) -> Tensor:
        left = batch.shared["left"]
        left[0] -= 1  # type: ignore[index]
        if left[0] < 0:  # type: ignore[index]
            raise KilledError
        return super().loss(outputs, batch)


def test_a_killed_training_goes_on_with_the_learned_vector(tmp_path: Path) -> None:
    model = compose(*tiny_model("bert"))
    shape = scorer(model)
    samples = MaskSignal(masking="learned").prepare(SignalTask(model, EXAMPLES, EXAMPLES[:2]), shape)
    config = FitConfig(epochs=4, learning_rate=0.05, device="cpu", batch_rows=2, patience=None)
    histories = []
    for steps in ([10**6], [7, 10**6]):
        folder = tmp_path / str(len(steps))
        for left in steps:
            dying = dataclasses.replace(samples, shared={**samples.shared, "left": [left]})
            with contextlib.suppress(KilledError):
                histories.append(fit(shape, Dying(masking="learned"), dying, config, folder=folder).history)
    assert len(histories) == 2
    first, second = ([(one.train_loss, one.validation_loss) for one in history] for history in histories)
    assert first == second


def test_a_checkpoint_of_another_model_is_refused(tmp_path: Path) -> None:
    first, second = (compose(*tiny_model("bert", seed=seed)) for seed in (0, 1))
    shape, signal = scorer(first), MaskSignal()
    config = FitConfig(epochs=1, device="cpu")
    fit(shape, signal, signal.prepare(SignalTask(first, EXAMPLES), shape), config, folder=tmp_path)
    with pytest.raises(FormatError, match=r"another training: its .*explained model"):
        fit(shape, signal, signal.prepare(SignalTask(second, EXAMPLES), shape), config, folder=tmp_path)


def test_a_regressor_is_learned_by_its_number() -> None:
    model = compose(*tiny_model("bert", ("score",)))
    numbers = np.array([one.outputs[0] for one in model.predict(EXAMPLES)])
    samples, batch = prepared(MaskSignal(), model)
    signal = MaskSignal(sparse=0.0).fitted(samples)
    assert signal.spread == pytest.approx(numbers.std())
    outputs = logits_for(batch)
    losses = signal.loss(outputs, batch)
    for row, sample in enumerate(samples.of_epoch(0)):
        units = sample.extra["units"]
        a = outputs[row, : len(units), 0].detach().sigmoid()
        (both,) = model.soft_outputs([units], [torch.stack([a, 1 - a])])
        kept, left = ((both[:, 0].numpy() - numbers[row]) / numbers.std()).tolist()
        assert float(losses[row].detach()) == pytest.approx(kept**2 + math.exp(-abs(left)), rel=1e-4)
    assert torch.autograd.grad(losses.sum(), outputs)[0][batch.present].all()
    alone = dataclasses.replace(samples, train=samples.of_epoch(0)[:1])
    assert MaskSignal().fitted(alone).spread == 1.0  # equal numbers have no spread to divide by
    assert MaskSignal(spread=2.0).fitted(samples).spread == 2.0


def test_patches_of_images_are_masked_too() -> None:
    model = compose(*tiny_image_model())
    images = tiny_images()
    units, predictions = model.units(images), model.predict(images)
    for masking in ("soft", "hard", "top", "learned", "replace"):
        signal = MaskSignal.configured(masking=masking)
        shape = Probe.build(model, units, 1, {"seed": 0, "layers": [-1], "width": 8})
        samples = signal.prepare(SignalTask(model, images), shape)
        train = samples.of_epoch(0)
        batch = batch_of(shape, train, np.arange(len(train)), torch.device("cpu"), samples.shared)
        losses = signal.loss(shape(batch.inputs), batch)
        assert losses.shape == (len(predictions),)
        assert losses.isfinite().all()
        assert all(weight.grad is None for weight in model.network.parameters())


def test_patches_cannot_be_taken_out_of_an_image() -> None:
    model, images = compose(*tiny_image_model()), tiny_images()
    shape = Probe.build(model, model.units(images), 1, {"seed": 0, "layers": [-1], "width": 8})
    with pytest.raises(ParameterError, match="unknown perturbation 'delete'; allowed: mean"):
        MaskSignal(masking="omit").prepare(SignalTask(model, images), shape)


def test_models_of_spans_and_of_words_are_refused() -> None:
    model = compose(*tiny_model("bert", auto_class="AutoModelForTokenClassification"))
    with pytest.raises(CapabilityError, match="class or a number that is predicted of the whole input"):
        MaskSignal().prepare(SignalTask(model, EXAMPLES), scorer(model))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"preserve": -1.0}, "preserve of mask must be at least 0, got -1.0"),
        ({"sparse": math.nan}, "sparse of mask must be a float, got nan"),
        ({"penalty": "l2"}, "penalty of mask must be"),
        ({"masking": "blur"}, "masking of mask must be"),
        ({"masking": "top", "shares": ()}, "shares of mask must be above 0 and below 1"),
        ({"masking": "top", "shares": (0.2, 1.0)}, "shares of mask must be above 0 and below 1"),
        ({"preserve": 0.0, "destroy": 0.0}, "no term decides which units to mark"),
        ({"spread": 0.0}, "spread of mask must be above 0"),
    ],
)
def test_wrong_settings_are_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        MaskSignal.configured(**settings)
