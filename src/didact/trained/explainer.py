"""A trained shape as an explainer: one pass per text, saved and loaded with everything that made it."""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import ClassVar, Self

import numpy as np
import torch

from didact.attribution.base import checked
from didact.errors import MismatchError, ParameterError
from didact.meter import metered
from didact.models.device import choose_device
from didact.models.outputs import predicted_targets
from didact.models.planner import Ints, run
from didact.protocols import ExampleLike, Model, QuicklyIdentified, TargetLike
from didact.provenance import content_hash, is_sampled, versions
from didact.trained import checkpoints, held_out, onnx, serialization
from didact.trained.disagreement import DisagreementEstimate, expected_disagreement
from didact.trained.metadata import ExplainerMetadata, SavedDescription
from didact.trained.notes import check_single_label, target_note, unread_note
from didact.trained.shapes.base import Item, Shape, check_shape
from didact.trained.signals.base import Signal
from didact.types import (
    Card,
    Cost,
    Example,
    Explanation,
    Floats,
    JsonValue,
    Prediction,
    Target,
    Units,
)

_CHUNK = 4096


class LearnedExplainer:
    """Explains by one pass of a trained network; the explained model is run for its prediction and what a shape reads.

    Args:
        shape: the trained network; it stays on its device and is put into evaluation mode.
        signal: turns the network's numbers into scores.
        about: what it explains and learned from.
        force: explain other models than the one it was trained for.
        runtime: computes the pass instead of torch.

    Attributes:
        verdict: whether it is good at what it learned on held-out texts, in a sentence; empty where nothing is known.
        caution: the sentence that its explanations carry where that was not shown; else empty.
        disagreement: the estimate of its distance to its reference; None where none was fitted.
        checked: the same from a few evaluations of the model on each text, see ``didact.trained.checked``.
        reads_all: whether every call reads all weights of the model, to see that it was trained for it. False looks at
            it where predictions are given, and reads it when it looks different or after a while.
    """

    card: ClassVar[Card] = Card(
        name="l2e",
        family="learned",
        summary="A small network that learned a slow explainer's scores gives them in one pass.",
        reference="Situ et al. 2021, Learning to Explain: Generating Stable Explanations Fast",
        cost="1 forward (the prediction) and one pass of the explainer",
    )

    def __init__(
        self,
        shape: Shape,
        signal: Signal,
        about: ExplainerMetadata,
        *,
        force: bool = False,
        runtime: onnx.Runtime | None = None,
    ) -> None:
        if shape.outputs != signal.outputs:
            raise ParameterError(
                f"{signal.card.name} needs {signal.outputs} numbers per unit, but the {shape.card.name} gives "
                f"{shape.outputs}"
            )
        self.shape = shape.eval()
        self.signal = signal
        self.about = about
        self.force = force
        self.reads_all = True
        known = about.disagreement
        self.disagreement = None if known is None else DisagreementEstimate.from_dict(known)
        self.checked = None if about.checked is None else DisagreementEstimate.from_dict(about.checked)
        self.verdict = held_out.verdict(about)
        self.caution = held_out.caution(about)
        if about.method != self.card.name:
            self.card = dataclasses.replace(  # type: ignore[misc] # one class, many presets
                self.card, name=about.method, summary=signal.card.summary, reference=signal.card.reference
            )
        self.runtime = "torch" if runtime is None else runtime.name
        self._forward = shape if runtime is None else runtime.forward
        self._device = next(shape.parameters()).device if runtime is None else torch.device("cpu")
        self._settings = content_hash([shape.settings, signal.parameters])
        self._weights = checkpoints.tensors_hash(shape.state_dict()) if runtime is None else runtime.weights
        rows = 1 << 30 if runtime is None else runtime.rows
        self._budget = dataclasses.replace(shape.budget(self._device), rows=rows)

    @property
    def parameters(self) -> dict[str, JsonValue]:
        """What decides the scores: the network by its hashes, and what it learned from."""
        return {
            "shape": self.shape.card.name,
            "signal": self.signal.card.name,
            "settings": self._settings,
            "weights": self._weights,
            "reference": self.about.reference,
            "explained": self.about.fingerprint,
            "level": self.about.level,
            "scale": self.about.scale,
            "runtime": self.runtime,
        }

    @property
    def signed(self) -> bool:
        """Whether a negative score means evidence against the target."""
        return self.signal.signed

    def cost(self, units: Units) -> Cost:
        """One forward for the prediction, and others where shape or signal take passes of their own."""
        return Cost(forwards=1 + self.shape.passes + self.signal.evaluations)

    def explain(
        self,
        model: Model,
        examples: Sequence[ExampleLike],
        targets: Sequence[TargetLike] | None = None,
        *,
        predictions: Sequence[Prediction] | None = None,
        force: bool = False,
    ) -> list[Explanation]:
        """One explanation per example, in order; ``disagreement`` is among its details where an estimate was fitted.

        Args:
            model: the explained model.
            examples: texts or pairs.
            targets: what to explain; the predicted class where not given.
            predictions: the model's predictions where they are known already; it is then not run for them.
            force: explain although it is not the model that this explainer was trained for.
        """
        given, wanted = checked(examples, targets, predictions)
        source = {"name": model.name, "fingerprint": _fingerprint(model, exact=self.reads_all or predictions is None)}
        if not (force or self.force):
            self.check_model(model, source["fingerprint"])
        check_shape(self.shape.card, model)
        explanations: list[Explanation] = []
        for start in range(0, len(given), _CHUNK):
            part = slice(start, start + _CHUNK)
            known = None if predictions is None else predictions[part]
            explanations += self._explain(model, source, given[part], wanted[part], known)
        return explanations

    def check_model(self, model: Model, fingerprint: str) -> None:
        """Refuse a model that it was not trained for."""
        if fingerprint != self.about.fingerprint:
            if is_sampled(self.about.fingerprint):
                raise MismatchError(
                    f"this explainer was saved by an earlier didact, which did not look at all of a model, so it is "
                    f"not known whether it was trained for {model.name} as it is now; train it again, or use "
                    f"force=True if you know that {self.about.model} is the same"
                )
            raise MismatchError(
                f"this explainer was trained for {self.about.model} (fingerprint {self.about.fingerprint}), and was "
                f"given {model.name} (fingerprint {fingerprint}); train one for it, or use force=True if it answers "
                "alike"
            )

    def _explain(
        self,
        model: Model,
        source: dict[str, str],
        examples: list[Example],
        wanted: Sequence[TargetLike],
        known: Sequence[Prediction] | None,
    ) -> list[Explanation]:
        with metered() as meter:
            units = model.units(examples, self.about.level)
            predictions, targets, items, scores = self._scored(model, units, wanted, known)
            values = [one.value(target) for one, target in zip(predictions, targets, strict=True)]
            scores = self.signal.finished(model, units, targets, values, scores)
            details = expected_disagreement(self.disagreement, items, scores, predictions, units)
            unread = [unread_note(self.shape, own, item) for own, item in zip(units, items, strict=True)]
        forwards = round(meter.forwards / len(examples))
        cost = Cost(forwards, 0, round(meter.evaluated / len(examples)), meter.seconds / len(examples))
        parameters, now, cautions = self.parameters, versions(), (self.caution,) if self.caution else ()
        return [
            Explanation(
                method=self.card.name,
                units=u,
                scores=tuple(s.tolist()),
                target=t,
                prediction=p,
                parameters=parameters,
                signed=self.signed,
                cost=cost,
                details=d,
                warnings=(*cautions, *w, *target_note(self.signal, t, p)),
                model=source,
                versions=now,
            )
            for u, s, t, p, d, w in zip(units, scores, targets, predictions, details, unread, strict=True)
        ]

    def _scored(
        self,
        model: Model,
        units: Sequence[Units],
        wanted: Sequence[TargetLike],
        known: Sequence[Prediction] | None,
    ) -> tuple[list[Prediction], list[Target], Sequence[Item], list[Floats]]:
        """Predictions, targets, what was read of the texts, and scores; of a single pass where the shape allows it."""
        together = self.shape.with_prediction(model, units)
        seen = known if known is not None or together is None else together.predictions
        examples = [own.example for own in units]
        predictions, targets = predicted_targets(model, examples, wanted, self.about.scale, seen)
        check_single_label(self.card.name, targets)
        if together is not None:
            each = zip(together.numbers, targets, strict=True)
            scores = [self.signal.scores(torch.from_numpy(own[target.index])).numpy() for own, target in each]
            return predictions, targets, [{}] * len(units), scores
        items = self.shape.read(model, units, [target.index for target in targets], predictions)
        return predictions, targets, items, self._scores(items)

    def _scores(self, items: Sequence[Item]) -> list[Floats]:
        """One pass over all texts, in batches of similar length: scores of the units of each."""
        lengths = np.array([self.shape.length(item) for item in items], dtype=np.int64)
        scores: list[Floats] = [np.empty(0)] * len(items)

        def evaluate(rows: Ints) -> None:
            columns = self.shape.collate([items[row] for row in rows])
            outputs = self._forward({name: column.to(self._device) for name, column in columns.items()})
            values = self.signal.scores(outputs.float()).cpu().double().numpy()
            for row, present, line in zip(rows, columns["present"].numpy(), values, strict=True):
                scores[row] = line[present]

        with torch.inference_mode():
            run("explaining", lengths, self._budget, True, evaluate)
        return scores

    def save_pretrained(self, folder: Path | str, *, place: str | None = None) -> None:
        """Write configuration, weights (safetensors), what reading needs, and a README into a folder.

        Args:
            folder: created when it does not exist.
            place: what the README names as the place to load from; the folder's name when not given.
        """
        self._need_weights()

        def fill(beside: Path) -> serialization.Runtimes:
            checkpoints.write(beside / serialization.WEIGHTS, self.shape.state_dict(), {"format": serialization.FORMAT})
            return {}

        self._write(folder, place, fill)

    def export_onnx(
        self,
        folder: Path | str,
        *,
        int8: bool = True,
        explanations: Sequence[Explanation] | None = None,
        force: bool = False,
        place: str | None = None,
    ) -> onnx.ExportAgreement:
        """Write it for ``from_pretrained(folder, runtime="onnx")``, which is fast on CPUs; returns the agreement.

        How well its scores agree with those of torch is measured and written into the configuration and the README.
        The folder is complete; where the same explainer was saved in it, it can be loaded from there in both ways.
        Needs the extra ``onnx``, and a shape that reads nothing of the explained model.

        Args:
            folder: created when it does not exist.
            int8: weights of 8 bits, smaller and faster than floats.
            explanations: of texts to measure the agreement on, by any explainer; texts of random words when not given.
            force: write it also where the ranks differ by more than ``didact.trained.onnx.LIMIT`` allows.
            place: what the README names as the place to load from; the folder's name when not given.
        """
        self._need_weights()
        self.shape.check_export()
        labels, level = self.about.labels, self.about.level
        if explanations is None:
            kind, items = "texts of random words", onnx.made_up(self.shape, labels, level)
        else:
            kind, items = "given texts", self.shape.read_explained(None, explanations)
        scores = self._scores(items)

        def compare(runtime: onnx.Runtime) -> onnx.Figures:
            other = LearnedExplainer(self.shape, self.signal, self.about, runtime=runtime)
            return onnx.agreement(scores, other._scores(items), kind)

        measured: list[onnx.ExportAgreement] = []

        def fill(beside: Path) -> serialization.Runtimes:
            traced = onnx.sample(self.shape, labels, level)
            measured.append(onnx.export(self.shape, beside / onnx.FILE, traced, compare, int8=int8))
            if not force:
                onnx.check(measured[0])
            return {onnx.NAME: dataclasses.asdict(measured[0])}

        self._write(folder, place, fill)
        return measured[0]

    def _need_weights(self) -> None:
        if self.runtime != "torch":
            raise ParameterError(
                f"an explainer of the {self.runtime} runtime has no weights to save; use the one it was exported from"
            )

    def _write(self, folder: Path | str, place: str | None, fill: Callable[[Path], serialization.Runtimes]) -> None:
        def complete(beside: Path) -> serialization.Runtimes:
            self.shape.save_reading(beside)
            return fill(beside)

        serialization.write(Path(folder), self._described(), complete, place)

    def _described(self) -> SavedDescription:
        about = self.about
        return {
            "didact_explainer": serialization.FORMAT,
            "method": about.method,
            "explained": {"name": about.model, "fingerprint": about.fingerprint, "labels": list(about.labels)},
            "level": about.level,
            "scale": about.scale,
            "shape": {"name": self.shape.card.name, "settings": self.shape.settings},
            "signal": {"name": self.signal.card.name, "settings": dict(self.signal.parameters)},
            "weights": {"hash": self._weights, "count": sum(weight.numel() for weight in self.shape.parameters())},
            "about": about.origin(),
            "learned": self.shape.summary(),
        }

    @classmethod
    def from_pretrained(
        cls,
        source: Path | str,
        *,
        model: Model | None = None,
        force: bool = False,
        runtime: str = "torch",
        device: str | None = None,
        threads: int = 1,
    ) -> Self:
        """Load what ``save_pretrained`` or ``export_onnx`` wrote; the first explains exactly as before.

        Args:
            source: a folder, or an id of the Hugging Face Hub.
            model: the model to explain; refused at once if it is not the one that the explainer was trained for.
            force: explain other models too.
            runtime: "torch", or "onnx" where ``export_onnx`` wrote the folder.
            device: "cpu" or "cuda"; the GPU when there is one, but for "onnx", which uses the CPU.
            threads: of the "onnx" runtime; torch has its own setting.
        """
        folder = serialization.located(str(source))
        config = serialization.read_config(folder)
        if runtime == "torch":
            shape, signal, about = serialization.rebuilt(config, folder)
            loaded = cls(shape.to(choose_device(device)), signal, about, force=force)
        else:
            serialization.check_runtime(runtime, device, config, folder)
            with torch.device("meta"):  # for reading alone; nothing is computed with it
                shape, signal, about = serialization.built(config, folder)
            int8 = bool(config["runtimes"][runtime]["int8"])
            other = onnx.load(folder / onnx.FILE, config["weights"]["hash"], int8=int8, threads=threads)
            loaded = cls(shape, signal, about, force=force, runtime=other)
        if model is not None and not force:
            loaded.check_model(model, model.fingerprint())
        held_out.warn(loaded.about, f"the explainer in {source}")
        return loaded

    def push_to_hub(
        self,
        repo_id: str,
        *,
        private: bool = False,
        message: str = "Add an explainer made with didact",
        token: str | None = None,
    ) -> str:
        """Save to a repository of the Hugging Face Hub, created when it does not exist; returns its address.

        Args:
            repo_id: OWNER/NAME.
            private: whether a new repository is hidden from others.
            message: of the commit.
            token: of the Hub; that of the login when not given.
        """
        with tempfile.TemporaryDirectory() as name:
            self.save_pretrained(name, place=repo_id)
            return serialization.pushed(Path(name), repo_id, private=private, message=message, token=token)


def _fingerprint(model: Model, *, exact: bool) -> str:
    """The model's, from all weights or, where a recent one is enough, from a glance."""
    return model.fingerprint() if exact or not isinstance(model, QuicklyIdentified) else model.recent_fingerprint()
