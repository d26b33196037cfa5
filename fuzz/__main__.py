"""The command ``python -m fuzz``."""

from __future__ import annotations

import argparse
import importlib.metadata
import itertools
import json
import os
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from pathlib import Path

os.environ |= {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false", "OMP_NUM_THREADS": "1"}

from fuzz import __doc__ as ABOUT
from fuzz.cases import LIMIT, Case, CaseResult
from fuzz.pool import prepare, run
from fuzz.report import REPO, code_hash, read_results, record


def main() -> int:
    """Run cases and write what became of them; exit 1 where any failed."""
    options = _parser().parse_args()
    _importable()
    if options.only:
        return _again(options.only, options.seed)
    place = Path("runs/fuzz") / f"{options.seed}-{code_hash()}.jsonl"
    place.parent.mkdir(parents=True, exist_ok=True)
    results = [] if options.fresh else read_results(place)
    done = {(result.kind, result.number) for result in results}
    cases = (case for case in _cases(options) if (case.kind, case.number) not in done)
    until = None if options.minutes is None else time.time() + 60 * options.minutes
    with place.open("w" if options.fresh else "a", encoding="utf-8") as file:
        for result in run(cases, options.seed, options.workers, options.limit, until):
            results.append(result)
            file.write(json.dumps(result.to_dict()) + "\n")
            _tell(result, len(results))
    return _finish(results, options)


def _finish(results: list[CaseResult], options: argparse.Namespace) -> int:
    summary = record(results, options.seed, options.limit, _command(options))
    text = json.dumps(summary, indent=1) + "\n"
    if options.out is not None:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(text, encoding="utf-8")
    for root in summary["roots"]:  # type: ignore[attr-defined]
        print(f"{root['count']:6d}  {root['root']}  {' '.join(root['cases'])}\n        {root['message']}")
    failed = sum(not result.passed for result in results)
    print(f"{len(results)} cases, {failed} failed")
    return 1 if failed else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="fuzz", description=ABOUT, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=0, help="of all cases (default: 0)")
    parser.add_argument("--calls", type=int, default=0, metavar="N", help="calls of public functions")
    parser.add_argument("--commands", type=int, default=0, metavar="N", help="command lines")
    parser.add_argument("--recipes", type=int, default=0, metavar="N", help="recipe files")
    parser.add_argument("--files", type=int, default=0, metavar="N", help="data files")
    parser.add_argument("--mutations", type=int, default=0, metavar="N", help="changes of each saved artefact")
    parser.add_argument(
        "--minutes", type=float, metavar="M", help="stop after so long; without counts, all kinds in turn till then"
    )
    parser.add_argument("--workers", type=int, default=1, metavar="W", help="processes (default: 1)")
    parser.add_argument(
        "--limit", type=float, default=LIMIT, metavar="S", help=f"seconds of a case (default: {LIMIT:.0f})"
    )
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the record here, as JSON")
    parser.add_argument("--only", metavar="KIND:NUMBER", help="make one case again and print what happens")
    parser.add_argument("--fresh", action="store_true", help="forget what an earlier run with this seed has done")
    return parser


def _cases(options: argparse.Namespace) -> Iterator[Case]:
    """The cases that were asked for, kinds mixed so that a stopped run has some of each."""
    from fuzz.kinds import MUTATED

    counts = {"api": options.calls, "commands": options.commands, "recipes": options.recipes, "files": options.files}
    counts |= dict.fromkeys(MUTATED, options.mutations)
    if not any(counts.values()):
        if options.minutes is None:
            raise SystemExit(
                "fuzz: nothing to do: give --calls, --commands, --recipes, --files, --mutations or --minutes"
            )
        shares = {"api": 50, "commands": 1, "recipes": 5, "files": 10} | dict.fromkeys(MUTATED, 2)
        for turn in itertools.count():
            yield from (Case(kind, turn * share + n) for kind, share in shares.items() for n in range(share))
    most = max(counts.values())
    spread = [(number * most // count, kind, number) for kind, count in counts.items() for number in range(count)]
    yield from (Case(kind, number) for _, kind, number in sorted(spread))


def _again(name: str, seed: int) -> int:
    """Make one case with everything shown."""
    prepare()
    from fuzz.kinds import KINDS
    from fuzz.workshop import Workshop

    kind, _, number = name.partition(":")
    workshop = Workshop()
    attempt = KINDS[kind](Case(kind, int(number)).rng(seed), workshop)
    print(attempt.shown, flush=True)
    try:
        attempt.call()
    except (Exception, SystemExit):
        traceback.print_exc()
        return 1
    finally:
        workshop.close()
    return 0


def _tell(result: CaseResult, count: int) -> None:
    if not result.passed:
        print(f"{result.kind}:{result.number} {result.verdict} {result.root} | {result.message:.120}", flush=True)
    elif count % 1000 == 0:
        print(f"{count} cases", flush=True)


def _command(options: argparse.Namespace) -> str:
    """The command line without what holds on one machine only."""
    names = ("seed", "calls", "commands", "recipes", "files", "mutations", "minutes")
    given = [f"--{name} {getattr(options, name)}" for name in names if getattr(options, name)]
    given += [f"--limit {options.limit:g}"] if options.limit != LIMIT else []
    return " ".join(["python -m fuzz", *given])


def _importable() -> None:
    """Absolute paths for processes with other working directories; metadata where didact runs from its sources."""
    paths = [str(REPO / "src"), str(REPO), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    try:
        importlib.metadata.version("didact")
    except importlib.metadata.PackageNotFoundError:
        folder = Path(tempfile.mkdtemp(prefix="fuzz-metadata-"))
        (folder / "didact-0.dist-info").mkdir()
        (folder / "didact-0.dist-info" / "METADATA").write_text(
            "Metadata-Version: 2.1\nName: didact\nVersion: 0\n", "utf-8"
        )
        paths.append(str(folder))
    paths = list(dict.fromkeys(str(Path(path).resolve()) for path in paths))
    os.environ["PYTHONPATH"] = os.pathsep.join(paths)
    sys.path[:] = [*paths, *(entry for entry in sys.path if entry not in paths)]


if __name__ == "__main__":
    sys.exit(main())
