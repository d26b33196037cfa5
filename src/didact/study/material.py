"""The items of a study with the explanations of each, as a table on disk that raters never see by name."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from didact.errors import InputError
from didact.provenance import content_hash
from didact.store import explanations as explanation_store
from didact.study.design import CONTROL, StudyDesign
from didact.study.orders import round_robin
from didact.types import Explanation


@dataclass(frozen=True)
class StudyMaterial:
    """Items with an explanation by each explainer.

    Attributes:
        items: by the item's name, by explainer.
    """

    items: Mapping[str, Mapping[str, Explanation]]

    @classmethod
    def chosen(cls, explained: Mapping[str, Sequence[Explanation]], design: StudyDesign) -> StudyMaterial:
        """Draw the items of a study from what explainers explained.

        Items are drawn evenly from the classes that the model predicts, among those that every explainer explained.
        The control is drawn at random where it is not given.

        Args:
            explained: by explainer; the same examples, in any order.
            design: which explainers, and how many items.

        Raises:
            InputError: an explainer is missing, there are too few items, or items cannot be used in this protocol.
        """
        missing = [name for name in design.explainers if name not in explained and name != CONTROL]
        if missing:
            raise InputError(
                f"there are no explanations by {', '.join(missing)}, only by {', '.join(explained) or 'nobody'}"
            )
        tables = {name: _by_item(explained[name], name) for name in design.explainers if name in explained}
        shared = [item for item in next(iter(tables.values()), {}) if all(item in table for table in tables.values())]
        items = {item: {name: tables[name][item] for name in tables} for item in shared}
        items = {item: _with_control(row, design) for item, row in items.items()}
        for item, row in items.items():
            _check(item, row, design)
        return cls(_drawn(items, design))

    @classmethod
    def read(cls, path: Path) -> StudyMaterial:
        """What ``write`` wrote."""
        table = explanation_store.read(path)
        names, items = table.column("explainer").to_pylist(), table.column("id").to_pylist()
        rows: dict[str, dict[str, Explanation]] = {}
        for name, item, explanation in zip(names, items, explanation_store.from_table(table), strict=True):
            rows.setdefault(item, {})[name] = explanation
        return cls(rows)

    def write(self, path: Path) -> None:
        """One row per item and explainer; the item's name is the example's id."""
        rows = [(item, name, each) for item, row in self.items.items() for name, each in row.items()]
        named = [_named(each, item) for item, _, each in rows]
        explanation_store.write(path, explanation_store.to_table(named, [name for _, name, _ in rows]))

    def labels(self) -> tuple[str, ...]:
        """All classes that the model can predict."""
        return next(iter(next(iter(self.items.values())).values())).prediction.labels

    def predicted(self, item: str) -> str:
        """What the model says of an item."""
        return next(iter(self.items[item].values())).prediction.label


def _by_item(explanations: Sequence[Explanation], name: str) -> dict[str, Explanation]:
    """By a name that depends on the example's content; a second explanation of an example is another seed's."""
    table: dict[str, Explanation] = {}
    for explanation in explanations:
        table.setdefault(f"i-{content_hash([explanation.example.fingerprint], 10)}", explanation)
    if not table:
        raise InputError(f"there are no explanations by {name}")
    return table


def _with_control(row: dict[str, Explanation], design: StudyDesign) -> dict[str, Explanation]:
    """The row with the planted control, in the order of the design."""
    if CONTROL in design.explainers and CONTROL not in row:
        like = next(iter(row.values()))
        rng = np.random.default_rng([design.seed, int(like.example.fingerprint[:8], 16)])
        scores = tuple(rng.uniform(-1, 1, len(like.scores)).tolist())
        row = {**row, CONTROL: dataclasses.replace(like, method=CONTROL, scores=scores, signed=True, errors=())}
    return {name: row[name] for name in design.explainers}


def _check(item: str, row: Mapping[str, Explanation], design: StudyDesign) -> None:
    kinds = {explanation.prediction.kind for explanation in row.values()}
    if design.protocol == "simulate" and kinds != {"class"}:
        raise InputError(f"raters predict classes, and the model of these explanations predicts a {min(kinds)}")
    if len({explanation.prediction.label for explanation in row.values()}) > 1:
        raise InputError(f"explanations of item {item} are of models that predict differently; use those of one model")
    for name, explanation in row.items():
        if explanation.prediction.kind == "class" and explanation.target.index != explanation.prediction.index:
            raise InputError(
                f"{name} explains {explanation.target.label!r:.60} of item {item}, and the model predicts "
                f"{explanation.prediction.label!r:.60}: raters are shown explanations of the prediction"
            )


def _drawn(items: Mapping[str, Mapping[str, Explanation]], design: StudyDesign) -> dict[str, Mapping[str, Explanation]]:
    if len(items) < design.needed:
        raise InputError(
            f"the study needs {design.needed} items that every explainer explained, and there are {len(items)}; give "
            "fewer items (--items), or explain more texts"
        )
    order = [list(items)[at] for at in np.random.default_rng([design.seed, 1]).permutation(len(items))]
    predicted = {item: next(iter(items[item].values())).prediction.label for item in order}
    classes = sorted(Counter(predicted.values()))
    groups = [[item for item in order if predicted[item] == each] for each in classes]
    if design.protocol == "rank" and len(classes) > design.needed:
        groups = [order]  # numbers or spans: hardly two are alike
    return {item: items[item] for item in round_robin(groups, design.needed)}


def _named(explanation: Explanation, item: str) -> Explanation:
    example = explanation.example
    copy = type(example)(
        fields=example.fields,
        label=example.label,
        rationale=example.rationale,
        id=item,
        annotators=example.annotators,
    )
    return dataclasses.replace(explanation, units=dataclasses.replace(explanation.units, example=copy))
