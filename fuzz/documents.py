"""Decision records and studies with people, written to disk and read again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import didact
from didact.decisions.record import DecisionRecord
from didact.errors import InputError
from didact.study.design import StudyDesign
from didact.study.material import StudyMaterial
from didact.study.session import Study
from didact.study.simulated import made_up_explanations
from didact.validation import parse_json
from fuzz import models

RECORD = "decision.json"


def write_record(folder: Path, number: int) -> None:
    """The record of one decision, as data alone."""
    text = f"a good film with {number} dull scenes"
    didact.record(text, models.function(), "occlusion", budget=20).save(folder / RECORD)


def read_record(folder: Path) -> object:
    """Its content."""
    try:
        raw = (folder / RECORD).read_bytes()
    except OSError as problem:
        raise InputError(str(problem)) from None
    made = DecisionRecord.from_dict(cast("Mapping[str, Any]", parse_json(raw, RECORD)))
    made.to_html()  # what can be read can be shown
    return made.to_dict()


def record_says(folder: Path) -> object:
    """What the file says by itself."""
    return json.loads((folder / RECORD).read_text(encoding="utf-8"))


def write_study(folder: Path, number: int) -> None:
    """A study that nobody has joined."""
    explainers = ("lime", "attention")
    design = StudyDesign(protocol="rank", explainers=(*explainers, "random"), items=4, raters=2, repeats=1)
    explained = made_up_explanations(explainers, 12, seed=number)
    Study.create(folder, design, StudyMaterial.chosen(explained, design))


def read_study(folder: Path) -> object:
    """Its design and the explanations that raters would see."""
    study = Study(folder)
    items = {
        item: {name: each.to_dict() for name, each in row.items()} for item, row in sorted(study.material.items.items())
    }
    return study.design.to_dict(), items
