"""The labels of a learned explainer: another explainer's scores, computed once and kept, or read from a file."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from didact.errors import DidactError, FormatError, InputError, ParameterError
from didact.models.outputs import resolve_target
from didact.progress import advance, working
from didact.protocols import ExampleLike, Explainer, Model, TargetLike
from didact.store import explanations as store
from didact.store import keys
from didact.store.parts import Parts
from didact.types import Example, Explanation, Target

CHUNK = 32
ENDINGS = (".parquet", ".jsonl")


def collect(
    model: Model,
    examples: Sequence[ExampleLike],
    teacher: Explainer,
    parts: Parts,
    targets: Sequence[TargetLike] | None = None,
    *,
    chunk: int = CHUNK,
) -> list[Explanation]:
    """The teacher's explanation of every example, in order; what ``parts`` holds is not computed again.

    Equal texts are explained once. A part holds a chunk of texts under a hash of all that decides it, so a run that
    was killed goes on with the chunk it was at, and an experiment with the same chunks finds the parts as well.

    Args:
        model: the explained model.
        examples: texts or pairs.
        teacher: a registered method or any other explainer; its card's name and its parameters tell it from others.
        parts: where explanations are kept.
        targets: what to explain; the predicted class where not given.
        chunk: texts of a part. With another number the same texts are explained again.
    """
    if chunk < 1:
        raise ParameterError(f"chunk must be at least 1, got {chunk!r}")
    given = [Example.of(example) for example in examples]
    wanted = _wanted(targets, len(given))
    marks = [_mark(example, target, teacher) for example, target in zip(given, wanted, strict=True)]
    first = {mark: number for number, mark in reversed(list(enumerate(marks)))}
    rows = sorted(first.values())
    found: dict[str, Explanation] = {}
    with working(f"labels: {teacher.card.name}", len(rows)):
        for start in range(0, len(rows), chunk):
            some = rows[start : start + chunk]
            asked = None if targets is None else [wanted[row] for row in some]
            made = _part(model, [given[row] for row in some], teacher, parts, asked)
            found.update(zip((marks[row] for row in some), made, strict=True))
            advance(len(some))
    return [_of(found[mark], example) for mark, example in zip(marks, given, strict=True)]


def fresh(
    model: Model,
    examples: Sequence[ExampleLike],
    teacher: Explainer,
    parts: Parts,
    *,
    chunk: int = CHUNK,
) -> Callable[[int], list[Explanation]]:
    """Labels drawn anew for every epoch, for cheap and noisy teachers: epoch e is explained with seed + e.

    Whatever an epoch draws is kept too, so that a training that goes on sees the same labels again.
    """
    reseeded(teacher, 0)
    return lambda epoch: collect(model, examples, reseeded(teacher, epoch), parts, chunk=chunk)


def reseeded(teacher: Explainer, by: int) -> Explainer:
    """The same explainer with its seed raised."""
    seed = getattr(teacher, "seed", None)
    if not (teacher.card.seeded and isinstance(seed, int)):
        raise ParameterError(
            f"{teacher.card.name} has no seed, so it gives the same labels in every epoch; collect them once"
        )
    made: Any = teacher  # a dataclass, as all registered methods are
    found: Explainer = dataclasses.replace(made, seed=seed + by)
    return found


def read_labels(path: Path | str, model: Model, *, force: bool = False) -> list[Explanation]:
    """Explanations of this model's predictions from a file; what does not fit is refused with its line.

    Args:
        path: a .parquet file that didact wrote, or a .jsonl file. A line of it is an explanation as ``to_json`` writes
            it, or {"text", "scores"} with one score per word, and perhaps "text_pair", "label" (the output that the
            scores speak for; the predicted one where missing), "method", "signed", and "model", the fingerprint of the
            explained model.
        model: the explained model.
        force: take labels of other models as well, as long as the units are the same.
    """
    place = Path(path)
    if not place.is_file():
        raise InputError(f"there is no file {place}")
    if place.suffix not in ENDINGS:
        raise InputError(f"{place} cannot be read as labels; give {' or '.join(ENDINGS)}")
    rows = list(_parquet(place) if place.suffix == ".parquet" else _lines(place))
    if not rows:
        raise InputError(f"{place} holds no labels")
    checked = [_checked(row, model, force) for row in rows]
    _check_units(checked, model)
    return _completed(checked, model)


@dataclass(frozen=True)
class _Row:
    """A label with the place it was read from.

    Attributes:
        where: file and line.
        made: the explanation, where the file holds whole ones.
        plain: the text, the scores and the rest, where it does not.
        fingerprint: of the explained model; "" where the file does not say.
    """

    where: str
    made: Explanation | None
    plain: Mapping[str, Any]
    fingerprint: str

    @property
    def example(self) -> Example:
        found: Example = self.made.example if self.made else self.plain["example"]
        return found

    @property
    def scores(self) -> Sequence[float]:
        return self.made.scores if self.made else self.plain["scores"]


def _part(
    model: Model,
    examples: list[Example],
    teacher: Explainer,
    parts: Parts,
    targets: list[TargetLike] | None,
) -> list[Explanation]:
    plain = None if targets is None else [_plain_target(target) for target in targets]
    key = keys.explanations(model, teacher, keys.readings(model, examples), plain)
    if not parts.has(key):
        made = teacher.explain(model, examples, targets)
        if len(made) != len(examples):
            raise FormatError(f"{teacher.card.name} gave {len(made)} explanations of {len(examples)} texts")
        parts.write(key, store.to_table(made))
    return store.from_table(parts.read(key))


def _wanted(targets: Sequence[TargetLike] | None, count: int) -> Sequence[TargetLike]:
    if targets is None:
        return [None] * count
    if len(targets) != count:
        raise InputError(f"{len(targets)} targets were given for {count} examples; give one for each")
    return targets


def _mark(example: Example, target: TargetLike, teacher: Explainer) -> str:
    """The same for examples that have the same explanation."""
    marked = example.to_dict()["rationale"] if teacher.card.needs_rationale else None
    return json.dumps([example.fields, marked, _plain_target(target)])


def _plain_target(target: TargetLike) -> Any:
    return vars(target) if isinstance(target, Target) else target


def _of(explanation: Explanation, example: Example) -> Explanation:
    """The explanation of an equal text as this example's."""
    if explanation.example == example:
        return explanation
    return dataclasses.replace(explanation, units=dataclasses.replace(explanation.units, example=example))


def _parquet(path: Path) -> Iterator[_Row]:
    table = store.read(path)
    try:
        found = store.from_table(table)
    except DidactError:
        found = []
        for number in range(len(table)):  # slowly, to know which one
            try:
                found += store.from_table(table.slice(number, 1))
            except DidactError as problem:
                raise FormatError(f"{path}, row {number + 1}: {problem}") from None
    for number, one in enumerate(found, start=1):
        yield _Row(f"{path}, row {number}", one, {}, one.model.get("fingerprint", ""))


def _lines(path: Path) -> Iterator[_Row]:
    try:
        with path.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, start=1):
                if line.strip():
                    yield _line(line, f"{path}, line {number}")
    except UnicodeDecodeError:
        raise FormatError(f"{path} is not UTF-8 text") from None


def _line(line: str, where: str) -> _Row:
    try:
        data = json.loads(line)
    except json.JSONDecodeError as problem:
        raise FormatError(f"{where}: not JSON: {problem}") from None
    if not isinstance(data, dict) or "scores" not in data:
        raise FormatError(f"{where}: a label is an object with 'text' and 'scores', got {line.strip():.60}")
    scores = data["scores"]
    if not isinstance(scores, list) or not all(_is_number(score) for score in scores):
        raise FormatError(f"{where}: 'scores' must be a list of finite numbers, got {scores!s:.80}")
    told = data.get("model") or ""
    fingerprint = str(told.get("fingerprint", "")) if isinstance(told, dict) else str(told)
    try:
        if "units" in data:
            return _Row(where, Explanation.from_dict(data), {}, fingerprint)
        if "text" not in data:
            raise FormatError(f"field 'text' is missing; found {', '.join(data)}")
        example = Example.of(Example(data["text"], data.get("text_pair"), label=data.get("label"), id=data.get("id")))
        plain = {**data, "example": example, "scores": [float(score) for score in scores]}
    except DidactError as problem:
        raise FormatError(f"{where}: {problem}") from None
    return _Row(where, None, plain, fingerprint)


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _checked(row: _Row, model: Model, force: bool) -> _Row:
    """Refuse labels of another model, and targets that this one does not have."""
    if row.fingerprint and row.fingerprint != model.fingerprint() and not force:
        raise FormatError(
            f"{row.where}: this label explains the model with fingerprint {row.fingerprint}, and {model.name} has "
            f"{model.fingerprint()}; collect labels of this model, or use force=True if it answers alike"
        )
    if row.made is not None and row.made.prediction.labels != model.labels:
        raise FormatError(
            f"{row.where}: the explained model has the labels {', '.join(row.made.prediction.labels)}, and "
            f"{model.name} has {', '.join(model.labels)}"
        )
    return row


def _check_units(rows: Sequence[_Row], model: Model) -> None:
    """Refuse scores that are not one for each unit of this model."""
    for level in ("word", "token"):
        mine = [row for row in rows if (row.made.units.level if row.made else "word") == level]
        if not mine:
            continue
        for row, units in zip(mine, model.units([row.example for row in mine], level), strict=True):
            if len(row.scores) != len(units):
                raise FormatError(
                    f"{row.where}: {len(row.scores)} scores, but {model.name} reads {len(units)} {level}s: "
                    f"{' '.join(units.texts):.80}"
                )
            if row.made is not None and row.made.units.spans != units.spans:
                raise FormatError(
                    f"{row.where}: the scores belong to other {level}s than {model.name} reads: "
                    f"{' '.join(row.made.units.texts):.60} instead of {' '.join(units.texts):.60}"
                )


def _completed(rows: Sequence[_Row], model: Model) -> list[Explanation]:
    """Explanations; of plain rows with the model's own units and prediction."""
    plain = [row for row in rows if row.made is None]
    units = iter(model.units([row.example for row in plain]) if plain else [])
    predictions = iter(model.predict([row.example for row in plain]) if plain else [])
    signed = any(score < 0 for row in plain for score in row.scores)
    found = []
    for row in rows:
        if row.made is not None:
            found.append(row.made)
            continue
        prediction = next(predictions)
        try:
            target = resolve_target(model, row.plain.get("label"), prediction, None)
        except DidactError as problem:
            raise FormatError(f"{row.where}: {problem}") from None
        made = Explanation(
            method=str(row.plain.get("method", "file")),
            units=next(units),
            scores=tuple(row.scores),
            target=target,
            prediction=prediction,
            signed=bool(row.plain.get("signed", signed)),
            model={"name": model.name, "fingerprint": model.fingerprint()},
        )
        found.append(made)
    return found
