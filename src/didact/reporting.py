"""The functions of `import didact` that report on a decision or on many explanations."""

from __future__ import annotations

from collections.abc import Sequence

from didact.api import _explainer, _model, _progress
from didact.counterfactuals.flip import BUDGET, find_flip
from didact.counterfactuals.flip import Flip as Flip
from didact.data.load import load_data
from didact.decisions.record import DecisionRecord as DecisionRecord
from didact.decisions.record import make_record
from didact.errors import InputError
from didact.models.load import DEFAULT
from didact.models.masked_words import MaskedWords
from didact.protocols import ExampleLike, Explainer, TargetLike
from didact.settings import checked
from didact.summary.words import LEAST, word_table
from didact.summary.words import WordTable as WordTable
from didact.types import Example, Explanation

TRUST_TEXTS = 30
"""Texts on which a method is measured for a decision record, where data are given."""


@checked
def flip(
    given: ExampleLike,
    model: object = DEFAULT,
    *,
    target: TargetLike = None,
    budget: int = BUDGET,
    masked_lm: object = None,
    progress: bool = True,
) -> Flip:
    """The smallest change of words that flips a prediction, verified by a plain pass of the model.

    Args:
        given: a text, a pair or an ``Example``.
        model: anything ``load_model`` takes, with classes.
        target: the class that is to be predicted instead; any other when not given.
        budget: maximum number of plain passes.
        masked_lm: a masked language model, Hub id, directory or (model, tokenizer), whose words may replace those of
            the text where deleting one word does not flip it; words are only deleted when not given.
        progress: show a bar on work over two seconds.

    Returns:
        What was changed and both predictions; where nothing flips within the budget, ``flipped`` is False and the
        change is the one that came nearest.
    """
    propose = None if masked_lm is None else MaskedWords(masked_lm)
    with _progress(progress):
        return find_flip(_model(model), Example.of(given), target=target, budget=budget, propose=propose)


@checked
def record(
    given: ExampleLike,
    model: object = DEFAULT,
    method: str | Explainer | None = None,
    *,
    data: object = None,
    budget: int = BUDGET,
    progress: bool = True,
    **settings: object,
) -> DecisionRecord:
    """The record of one decision, to be printed or kept: ``record(...).save("decision.html")``.

    It has the prediction and its alternatives, the words that support and oppose it, the smallest change that flips it,
    how far the method is to be trusted on this model, what the model did not see, and where all of it comes from.

    Args:
        given: a text, a pair or an ``Example``.
        model: anything ``load_model`` takes, with classes.
        method: as of ``explain``.
        data: texts to measure the method on, anything ``load_data`` takes, 30 of them at most; when not given it is
            measured on the given text alone.
        budget: plain passes of the search for a flip.
        progress: show a bar on work over two seconds.
        **settings: parameters of the method.
    """
    texts = [] if data is None else list(load_data(data, limit=TRUST_TEXTS).examples)
    adapter = _model(model)
    with _progress(progress):
        return make_record(adapter, _explainer(method, adapter, settings), Example.of(given), texts, budget=budget)


def words(explanations: Sequence[Explanation], *, least: int = LEAST, examples: int = 3) -> WordTable:
    """Mean importance per word over many texts, with intervals, by class, and the examples behind each word.

    Args:
        explanations: what ``explain`` returns for a list of texts; by one method.
        least: leave out words that occur in fewer texts.
        examples: texts to keep for each word.
    """
    if isinstance(explanations, Explanation) or not all(isinstance(each, Explanation) for each in explanations):
        raise InputError("words takes a list of explanations, as didact.explain returns for a list of texts")
    return word_table(explanations, least=least, examples=examples)
