"""Results of searches on disk, so that trainings that begin with the same search share it."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from didact import disk
from didact.protocols import Model
from didact.provenance import content_hash
from didact.trained.scaffolding.search import HeadSearchConfig, HeadSearchResult, RankedCandidate
from didact.trained.scaffolding.teaching import FreshStudents
from didact.trained.split import TextSplit


def search_key(
    model: Model, split: TextSplit, fresh: FreshStudents, config: HeadSearchConfig, mixed: Sequence[object]
) -> str:
    """Hash of all that decides a search.

    Args:
        model: the explained model.
        split: training and validation texts.
        fresh: the students.
        config: of the search.
        mixed: which layers are mixed, of which units, at which temperature.
    """
    texts = [[example.fingerprint for example in some] for some in (split.train, split.validation)]
    channel = fresh.channel.channel
    students = [fresh.student.card.name, fresh.student.parameters, fresh.examples, fresh.curve, fresh.explanation]
    taught = [channel.card.name, channel.parameters, fresh.channel.weight]
    return content_hash(["search", model.fingerprint(), texts, students, taught, dataclasses.asdict(config), *mixed])


def write_ranking(path: Path, result: HeadSearchResult) -> None:
    """Store a result in full."""
    ranked = [{**dataclasses.asdict(one), "weights": one.weights.tolist()} for one in result.ranked]
    whole = {"ranked": ranked, "tried": result.tried, "students": result.students}
    path.parent.mkdir(parents=True, exist_ok=True)
    disk.write_text(path, json.dumps(whole) + "\n")


def read_ranking(path: Path) -> HeadSearchResult | None:
    """A stored result; None where there is none, or a kill left it damaged."""
    try:
        whole = json.loads(path.read_text(encoding="utf-8"))
        ranked = [RankedCandidate(**{**one, "weights": np.array(one["weights"])}) for one in whole["ranked"]]
        return HeadSearchResult(tuple(ranked), int(whole["tried"]), int(whole["students"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None
