"""What a study of explainers trained for metrics shows: who leads, what the terms of the loss do, and what it hides."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from didact.attribution.base import ATTRIBUTIONS
from didact.experiments.distillation.summary import Grades, gather, spread
from didact.experiments.engine.objects import read_object
from didact.experiments.engine.toml import Plain
from didact.experiments.masking.explainers import StudyExplainer, study_explainers
from didact.experiments.masking.grading import count_label
from didact.experiments.masking.judges import metric_of
from didact.experiments.masking.recipe import RANDOM, MaskingRecipe, drawn_row, trained_label
from didact.experiments.report.formatting import listed
from didact.experiments.report.page import WARNING
from didact.stats.compare import Compared, Comparison, compare_all
from didact.stats.means import mean_tests
from didact.store import records as record_store
from didact.types import Floats


@dataclass(frozen=True, eq=False)
class MaskingFindings:
    """Records and facts of a run.

    Attributes:
        folder: of the run.
        recipe: what was done.
        summary: facts about training, students and speed.
        grades: metric -> explainer -> a value per text, NaN where undefined.
    """

    folder: Path
    recipe: MaskingRecipe
    summary: Plain
    grades: Grades

    @classmethod
    def read(cls, folder: Path, without: Collection[str] = ()) -> MaskingFindings:
        """Of a run that has graded something, on all test texts but some, which are given by their names in records."""
        missing = f"{folder} is not finished: summary.json is missing; give the same command again"
        summary = read_object(folder / "summary.json", missing)
        recipe = MaskingRecipe.of_run(folder)
        records = record_store.read(folder / "records.parquet")
        if without:
            records = records.filter(pc.invert(pc.is_in(records["example"], pa.array(sorted(without)))))
            counts = {**summary["texts"], "test": len(records["example"].unique())}
            summary = {**summary, "texts": counts}
        return cls(folder, recipe, summary, gather(records))

    @property
    def name(self) -> str:
        """Of the study."""
        return self.recipe.name

    @property
    def texts(self) -> int:
        """Test texts."""
        return int(self.summary["texts"]["test"])

    @cached_property
    def rows(self) -> list[str]:
        """The rows of the main table: stages of training, rivals, selections, drawn maps, random scores."""
        rivals = [one.label for one in self.recipe.rivals]
        return [*reversed(self.recipe.stages), *rivals, *self.recipe.selections, *self._drawn, RANDOM]

    @property
    def _drawn(self) -> list[str]:
        return [drawn_row(label) for label in self.recipe.drawn]

    @cached_property
    def explainers(self) -> list[StudyExplainer]:
        """All explainers but those without a term of the loss."""
        return [one for one in study_explainers(self.recipe) if not one.without]

    def higher_is_better(self, metric: str) -> bool | None:
        """The direction of a metric."""
        own = self.recipe.measure(metric)
        return metric_of(own.name, **own.settings).card.higher_is_better

    def values(self, row: str, metric: str) -> Floats | None:
        """A row of the main table on a metric, text by text; explainers are those trained for this metric."""
        known = self.grades.get(metric, {})
        if row in (*self.recipe.stages, *self._drawn):
            return known.get(trained_label(row, metric))
        if row in self.recipe.selections:
            return self.selected(row, metric)
        return known.get(row)

    def selected(self, selection: str, metric: str) -> Floats | None:
        """For every text the best value among the members of a selection: they are chosen on the text itself."""
        known = self.grades.get(metric, {})
        members = [known[label] for label in self.recipe.selections[selection] if label in known]
        if len(members) < len(self.recipe.selections[selection]):
            return None
        sign = 1.0 if self.higher_is_better(metric) else -1.0
        best = np.fmax.reduce([sign * values for values in members])
        return np.asarray(sign * best)

    @cached_property
    def comparisons(self) -> dict[str, Comparison]:
        """Every two rows of the main table on every metric that explainers were trained for."""
        return self._compared(
            {
                metric: {row: values for row in self.rows if (values := self.values(row, metric)) is not None}
                for metric in self.recipe.optimised
            }
        )

    @cached_property
    def crossed(self) -> dict[str, Comparison]:
        """Every two explainers on every metric, also those that they were not trained for."""
        labels = [one.label for one in self.explainers]
        return self._compared(
            {
                one.label: {label: known[label] for label in labels if label in known}
                for one in self.recipe.measures
                if (known := self.grades.get(one.label))
            }
        )

    def _compared(self, tables: Mapping[str, Mapping[str, Floats]]) -> dict[str, Comparison]:
        tables = {metric: rows for metric, rows in tables.items() if rows}
        compared = [Compared(rows, self.higher_is_better(metric)) for metric, rows in tables.items()]
        return dict(zip(tables, compare_all(compared)[0], strict=True)) if compared else {}

    def mean(self, label: str, metric: str) -> tuple[float, float]:
        """Mean of an explainer over the test texts, and 1.96 standard errors."""
        values = self.grades.get(metric, {}).get(label)
        return (float("nan"), float("nan")) if values is None else spread(values)[:2]

    def micro(self, label: str, metric: str) -> float:
        """Micro average of an F1: over the words of all texts together."""
        sums = {}
        for part in ("hits", "selected", "gold"):
            values = self.grades.get(count_label(metric, part), {}).get(label)
            if values is None:
                return float("nan")
            sums[part] = float(np.nansum(values))
        return 2 * sums["hits"] / max(sums["selected"] + sums["gold"], 1e-12)

    @cached_property
    def sentences(self) -> list[str]:
        """What the numbers say, and what they hide."""
        return [*self._leading(), *self._one_pass(), *self._terms(), *self._unseen(), *self._failed()]

    def _leading(self) -> list[str]:
        """Whether the refined (else the trained) explainer leads, against rivals as they are and selected as it is."""
        if not self._tested:
            return (
                [f"{WARNING}{self.texts} test texts are too few for significant differences between explainers."]
                if self.texts
                else []
            )
        chosen = [*self.recipe.selections, *self._drawn]
        stage = self.recipe.stages[-1]
        given = [row for row in self.rows if row not in chosen]
        lines = [self._standing(stage, "as they are", given)]
        if searching := [one.label for one in self.recipe.rivals if _searches(one.name)]:
            plain = [row for row in given if row not in searching]
            lines.append(self._standing(stage, f"that do not search by a metric (all but {listed(searching)})", plain))
        if chosen:
            own = [row for row in (stage, drawn_row(stage)) if row in self.rows]
            others = [row for row in self.rows if row not in own]
            lines += [self._standing(row, "with the same selection", others) for row in own]
        if stage == "faml":
            lines.append(
                f"The map of faml is chosen on the test text itself, out of {self._maps}, by the metric that is "
                f"reported; {f'other methods are selected so only as {listed(chosen)}' if chosen else 'no other is'}."
            )
        return lines

    def _standing(self, stage: str, which: str, rows: Sequence[str]) -> str:
        """On how many metrics a row leads, among some."""
        leads = [metric for metric in self.comparisons if self._leads(stage, metric, rows)]
        best = (
            f"{stage} is best, or not significantly different from the best, on {len(leads)} of {len(self.comparisons)}"
        )
        return f"{best} metrics against other methods {which}" + (f" ({listed(leads)})." if leads else ".")

    @property
    def _maps(self) -> str:
        """What refinement chooses from."""
        steps = self.recipe.refinement.get("steps")
        return f"{1 + int(steps)} maps" if steps else "its maps"

    @cached_property
    def _tested(self) -> bool:
        """Whether there are enough texts for any test."""
        return any(np.isfinite(comparison.adjusted).any() for comparison in self.comparisons.values())

    def _leads(self, row: str, metric: str, among: Sequence[str]) -> bool:
        comparison = self.comparisons[metric]
        if row not in comparison.names:
            return False
        others = [other for other in comparison.names if other in among and other != row]
        return not any(row in comparison.beats(other) for other in others)

    def _one_pass(self) -> list[str]:
        """How the explainer of one pass stands against each rival."""
        lines: list[str] = []
        if not self._tested:
            return lines
        for rival in (one.label for one in self.recipe.rivals):
            better = [metric for metric, table in self.comparisons.items() if self._beats(table, "paml", rival)]
            worse = [metric for metric, table in self.comparisons.items() if self._beats(table, rival, "paml")]
            lines.append(f"paml against {rival}: better on {listed(better)}, worse on {listed(worse)}.")
        return lines

    def _beats(self, comparison: Comparison, first: str, second: str) -> bool:
        return {first, second} <= set(comparison.names) and second in comparison.beats(first)

    def _terms(self) -> list[str]:
        """What a missing term of the loss does to the metrics it was trained for."""
        recipe = self.recipe
        keys = [
            (stage, without, metric)
            for without in recipe.ablations
            for stage in recipe.stages
            for metric in recipe.ablated
            if {trained_label(stage, metric), trained_label(stage, metric, without)}
            <= self.grades.get(metric, {}).keys()
        ]
        tests = mean_tests([self._lost(*key) for key in keys]) if keys else None
        lines: dict[str, list[str]] = {}
        for at, (stage, without, metric) in enumerate(keys):
            change = float(np.nanmean(self._lost(stage, without, metric)))
            verdict = "better" if (change > 0) == bool(self.higher_is_better(metric)) else "worse"
            sure = tests is not None and bool(tests.significant[at])
            words = f"{metric} {change:+.3f} ({verdict if sure else 'not significant'})"
            lines.setdefault(f"{stage} without {without}", []).append(words)
        return [f"{label}: {', '.join(changes)}." for label, changes in lines.items()]

    def _lost(self, stage: str, without: str, metric: str) -> Floats:
        """The change of a metric, text by text, when a term of the loss is left out."""
        known = self.grades[metric]
        return known[trained_label(stage, metric, without)] - known[trained_label(stage, metric)]

    def _unseen(self) -> list[str]:
        """Metrics on which an explainer that was trained for another is significantly worse than others."""
        lines = []
        for metric, comparison in self.crossed.items():
            trained = [one for one in self.explainers if one.is_trained and one.metric != metric]
            below = [one.label for one in trained if self._beats(comparison, RANDOM, one.label)]
            if below:
                lines.append(
                    f"{WARNING}on {metric}, which they were not trained for, {listed(below)} are worse than "
                    "random scores."
                )
            best = comparison.best
            rivals = {one.label for one in self.recipe.rivals}
            worse = [one.label for one in trained if best and self._beats(comparison, best, one.label)]
            if best in rivals and worse:
                lines.append(
                    f"{WARNING}on {metric}, which they were not trained for, {listed(worse)} are worse than {best}."
                )
        return lines

    def _failed(self) -> list[str]:
        """Trials of searches that gave no value."""
        lines = []
        for name, facts in self.summary.get("searches", {}).items():
            if facts.get("failed"):
                number, reason = facts["failed"][0]
                lines.append(
                    f"{WARNING}{len(facts['failed'])} of {facts['trials']} trials of {name} failed; trial {number}: "
                    f"{reason}"
                )
        return lines


def _searches(method: str) -> bool:
    """Whether a method looks for what is best by a metric on the very text that it explains."""
    return "metric" in {item.name for item in dataclasses.fields(ATTRIBUTIONS.get(method))}
