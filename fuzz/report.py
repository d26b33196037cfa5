"""Counts of what became of the cases, as a JSON record."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import platform
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

from fuzz.cases import FAILED, PASSED, CaseResult

REPO = Path(__file__).resolve().parents[1]
LIBRARIES = ("torch", "transformers", "tokenizers", "safetensors", "numpy", "pyarrow")
SHOWN = 100
"""Failures that are listed one by one."""


def code_hash() -> str:
    """Hash of the sources under test and of the harness: results of other code do not count."""
    digest = hashlib.sha256()
    for path in sorted((*(REPO / "src").rglob("*.py"), *(REPO / "fuzz").rglob("*.py"))):
        digest.update(path.relative_to(REPO).as_posix().encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def read_results(path: Path) -> list[CaseResult]:
    """Results of an earlier run that was stopped; a last line that is torn is left out."""
    if not path.is_file():
        return []
    results = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            results.append(CaseResult(**json.loads(line)))
        except (ValueError, TypeError):
            continue
    return results


def record(results: Sequence[CaseResult], seed: int, limit: float, command: str) -> dict[str, object]:
    """Everything that is worth keeping of a run."""
    ordered = sorted(results, key=lambda result: (result.kind, result.number))
    kinds: dict[str, list[CaseResult]] = defaultdict(list)
    for result in ordered:
        kinds[result.kind].append(result)
    failures = [result for result in ordered if not result.passed]
    return {
        "command": command,
        "seed": seed,
        "limit_seconds": limit,
        "code": code_hash(),
        "versions": _versions(),
        "machine": f"{platform.machine()} CPU, {os.cpu_count()} cores",
        "kinds": {kind: _counts(of_kind) for kind, of_kind in kinds.items()},
        "roots": _roots(failures),
        "failures": [failure.to_dict() for failure in failures[:SHOWN]],
    }


def _counts(results: Sequence[CaseResult]) -> dict[str, object]:
    verdicts = Counter(result.verdict for result in results)
    groups: dict[str, Counter[str]] = defaultdict(Counter)
    for result in results:
        groups[result.group][result.verdict] += 1
    return {
        "cases": len(results),
        **{verdict: verdicts[verdict] for verdict in (*PASSED, *FAILED)},
        "slowest_seconds": max(result.seconds for result in results),
        "groups": {name: dict(sorted(groups[name].items())) for name in sorted(groups)},
    }


def _roots(failures: Iterable[CaseResult]) -> list[dict[str, object]]:
    """Failures by what caused them, the most frequent first."""
    by_root: dict[str, list[CaseResult]] = defaultdict(list)
    for failure in failures:
        by_root[failure.root].append(failure)
    rows = sorted(by_root.items(), key=lambda item: (-len(item[1]), item[0]))
    return [
        {
            "root": root,
            "count": len(cases),
            "cases": [f"{case.kind}:{case.number}" for case in cases[:5]],
            "message": cases[0].message,
        }
        for root, cases in rows
    ]


def _versions() -> dict[str, str]:
    installed = {"python": platform.python_version()}
    for library in LIBRARIES:
        try:
            installed[library] = importlib.metadata.version(library).partition("+")[0]
        except importlib.metadata.PackageNotFoundError:
            installed[library] = "not installed"
    return installed
