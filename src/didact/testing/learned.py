"""What every shape and every signal must pass together, as plain functions that third parties can run too.

``CHECKS`` maps a name to a check; ``fits`` returns whether a shape and a signal can be trained on a case (a kind of
model); ``check`` runs a check and raises AssertionError with what went wrong. A third party's test file::

    import pytest
    from didact.testing.learned import CHECKS, check

    @pytest.mark.parametrize("name", CHECKS)
    def test_my_shape(name): check(name, MyShape, Ranking, "black_box")
"""

from __future__ import annotations

import dataclasses
import functools
import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch

from didact.attribution.occlusion import Occlusion
from didact.models.load import load_model
from didact.protocols import Model
from didact.stats.correlation import spearman
from didact.testing.tiny import TEXTS, keyword_predict, tiny_model
from didact.trained.checkpoints import tensors_hash
from didact.trained.explainer import LearnedExplainer
from didact.trained.fidelity import comparable
from didact.trained.fit import fit
from didact.trained.fit_types import FitConfig, Fitted
from didact.trained.labels import ReferenceLabels, from_explanations
from didact.trained.metadata import ExplainerMetadata
from didact.trained.samples import Sample, TrainingSamples, batch_of
from didact.trained.shapes.base import Shape, ShapeCard
from didact.trained.signals.base import REFERENCE, Signal, SignalCard, SignalTask
from didact.types import Example, Explanation, Floats

CASES = ("black_box", "bert")

_WORDS = ("wonderful", "warm", "good", "dull", "worse", "avoid", "film", "plot", "acting", "the", "a", "with", "saw")
_TRAIN, _APART = 80, 20
_BETTER = 0.3
"""Mean rank correlation with the reference on new texts that training must gain or exceed; chance is 0."""


@dataclass(frozen=True, eq=False)
class Pairing:
    """A shape and a signal with what they are trained on.

    Attributes:
        model: the explained model.
        shape: class of the shape.
        signal: with its settings.
        labels: the toy reference's explanations of all texts.
        train: training texts.
        apart: other texts.
        settings: of the shape.
        epochs: of the training.
    """

    model: Model
    shape: type[Shape]
    signal: Signal
    labels: ReferenceLabels
    train: Sequence[Example]
    apart: Sequence[Example]
    settings: Mapping[str, object] = field(default_factory=dict)
    epochs: int = 12

    @property
    def explained(self) -> list[Explanation]:
        """The reference's explanations of the other texts."""
        return self.labels.of(self.apart)[0]

    @functools.cached_property
    def built(self) -> Shape:
        """The untrained shape."""
        return self.build()

    def build(self) -> Shape:
        """An untrained shape, built anew."""
        units = [explanation.units for explanation in self.labels.of(self.train)[0]]
        return self.shape.build(self.model, units, self.signal.outputs, {"seed": 0, **self.settings})

    @functools.cached_property
    def samples(self) -> TrainingSamples:
        """What the signal prepares."""
        return self.signal.prepare(SignalTask(self.model, self.train, self.apart, self.labels), self.built)

    @functools.cached_property
    def fitted(self) -> Fitted:
        """A short training."""
        config = FitConfig(epochs=self.epochs, learning_rate=1e-2, device="cpu", batch_rows=16)
        return fit(self.built, self.signal, self.samples, config)

    @property
    def trained(self) -> Shape:
        """The shape after a short training."""
        return self.fitted.shape

    def explainer(self, shape: Shape) -> LearnedExplainer:
        """The shape as an explainer."""
        return LearnedExplainer(shape, self.signal, ExplainerMetadata.of(self.model, method="conformance"))


Check = Callable[[Pairing], None]


def offered(case: str) -> frozenset[str]:
    """What a shape or signal may need on a case: the model's capabilities, and a reference."""
    return case_model(case).capabilities | {REFERENCE}


def fits(shape: ShapeCard, signal: SignalCard, case: str) -> bool:
    """Whether the case offers what both need, and the shape gives as many numbers as the signal asks."""
    return shape.needs | signal.needs <= offered(case) and shape.outputs in ("any", signal.outputs)


def check(
    name: str,
    shape: type[Shape],
    signal: type[Signal],
    case: str = "black_box",
    *,
    settings: Mapping[str, object] | None = None,
    signal_settings: Mapping[str, object] | None = None,
) -> None:
    """Run one check; settings of shape and signal, such as a small width, make it quick."""
    own, of_signal = (json.dumps(dict(given or {}), sort_keys=True) for given in (settings, signal_settings))
    CHECKS[name](_pairing(shape, signal, case, own, of_signal))


def learns(pairing: Pairing) -> None:
    """After a short training it ranks the units of new texts more like the reference than chance does.

    Where the signal needs no reference, its loss on new texts has fallen, or that of students that learn along.
    """
    if pairing.samples.carried:
        values = [epoch.validation_loss for epoch in pairing.fitted.history]
        assert min(values[1:]) < values[0], f"losses of students on new texts, by epoch: {values}"  # type: ignore[type-var, operator]
        return
    if REFERENCE not in pairing.signal.card.needs:
        apart = TrainingSamples(pairing.samples.validation, (), pairing.samples.shared)
        with torch.no_grad():
            before, after = (float(_losses(pairing, shape, apart).mean()) for shape in (pairing.built, pairing.trained))
        assert after < before, f"loss on new texts: {before:.3f} before, {after:.3f} after"
        return
    before, after = (_agreement(pairing, shape) for shape in (pairing.built, pairing.trained))
    assert after > max(_BETTER, before), f"rank correlation with the reference: {before:.2f} before, {after:.2f} after"


def losses_are_per_document(pairing: Pairing) -> None:
    """A finite loss per document, with a gradient for every trained parameter that the batch reaches."""
    shape = pairing.build()
    samples = _some(pairing.samples)
    losses = _losses(pairing, shape, TrainingSamples(samples, (), pairing.samples.shared))
    assert losses.shape == (len(samples),), f"losses have the shape {tuple(losses.shape)} for {len(samples)} documents"
    assert losses.isfinite().all()
    torch.autograd.backward(losses.mean())
    gradients = [weight.grad for weight in shape.parameters() if weight.requires_grad and weight.grad is not None]
    assert gradients, "no parameter has a gradient"
    assert all(bool(gradient.isfinite().all()) for gradient in gradients)
    assert any(float(gradient.abs().max()) > 0 for gradient in gradients), "the loss does not depend on the shape"


def outputs_fit(pairing: Pairing) -> None:
    """A shape gives as many numbers per unit as the signal asks, and the signal one score of them."""
    shape, signal = pairing.built, pairing.signal
    assert shape.outputs == signal.outputs
    items = shape.read_explained(pairing.model, pairing.explained[:3])
    batch = shape.collate(items)
    counts = [len(explanation.units) for explanation in pairing.explained[:3]]
    assert batch["present"].sum(1).tolist() == counts, "present does not mark the units"
    with torch.no_grad():
        outputs = shape.eval()(batch)
        scores = signal.scores(outputs)
    assert outputs.shape == (*batch["present"].shape, signal.outputs)
    assert scores.shape == batch["present"].shape


def saved_and_loaded(pairing: Pairing) -> None:
    """A loaded explainer gives the same scores and has the same settings."""
    explainer = pairing.explainer(pairing.trained)
    with tempfile.TemporaryDirectory() as folder:
        explainer.save_pretrained(folder)
        loaded = LearnedExplainer.from_pretrained(folder, model=pairing.model, device="cpu")
    assert loaded.parameters == explainer.parameters
    for first, second in zip(_scores(pairing, explainer), _scores(pairing, loaded), strict=True):
        np.testing.assert_array_equal(first, second)


def settings_round_trip(pairing: Pairing) -> None:
    """Settings are plain JSON values from which the same shape and signal can be made."""
    shape, signal = pairing.built, pairing.signal
    plain = json.loads(json.dumps(shape.settings))
    with tempfile.TemporaryDirectory() as name:
        shape.save_reading(Path(name))
        again = type(shape).from_settings(plain, Path(name))
        assert json.loads(json.dumps(again.settings)) == plain
        assert {n: w.shape for n, w in again.state_dict().items()} == {
            n: w.shape for n, w in shape.state_dict().items()
        }
    assert type(signal)(**json.loads(json.dumps(signal.parameters))) == signal


def batches_do_not_matter(pairing: Pairing) -> None:
    """Neither padding, nor the order of a batch, nor who else is in it changes a score."""
    explainer = pairing.explainer(pairing.trained)
    examples = list(pairing.apart)
    together = _scores(pairing, explainer)
    backwards = [one.array for one in explainer.explain(pairing.model, examples[::-1])][::-1]
    alone = [explainer.explain(pairing.model, [example])[0].array for example in examples[:5]]
    for first, second in [*zip(together, backwards, strict=True), *zip(together, alone, strict=False)]:
        np.testing.assert_allclose(first, second, atol=1e-5)


def same_seed_same_weights(pairing: Pairing) -> None:
    """Building and training twice from one seed gives equal weights; another seed of the training gives others."""
    config = FitConfig(epochs=2, learning_rate=1e-2, device="cpu", batch_rows=8)
    first, second = (pairing.build() for _ in range(2))
    assert tensors_hash(first.state_dict()) == tensors_hash(second.state_dict())
    made = [
        fit(first, pairing.signal, pairing.samples, dataclasses.replace(config, seed=seed)).shape for seed in (0, 0, 1)
    ]
    hashes = [tensors_hash(shape.state_dict()) for shape in made]
    assert hashes[0] == hashes[1] != hashes[2]


def odd_texts(pairing: Pairing) -> None:
    """Texts without units, of one word and of unknown words are explained: one finite score per unit."""
    explainer = pairing.explainer(pairing.trained)
    odd = ["good", "zyx qwv zyx", " ".join(["good film"] * 40)]
    for explanation in explainer.explain(pairing.model, odd):
        assert len(explanation.scores) == len(explanation.units) > 0
        assert np.isfinite(explanation.array).all()
    (units,) = pairing.model.units([Example("good")])
    empty = dataclasses.replace(units, regions=(), positions=())
    prediction = pairing.model.predict([Example("good")])[0]
    items = pairing.trained.read(pairing.model, [units, empty], [0, 0], [prediction] * 2)
    batch = pairing.trained.collate(items)
    assert batch["present"].tolist() == [[True], [False]], "a text without units has none present"


def targets_and_signs(pairing: Pairing) -> None:
    """An explanation names the given target, and its scores are signed as the signal declares."""
    explainer = pairing.explainer(pairing.trained)
    for label in pairing.model.labels:
        (explanation,) = explainer.explain(pairing.model, [TEXTS[0]], [label])
        assert explanation.target.label == label
        assert explanation.signed == pairing.signal.signed
        assert explanation.method == "conformance"


CHECKS: Mapping[str, Check] = {
    function.__name__: function
    for function in (
        outputs_fit,
        losses_are_per_document,
        learns,
        saved_and_loaded,
        settings_round_trip,
        batches_do_not_matter,
        same_seed_same_weights,
        odd_texts,
        targets_and_signs,
    )
}


@functools.cache
def case_model(case: str) -> Model:
    """The explained model of a case."""
    if case == "black_box":
        return load_model(keyword_predict, labels=("negative", "positive"))
    return load_model(tiny_model(case), device="cpu")


@functools.cache
def case_texts(case: str) -> tuple[list[Example], list[Explanation]]:
    """Texts in which few words decide, and what the toy reference gives for them.

    The reference of a network scores words by the same known list, as a random network has no evidence to learn.
    """
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.permutation(_WORDS)[: rng.integers(4, 10)]) for _ in range(_TRAIN + _APART)]
    examples = [Example(text) for text in dict.fromkeys(texts)]
    scored = Occlusion().explain(case_model("black_box"), examples, ["positive"] * len(examples))
    if case == "black_box":
        return examples, scored
    model = case_model(case)
    own = Occlusion().explain(model, examples, ["positive"] * len(examples))
    return examples, [dataclasses.replace(mine, scores=known.scores) for mine, known in zip(own, scored, strict=True)]


@functools.cache
def _pairing(shape: type[Shape], signal: type[Signal], case: str, settings: str, of_signal: str) -> Pairing:
    examples, explained = case_texts(case)
    suited = signal.suited(signed=True, **json.loads(of_signal))
    cut = len(examples) - _APART
    own = json.loads(settings)
    return Pairing(case_model(case), shape, suited, from_explanations(explained), examples[:cut], examples[cut:], own)


def _agreement(pairing: Pairing, shape: Shape) -> float:
    explainer = pairing.explainer(shape)
    targets = [explanation.target for explanation in pairing.explained]
    learned = explainer.explain(pairing.model, list(pairing.apart), targets)
    pairs = zip(learned, pairing.explained, strict=True)
    return float(np.nanmean([spearman(ours.array, comparable(theirs, pairing.signal)) for ours, theirs in pairs]))


def _scores(pairing: Pairing, explainer: LearnedExplainer) -> list[Floats]:
    return [explanation.array for explanation in explainer.explain(pairing.model, list(pairing.apart))]


def _some(samples: TrainingSamples) -> list[Sample]:
    """A few samples, or those of one of the signal's own batches."""
    first = samples.of_epoch(0)
    return list(first)[:6] if samples.batches is None else [first[row] for row in samples.batches(0)[0]]


def _losses(pairing: Pairing, shape: Shape, samples: TrainingSamples) -> torch.Tensor:
    chosen = samples.of_epoch(0)
    batch = batch_of(shape, chosen, np.arange(len(chosen)), torch.device("cpu"), samples.shared)
    return pairing.signal.loss(shape(batch.inputs), dataclasses.replace(batch, generator=torch.Generator()))
