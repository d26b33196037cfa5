"""Data sets by name: their task, classes, columns, published splits, and where they lie."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from didact.data.images import Splits, cifar10_splits, oxford_pets_splits
from didact.data.rows import Fields
from didact.data.sampling import Slice


@dataclass(frozen=True)
class Preset:
    """A data set that is known by name.

    Attributes:
        name: the name to load it by; also that of its folder.
        task: what is predicted.
        labels: names of the classes by number.
        splits: splits as published.
        hub: id on the Hugging Face Hub, as OWNER/NAME, OWNER/NAME:CONFIG, with @REVISION where one is needed; empty
            where it is not there.
        fields: columns that differ from the usual ones, here or on the Hub.
        parts: further splits, cut from the published ones as papers do.
        rationales: what people marked, in words; empty when nothing.
        reference: where it was published.
        notes: how a folder and the Hub differ, and other cautions.
        reader: reads its folder, where that has a form of its own.
    """

    name: str
    task: str
    labels: tuple[str, ...]
    splits: tuple[str, ...]
    hub: str
    reference: str
    fields: Fields = field(default_factory=dict)
    parts: Mapping[str, Slice] = field(default_factory=dict)
    rationales: str = ""
    notes: str = ""
    reader: Callable[[Path], Splits] | None = None

    def folder(self) -> Path | None:
        """Where it lies: $DIDACT_SHARED/data/NAME or $DIDACT_DATA/NAME; None when in neither."""
        for variable, below in (("DIDACT_SHARED", "data"), ("DIDACT_DATA", ".")):
            root = os.environ.get(variable)
            if root and (place := Path(root) / below / self.name).is_dir():
                return place
        return None

    def to_dict(self) -> dict[str, object]:
        """Plain JSON values, for lists."""
        return {
            "name": self.name,
            "task": self.task,
            "labels": list(self.labels),
            "splits": [*self.splits, *self.parts],
            "rationales": self.rationales,
            "hub": self.hub,
            "reference": self.reference,
            "notes": self.notes,
        }


_SMAT = "Fernandes et al. 2022 (SMaT), after Pruthi et al. 2022, who cut the test set for students"
_L2E = "Situ et al. 2021 (L2E)"
_OPINION = ("negative", "positive")
_LANGUAGES = ("en-de", "en-zh", "et-en", "ne-en", "ro-en", "ru-en", "si-en")
_TRAIN_TEST = ("train", "test")
_THREE = ("train", "validation", "test")

_ALL = (
    Preset(
        "ag_news",
        "topic of a news item",
        ("World", "Sports", "Business", "Sci/Tech"),
        _TRAIN_TEST,
        "fancyzhx/ag_news",
        "Zhang, Zhao and LeCun 2015",
        parts={
            "l2e_train": Slice("train", 0.1, 1.0, f"{_L2E}: nine tenths of train"),
            "l2e_validation": Slice("train", 0.0, 0.1, f"{_L2E}: each training text with probability 0.1"),
        },
        notes="a folder may hold a part of train; a text is in the same l2e split there and on the Hub",
    ),
    Preset(
        "cifar10",
        "what a small photo shows",
        ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"),
        _TRAIN_TEST,
        "uoft-cs/cifar10",
        "Krizhevsky 2009",
        fields={"image": ("image", "img")},
        notes="32 x 32 pixels; a folder may hold a balanced part of each split",
        reader=cifar10_splits,
    ),
    Preset(
        "cola",
        "acceptability of a sentence",
        ("unacceptable", "acceptable"),
        _THREE,
        "nyu-mll/glue:cola",
        "Warstadt, Singh and Bowman 2019",
        notes="in a folder validation is in-domain and test out-of-domain dev; on the Hub (GLUE) validation is both "
        "together and test has no labels",
    ),
    Preset(
        "emotion",
        "emotion of a short message",
        ("sadness", "joy", "love", "anger", "fear", "surprise"),
        _THREE,
        "dair-ai/emotion:split",
        "Saravia et al. 2018",
    ),
    Preset(
        "imdb",
        "sentiment of a film review",
        _OPINION,
        _TRAIN_TEST,
        "stanfordnlp/imdb",
        "Maas et al. 2011",
        parts={
            "teacher_validation": Slice("test", 0, 12_500, f"12,500; {_SMAT}"),
            "student_train": Slice("test", 12_500, 21_250, f"8,750; {_SMAT}"),
            "student_validation": Slice("test", 21_250, 22_500, f"1,250; {_SMAT}"),
            "student_test": Slice("test", 22_500, 25_000, f"2,500; {_SMAT}"),
        },
        notes="HTML line breaks are kept; 123 texts are in train and in test, as published",
    ),
    Preset(
        "mlqe_pe",
        "quality of a machine translation, as a number",
        (),
        tuple(f"{pair}.{split}" for pair in _LANGUAGES for split in ("train", "dev", "test20")),
        "",
        "Fomicheva et al. 2020 (MLQE-PE)",
        fields={
            "text": "source",
            "text_pair": "target",
            "label": "score",
            "tags": "source_tags",
            "tags_pair": "target_tags",
        },
        rationales="words tagged BAD, of the source and of the translation",
        notes="a split per language pair and published split; the label is the mean of the annotators' standardised "
        "assessments; words are those between blanks, as tokenised; the rationale is evidence against quality",
    ),
    Preset(
        "movie_rationales",
        "sentiment of a film review",
        _OPINION,
        _THREE,
        "eraser-benchmark/movie_rationales@refs/convert/parquet",
        "Zaidan, Eisner and Piatko 2007; DeYoung et al. 2020 (ERASER)",
        fields={"text": ("text", "review"), "rationale": ("rationales_fixed", "rationales", "evidences")},
        parts={
            "l2e_train": Slice("train+validation", 360, 1_800, f"{_L2E}, the other 1,440 (the paper counts 1,432)"),
            "l2e_validation": Slice("train+validation", 0, 160, f"{_L2E}, 160 of the 1,800 annotated in 2007"),
            "l2e_test": Slice("train+validation", 160, 360, f"{_L2E}, 200 of the 1,800 annotated in 2007"),
            "student_train": Slice("train", 400, 1_600, "1,200, the most that Pruthi et al. 2022 teach"),
            "student_test": Slice("train", 0, 400, "the other 400; the test texts are these with validation and test"),
        },
        rationales="passages that support the label",
        notes="train+validation are the 1,800 reviews annotated in 2007; the release ends the spans of test one token "
        "early; a folder has them corrected and that is the default, "
        'fields={"rationale": "rationales"} reads them as released; the Hub has quotations, which are looked up',
    ),
    Preset(
        "oxford_pets",
        "cat or dog, or its breed",
        ("cat", "dog"),
        ("test",),
        "",
        "Parkhi et al. 2012 (Oxford-IIIT Pet)",
        fields={"label": "species"},
        rationales="pixels of the pet; its boundary counts as not classified",
        notes='fields={"label": "breed"} gives the 37 breeds; a folder holds 50 test images per breed, short side 224',
        reader=oxford_pets_splits,
    ),
    Preset(
        "qed",
        "answer to a question, in a passage",
        (),
        ("train", "dev"),
        "",
        "Lamm et al. 2021 (QED)",
        fields={"text": "question", "text_pair": "passage", "rationale": "alignments"},
        rationales="phrases of the question and the passage that mean the same",
        notes="answers and links are read by didact.data.questions.load_questions; a question whose answer needs "
        "several sentences has no links",
    ),
    Preset(
        "rotten_tomatoes",
        "sentiment of a sentence about a film",
        _OPINION,
        _THREE,
        "cornell-movie-review-data/rotten_tomatoes",
        "Pang and Lee 2005",
    ),
    Preset(
        "sst2",
        "sentiment of a sentence about a film",
        _OPINION,
        _THREE,
        "SetFit/sst2",
        "Socher et al. 2013",
        notes="whole sentences only",
    ),
    Preset(
        "sst2_glue",
        "sentiment of a sentence about a film",
        _OPINION,
        ("train", "validation"),
        "nyu-mll/glue:sst2",
        "Socher et al. 2013; Wang et al. 2018 (GLUE)",
        notes="train holds phrases too; the labels of GLUE's test are not public",
    ),
)

PRESETS: Mapping[str, Preset] = {preset.name: preset for preset in _ALL}
