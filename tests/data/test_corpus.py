"""The generated corpus: distinct, balanced, and its rationales are exactly the planted words."""

import random
import re
from collections import Counter
from itertools import pairwise

import pytest

from didact.data.corpus import (
    BEFORE_ADJECTIVE,
    BEFORE_NOUN,
    BEFORE_VERB,
    DOMAINS,
    LABELS,
    LEXICONS,
    LONGEST,
    SHORTEST,
    _new_review,
    generate,
)
from didact.errors import InputError
from didact.types import Example

INTENSIFIERS = frozenset(BEFORE_ADJECTIVE + BEFORE_VERB + BEFORE_NOUN)
OPINIONS = {
    label: {word for words in vars(LEXICONS[label]).values() for word in words}
    | {word for domain in DOMAINS for word in domain.adjectives[label]}
    for label in LABELS
}


@pytest.fixture(scope="module")
def corpus() -> list[Example]:
    return generate(5000, seed=0)


def planted(example: Example) -> list[str]:
    assert example.rationale is not None
    return [example.text[span.start : span.end].lower() for span in example.rationale]


def test_a_seed_fixes_the_corpus() -> None:
    assert generate(200, seed=3) == generate(200, seed=3)
    assert not {e.text for e in generate(200, seed=3)} & {e.text for e in generate(200, seed=4)}


def test_a_longer_corpus_starts_with_the_shorter_one() -> None:
    assert generate(101, seed=5) == generate(202, seed=5)[:101]


def test_texts_and_ids_are_distinct(corpus: list[Example]) -> None:
    assert len(corpus) == len({e.text for e in corpus}) == len({e.id for e in corpus}) == 5000


def test_a_text_that_was_written_before_is_not_written_again() -> None:
    seen: set[str] = set()
    # The same seed would write the same text, but for the memory of it.
    texts = [_new_review("positive", random.Random(1), seen)[0] for _ in range(5)]
    assert len(set(texts)) == 5


def test_every_even_prefix_has_as_many_of_each_label(corpus: list[Example]) -> None:
    assert Counter(e.label for e in corpus) == {"negative": 2500, "positive": 2500}
    assert Counter(e.label for e in corpus[:100]) == {"negative": 50, "positive": 50}


def test_the_order_of_labels_is_random(corpus: list[Example]) -> None:
    assert 1000 < sum(e.label == "positive" for e in corpus[::2]) < 1500


def test_spans_are_whole_words_of_the_labels_lexicon(corpus: list[Example]) -> None:
    for example in corpus:
        words = planted(example)
        opinions = [word for word in words if word not in INTENSIFIERS]
        assert 1 <= len(opinions) <= 3, example
        assert set(opinions) <= OPINIONS[str(example.label)], example
        assert words[-1] not in INTENSIFIERS, example


def test_intensifiers_stand_right_before_an_opinion(corpus: list[Example]) -> None:
    strengthened = 0
    for example in corpus:
        spans = example.rationale or ()
        for here, after in pairwise(spans):
            if example.text[here.start : here.end].lower() in INTENSIFIERS:
                strengthened += 1
                assert after.start == here.end + 1, example
                assert example.text[after.start : after.end].lower() not in INTENSIFIERS
    assert strengthened > 500


def test_no_opinion_stands_outside_the_rationale(corpus: list[Example]) -> None:
    loaded = OPINIONS["negative"] | OPINIONS["positive"] | INTENSIFIERS
    for example in corpus:
        found = [(m.start(), m.end()) for m in re.finditer(r"\w+", example.text) if m[0].lower() in loaded]
        assert found == [(span.start, span.end) for span in example.rationale or ()], example


def test_nothing_is_negated(corpus: list[Example]) -> None:
    negations = re.compile(r"\b(not|no|never|nothing|hardly|without|neither|nor)\b|n't", re.IGNORECASE)
    assert [e.text for e in corpus if negations.search(e.text)] == []


def test_the_lexicons_share_no_word() -> None:
    assert not OPINIONS["negative"] & OPINIONS["positive"]
    assert not (OPINIONS["negative"] | OPINIONS["positive"]) & INTENSIFIERS


def test_the_filler_does_not_know_the_label(corpus: list[Example]) -> None:
    counts: dict[str, Counter[str]] = {label: Counter() for label in LABELS}
    for example in corpus:
        # "a" and "an" follow the planted word, so they are no filler in this sense.
        filler = set(re.findall(r"\w+", example.text.lower())) - set(planted(example)) - {"a", "an"}
        counts[str(example.label)].update(filler)
    for word in counts["negative"] | counts["positive"]:
        one, other = counts["negative"][word], counts["positive"][word]
        # Five standard deviations of a fair coin: about one false alarm in a thousand corpora.
        assert abs(one - other) < 5 * (one + other) ** 0.5, (word, one, other)


def test_lengths_and_shape(corpus: list[Example]) -> None:
    lengths = Counter(len(e.text.split()) for e in corpus)
    assert SHORTEST == min(lengths) == 10
    assert LONGEST == max(lengths) == 30
    sentence = re.compile(r"([A-Z][a-z]*( [A-Za-z0-9]+)*\.)( |$)")
    for example in corpus:
        assert sentence.sub("", example.text) == "", example.text
        assert "*" not in example.text
        assert "{" not in example.text


def test_opinions_stand_early_and_late(corpus: list[Example]) -> None:
    places = [span.start / len(e.text) for e in corpus for span in (e.rationale or ())]
    tenths = Counter(int(10 * place) for place in places)
    assert min(tenths[tenth] for tenth in range(10)) > 0.03 * len(places)


def test_all_domains_and_most_words_occur(corpus: list[Example]) -> None:
    words = {word for e in corpus for word in re.findall(r"\w+", e.text.lower())}
    assert OPINIONS["negative"] | OPINIONS["positive"] | INTENSIFIERS <= words
    assert all(set(domain.things) <= words for domain in DOMAINS)


def test_sizes() -> None:
    assert generate(0) == []
    assert len(generate(1)) == 1
    with pytest.raises(InputError, match="-1"):
        generate(-1)
