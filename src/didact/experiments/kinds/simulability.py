"""Simulability: explanations graded by how much better students imitate the model that were taught with them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from didact.experiments.engine.kinds import Kind, RecipeCard, ReportOptions, register
from didact.experiments.engine.steps import RecipeJob, RunOptions
from didact.experiments.simulability.findings import find
from didact.experiments.simulability.job import SimulabilityJob
from didact.experiments.simulability.prepare import prepare
from didact.experiments.simulability.recipe import SimulabilityRecipe
from didact.experiments.simulability.report import write

if TYPE_CHECKING:
    from rich.console import Console


@register(RecipeCard("simulability", "Explainers graded by how well their explanations teach students."))
class SimulabilityKind(Kind[SimulabilityRecipe]):
    """Students trained with and without explanations, and tested without."""

    recipe = SimulabilityRecipe

    def job(self, recipe: SimulabilityRecipe, options: RunOptions) -> RecipeJob:
        """Load teacher, texts, explainers, students and channels."""
        return SimulabilityJob(prepare(recipe, trust_remote_code=options.trust_remote_code), options)

    def report(self, folder: Path, options: ReportOptions, console: Console) -> list[Path]:
        """Which explanation teaches best: a table per setting, and the report in all its formats."""
        from didact.experiments.simulability.terminal import show

        findings = find(folder)
        show(findings, console)
        return write(findings) if options.formats is None else write(findings, options.formats)
