"""A finished simulation, as Python gets it back: the folder, and views of what is in it."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from didact.experiments.simulability import report
from didact.experiments.simulability.findings import SimulabilityFindings, find
from didact.render.notebook import framed
from didact.simulation.gains import SimulabilityGains
from didact.simulation.simulability import Simulation


@dataclass(frozen=True)
class SimulabilityResult:
    """Where a run lies; ``print`` shows its report, a notebook draws it.

    Attributes:
        folder: of the run.
    """

    folder: Path

    @cached_property
    def findings(self) -> SimulabilityFindings:
        """Everything the report says."""
        return find(self.folder)

    @property
    def answers(self) -> list[str]:
        """Which explanation teaches best, in a few sentences."""
        return self.findings.sentences

    @property
    def verdict(self) -> SimulabilityGains:
        """Gains, ranks and agreements."""
        return self.findings.verdict

    @property
    def simulation(self) -> Simulation:
        """The score of every student on every test text."""
        return self.findings.simulation

    @property
    def table(self) -> list[dict[str, object]]:
        """A row per setting and method: score, gain, interval, p and more."""
        return [dataclasses.asdict(one) for one in self.verdict.gains]

    def to_dict(self) -> dict[str, object]:
        """All numbers as plain JSON values."""
        return report.plain(self.findings)

    def report(self) -> list[Path]:
        """Write the report into the folder as Markdown, JSON, SVG and HTML; the page comes last."""
        return report.write(self.findings)

    def __str__(self) -> str:
        return report.markdown(self.findings)

    def _repr_html_(self) -> str:
        return framed(report.page(self.findings))
