"""Grades of a study as records: references, learned explainers and chance, each by every metric on every test text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from didact.experiments.distillation import grading
from didact.experiments.distillation.networks import Network
from didact.experiments.distillation.recipe import DistillationRecipe, learned_label
from didact.experiments.engine.study_texts import filled
from didact.experiments.engine.toml import Options, Plain
from didact.metrics.base import METRICS
from didact.models.network import NetworkModel
from didact.protocols import Evidence
from didact.provenance import content_hash, versions
from didact.store import keys
from didact.store import records as record_store
from didact.trained.explainer import LearnedExplainer
from didact.trained.fidelity import agreement_with_reference
from didact.trained.signals.labelling import Labelling
from didact.types import Explanation

METRICS_OF_ALL: Mapping[str, tuple[str, Options]] = {
    grading.LOG_ODDS: ("log_odds_difference", {}),
    grading.AGREEMENT: ("prediction_agreement", {}),
    "comprehensiveness": ("comprehensiveness", {}),
    "iou_lexical_top": ("neighbour_iou", {"similarity": "lexical", "by": "top"}),
    "iou_lexical_labels": ("neighbour_iou", {"similarity": "lexical", "by": "labels"}),
    "iou_semantic_top": ("neighbour_iou", {"similarity": "semantic", "by": "top"}),
    "iou_semantic_labels": ("neighbour_iou", {"similarity": "semantic", "by": "labels"}),
    "sufficiency": ("sufficiency", {}),
    "deletion_area": ("deletion_area", {}),
    "insertion_area": ("insertion_area", {}),
    "iou_lexical_top_gain": ("neighbour_iou_gain", {"similarity": "lexical", "by": "top"}),
    "iou_lexical_labels_gain": ("neighbour_iou_gain", {"similarity": "lexical", "by": "labels"}),
    "iou_semantic_top_gain": ("neighbour_iou_gain", {"similarity": "semantic", "by": "top"}),
    "iou_semantic_labels_gain": ("neighbour_iou_gain", {"similarity": "semantic", "by": "labels"}),
    "forwards": ("forwards", {}),
    "seconds": ("seconds", {}),
}
BESIDE = (grading.POSITIVE, grading.NEGATIVE, grading.LABELLED_AGREEMENT)
"""What is measured of a reference on the words that a learned explainer labels, so once per initialisation."""


class StudyGrader:
    """Measures explanations of a piece of the test texts and writes the grades as records.

    Args:
        recipe: of the study.
        model: the explained model.
        names: of the texts of the piece, in their order.
        compares: whether the metrics are those that compare texts with each other, or all others.
        annotated: whether all test texts have people's rationales.
    """

    def __init__(
        self, recipe: DistillationRecipe, model: NetworkModel, names: Sequence[str], *, compares: bool, annotated: bool
    ) -> None:
        self.recipe = recipe
        self.model = model
        self.names = pa.array(names, pa.string())
        self.compares = compares
        self.annotated = annotated

    def learned_records(
        self,
        network: Network,
        explainer: LearnedExplainer,
        explained: Sequence[Explanation],
        test: Sequence[Explanation],
    ) -> list[pa.Table]:
        """Records of a learned explainer, and of its reference on the words that the learned explainer labels."""
        high = explainer.signal.high if isinstance(explainer.signal, Labelling) else None
        label = learned_label(network.reading, network.signal, network.reference)
        grades = self.grades(explained, high)
        if self.compares:
            return [self.records(label, network.seed, grades, explained, network)]
        close = agreement_with_reference(explained, test, explainer.signal)
        grades |= {"rank_correlation": close["spearman"].tolist(), "top_iou": close["top-k IoU"].tolist()}
        if network.signal == "labelling":
            pairs = grading.labelled(self.model, test, explained, high)
        else:
            pairs = grading.ranked(self.model, test, explained)
        grades |= {name: own.tolist() for name, (_, own) in pairs.items()}
        tables = [self.records(label, network.seed, grades, explained, network)]
        theirs = {name: pair[0].tolist() for name, pair in pairs.items() if name in BESIDE}
        if network.reading == self.recipe.readings[0] and theirs:
            tables.append(self.records(network.reference, network.seed, theirs, test, network))
        return tables

    def grades(self, explained: Sequence[Explanation], high: float | None = None) -> dict[str, list[float]]:
        """All metrics of the piece; ``high`` is that of the signal by which labels were learnt."""
        evidence = Evidence(explained, self.model)
        grades: dict[str, list[float]] = {}
        for name, (metric, settings) in METRICS_OF_ALL.items():
            if ("corpus" in METRICS.card(metric).needs) != self.compares:
                continue
            own: Plain = {"high": high} if settings.get("by") == "labels" else {}
            if settings.get("similarity") == "semantic":
                own["encoder"] = None if self.recipe.encoder is None else filled(self.recipe.encoder)
            made = METRICS.get(metric).configured(**settings, **own)
            grades[name] = [grade.value for grade in made.measure(evidence)]
        if not self.compares:
            grades[grading.AGAINST] = grading.against(self.model, explained)
        if self.annotated:
            grades |= grading.stability(explained) if self.compares else grading.rationales(explained)
        return grades

    def records(
        self,
        label: str,
        seed: int,
        grades: Mapping[str, Sequence[float]],
        explained: Sequence[Explanation],
        network: Network | None = None,
    ) -> pa.Table:
        """Grades of one explainer as records, in the seven digits of the model's outputs."""
        same: dict[str, str | int] = {
            "explainer": label,
            "method": explained[0].method,
            "seed": seed,
            "null": "",
            "part": "",
        }
        same |= {"model": self.model.fingerprint(), "data": self.recipe.name}
        tables = [
            record_store.with_constants(
                pa.table({"example": self.names, "value": pa.array(np.asarray(values, np.float32).astype(np.float64))}),
                same | {"metric": metric, "settings": settings_hash(self.recipe, label, metric, network)},
            )
            for metric, values in grades.items()
        ]
        return pa.concat_tables(tables)


def settings_hash(recipe: DistillationRecipe, label: str, metric: str, network: Network | None = None) -> str:
    """Hash of the settings of the explainer called so in the records, and of a metric.

    Args:
        recipe: of the study.
        label: a reference, ``abs(reference)``, "random" or a learned explainer.
        metric: its name in the records.
        network: the learned explainer, or that on whose words a reference is measured.
    """
    measure = METRICS_OF_ALL.get(metric, (metric, {}))
    parts: list[object] = [label, list(measure), recipe.encoder if "semantic" in metric else None]
    reference = network.reference if network else label.removeprefix("abs(").removesuffix(")")
    entries = recipe.members(reference) if reference in recipe.learnable else ()
    parts += [[entry.name, dict(entry.settings)] for entry in entries]
    if network is not None:
        own = recipe.settings(network.reference, network.reading, network.signal)
        parts += [network.reading, network.signal, own, recipe.embeddings, recipe.choose]
    return content_hash(parts)


def manifest_of(recipe: DistillationRecipe, command: str) -> Plain:
    """What a folder of this kind holds."""
    return {
        "kind": recipe.kind,
        "name": recipe.name,
        "command": command,
        "tables": list(recipe.tables),
        "figures": list(recipe.figures),
        "versions": dict(versions()),
        "format": keys.FORMAT,
    }
