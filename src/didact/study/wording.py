"""What raters read unless the owner of a study writes something else, and the items that they practise on."""

from __future__ import annotations

from dataclasses import dataclass


def _paragraphs(text: str) -> str:
    """The text with the line breaks of this file taken out of its paragraphs."""
    return "\n\n".join(" ".join(part.split()) for part in text.split("\n\n"))


QUESTION = "Which explanation aligns the most with how you would explain this decision? Rank them; ties are allowed."
"""SMaT's question, for ranks instead of a choice."""
TITLES = {"rank": "Which explanation is better?", "simulate": "Can you predict the model?"}
PREDICT = "What does the model predict for this?"
LEARN = "This is what the model predicted. Look at it, then go on."
LEARN_MARKED = "This is what the model predicted; what it relied on is marked. Look at it, then go on."
SURVEY = "Is there anything you would like to tell us? You can leave this empty."
END = "Thank you, this was the last page. Your answers are stored; you can close this window."
DECLINED = "You did not agree, so nothing about you is stored beyond this. You can close this window."

CONSENT = _paragraphs("""
This is a study about explanations of a computer program's decisions. You will read short items and answer
questions about them. There are no right opinions.

What is stored: your answers, how long each page took, and when you began. Your name, your address and your device are
not stored; answers belong to a random number. The results may be published in a form that does not identify you.

Taking part is voluntary. You can pause at any time and go on later with the same code, stop without giving a reason,
and have everything you answered deleted: choose “Delete my data”, or give your code to the person who gave it to you.

Do you agree to take part?""")

INSTRUCTIONS = {
    "rank": _paragraphs("""
A model has made a decision about each item. Below the item stand several explanations of that decision:
the same item, with the parts marked that the decision may rest on; the stronger the colour, the more important.

Rank the explanations: 1 for the one that aligns the most with how you would explain the decision. Explanations that
are equally good may have the same rank. How they were made is not shown, and their order on the page means nothing.
Some pages ask you to do something particular, to see whether pages are read."""),
    "simulate": _paragraphs("""
A model makes a decision about each item. Your task is to predict it: not what is right, but what the
model will decide, mistakes included.

First you predict its decisions without help. Then you see items with the model's decisions, and learn how it decides.
Then you predict its decisions again. The test does not show whether you were right. Some pages ask for a
particular answer, to see whether pages are read."""),
}

FEEDBACK_RIGHT = "Practice: right."
FEEDBACK_RANK = "Practice: most people would put {best} first: {why}"
FEEDBACK_RANK_RIGHT = "Practice: right, most people would put {best} first: {why}"
FEEDBACK_PREDICT = "Practice: the model predicted {expected}."
CHECK_RANK = "This page checks whether pages are read: rank {order}, whatever the explanations look like."
CHECK_PREDICT = "This page checks whether pages are read: answer {expected}, whatever the text says."


@dataclass(frozen=True)
class PracticeItem:
    """A made-up item whose best explanation is beyond doubt.

    Attributes:
        text: what was classified.
        predicted: the decision.
        marks: the words that each explanation marks, the best first.
        why: the feedback.
    """

    text: str
    predicted: str
    marks: tuple[tuple[str, ...], ...]
    why: str


PRACTICE = (
    PracticeItem(
        "The soup was cold and the waiter was rude.",
        "negative",
        (("cold", "rude"), ("soup", "waiter"), ("The", "and")),
        "“cold” and “rude” make the review a negative one; the other words do not.",
    ),
    PracticeItem(
        "The striker scored twice before the break.",
        "sports",
        (("striker", "scored"), ("twice", "before"), ("The", "the")),
        "“striker” and “scored” are about sports; the other words could stand in any text.",
    ),
    PracticeItem(
        "Please send me the invoice again, the first one got lost.",
        "billing",
        (("invoice",), ("first",), ("me",)),
        "“invoice” is what the request is about.",
    ),
)
