"""How quickly closed-form students grade explainers: many ridge students on words of film reviews, and their gains."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from benchmarks.common import SHARED
from didact.attribution.base import ATTRIBUTIONS
from didact.data.load import load_data
from didact.models.borrowed import quiet
from didact.models.text import TextModel
from didact.simulation.base import Lesson
from didact.store.parts import Parts
from didact.trained.collect import collect
from didact.types import Example, Explanation

EXPLAINERS = (
    "gradient_x_input",
    "attention",
    "lrp",
    "gim",
    "attention_x_gradient",
    "attention_rollout",
    "gradient_norm",
    "deeplift",
)


def load_teacher() -> TextModel:
    """The sentiment model that is imitated."""
    place = SHARED / "weights" / "minilm-imdb"
    with quiet():
        network = AutoModelForSequenceClassification.from_pretrained(place, local_files_only=True)
        tokenizer = AutoTokenizer.from_pretrained(place, local_files_only=True)
    network.name_or_path = "minilm-imdb"
    return TextModel(network.eval(), tokenizer)


def load_reviews(split: str, count: int, tokens: int, teacher: TextModel) -> list[Example]:
    """The first reviews of a split, without line breaks and cut where the teacher has read so many tokens."""
    given = load_data(SHARED / "data" / "imdb", split="test") if False else load_data("imdb", split=split)
    texts = [example.text.replace("<br />", " ") for example in given.examples[:count]]
    read = teacher.tokenizer(texts, truncation=True, max_length=tokens, return_offsets_mapping=True)
    ends = [max(end for _, end in offsets) for offsets in read["offset_mapping"]]
    return [Example(text[:end]) for text, end in zip(texts, ends, strict=True)]


def explained(
    teacher: TextModel, examples: Sequence[Example], names: Sequence[str], cache: Path
) -> dict[str, list[Explanation]]:
    """Explanations by method; what the cache holds is not computed again."""
    parts = Parts(cache / "explanations")
    found = {}
    for name in names:
        found[name] = collect(teacher, examples, ATTRIBUTIONS.get(name).configured(), parts)
        print(f"{name}: {len(examples)} texts explained", flush=True)
    return found


def answered(teacher: TextModel, examples: Sequence[Example], cache: Path) -> list[Lesson]:
    """The exam with the teacher's answers, kept in the cache."""
    place = cache / "answers.json"
    known = json.loads(place.read_text(encoding="utf-8")) if place.is_file() else {}
    missing = [example for example in examples if example.fingerprint not in known]
    for start in range(0, len(missing), 256):
        some = missing[start : start + 256]
        known |= {one.fingerprint: said.index for one, said in zip(some, teacher.predict(some), strict=True)}
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(json.dumps(known), encoding="utf-8")
    return [Lesson(example, known[example.fingerprint]) for example in examples]
