"""Grading: explanations of a model's predictions, measured by metrics of faithfulness, plausibility and cost."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from didact.experiments.engine.kinds import Kind, RecipeCard, ReportOptions, register
from didact.experiments.engine.steps import RecipeJob, RunOptions
from didact.experiments.grading.forecast import estimates
from didact.experiments.grading.job import GradingJob
from didact.experiments.grading.prepare import prepare
from didact.experiments.grading.recipe import GradingRecipe
from didact.experiments.grading.report import FILES, find_in, write
from didact.types import Estimate

if TYPE_CHECKING:
    from rich.console import Console


@register(RecipeCard("grading", "Explainers graded by metrics on a model and data."))
class GradingKind(Kind[GradingRecipe]):
    """Explainers by metrics, each beside controls and broken copies of its explanations."""

    recipe = GradingRecipe

    def job(self, recipe: GradingRecipe, options: RunOptions) -> RecipeJob:
        """Load model and data, choose explainers and metrics."""
        return GradingJob(prepare(recipe, trust_remote_code=options.trust_remote_code), options)

    def estimates(self, recipe: GradingRecipe, options: RunOptions) -> list[Estimate]:
        """A row per method and metric; seconds come from carrying the recipe out on a few texts."""
        return estimates(prepare(recipe, trust_remote_code=options.trust_remote_code))

    def report(self, folder: Path, options: ReportOptions, console: Console) -> list[Path]:
        """Which explanations to trust: a table per family of metrics, and the report in all its formats."""
        from didact.experiments.grading.terminal import show

        findings = find_in(folder, metric=options.metric, examples=options.examples)
        written = write(findings, tuple(FILES) if options.formats is None else options.formats)
        show(findings, console)
        return written
