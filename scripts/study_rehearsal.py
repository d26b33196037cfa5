"""Simulated raters go through whole studies: nothing is lost, planted orders are recovered, intervals hold the truth.

    python scripts/study_rehearsal.py                     # everything; writes docs/results/study/rehearsal.json
    python scripts/study_rehearsal.py --studies 10 --raters 6 --items 12 --out runs/rehearsal.json
    python scripts/study_rehearsal.py --only rank --studies 400 --seed 20000 --out docs/results/study/coverage.json

1. Durability: 20 raters x 60 items with a planted order answer a study on disk, four at a time, some requests sent
   twice, some from a second tab with another answer. The process is killed (SIGKILL) three times at moments that depend
   on the seed and started again. Every answer must be there once, as the rater first gave it, and none that was
   acknowledged before a kill may be missing.
2. Order: the analysis of that database, as its owner sees it.
3. Coverage of *rank*: 100 studies of that size with raters and items that differ; how many intervals hold the worths,
   and differences of worths, of the whole population (fitted to many independent rankings).
4. Coverage of *simulate*: 100 studies; how many intervals hold the planted gain over no explanations.
5. Worths against choix, an independent implementation, on rankings without ties.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import platform
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import choix
import numpy as np

from didact.provenance import versions
from didact.stats.plackett_luce import fit
from didact.study.design import StudyDesign
from didact.study.gains import analyse_gains
from didact.study.material import StudyMaterial
from didact.study.rankings import analyse_rankings
from didact.study.results import study_results
from didact.study.rows import read_answers
from didact.study.session import CODES, Study
from didact.study.simulated import PlantedRaters, made_up_explanations

EXPLAINERS = ("integrated_gradients", "lime", "attention", "random")
WORTHS = {"integrated_gradients": 0.9, "lime": 0.45, "attention": 0.0, "random": -1.35}
GAINS = {"none": 0.05, "lime": 0.2, "random": 0.05}
THREADS = 4


def main() -> None:
    """Run everything and write the numbers; or, with --work, be the process that is killed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--raters", type=int, default=20)
    parser.add_argument("--items", type=int, default=60)
    parser.add_argument("--studies", type=int, default=100, help="simulated studies of each protocol")
    parser.add_argument("--kills", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=PARTS, help="one part of the record (default: all)")
    parser.add_argument("--out", type=Path, default=Path("docs/results/study/rehearsal.json"))
    parser.add_argument("--work", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work is not None:
        answer_everything(options.work, options.seed)
        return
    began = time.time()
    record: dict[str, object] = {
        "command": f"python scripts/study_rehearsal.py --raters {options.raters} --items {options.items} --studies "
        f"{options.studies} --kills {options.kills} --seed {options.seed}"
        + (f" --only {options.only}" if options.only else ""),
        **{name: PARTS[name](options) for name in ([options.only] if options.only else PARTS)},
    }
    record |= {
        "minutes": round((time.time() - began) / 60, 1),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "versions": dict(versions()),
    }
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(json.dumps(record, indent=1, ensure_ascii=False))


def design_of(options: argparse.Namespace, seed: int = 0) -> StudyDesign:
    """The rank study that is rehearsed."""
    return StudyDesign(
        protocol="rank", explainers=EXPLAINERS, items=options.items, raters=options.raters, seed=seed, check_every=15
    )


def planted(seed: int) -> PlantedRaters:
    """Raters who prefer explainers in a known order, each in a slightly different way."""
    return PlantedRaters(worths=WORTHS, gains=GAINS, seed=seed)


def durability(options: argparse.Namespace) -> dict[str, object]:
    """Kill the process that stores answers, again and again, and compare what is there with what raters gave."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "study"
        design = design_of(options)
        material = StudyMaterial.chosen(made_up_explanations(EXPLAINERS[:-1], 2 * options.items), design)
        study = Study.create(folder, design, material)
        expected = options.raters * (
            2 + options.items + design.repeats + (options.items + design.repeats) // 15 + 2 + 1
        )
        shares = np.sort(np.random.default_rng(options.seed).uniform(0.1, 0.9, options.kills))
        killed = [kill_after(folder, options.seed, int(share * expected)) for share in shares]
        subprocess.run(_worker(folder, options.seed), check=True)
        counts = compared(study, folder, options.seed)
        results = study_results(study)
    if results.rank is None:
        raise SystemExit("no ranking was stored")
    return {
        "raters": options.raters,
        "items": options.items,
        "kills": len(killed),
        "acknowledged when killed": killed,
        "answers expected": expected,
        **counts,
        "planted order": sorted(WORTHS, key=lambda name: -WORTHS[name]),
        "recovered order": [each.name for each in results.rank.explainers],
        "places": {each.name: [each.best, each.worst] for each in results.rank.explainers},
        "worths": {
            each.name: [round(value, 3) for value in (each.worth.value, each.worth.low, each.worth.high)]
            for each in results.rank.explainers
        },
        "sentences": [each for each in results.sentences if "seconds" not in each],
    }


def kill_after(folder: Path, seed: int, answers: int) -> int:
    """Start the worker and kill it once so many answers are acknowledged in all."""
    process = subprocess.Popen(_worker(folder, seed))
    while acknowledged(folder) < answers and process.poll() is None:
        time.sleep(0.002)
    process.kill()
    process.wait()
    count = acknowledged(folder)
    print(f"killed after {count} acknowledged answers", flush=True)
    return count


def acknowledged(folder: Path) -> int:
    """Answers that the worker has reported as stored."""
    return sum(path.read_bytes().count(b"\n") for path in folder.parent.glob("acknowledged-*"))


def compared(study: Study, folder: Path, seed: int) -> dict[str, object]:
    """How many answers are stored, doubled, missing, changed, or were acknowledged and lost."""
    raters, labels = planted(seed), study.material.labels()
    rows = {(row.rater, row.page): row for row in read_answers(study)}
    stored = len(study.ledger.reading().all("answered"))
    people = _people(study)
    missing = changed = lost = 0
    for rater, (joined, pages) in study.raters().items():
        reported = (folder.parent / f"acknowledged-{people[rater]}").read_text(encoding="utf-8").split()
        lost += sum((rater, page) not in rows for page in reported)
        for page in pages.values():
            given = rows.get((rater, page.id))
            missing += given is None
            right = raters.respond(page, people[rater], joined.body["arm"], labels)
            changed += given is not None and given.answer != right
    return {
        "answers stored": stored,
        "doubled": stored - len(rows),
        "missing": missing,
        "changed": changed,
        "acknowledged and lost": lost,
    }


def _people(study: Study) -> dict[str, int]:
    """Pseudonym -> number of the simulated rater."""
    codes = (study.folder / CODES).read_text(encoding="utf-8").split()
    by_hash = {study._code_hash(code): number for number, code in enumerate(codes)}
    return {event.rater: by_hash[event.key] for event in study.ledger.reading().all("joined")}


def _worker(folder: Path, seed: int) -> list[str]:
    return [sys.executable, __file__, "--work", str(folder), "--seed", str(seed)]


def answer_everything(folder: Path, seed: int) -> None:
    """Answer all that is open, four raters at a time, as impatient people with two tabs do."""
    study = Study(folder)
    waiting = list(enumerate((folder / CODES).read_text(encoding="utf-8").split()))
    lock = threading.Lock()

    def work() -> None:
        while True:
            with lock:
                if not waiting:
                    break
                number, code = waiting.pop(0)
            answer_all(study, code, number, planted(seed))
        study.ledger.close()

    threads = [threading.Thread(target=work) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def answer_all(study: Study, code: str, number: int, raters: PlantedRaters) -> None:
    """All open pages of one rater; acknowledged answers are written down at once."""
    rng, labels = np.random.default_rng(number), study.material.labels()
    token, other = study.join(code).token, study.join(code).token
    page = study.next(token)
    with (study.folder.parent / f"acknowledged-{number}").open("a", encoding="utf-8") as report:
        while page.id:
            plan, arm = study.key(token, page.id)
            response = raters.respond(plan, number, arm, labels)
            following = study.answer(token, page.id, response)
            report.write(f"{page.id}\n")
            report.flush()
            if rng.random() < 0.2:
                study.answer(token, page.id, response)
            if rng.random() < 0.1 and isinstance(response, dict):
                study.answer(other, page.id, dict.fromkeys(response, 1))
            page = following


def rank_coverage(options: argparse.Namespace) -> dict[str, object]:
    """How many intervals of simulated studies hold the population's worths and differences."""
    truth = population(planted(0), options.seed)
    pairs = list(itertools.combinations(EXPLAINERS, 2))
    held: dict[str, list[bool]] = {name: [] for name in (*EXPLAINERS, *(" - ".join(pair) for pair in pairs))}
    orders, widths = [], []
    for number in range(options.studies):
        design = design_of(options, seed=number)
        material = StudyMaterial.chosen(made_up_explanations(EXPLAINERS[:-1], options.items, seed=number), design)
        ranking = analyse_rankings(
            planted(1000 + options.seed + number).rows(design, material), EXPLAINERS, resamples=400
        )
        if ranking is None:
            raise SystemExit("no ranking was simulated")
        for each in ranking.explainers:
            held[each.name].append(each.worth.low <= truth[each.name] <= each.worth.high)
        for pair in ranking.pairs:
            difference = truth[pair.first] - truth[pair.second]
            name = " - ".join(sorted((pair.first, pair.second), key=EXPLAINERS.index))
            held[name].append(pair.difference.low <= difference <= pair.difference.high)
            widths.append(pair.difference.high - pair.difference.low)
        orders.append([each.name for each in ranking.explainers] == sorted(WORTHS, key=lambda name: -WORTHS[name]))
        print(f"rank: {number + 1} of {options.studies} studies", flush=True)
    counts = {name: sum(each) for name, each in held.items()}
    return {
        "studies": options.studies,
        "population": {name: round(value, 4) for name, value in truth.items()},
        "intervals that hold it": counts,
        "mean per 100": round(100 * float(np.mean([count / options.studies for count in counts.values()])), 1),
        "studies with the planted order": sum(orders),
        "mean width of a difference": round(float(np.mean(widths)), 3),
    }


def population(raters: PlantedRaters, seed: int, rankings: int = 200_000) -> dict[str, float]:
    """Worths fitted to independent rankings by other raters of other items."""
    rng = np.random.default_rng([seed, 9])
    shape = (rankings, len(EXPLAINERS))
    spread = np.hypot(raters.between_raters, raters.between_items)
    values = np.array([WORTHS[name] for name in EXPLAINERS]) + spread * rng.normal(size=shape) + rng.gumbel(size=shape)
    worths = fit([tiers(row, raters.tie) for row in values], len(EXPLAINERS)).worths
    return dict(zip(EXPLAINERS, worths.tolist(), strict=True))


def tiers(values: Sequence[float], tie: float) -> list[list[int]]:
    """Things from the highest value down; neighbours closer than ``tie`` share a tier."""
    ranked: list[list[int]] = []
    for place in np.argsort(-np.asarray(values)).tolist():
        if ranked and values[ranked[-1][-1]] - values[place] < tie:
            ranked[-1].append(place)
        else:
            ranked.append([place])
    return ranked


def simulate_coverage(options: argparse.Namespace) -> dict[str, object]:
    """How many intervals of simulated studies hold the planted gain over no explanations."""
    held: dict[str, list[bool]] = {"lime": [], "random": []}
    helps: dict[str, list[bool]] = {"lime": [], "random": []}
    for number in range(options.studies):
        design = StudyDesign(
            protocol="simulate", explainers=("lime", "random"), items=30, learning=2, raters=36, seed=number
        )
        material = StudyMaterial.chosen(made_up_explanations(("lime",), 40, seed=number), design)
        rows = planted(2000 + options.seed + number).rows(design, material)
        gained = analyse_gains(rows, design.arms, resamples=400)
        if gained is None:
            raise SystemExit("no gain was simulated")
        for arm in gained.arms:
            if arm.over_none is not None:
                gain = GAINS[arm.arm] - GAINS["none"]
                held[arm.arm].append(arm.over_none.low <= gain <= arm.over_none.high)
                helps[arm.arm].append(arm.helps)
        print(f"simulate: {number + 1} of {options.studies} studies", flush=True)
    return {
        "studies": options.studies,
        "raters": 36,
        "items": 30,
        "planted gains over none": {name: round(GAINS[name] - GAINS["none"], 3) for name in held},
        "intervals that hold it": {name: sum(each) for name, each in held.items()},
        "studies that say it helps": {name: sum(each) for name, each in helps.items()},
    }


def against_choix(seed: int, datasets: int = 20) -> dict[str, object]:
    """The largest difference from choix's worths over random rankings without ties."""
    largest = 0.0
    for number in range(datasets):
        rng = np.random.default_rng([seed, number])
        count = int(rng.integers(3, 8))
        values = rng.normal(size=count) + rng.gumbel(size=(200, count))
        rankings = np.argsort(-values, axis=1).tolist()
        other = choix.ilsr_rankings(count, rankings, tol=1e-12)
        own = fit([[[thing] for thing in ranking] for ranking in rankings], count, ridge=0.0).worths
        largest = max(largest, float(np.abs(own - (other - other.mean())).max()))
    return {"datasets": datasets, "rankings": 200, "things": "3 to 7", "largest difference": largest}


PARTS: dict[str, Callable[[argparse.Namespace], dict[str, object]]] = {
    "choix": lambda options: against_choix(options.seed),
    "durability": durability,
    "rank": rank_coverage,
    "simulate": simulate_coverage,
}

if __name__ == "__main__":
    main()
