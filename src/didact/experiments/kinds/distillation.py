"""Distillation: networks that learn to imitate slow explainers, graded beside them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from didact.experiments.distillation.job import DistillationJob
from didact.experiments.distillation.recipe import DistillationRecipe
from didact.experiments.engine.kinds import Kind, RecipeCard, ReportOptions, register
from didact.experiments.engine.steps import RecipeJob, RunOptions

if TYPE_CHECKING:
    from rich.console import Console


@register(RecipeCard("distillation", "Slow explainers and the networks that learn to imitate them, graded together."))
class DistillationKind(Kind[DistillationRecipe]):
    """Learned explainers beside what they imitate: faithfulness, stability and speed."""

    recipe = DistillationRecipe

    def job(self, recipe: DistillationRecipe, options: RunOptions) -> RecipeJob:
        """The steps of the study; model and texts are loaded when they are first needed."""
        return DistillationJob(recipe, options)

    def report(self, folder: Path, options: ReportOptions, console: Console) -> list[Path]:
        """The table of learned explainers beside their references, in the terminal and as report.md."""
        from didact.experiments.distillation.report import write

        path = write(folder)
        console.print(path.read_text(encoding="utf-8"), markup=False, highlight=False, soft_wrap=True)
        return [path]
