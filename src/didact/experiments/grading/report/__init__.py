"""The report on a run: which explanations to trust, with the numbers, charts and warnings behind the answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from didact.errors import ParameterError
from didact.experiments.grading.report.findings import GradingFindings, find
from didact.experiments.grading.report.latex import latex
from didact.experiments.grading.report.load_run import read_run
from didact.experiments.grading.report.markdown import markdown
from didact.experiments.grading.report.page import page
from didact.experiments.grading.report.tabular import summary, table
from didact.experiments.report.files import write_files

FILES: dict[str, tuple[str, Callable[[GradingFindings], str]]] = {
    "md": ("report.md", markdown),
    "tex": ("report.tex", latex),
    "csv": ("report.csv", table),
    "json": ("summary.json", summary),
    "html": ("report.html", page),
}
"""Format -> name of its file, and what writes it; the page comes last."""


def write_report(
    folder: Path, formats: Sequence[str] = tuple(FILES), *, metric: str | None = None, examples: int = 3
) -> list[Path]:
    """Write the report on a finished run into its folder.

    Args:
        folder: of the run.
        formats: any of "md", "tex", "csv", "json", "html".
        metric: label of the metric that is set against cost; comprehensiveness unless given.
        examples: how many examples are shown.

    Returns:
        The files written.

    Raises:
        InputError: the folder is no run, or the run is not finished.
        UnknownNameError: the run has no such metric.
    """
    return write(find_in(folder, metric=metric, examples=examples), formats)


def find_in(folder: Path, *, metric: str | None = None, examples: int = 3) -> GradingFindings:
    """Read a run and compute what its report says; arguments as for ``write_report``."""
    if examples < 0:
        raise ParameterError(f"examples must be at least 0, got {examples}")
    return find(read_run(Path(folder)), metric=metric, examples=examples)


def write(findings: GradingFindings, formats: Sequence[str] = tuple(FILES)) -> list[Path]:
    """Write findings into the folder of their run."""
    return write_files(findings, findings.run.folder, FILES, formats)
