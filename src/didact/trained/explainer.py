"""A trained shape as an explainer: one pass per text, saved and loaded with everything it came from."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import torch

from didact.attribution.base import checked
from didact.errors import FormatError, MismatchError, ModelError, ParameterError
from didact.meter import metered
from didact.models.outputs import resolve_target
from didact.models.planner import Budget, Ints, run
from didact.protocols import Explainer, Given, Model, TargetLike
from didact.provenance import content_hash, versions
from didact.trained import checkpoints, onnx, shapes, signals
from didact.trained.card import readme
from didact.trained.doubt import Doubt, features, with_fallback
from didact.trained.shapes.base import Item, Shape
from didact.trained.signals.base import Signal
from didact.types import (
    Card,
    Cost,
    Example,
    Explanation,
    Floats,
    JsonValue,
    Level,
    Prediction,
    Scale,
    Units,
)

CONFIG = "config.json"
WEIGHTS = "model.safetensors"
FORMAT = 1

_CHUNK = 4096
_PICKLES = ("*.bin", "*.pt", "*.pth", "*.pkl", "*.pickle", "*.ckpt")


@dataclass(frozen=True, kw_only=True)
class About:
    """Where a learned explainer comes from and how good it is.

    Args:
        model: name of the explained model.
        fingerprint: hash of the explained model.
        labels: names of its outputs.
        teacher: whose explanations it learnt from.
        teacher_parameters: the teacher's settings.
        level: whether it scores "word"s or "token"s.
        scale: of the explained number; the model's first one when not given.
        data: what the training texts are.
        data_hash: hash of the training samples.
        scores: measured on held-out texts, by name.
        cost: what training took and how fast it explains, by name with its unit.
        doubt: what ``Doubt.to_dict`` gives; nothing where none was fitted.
    """

    model: str
    fingerprint: str
    labels: tuple[str, ...]
    teacher: str = ""
    teacher_parameters: Mapping[str, JsonValue] = field(default_factory=dict)
    level: Level = "word"
    scale: Scale | None = None
    data: str = ""
    data_hash: str = ""
    scores: Mapping[str, float] = field(default_factory=dict)
    cost: Mapping[str, JsonValue] = field(default_factory=dict)
    doubt: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "labels", tuple(self.labels))

    @classmethod
    def of(cls, model: Model, **facts: Any) -> About:
        """About an explainer of this model."""
        return cls(model=model.name, fingerprint=model.fingerprint(), labels=model.labels, **facts)


class LearnedExplainer:
    """Explains by one pass of a trained network; the explained model is run for its prediction alone.

    Args:
        shape: the trained network; it is explained with where it is, in evaluation mode.
        signal: turns the network's numbers into scores.
        about: what it explains and learnt from.
        force: explain other models than the one it was trained for.
        runtime: what computes the pass, where that is not torch.
    """

    card: ClassVar[Card] = Card(
        name="l2e",
        family="learned",
        summary="A small network that learnt from a slow explainer's scores gives them in one pass.",
        reference="Situ et al. 2021, Learning to Explain: Generating Stable Explanations Fast",
        cost="1 forward (the prediction) and one pass of the explainer",
    )

    def __init__(
        self,
        shape: Shape,
        signal: Signal,
        about: About,
        *,
        force: bool = False,
        runtime: onnx.Runtime | None = None,
    ) -> None:
        if shape.outputs != signal.outputs:
            raise ParameterError(
                f"{signal.name} needs {signal.outputs} numbers per unit, but the {shape.name} gives {shape.outputs}"
            )
        self.shape = shape.eval()
        self.signal = signal
        self.about = about
        self.force = force
        self.doubt = None if about.doubt is None else Doubt.from_dict(about.doubt)
        self.runtime = "torch" if runtime is None else runtime.name
        self._forward = shape if runtime is None else runtime.forward
        self._device = next(shape.parameters()).device if runtime is None else torch.device("cpu")
        self._settings = content_hash([shape.settings, signal.settings])
        self._weights = checkpoints.tensors_hash(shape.state_dict()) if runtime is None else runtime.weights
        rows = 1 << 30 if runtime is None else runtime.rows
        self._budget = Budget(tokens=1 << (17 if self._device.type == "cuda" else 14), rows=rows, fixed=512)

    @property
    def parameters(self) -> dict[str, JsonValue]:
        """What decides the scores: the network by its hashes, and what it learnt from."""
        return {
            "shape": self.shape.name,
            "signal": self.signal.name,
            "settings": self._settings,
            "weights": self._weights,
            "teacher": self.about.teacher,
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
        """One forward, for the prediction; none where it is given."""
        return Cost(forwards=1)

    def explain(  # noqa: PLR0913 - what, how far, and what to do about doubt
        self,
        model: Model,
        examples: Sequence[Given],
        targets: Sequence[TargetLike] | None = None,
        *,
        predictions: Sequence[Prediction] | None = None,
        force: bool = False,
        fallback: Explainer | None = None,
        doubt_above: float | None = None,
    ) -> list[Explanation]:
        """One explanation per example, in order; with ``doubt`` among its details where one was fitted.

        Args:
            model: the explained model.
            examples: texts or pairs.
            targets: what to explain; the predicted class where not given.
            predictions: the model's predictions where they are known already; the model is then not run at all.
            force: explain although it is not the model that this explainer was trained for.
            fallback: a slower explainer, mostly the teacher, for doubtful texts; ``method`` says which made each.
            doubt_above: a text is doubtful above it; above ``doubt.threshold`` where not given.
        """
        if fallback is not None and self.doubt is None:
            raise ParameterError(
                "a fallback was given, but this explainer does not know its doubt; train it with held-out texts"
            )
        given, wanted = checked(examples, targets, predictions)
        source = {"name": model.name, "fingerprint": model.fingerprint()}  # asked once: it looks at every weight
        if not (force or self.force):
            self._check(model, source["fingerprint"])
        found: list[Explanation] = []
        for start in range(0, len(given), _CHUNK):
            part = slice(start, start + _CHUNK)
            known = None if predictions is None else predictions[part]
            found += self._explain(model, source, given[part], wanted[part], known)
        if fallback is None or self.doubt is None:
            return found
        return with_fallback(found, model, fallback, self.doubt.threshold if doubt_above is None else doubt_above)

    def _check(self, model: Model, fingerprint: str) -> None:
        if fingerprint != self.about.fingerprint:
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
            predictions = model.predict(examples) if known is None else known
            targets = [resolve_target(model, w, p, self.about.scale) for w, p in zip(wanted, predictions, strict=True)]
            items = [self.shape.read(u, t.index, p) for u, t, p in zip(units, targets, predictions, strict=True)]
            scores = self._scores(items)
            details = self._details(items, scores, predictions)
        forwards = 1 if known is None else 0
        cost = Cost(forwards, 0, round(meter.evaluated / len(examples)), meter.seconds / len(examples))
        shared: dict[str, Any] = {
            "method": self.card.name,
            "parameters": self.parameters,
            "signed": self.signed,
            "cost": cost,
            "model": source,
            "versions": versions(),
        }
        return [
            Explanation(units=u, scores=tuple(s.tolist()), target=t, prediction=p, details=d, **shared)
            for u, s, t, p, d in zip(units, scores, targets, predictions, details, strict=True)
        ]

    def _details(
        self, items: Sequence[Item], scores: Sequence[Floats], predictions: Sequence[Prediction]
    ) -> list[dict[str, float]]:
        if self.doubt is None or not items:
            return [{}] * len(items)
        rows = np.stack([features(i, s, p) for i, s, p in zip(items, scores, predictions, strict=True)])
        return [{"doubt": float(value)} for value in self.doubt(rows)]

    def _scores(self, items: Sequence[Item]) -> list[Floats]:
        """One pass over all texts, in batches of similar length: scores of the units of each."""
        lengths = np.array([self.shape.length(item) for item in items], dtype=np.int64)
        found: list[Floats] = [np.empty(0)] * len(items)

        def evaluate(rows: Ints) -> None:
            columns = self.shape.collate([items[row] for row in rows])
            outputs = self._forward({name: column.to(self._device) for name, column in columns.items()})
            values = self.signal.scores(outputs.float()).cpu().double().numpy()
            for row, present, line in zip(rows, columns["present"].numpy(), values, strict=True):
                found[row] = line[present]

        with torch.inference_mode():
            run("explaining", lengths, self._budget, True, evaluate)
        return found

    def save_pretrained(self, folder: Path | str, *, place: str | None = None) -> None:
        """Write configuration, weights (safetensors), what reading needs, and a README into a folder.

        Args:
            folder: made when it does not exist.
            place: what the README names as the place to load from; the folder's name when not given.
        """
        self._need_weights()

        def fill(beside: Path) -> dict[str, Any]:
            checkpoints.write(beside / WEIGHTS, self.shape.state_dict(), {"format": FORMAT})
            return {}

        self._write(Path(folder), place, fill)

    def export_onnx(
        self,
        folder: Path | str,
        *,
        int8: bool = True,
        explanations: Sequence[Explanation] | None = None,
        force: bool = False,
        place: str | None = None,
    ) -> onnx.Agreement:
        """Write it for ``from_pretrained(folder, runtime="onnx")``, which is fast on CPUs; gives the agreement.

        How well its scores agree with those of torch is measured and written into the configuration and the README.
        The folder stands alone; where the same explainer was saved in it, it can be loaded from there in both ways.
        Needs the extra ``onnx``.

        Args:
            folder: made when it does not exist.
            int8: weights of 8 bits, smaller and faster than floats.
            explanations: of texts to measure the agreement on, by any explainer; texts of random words when not given.
            force: write it also where the ranks differ by more than ``didact.trained.onnx.LIMIT`` allows.
            place: what the README names as the place to load from; the folder's name when not given.
        """
        self._need_weights()
        labels, level = self.about.labels, self.about.level
        if explanations is None:
            kind, items = "texts of random words", onnx.made_up(self.shape, labels, level)
        else:
            kind, items = "given texts", [self.shape.read(e.units, e.target.index, e.prediction) for e in explanations]
        scores = self._scores(items)

        def compare(runtime: onnx.Runtime) -> dict[str, Any]:
            other = LearnedExplainer(self.shape, self.signal, self.about, runtime=runtime)
            return onnx.agreement(scores, other._scores(items), kind)

        measured: list[onnx.Agreement] = []

        def fill(beside: Path) -> dict[str, Any]:
            traced = onnx.sample(self.shape, labels, level)
            measured.append(onnx.export(self.shape, beside / onnx.FILE, traced, compare, int8=int8))
            if not force:
                onnx.check(measured[0])
            return {onnx.NAME: dataclasses.asdict(measured[0])}

        self._write(Path(folder), place, fill)
        return measured[0]

    def _need_weights(self) -> None:
        if self.runtime != "torch":
            raise ParameterError(
                f"an explainer of the {self.runtime} runtime has no weights to save; use the one it was exported from"
            )

    def _write(self, folder: Path, place: str | None, fill: Callable[[Path], dict[str, Any]]) -> None:
        """Write a folder with what ``fill`` writes and tells about runtimes; what it has of the same explainer stays.

        Files are made beside those that are there, and take their place when all are done.
        """
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as name:
            beside = Path(name)
            self.shape.save_reading(beside)
            runtimes = fill(beside)
            paths = sorted(path for path in beside.rglob("*") if path.is_file())
            files = {path.relative_to(beside).as_posix(): _file_hash(path) for path in paths}
            for file in files:
                (folder / file).parent.mkdir(parents=True, exist_ok=True)
                (beside / file).replace(folder / file)
        config = _merged(folder, self._config(files, runtimes))
        (folder / "README.md").write_text(readme(config, place or folder.name), encoding="utf-8")
        text = json.dumps(config, indent=1, ensure_ascii=False)
        (folder / CONFIG).write_text(text + "\n", encoding="utf-8")  # last: a torn folder lacks it or does not fit it

    def _config(self, files: Mapping[str, str], runtimes: Mapping[str, Any]) -> dict[str, Any]:
        about = dataclasses.asdict(self.about)
        explained = {"name": about.pop("model"), "fingerprint": about.pop("fingerprint"), "labels": about.pop("labels")}
        return {
            "didact_explainer": FORMAT,
            "method": self.card.name,
            "explained": explained,
            "level": about.pop("level"),
            "scale": about.pop("scale"),
            "shape": {"name": self.shape.name, "settings": self.shape.settings},
            "signal": {"name": self.signal.name, "settings": self.signal.settings},
            "weights": {
                "hash": self._weights,
                "count": sum(weight.numel() for weight in self.shape.parameters()),
            },
            "about": about,
            "files": dict(files),
            "runtimes": dict(runtimes),
            "versions": versions(),
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
            model: the model to explain, to be told at once if it is another one than the explainer was trained for.
            force: explain other models too.
            runtime: "torch", or "onnx" where ``export_onnx`` wrote the folder.
            device: "cpu" or "cuda"; the GPU when there is one, but for "onnx", which uses the CPU.
            threads: of the "onnx" runtime; torch has its own setting.
        """
        folder = _folder(str(source))
        config = _read_config(folder)
        if runtime == "torch":
            shape, signal, about = _rebuilt(config, folder)
            made = cls(shape.to(_device(device)), signal, about, force=force)
        else:
            _check_runtime(runtime, device, config, folder)
            with torch.device("meta"):  # for reading alone; nothing is computed with it
                shape, signal, about = _built(config, folder)
            int8 = bool(config["runtimes"][runtime]["int8"])
            other = onnx.load(folder / onnx.FILE, config["weights"]["hash"], int8=int8, threads=threads)
            made = cls(shape, signal, about, force=force, runtime=other)
        if model is not None and not force:
            made._check(model, model.fingerprint())
        return made

    def push_to_hub(
        self,
        repo_id: str,
        *,
        private: bool = False,
        message: str = "Add an explainer made with didact",
        token: str | None = None,
    ) -> str:
        """Save to a repository of the Hugging Face Hub, made when it does not exist; gives its address.

        Args:
            repo_id: OWNER/NAME.
            private: whether a new repository is hidden from others.
            message: of the commit.
            token: who you are at the Hub; the one that was logged in with when not given.
        """
        from huggingface_hub import HfApi
        from huggingface_hub.errors import HfHubHTTPError

        api = HfApi(token=token)
        with tempfile.TemporaryDirectory() as name:
            self.save_pretrained(name, place=repo_id)
            try:
                address = api.create_repo(repo_id, private=private, exist_ok=True)
                api.upload_folder(repo_id=repo_id, folder_path=name, commit_message=message)
            except (HfHubHTTPError, OSError, ValueError) as problem:
                raise ModelError(f"cannot push to {repo_id!r}: {problem!s:.200}. Check id, login and network") from None
        return str(address)


def _folder(source: str) -> Path:
    """The folder itself, or where the Hub's copy of it was put."""
    path = Path(source)
    if path.is_dir():
        return path
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError

    try:
        return Path(snapshot_download(source, ignore_patterns=list(_PICKLES)))
    except (HfHubHTTPError, OSError, ValueError) as problem:
        raise ModelError(
            f"cannot load the explainer {source!r}: it is not a folder here, so it was asked for at the Hub: "
            f"{problem!s:.200}"
        ) from None


def _read_config(folder: Path) -> dict[str, Any]:
    path = folder / CONFIG
    if not path.is_file():
        raise FormatError(f"{folder} holds no explainer: there is no {CONFIG} in it; write one with save_pretrained")
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as problem:
        raise FormatError(f"{path} is not JSON: {problem}") from None
    found = config.get("didact_explainer") if isinstance(config, dict) else None
    if found is None:
        raise FormatError(f"{path} does not describe a learned explainer; is {folder} the explained model's folder?")
    if found != FORMAT:
        raise FormatError(
            f"{path} is of format {found!r}, and this version of didact reads {FORMAT}; install the didact it was made "
            f"with ({config.get('versions', {}).get('didact', 'not recorded')}) or train it again"
        )
    return config  # type: ignore[no-any-return] # checked to be a dict


def _merged(folder: Path, config: dict[str, Any]) -> dict[str, Any]:
    """The configuration with the files and runtimes that an old one has of the same network."""
    try:
        old = _read_config(folder)
    except FormatError:
        return config
    if any(old.get(name) != config[name] for name in ("shape", "signal", "weights")):
        return config
    kept = {file: digest for file, digest in old["files"].items() if (folder / file).is_file()}
    return config | {"files": kept | config["files"], "runtimes": old.get("runtimes", {}) | config["runtimes"]}


def _check_runtime(runtime: str, device: str | None, config: Mapping[str, Any], folder: Path) -> None:
    if runtime != onnx.NAME:
        raise ParameterError(f"unknown runtime {runtime!r}; allowed: 'torch', '{onnx.NAME}'")
    if device not in (None, "cpu"):
        raise ParameterError(f"the {onnx.NAME} runtime computes on the CPU, but device={device!r} was given")
    if runtime not in config.get("runtimes", {}) or onnx.FILE not in config["files"]:
        raise FormatError(f"{folder} was not exported for the {onnx.NAME} runtime; write it with export_onnx")


def _rebuilt(config: Mapping[str, Any], folder: Path) -> tuple[Shape, Signal, About]:
    """Shape with its weights, signal and what is known about them."""
    if WEIGHTS not in config.get("files", {}):
        if onnx.FILE in config.get("files", {}):
            raise FormatError(f"{folder} was exported and has no weights for torch; load it with runtime='onnx'")
        raise FormatError(f"{folder / WEIGHTS} cannot be checked: its hash is not recorded in {CONFIG}; copy it again")
    shape, signal, about = _built(config, folder)
    tensors, _ = checkpoints.read(folder / WEIGHTS, "copy it again")
    try:
        shape.load_state_dict(tensors)
    except RuntimeError as problem:
        first = str(problem).splitlines()[-1].strip()
        raise FormatError(f"{folder / WEIGHTS} does not fit {CONFIG}: {first:.200}") from None
    return shape, signal, about


def _built(config: Mapping[str, Any], folder: Path) -> tuple[Shape, Signal, About]:
    """Shape without its weights, signal and what is known about them."""
    _check_files(config, folder)
    try:
        shape = shapes.get(config["shape"]["name"]).from_settings(config["shape"]["settings"], folder)
        signal: Signal = signals.get(config["signal"]["name"])(**config["signal"]["settings"])
        explained = config["explained"]
        about = About(
            model=explained["name"],
            fingerprint=explained["fingerprint"],
            labels=tuple(explained["labels"]),
            level=config["level"],
            scale=config["scale"],
            **config["about"],
        )
    except (KeyError, TypeError) as problem:
        raise FormatError(f"{folder / CONFIG} lacks something or has too much: {problem}") from None
    return shape, signal, about


def _check_files(config: Mapping[str, Any], folder: Path) -> None:
    """Refuse files that are missing or not the ones that were saved."""
    for name, digest in config.get("files", {}).items():
        path = folder / name
        if not path.is_file():
            raise FormatError(f"{folder} is not complete: {name} is missing; copy it again")
        if digest != _file_hash(path):
            raise FormatError(f"{path} is not the file that was saved: its hash differs; copy it again")


def _file_hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _device(asked: str | None) -> torch.device:
    if asked is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(asked)
    except RuntimeError:
        raise ParameterError(f"unknown device {asked!r}; allowed: 'cpu', 'cuda', 'cuda:0', ...") from None
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ParameterError("device 'cuda' was asked for, but no CUDA device is available here; use device='cpu'")
    return device
