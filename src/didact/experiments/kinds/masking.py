"""Masking: explainers that are trained for a metric, graded by it and by others, beside methods that are not."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from didact.experiments.engine.kinds import Kind, RecipeCard, ReportOptions, register
from didact.experiments.engine.steps import RunOptions
from didact.experiments.masking.job import MaskingJob
from didact.experiments.masking.recipe import MaskingRecipe
from didact.types import Estimate

if TYPE_CHECKING:
    from rich.console import Console


@register(RecipeCard("masking", "Explainers trained for a metric (AML), graded by it and by metrics they never saw."))
class MaskingKind(Kind[MaskingRecipe]):
    """Explainers trained for metrics beside rivals: faithfulness, ablations, simulability and speed."""

    recipe = MaskingRecipe

    def job(self, recipe: MaskingRecipe, options: RunOptions) -> MaskingJob:
        """The steps of the study; model and texts are loaded when they are first needed."""
        return MaskingJob(recipe, options)

    def estimates(self, recipe: MaskingRecipe, options: RunOptions) -> list[Estimate]:
        """Of search and training, of every explainer on the test texts, and of all grades."""
        from didact.experiments.masking.cost import study_estimates

        return study_estimates(self.job(recipe, options))

    def report(self, folder: Path, options: ReportOptions, console: Console) -> list[Path]:
        """The tables in the terminal, and as report.md and report.html."""
        from didact.experiments.masking.report import report

        return report(folder, options.formats, console)
