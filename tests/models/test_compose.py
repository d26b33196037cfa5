"""Readers and heads are found by what they serve, not by a list."""

import pytest

from didact.errors import ModelError, UnknownNameError
from didact.models.compose import choose_head, choose_reader, compose
from didact.models.heads.base import HEADS
from didact.models.heads.classes import ClassesHead
from didact.models.heads.number import NumberHead
from didact.models.heads.span import SpanHead
from didact.models.heads.word_label import WordLabelHead
from didact.models.load import load_model
from didact.models.readers.base import READERS
from didact.models.readers.pair import PairReader
from didact.models.readers.question import QuestionReader
from didact.models.readers.text import TextReader
from didact.testing.tiny import tiny_model


def test_every_file_is_a_registered_name_with_a_card() -> None:
    assert {"pair", "patches", "prompt", "question", "text"} <= set(READERS.names())
    assert {"classes", "label_words", "number", "span", "word_label"} <= set(HEADS.names())
    assert {"class", "number", "span"} <= {card.answers for card in HEADS.cards()}
    assert all(card.summary.endswith(".") for card in (*READERS.cards(), *HEADS.cards()))


@pytest.mark.parametrize(
    ("labels", "problem", "head", "reader"),
    [
        (("bad", "good"), None, ClassesHead, TextReader),
        (("entailment", "neutral", "contradiction"), None, ClassesHead, PairReader),
        (("stars",), None, NumberHead, TextReader),
        (("x", "y"), "regression", NumberHead, TextReader),
        (("x", "y"), "multi_label_classification", ClassesHead, TextReader),
    ],
)
def test_labels_and_problem_type_decide(labels: tuple[str, ...], problem: str | None, head: type, reader: type) -> None:
    network, tokenizer = tiny_model("bert", labels)
    network.config.problem_type = problem
    model = compose(network, tokenizer)
    assert (type(model.head), type(model.reader)) == (head, reader)
    assert model.labels == labels
    assert model.scales[0] == "logit"
    assert (len(model.scales) == 1) == (head is NumberHead)


@pytest.mark.parametrize(
    ("auto_class", "head", "reader"),
    [
        ("AutoModelForQuestionAnswering", SpanHead, QuestionReader),
        ("AutoModelForTokenClassification", WordLabelHead, TextReader),
    ],
)
@pytest.mark.parametrize("architecture", ["bert", "roberta", "gpt2", "modernbert"])
def test_the_class_of_the_network_decides(auto_class: str, head: type, reader: type, architecture: str) -> None:
    network, tokenizer = tiny_model(architecture, ("O", "PER"), auto_class=auto_class)
    model = compose(network, tokenizer)
    assert (type(model.head), type(model.reader)) == (head, reader)


def test_what_nothing_serves_is_refused_with_what_is_served() -> None:
    network, tokenizer = tiny_model("bert")
    with pytest.raises(ModelError, match=r"there is no head for BertModel; .*\.\.\.ForSequenceClassification"):
        choose_head(["BertModel"], network.config)
    with pytest.raises(ModelError, match=r"no reader serves BertForSequenceClassification with a int; .*inputs="):
        choose_reader(network, 3)
    with pytest.raises(UnknownNameError, match=r"unknown reader 'pairs' \(did you mean pair\?\); known: pair, .*text"):
        load_model((network, tokenizer), inputs="pairs")
