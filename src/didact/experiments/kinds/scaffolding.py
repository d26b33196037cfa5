"""Scaffolding: explainers that are trained for teaching, graded by fresh students."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from didact.experiments.engine.kinds import Kind, RecipeCard, ReportOptions, register
from didact.experiments.engine.steps import RecipeJob, RunOptions
from didact.experiments.scaffolding.job import ScaffoldingJob
from didact.experiments.scaffolding.recipe import ScaffoldingRecipe
from didact.experiments.simulability.prepare import prepare

if TYPE_CHECKING:
    from rich.console import Console


@register(RecipeCard("scaffolding", "Explainers trained for teaching (SMaT), graded by fresh students and by people."))
class ScaffoldingKind(Kind[ScaffoldingRecipe]):
    """Explainers are trained, then fresh students learn from their frozen explanations beside static ones."""

    recipe = ScaffoldingRecipe

    def job(self, recipe: ScaffoldingRecipe, options: RunOptions) -> RecipeJob:
        """Load teacher, texts, static explainers, students and channels."""
        return ScaffoldingJob(prepare(recipe, trust_remote_code=options.trust_remote_code), options)

    def report(self, folder: Path, options: ReportOptions, console: Console) -> list[Path]:
        """Learning curves, areas under them and ends, plausibility and weights of heads."""
        from didact.experiments.scaffolding.report import report

        return report(folder, options.formats, console)
