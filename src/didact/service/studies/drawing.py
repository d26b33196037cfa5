"""A page of a study as HTML: a form that works with the keyboard, on a phone and without JavaScript."""

from __future__ import annotations

from collections.abc import Mapping

from didact.render import facts
from didact.render.colour import FAINT, strengths
from didact.render.html import coloured
from didact.render.markup import html_text
from didact.render.photo import photo
from didact.render.pieces import name, ranked
from didact.render.style import level
from didact.study.design import MOST, Shown
from didact.study.pages import StudyPage
from didact.study.responses import LONGEST_COMMENT
from didact.types import Example, Explanation, Image

AGREE = {"yes": "I agree", "no": "I do not agree"}
NAMED = 5
"""Units that are read to those who cannot see colours."""
RANK = "rank-"
"""Fields of ranks: this and the name of the explanation."""
RANKS = [str(rank) for rank in range(1, MOST + 1)]
LEGENDS: dict[Shown, tuple[tuple[float, bool, str], ...]] = {
    "support": ((1.0, False, "the stronger the colour, the more it counts"),),
    "signed": ((1.0, True, "supports the decision"), (-1.0, True, "opposes it")),
    "top": ((1.0, False, "most important"),),
}


def page_body(page: StudyPage, stamp: str, show: Shown, sent: Mapping[str, str], problem: str = "") -> str:
    """The inside of a page.

    Args:
        page: what to show.
        stamp: of the rater, which the form sends back.
        show: what colours mean in this study.
        sent: what a refused form had, so that nothing has to be entered twice.
        problem: why it was refused.
    """
    notes = (_note(page.feedback, "notice", "status"), _note(problem, "problem", "alert"))
    head = f"{_progress(page)}<h1>{html_text(page.title)}</h1>{''.join(notes)}{paragraphs(page.text)}"
    if page.kind == "end":
        return head
    hidden = f'<input type="hidden" name="page" value="{page.id}"><input type="hidden" name="stamp" value="{stamp}">'
    inside = {"rank": _rank, "predict": _predict, "learn": _learn, "survey": _survey, "consent": _consent}
    form = inside[page.kind](page, show, sent) if page.kind in inside else _go_on()
    return f'{head}<form method="post" action="/page" class="answer-form">{hidden}{form}</form>'


def paragraphs(text: str) -> str:
    """Plain text; an empty line begins a paragraph."""
    parts = [part.strip() for part in text.replace("\r\n", "\n").split("\n\n")]
    return "".join(f'<p class="prose">{html_text(part)}</p>' for part in parts if part)


def read_answer(sent: Mapping[str, str]) -> object:
    """The answer in a form, as ``Study.answer`` takes it; what does not fit the page is refused there."""
    ranks = {name.removeprefix(RANK): rank for name, rank in sent.items() if name.startswith(RANK)}
    if not ranks:
        return sent.get("answer", "")
    return {letter: int(rank) if rank in RANKS else rank for letter, rank in ranks.items()}


def _rank(page: StudyPage, show: Shown, sent: Mapping[str, str]) -> str:
    ranks = range(1, len(page.choices) + 1)
    parts = []
    for explanation in page.explanations:
        letter = explanation.method
        options = "".join(
            _option(f"{RANK}{letter}", str(rank), f"{rank} (best)" if rank == 1 else str(rank), sent) for rank in ranks
        )
        parts.append(
            f'<section class="candidate" aria-labelledby="explanation-{letter}">'
            f'<h2 id="explanation-{letter}">Explanation {letter}</h2>{_marked(explanation)}'
            f'<fieldset class="options"><legend>Rank of {letter}</legend>{options}</fieldset></section>'
        )
    return f"{_item(page)}{_question(page)}{_legend(show)}{''.join(parts)}{_next()}"


def _predict(page: StudyPage, show: Shown, sent: Mapping[str, str]) -> str:
    options = "".join(_option("answer", choice, choice, sent) for choice in page.choices)
    question = f'<legend class="question">{html_text(page.question)}</legend>'
    return f'{_item(page)}<fieldset class="options long">{question}{options}</fieldset>{_next()}'


def _learn(page: StudyPage, show: Shown, sent: Mapping[str, str]) -> str:
    marked = "".join(_marked(explanation) for explanation in page.explanations)
    item = f"{_legend(show)}{marked}{_prediction(page)}" if marked else _item(page)
    return f"{_question(page)}{item}{_go_on()}"


def _survey(page: StudyPage, show: Shown, sent: Mapping[str, str]) -> str:
    text = html_text(sent.get("answer", ""))
    return (
        f'<label class="question" for="answer">{html_text(page.question)}</label>'
        f'<textarea id="answer" name="answer" rows="6" maxlength="{LONGEST_COMMENT}">\n{text}</textarea>'
        f'<p class="buttons">{_button("Finish")}</p>'
    )


def _consent(page: StudyPage, show: Shown, sent: Mapping[str, str]) -> str:
    buttons = "".join(_button(AGREE[choice], choice, main=choice == "yes") for choice in page.choices)
    return f'<p class="buttons">{buttons}</p>'


def _next() -> str:
    return f'<p class="buttons">{_button("Next")}</p>'


def _go_on() -> str:
    """For pages that ask for nothing."""
    return f'<p class="buttons">{_button("Next", "next")}</p>'


def _button(title: str, answer: str = "", *, main: bool = True) -> str:
    """Sends the form, with an answer where it has no field for one."""
    named = f' name="answer" value="{answer}"' if answer else ""
    return f'<button type="submit"{named}{" class=main" if main else ""}>{title}</button>'


def _option(field: str, value: str, title: str, sent: Mapping[str, str]) -> str:
    checked = " checked" if sent.get(field) == value else ""
    return (
        f'<label><input type="radio" name="{html_text(field)}" value="{html_text(value)}" required{checked}> '
        f'<span dir="auto">{html_text(title)}</span></label>'
    )


def _item(page: StudyPage) -> str:
    if page.example is None:
        return ""
    fields = page.example.fields
    shown = "".join(_field(page, number) for number in range(len(fields)))
    return f'<section class="item" aria-label="Item">{shown}{_prediction(page)}</section>'


def _field(page: StudyPage, number: int) -> str:
    example: Example = page.example  # type: ignore[assignment] # the caller has looked
    field = example.fields[number]
    if isinstance(field, Image):
        return photo(field, "the image as it is")
    named = facts.field_name(page.explanations[0], number) if page.explanations else f"text {number + 1}"
    title = f'<p class="field">{named}</p>' if len(example.fields) > 1 else ""
    return f'{title}<div class="text" lang="" dir="auto">{html_text(field)}</div>'


def _prediction(page: StudyPage) -> str:
    if page.prediction is None:
        return ""
    return f'<p class="predicted">The model predicts: <b dir="auto">{html_text(page.prediction)}</b></p>'


def _question(page: StudyPage) -> str:
    return f'<p class="question">{html_text(page.question)}</p>' if page.question else ""


def _marked(explanation: Explanation) -> str:
    """The item in colour; the colours also in words, for screen readers."""
    power, texts = strengths(explanation), explanation.units.texts
    strongest = [unit for unit in ranked(explanation) if abs(power[unit]) >= FAINT][:NAMED]
    words = ", ".join(f"{name(texts[unit])}{' (against)' if power[unit] < 0 else ''}" for unit in strongest)
    spoken = f"Marked most strongly: {words or 'nothing'}."
    return f'<div class="marked">{coloured(explanation)}</div><p class="unseen">{html_text(spoken)}</p>'


def _legend(show: Shown) -> str:
    items = "".join(
        f'<span><span class="u {"neg " if strength < 0 else ""}{level(strength, signed)}">word</span> {meaning}</span>'
        for strength, signed, meaning in LEGENDS[show]
    )
    return f'<div class="legend" role="note" aria-label="What the colours mean">{items}</div>'


def _progress(page: StudyPage) -> str:
    if not page.total:
        return ""
    return (
        f'<p class="progress"><progress max="{page.total}" value="{page.done}" aria-label="Progress"></progress> '
        f"{page.done} of {page.total} pages done</p>"
    )


def _note(text: str, kind: str, role: str) -> str:
    return f'<p class="{kind}" role="{role}">{html_text(text)}</p>' if text else ""
