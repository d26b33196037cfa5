"""A finished evaluation, as Python gets it back: the folder, and views of what is in it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from didact.experiments.grading.report import find_in, write
from didact.experiments.grading.report.findings import GradingFindings
from didact.experiments.grading.report.markdown import markdown
from didact.experiments.grading.report.page import page
from didact.experiments.grading.report.sentences import headlines
from didact.experiments.grading.report.tabular import rows
from didact.render.notebook import framed
from didact.store import explanations as explanation_store
from didact.store import records as record_store
from didact.types import Explanation, Record


@dataclass(frozen=True)
class Evaluation:
    """Where a run lies; ``print`` shows its report, a notebook draws it.

    Attributes:
        folder: of the run.
    """

    folder: Path

    @cached_property
    def findings(self) -> GradingFindings:
        """Everything the report says."""
        return find_in(self.folder)

    @property
    def answers(self) -> list[str]:
        """Which explanations to trust, in a few sentences."""
        return headlines(self.findings)

    @property
    def table(self) -> list[dict[str, object]]:
        """A row per explainer and metric: mean, interval, what it is better than, and more."""
        return rows(self.findings)

    def records(self) -> list[Record]:
        """Every measured number."""
        return record_store.from_table(record_store.read(self.folder / "records.parquet"))

    def explanations(self) -> list[Explanation]:
        """Every explanation that was graded."""
        return explanation_store.from_table(explanation_store.read(self.folder / "explanations.parquet"))

    def report(self) -> list[Path]:
        """Write the report into the folder as Markdown, LaTeX, CSV, JSON and HTML; the page comes last."""
        return write(self.findings)

    def __str__(self) -> str:
        return markdown(self.findings)

    def _repr_html_(self) -> str:
        return framed(page(self.findings))
