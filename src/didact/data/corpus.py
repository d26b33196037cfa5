"""A generated corpus of short reviews whose rationales are known because they were planted.

A seeded grammar writes a few sentences about a film, a meal, a hotel, a book or a gadget. One to three words carry the
opinion, sometimes with an intensifier in front; their characters are the rationale. Everything else (when, where, who
came along, what it is made of) is drawn without looking at the label, so it carries no information about it.

The lexicon and the filler were fixed by common sense, before any explanation method was measured on the texts, and
without looking at any model. All opinion words of a text agree, and nothing is negated.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from didact.errors import InputError
from didact.settings import checked
from didact.types import Example, Span

LABELS = ("negative", "positive")
SHORTEST, LONGEST = 10, 30
"""Words per text."""


@checked
def generate(n: int, *, seed: int = 0) -> list[Example]:
    """Write ``n`` distinct labelled reviews with planted rationales.

    Each pair of texts has one of each label, in random order. A longer corpus of the same seed starts with the
    shorter one.

    Args:
        n: how many; 5,000 are no trouble, the grammar has many millions.
        seed: another seed gives another corpus.

    Returns:
        Examples whose ``label`` is "negative" or "positive" and whose ``rationale`` has one span per planted word.
    """
    if n < 0:
        raise InputError(f"generate: n must be 0 or more, got {n}")
    rng = random.Random(seed)
    seen: set[str] = set()
    examples: list[Example] = []
    while len(examples) < n:
        for label in rng.sample(LABELS, 2):
            text, spans = _new_review(label, rng, seen)
            examples.append(Example(text, label=label, rationale=spans, id=f"corpus-{seed}-{len(examples)}"))
    return examples[:n]


# --- the planted words ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Lexicon:
    """The words of one label that fit every domain, by their part in a sentence."""

    adjectives: tuple[str, ...]
    nouns: tuple[str, ...]
    verbs: tuple[str, ...]
    adverbs: tuple[str, ...]


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


LEXICONS = {
    "negative": Lexicon(
        adjectives=_words(
            "terrible awful horrible dreadful disappointing poor bad lousy mediocre atrocious pathetic abysmal "
            "unpleasant annoying worthless miserable ridiculous appalling lame horrendous"
        ),
        nouns=_words("disaster disappointment failure mess letdown nightmare flop travesty"),
        verbs=_words("hated disliked loathed detested despised"),
        adverbs=_words("poorly badly terribly horribly carelessly dreadfully"),
    ),
    "positive": Lexicon(
        adjectives=_words(
            "wonderful excellent superb fantastic brilliant terrific delightful amazing great marvelous "
            "lovely outstanding charming impressive enjoyable splendid perfect magnificent beautiful remarkable"
        ),
        nouns=_words("triumph masterpiece delight gem treasure joy success pleasure"),
        verbs=_words("loved enjoyed adored liked admired"),
        adverbs=_words("beautifully superbly wonderfully brilliantly perfectly splendidly"),
    ),
}

# Intensifiers are the same for both labels: they strengthen an opinion and hold none.
BEFORE_ADJECTIVE = _words("truly really absolutely thoroughly utterly")
BEFORE_VERB = _words("truly really")
BEFORE_NOUN = _words("real true complete")


# --- the domains and their neutral facts ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Domain:
    """What a kind of review talks about.

    Attributes:
        things: names of the whole thing.
        aspects: parts of it that can be judged, all in the singular.
        adjectives: further opinion words of each label that suit the aspects.
        made: participles for "was beautifully ...".
        facts: neutral sentences with slots.
    """

    things: tuple[str, ...]
    aspects: tuple[str, ...]
    adjectives: dict[str, tuple[str, ...]]
    made: tuple[str, ...]
    facts: tuple[str, ...]


DOMAINS = (
    Domain(
        things=_words("film movie picture"),
        aspects=_words("plot script acting soundtrack dialogue photography ending cast"),
        adjectives={
            "negative": _words("boring dull tedious predictable"),
            "positive": _words("gripping captivating engaging hilarious"),
        },
        made=_words("done handled crafted"),
        facts=(
            "The film runs for about {number} minutes",
            "It is set in {city} in the {decade}s",
            "The story follows a {job} from {city}",
            "I saw it at the cinema on {day}",
            "It was shown on television in {month}",
            "The main part is a {job} with two sons",
            "We sat in row {number}",
            "The director also worked in {city}",
            "There is a scene on a train to {city}",
            "My {person} watched it with me",
        ),
    ),
    Domain(
        things=_words("restaurant cafe bistro diner"),
        aspects=_words("soup pasta bread dessert fish salad rice pizza"),
        adjectives={
            "negative": _words("bland stale greasy tasteless inedible"),
            "positive": _words("delicious tasty scrumptious yummy appetizing"),
        },
        made=_words("made prepared seasoned"),
        facts=(
            "I ordered the {dish} and a glass of water",
            "My {person} had the {dish}",
            "We sat at a table by the window",
            "The menu has {number} items",
            "The place is on the corner of {street} Street",
            "We went there on {day} at noon",
            "The kitchen is open until {hour}",
            "They serve lunch from {hour} on",
            "A waiter brought the {dish} first and the {dish} after that",
            "The tables are made of wood",
        ),
    ),
    Domain(
        things=_words("hotel hostel inn guesthouse"),
        aspects=_words("room bathroom bedroom lobby suite lounge"),
        adjectives={
            "negative": _words("filthy dirty shabby smelly grimy"),
            "positive": _words("spotless cozy comfortable elegant gorgeous"),
        },
        made=_words("furnished decorated kept designed"),
        facts=(
            "We stayed there for {number} nights in {month}",
            "Our room was on the third floor",
            "The building is near the station in {city}",
            "We arrived on {day} at about {hour}",
            "Breakfast is served from {hour} on",
            "I was in {city} for a conference",
            "The window looks onto {street} Street",
            "My {person} had the room next door",
            "There are {number} rooms in the building",
            "We took a taxi from the airport",
        ),
    ),
    Domain(
        things=_words("book novel paperback"),
        aspects=_words("plot story prose dialogue ending chapter prologue"),
        adjectives={
            "negative": _words("boring dull tedious dreary"),
            "positive": _words("gripping captivating engaging fascinating"),
        },
        made=_words("done written crafted"),
        facts=(
            "The book has {number} pages",
            "The first part takes place in {city}",
            "It was published in {month}",
            "The main character is a {job}",
            "I read it on the train to {city}",
            "My {person} lent me a copy",
            "It is about a {job} and a {job}",
            "The author lives in {city}",
            "I started it on {day}",
            "The cover shows a house and a tree",
        ),
    ),
    Domain(
        things=_words("camera phone tablet laptop radio"),
        aspects=_words("screen keyboard battery speaker charger case display"),
        adjectives={
            "negative": _words("flimsy unreliable defective useless clunky"),
            "positive": _words("sturdy reliable dependable handy sleek"),
        },
        made=_words("made built designed assembled"),
        facts=(
            "It came in a box with a cable",
            "I bought it in {month}",
            "The parcel arrived on {day}",
            "It weighs about {number} grams",
            "My {person} has the same one",
            "I keep it on the desk at the office",
            "The manual has {number} pages",
            "It is sold in grey and in blue",
            "I took it to {city} in {month}",
            "There is a button on the left side",
        ),
    ),
)

SHARED_FACTS = (
    "It was a {day} in {month}",
    "That was in {month}",
    "My {person} came along",
    "I am writing this on a {day}",
    "My {person} lives in {city}",
    "I work as a {job}",
    "I went with my {person} and my {person}",
    "A {job} from {city} told me about it",
)

FRAMES = ("", "", "", "I thought ", "I think ", "In my view ", "To me ", "My {person} and I both thought that ")

SLOTS = {
    "day": _words("Monday Tuesday Wednesday Thursday Friday Saturday Sunday"),
    "month": _words("January February March April May June July August September October November December"),
    "person": _words("sister brother cousin neighbour colleague uncle aunt roommate nephew niece"),
    "city": _words("Boston Chicago Dublin Lisbon Oslo Vienna Madrid Toronto Prague Denver Seattle Zurich"),
    "job": _words("teacher lawyer farmer carpenter nurse clerk pilot journalist student baker"),
    "dish": _words("soup pasta fish salad rice pizza omelette stew"),
    "street": _words("Mill Station Oak Market Church River Third Bridge"),
    "hour": _words("seven eight nine ten eleven noon"),
    "decade": _words("1950 1960 1970 1980 1990"),
    "number": tuple(str(number) for number in (12, 14, 18, 20, 24, 30, 36, 45, 60, 72, 80, 90, 95, 110, 120, 140)),
}


# --- the grammar ------------------------------------------------------------------------------------------------------


def _new_review(label: str, rng: random.Random, seen: set[str]) -> tuple[str, tuple[Span, ...]]:
    """A review of the right length that was not written before."""
    while True:
        text, spans = _lift(_review(label, rng))
        if SHORTEST <= len(text.split()) <= LONGEST and text not in seen:
            seen.add(text)
            return text, spans


def _review(label: str, rng: random.Random) -> str:
    """Sentences of opinion among sentences of fact; planted words stand between asterisks."""
    domain = rng.choice(DOMAINS)
    voice = Voice(domain, label, rng)
    facts = rng.sample(domain.facts, rng.choice((0, 1, 1, 2))) + rng.sample(SHARED_FACTS, rng.choice((0, 1)))
    sentences = [_fill(fact, rng) for fact in facts]
    opinions = voice.opinions(rng.choice((1, 1, 2, 2, 3)))
    for opinion in opinions:
        sentences.insert(rng.randint(0, len(sentences)), opinion)
    return " ".join(f"{_capital(sentence)}." for sentence in sentences)


class Voice:
    """Writes the opinions of one review, each about something else and no planted word twice."""

    def __init__(self, domain: Domain, label: str, rng: random.Random) -> None:
        lexicon = LEXICONS[label]
        self.domain = domain
        self.rng = rng
        self.thing = rng.choice(domain.things)
        self.aspects = _shuffled(domain.aspects, rng)
        self.adjectives = _shuffled(lexicon.adjectives, rng)
        self.suiting = _shuffled(domain.adjectives[label], rng)
        self.nouns = _shuffled(lexicon.nouns, rng)
        self.verbs = _shuffled(lexicon.verbs, rng)
        self.adverbs = _shuffled(lexicon.adverbs, rng)

    def opinions(self, planted: int) -> list[str]:
        """Sentences that hold so many opinion words in all."""
        if planted > 1 and self.rng.random() < 0.4:
            return [self.pair(), *self.opinions(planted - 2)]
        forms: tuple[Callable[[], str], ...] = (self.was, self.was, self.verb, self.noun, self.adverb, self.name)
        return [self.rng.choice(forms)() for _ in range(planted)]

    def pair(self) -> str:
        """Two opinion words in one sentence."""
        first, second = self.planted(self.for_aspect(), BEFORE_ADJECTIVE), self.planted(self.for_aspect())
        aspect, other = self.aspects.pop(), self.aspects.pop()
        forms = (
            self.framed(f"the {aspect} was {first} and {second}"),
            self.framed(f"the {aspect} was {first} and the {other} was {second}"),
            f"{first} {aspect} and {second} {other}",
        )
        return self.rng.choice(forms)

    def was(self) -> str:
        """An adjective after the verb."""
        subject, words = self.rng.choice(((self.aspects.pop(), self.for_aspect()), (self.thing, self.adjectives)))
        verb = self.rng.choice(("was", "was", "turned out to be"))
        return self.framed(f"the {subject} {verb} {self.planted(words, BEFORE_ADJECTIVE)}")

    def verb(self) -> str:
        """A verb of liking or disliking."""
        who = self.rng.choice(("I", "we", _fill("my {person}", self.rng)))
        return f"{who} {self.planted(self.verbs, BEFORE_VERB)} the {self.aspects.pop()}"

    def noun(self) -> str:
        """A noun of praise or blame."""
        noun = self.planted(self.nouns, BEFORE_NOUN)
        return self.framed(f"the {self.thing} was {_article(noun)} {noun}")

    def adverb(self) -> str:
        """How the thing was made."""
        phrase = f"{self.planted(self.adverbs)} {self.rng.choice(self.domain.made)}"
        return self.framed(f"the {self.aspects.pop()} was {phrase}")

    def name(self) -> str:
        """An adjective before the noun, which may open the sentence."""
        if self.rng.random() < 0.5:
            return f"{self.planted(self.for_aspect(), BEFORE_ADJECTIVE)} {self.aspects.pop()}"
        adjective = self.planted(self.adjectives, BEFORE_ADJECTIVE)
        return f"{self.rng.choice(('it was', 'this is', 'this was'))} {_article(adjective)} {adjective} {self.thing}"

    def for_aspect(self) -> list[str]:
        """Adjectives to take from: those that suit the domain's aspects alone, or the general ones."""
        return self.suiting if self.rng.random() < 0.3 else self.adjectives

    def planted(self, words: list[str], intensifiers: Sequence[str] = ()) -> str:
        """The next word between asterisks, one time in three with an intensifier."""
        word = f"*{words.pop()}*"
        return f"*{self.rng.choice(intensifiers)}* {word}" if intensifiers and self.rng.random() < 1 / 3 else word

    def framed(self, sentence: str) -> str:
        """The sentence, perhaps with a neutral opening."""
        return _fill(self.rng.choice(FRAMES), self.rng) + sentence


def _fill(template: str, rng: random.Random) -> str:
    """Put a random word into each slot; two slots of one kind get different words."""
    for kind, options in SLOTS.items():
        slot = f"{{{kind}}}"
        for word in rng.sample(options, template.count(slot)):
            template = template.replace(slot, word, 1)
    return template


def _lift(marked: str) -> tuple[str, tuple[Span, ...]]:
    """The text without its asterisks, and the spans of the words between them."""
    spans = []
    for count, match in enumerate(re.finditer(r"\*(\w+)\*", marked)):
        start = match.start() - 2 * count  # the asterisks before this word are gone from the text
        spans.append(Span(start, start + len(match[1])))
    return marked.replace("*", ""), tuple(spans)


def _article(phrase: str) -> str:
    """The indefinite article for a planted phrase."""
    word = phrase.lstrip("*")
    return "an" if word[0] in "aeiou" and not word.startswith(("use", "uni")) else "a"


def _capital(sentence: str) -> str:
    """The sentence with its first letter, which may follow an asterisk, in upper case."""
    return re.sub(r"^\*?[a-z]", lambda match: match[0].upper(), sentence)


def _shuffled(words: Sequence[str], rng: random.Random) -> list[str]:
    return rng.sample(words, len(words))
