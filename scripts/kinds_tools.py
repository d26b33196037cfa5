"""Writes docs/kinds/tools.md: kinds of model and kinds of data, each loaded, explained and graded, or refused.

Every row is made by doing it, with tiny models that are built in code; a test makes the page again and compares.

Usage:
    python scripts/kinds_tools.py
"""

from __future__ import annotations

import contextlib
import io
import json
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

import didact
from didact.api import default_method
from didact.data.dataset import Dataset
from didact.metrics.base import METRICS
from didact.protocols import Evidence, Model
from didact.render.markup import markdown_table
from didact.testing.tiny import (
    TEXTS,
    corner_predict,
    keyword_predict,
    tiny_image_model,
    tiny_images,
    tiny_language_model,
    tiny_model,
)

PAGE = Path(__file__).resolve().parents[1] / "docs" / "kinds" / "tools.md"
HEAD = """# Models and data as people have them

Made by `python scripts/kinds_tools.py`, which loads every kind with tiny models, explains two examples with the default
method and grades the explanations by comprehensiveness; `tests/docs/test_tools_page.py` makes the page again. What is
refused is shown with its message.

"""
NLI = ("contradiction", "neutral", "entailment")
TEXT = "a truly wonderful film"
OFFERS = {
    "differentiable": "gradients",
    "attentive": "attention",
    "heads": "heads",
    "hidden": "hidden states",
    "layered": "layers",
    "generative": "generation",
}


class ModelKind(NamedTuple):
    """One kind of model.

    Attributes:
        name: first cell of its row.
        code: how it is given to ``load_model``, in Python.
        make: the source, from an empty folder.
        options: of ``load_model``.
        examples: what is explained.
    """

    name: str
    code: str
    make: Callable[[Path], object]
    options: Mapping[str, Any] = MappingProxyType({})
    examples: Sequence[Any] = TEXTS[:2]


class DataKind(NamedTuple):
    """One kind of data: how it is given to ``load_data`` or ``explain``, and how it is made in an empty folder."""

    name: str
    code: str
    make: Callable[[Path], object]
    options: Mapping[str, Any] = MappingProxyType({})


def main() -> None:
    """Write the page."""
    PAGE.write_text(page(), encoding="utf-8")


def page() -> str:
    """The page as Markdown."""
    with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        models = markdown_table(
            ("kind of model", "given as", "read as", "predicts", "methods may use", "explained by", "graded"),
            [_model_row(kind) for kind in MODELS],
        )
        data = markdown_table(
            ("kind of data", "given as", "read as", "explained", "graded"), [_data_row(kind) for kind in DATA]
        )
    return f"{HEAD}## {len(MODELS)} kinds of model\n\n{models}\n\n## {len(DATA)} kinds of data\n\n{data}\n"


def _model_row(kind: ModelKind) -> list[str]:
    with _folder() as folder:
        first = [kind.name, f"`{kind.code}`"]
        try:
            model = didact.load_model(kind.make(folder), **kind.options)
            method = default_method(model)
            explanations = didact.explain(list(kind.examples), model, method, progress=False)
            graded = _graded(explanations, model)
        except didact.DidactError as problem:
            return [*first, f"**refused**: {_message(problem, folder)}", "–", "–", "–", "–"]
        offers = ", ".join(sorted(OFFERS[name] for name in model.capabilities)) or "predictions"
        reads = str(getattr(model, "inputs", "text")) + ("" if hasattr(model, "network") else " (function)")
        return [*first, reads, ", ".join(model.labels), offers, f"`{method}`", graded]


def _data_row(kind: DataKind) -> list[str]:
    model = didact.load_model(keyword_predict, labels=["negative", "positive"], name="words", version="1")
    with _folder() as folder:
        first = [kind.name, f"`{kind.code}`"]
        try:
            source = kind.make(folder)
            data = didact.load_data(source, **kind.options)
            given = data if kind.options or isinstance(source, (str, Path)) else source
            explanations = didact.explain(given, model, "occlusion", progress=False)
        except didact.DidactError as problem:
            return [*first, f"**refused**: {_message(problem, folder)}", "–", "–"]
        several = [explanations] if isinstance(explanations, didact.Explanation) else explanations
        return [*first, _described(data), f"{len(several)} of {len(data)}", _graded(several, model)]


def _graded(explanations: Sequence[didact.Explanation], model: Model) -> str:
    """Whether a metric has a number for every explanation."""
    grades = METRICS.get("comprehensiveness")().measure(Evidence(explanations, model))
    return "yes" if all(np.isfinite(grade.value) for grade in grades) else "no"


def _described(data: Dataset) -> str:
    labels = f", labels {', '.join(data.labels)}" if data.labels else ""
    return f"{len(data)} example{'' if len(data) == 1 else 's'}{labels}"


def _message(problem: Exception, folder: Path) -> str:
    return str(problem).replace(str(folder), "FOLDER").replace("|", "/")


@contextlib.contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as place:
        yield Path(place)


def _saved(folder: Path, architecture: str = "bert") -> Path:
    for part in tiny_model(architecture):
        part.save_pretrained(folder)
    return folder


def _pipeline(task: str, labels: Sequence[str] = ("negative", "positive"), **settings: object) -> object:
    from transformers import pipeline

    network, tokenizer = tiny_model("bert", labels)
    return pipeline(task, model=network, tokenizer=tokenizer, device="cpu", **settings)  # type: ignore[call-overload]


def _peft(kind: str = "LoraConfig", **settings: object) -> tuple[Any, Any]:
    import peft

    network, tokenizer = tiny_model("bert")
    return peft.get_peft_model(network, getattr(peft, kind)(task_type="SEQ_CLS", **settings)).eval(), tokenizer


def _adapter(folder: Path, *, base: bool = True) -> Path:
    network, tokenizer = _peft(target_modules=["query", "value"])
    if base:
        tiny_model("bert")[0].save_pretrained(folder / "base")
    network.save_pretrained(folder / "lora")
    tokenizer.save_pretrained(folder / "lora")
    config = folder / "lora" / "adapter_config.json"
    entries = json.loads(config.read_text(encoding="utf-8")) | {"base_model_name_or_path": str(folder / "base")}
    config.write_text(json.dumps(entries), encoding="utf-8")
    return folder / "lora"


def _compiled() -> tuple[object, object]:
    import torch

    network, tokenizer = tiny_model("bert")
    return torch.compile(network), tokenizer


def _compiled_in_place() -> tuple[object, object]:
    network, tokenizer = tiny_model("bert")
    network.compile()
    return network, tokenizer


def _several_labels() -> tuple[object, object]:
    network, tokenizer = tiny_model("bert", ["films", "food", "rain"])
    network.config.problem_type = "multi_label_classification"
    return network, tokenizer


def _fitted(classifier: str) -> object:
    from sklearn import linear_model, svm
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.pipeline import make_pipeline

    last = getattr(linear_model, classifier, None) or getattr(svm, classifier)
    opinions = ["positive", "negative", "negative", "positive"]
    return make_pipeline(CountVectorizer(), last()).fit(list(TEXTS), opinions)


class Counting:
    """A classifier of somebody's own."""

    def predict_proba(self, texts: list[str]) -> object:
        """Probabilities."""
        return keyword_predict(texts)


QUESTION = ("is the film good", "a truly wonderful film with a warm heart")
IMAGES = tiny_images()[:2]
PROMPT = didact.Prompt("Review: {text}\nIt is", ["good", "dull"])

MODELS = (
    ModelKind("embedded sentiment classifier", "load_model()", lambda folder: "default"),
    ModelKind("directory or Hub id", 'load_model("./my-model")', _saved),
    ModelKind("encoder with its tokenizer", "load_model((model, tokenizer))", lambda folder: tiny_model("roberta")),
    ModelKind("decoder that classifies", "load_model((model, tokenizer))", lambda folder: tiny_model("llama")),
    ModelKind(
        "encoder-decoder of pairs (BART-MNLI)",
        "load_model((model, tokenizer))",
        lambda folder: tiny_model("bart", NLI),
        examples=[("a warm film", "a good heart"), QUESTION],
    ),
    ModelKind("encoder-decoder (T5)", "load_model((model, tokenizer))", lambda folder: tiny_model("t5")),
    ModelKind("text-classification pipeline", "load_model(pipeline)", lambda folder: _pipeline("text-classification")),
    ModelKind(
        "zero-shot pipeline",
        'load_model(pipeline, labels=["films", "food"])',
        lambda folder: _pipeline("zero-shot-classification", NLI),
        {"labels": ["films", "food"]},
    ),
    ModelKind(
        "network of pairs, zero-shot",
        'load_model("./nli", inputs="zero_shot", labels=["films", "food"])',
        lambda folder: tiny_model("bert", NLI),
        {"labels": ["films", "food"], "inputs": "zero_shot"},
    ),
    ModelKind("PeftModel", "load_model((peft_model, tokenizer))", lambda folder: _peft(target_modules=["query"])),
    ModelKind("folder of an adapter", 'load_model("./lora")', _adapter),
    ModelKind("compiled network", "load_model((torch.compile(model), tokenizer))", lambda folder: _compiled()),
    ModelKind("network compiled in place", "load_model((model, tokenizer))", lambda folder: _compiled_in_place()),
    ModelKind("another precision", 'load_model("./my-model", dtype="bfloat16")', _saved, {"dtype": "bfloat16"}),
    ModelKind("other label names", 'load_model("./my-model", labels=["-", "+"])', _saved, {"labels": ["-", "+"]}),
    ModelKind("several labels at once", "load_model((model, tokenizer))", lambda folder: _several_labels()),
    ModelKind("regression", "load_model((model, tokenizer))", lambda folder: tiny_model("bert", ["stars"])),
    ModelKind(
        "questions about a passage",
        "load_model((model, tokenizer))",
        lambda folder: tiny_model("bert", ["start", "end"], auto_class="AutoModelForQuestionAnswering"),
        examples=[QUESTION],
    ),
    ModelKind(
        "labels of words",
        "load_model((model, tokenizer))",
        lambda folder: tiny_model("bert", ["O", "PER"], auto_class="AutoModelForTokenClassification"),
    ),
    ModelKind(
        "language model with a prompt",
        "load_model((model, tokenizer), prompt=prompt)",
        lambda folder: tiny_language_model("llama"),
        {"prompt": PROMPT},
    ),
    ModelKind(
        "image classifier", "load_model((model, image_processor))", lambda folder: tiny_image_model(), examples=IMAGES
    ),
    ModelKind("scikit-learn pipeline", "load_model(pipeline)", lambda folder: _fitted("LogisticRegression")),
    ModelKind("anything with predict_proba", "load_model(classifier)", lambda folder: Counting()),
    ModelKind("function of texts", "load_model(predict)", lambda folder: keyword_predict),
    ModelKind(
        "function of images",
        'load_model(predict, inputs="image")',
        lambda folder: corner_predict,
        {"inputs": "image"},
        IMAGES,
    ),
    ModelKind(
        "text-to-text network",
        "load_model((model, tokenizer))",
        lambda folder: tiny_model("t5", auto_class="AutoModelForSeq2SeqLM"),
    ),
    ModelKind(
        "learned prompts (peft)",
        "load_model((peft_model, tokenizer))",
        lambda folder: _peft("PromptTuningConfig", num_virtual_tokens=2),
    ),
    ModelKind("adapter without its base", 'load_model("./lora")', lambda folder: _adapter(folder, base=False)),
    ModelKind("model without a tokenizer", "load_model(model)", lambda folder: tiny_model("bert")[0]),
    ModelKind(
        "zero-shot pipeline without labels",
        "load_model(pipeline)",
        lambda folder: _pipeline("zero-shot-classification", NLI),
    ),
    ModelKind("scikit-learn without probabilities", "load_model(pipeline)", lambda folder: _fitted("LinearSVC")),
)

COLUMNS = {"text": [TEXT, "avoid it"], "label": ["positive", "negative"]}
OTHERS = {"body": COLUMNS["text"], "stars": COLUMNS["label"]}
NAMED = {"text_column": "body", "label_column": "stars"}


def _pandas(columns: Mapping[str, Sequence[object]]) -> Any:
    import pandas

    return pandas.DataFrame(columns)


def _polars(columns: Mapping[str, Sequence[object]]) -> Any:
    import polars

    return polars.DataFrame(columns)


def _arrow(columns: Mapping[str, Sequence[object]]) -> Any:
    import pyarrow

    return pyarrow.table(dict(columns))


def _datasets(columns: Mapping[str, Sequence[object]]) -> object:
    import datasets

    return datasets.Dataset.from_dict(dict(columns))


def _written(folder: Path, name: str, text: str) -> Path:
    (folder / name).write_text(text, encoding="utf-8")
    return folder / name


def _parquet(folder: Path) -> Path:
    import pyarrow.parquet

    pyarrow.parquet.write_table(_arrow(COLUMNS), folder / "reviews.parquet")
    return folder / "reviews.parquet"


DATA = (
    DataKind("list of texts", "explain(texts)", lambda folder: list(COLUMNS["text"])),
    DataKind("list of dictionaries", "explain(rows)", lambda folder: _arrow(COLUMNS).to_pylist()),
    DataKind(
        "one dictionary", 'explain({"text": ..., "label": ...})', lambda folder: {"text": TEXT, "label": "positive"}
    ),
    DataKind("dictionary of columns", 'explain({"text": [...], "label": [...]})', lambda folder: COLUMNS),
    DataKind("pandas DataFrame", "explain(frame)", lambda folder: _pandas(COLUMNS)),
    DataKind(
        "DataFrame with other columns",
        'load_data(frame, text_column="body", label_column="stars")',
        lambda folder: _pandas(OTHERS),
        NAMED,
    ),
    DataKind("pandas Series", 'explain(frame["body"])', lambda folder: _pandas(OTHERS)["body"]),
    DataKind("polars DataFrame", "explain(frame)", lambda folder: _polars(COLUMNS)),
    DataKind("polars Series", 'explain(frame["body"])', lambda folder: _polars(OTHERS)["body"]),
    DataKind("pyarrow table", "explain(table)", lambda folder: _arrow(COLUMNS)),
    DataKind("numpy array of texts", "explain(array)", lambda folder: np.array(COLUMNS["text"])),
    DataKind("datasets.Dataset", "explain(dataset)", lambda folder: _datasets(COLUMNS)),
    DataKind(
        "DataFrame per split",
        'explain({"train": a, "test": b})',
        lambda folder: {"train": _pandas(OTHERS), "test": _pandas(COLUMNS)},
    ),
    DataKind(
        "CSV",
        'load_data("reviews.csv")',
        lambda folder: _written(folder, "reviews.csv", f"text,label\n{TEXT},positive\n"),
    ),
    DataKind(
        "JSON lines",
        'load_data("reviews.jsonl")',
        lambda folder: _written(folder, "reviews.jsonl", json.dumps({"text": TEXT})),
    ),
    DataKind("Parquet", 'load_data("reviews.parquet")', _parquet),
    DataKind(
        "plain text", 'load_data("reviews.txt")', lambda folder: _written(folder, "reviews.txt", f"{TEXT}\navoid it\n")
    ),
    DataKind(
        "without the named column",
        'load_data(frame, text_column="bodi")',
        lambda folder: _pandas(OTHERS),
        {"text_column": "bodi"},
    ),
    DataKind("missing text (NaN)", "explain(frame)", lambda folder: _pandas({"text": [TEXT, None]})),
    DataKind("mixed types", "explain(frame)", lambda folder: _pandas({"text": [TEXT, 5]})),
    DataKind("array of numbers", "load_data(array)", lambda folder: np.arange(3)),
)

if __name__ == "__main__":
    main()
