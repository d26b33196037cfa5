"""The report on rationales: texts whose gold label is not explained stand apart, with their number."""

from pathlib import Path

import didact
from didact.data.load import load_data
from didact.models.load import load_model
from didact.testing.tiny import keyword_predict
from didact.types import Example, Span

TEXTS = ("wonderful film", "warm and good plot", "good acting here", "a wonderful and warm film", "good film with plot")


def test_the_report_says_which_texts_count_and_what_the_others_would_add(tmp_path: Path) -> None:
    """Of ten texts the model is wrong about five: occlusion finds the evidence for what it predicts in all of them."""
    examples = [
        Example(f"{text} {number}", label=label, rationale=(Span(0, 4),))
        for label in ("positive", "negative")
        for number, text in enumerate(TEXTS)
    ]
    model = didact.load_model(keyword_predict, labels=("negative", "positive"))
    metrics = ["rationale_auc", "rationale_f1"]
    didact.evaluate(load_data(examples), model, ["occlusion"], metrics, out=tmp_path, progress=False)
    report = " ".join((tmp_path / "report.md").read_text("utf-8").split()).replace("\\", "")
    assert "rationale_auc is of the 5 texts whose gold label is explained (occlusion: " in report
    assert "a rationale for the gold label is no evidence for it: 5 texts, " in report
    assert "| *n* | 5 (up to 5 undefined) |" in report


def test_a_label_that_is_no_index_is_no_wrong_prediction(tmp_path: Path) -> None:
    data = [{"text": text, "label": -3} for text in ("a good film", "a dull plot", "good food")]
    model = load_model(keyword_predict, version="1")
    found = didact.evaluate(data, model, ["occlusion"], ["comprehensiveness"], out=tmp_path / "run", progress=False)
    assert not found.findings.run.kept.wrong.any()
