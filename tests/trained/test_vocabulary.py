"""How the scorer reads: a vocabulary of words, or the tokens of a tokenizer."""

from pathlib import Path

import numpy as np
import pytest

from didact.errors import FormatError, ParameterError
from didact.models.load import load_model
from didact.ops.units import word_spans
from didact.testing.tiny import ARCHITECTURES, TEXTS, tiny_model, tiny_tokenizer
from didact.trained.shapes._vocabulary import PAD, UNKNOWN, Pieces, Vocabulary
from didact.types import Example, Span, Units

TRICKY = "Good unfathomable film, good ☃ naïve 🎉 ending — and 日本 too"


def words_of(text: str, pair: str | None = None) -> Units:
    example = Example(text, pair)
    spans = tuple(span for field, part in enumerate(example.fields) for span in word_spans(part, field))
    return Units(example, "word", spans)


def test_words_are_numbered_by_frequency_and_read_in_lower_case() -> None:
    vocabulary = Vocabulary.of([words_of("the Good film"), words_of("the good The"), words_of("once")], min_count=2)
    assert vocabulary.words == ("the", "good")
    assert vocabulary.size == 4
    ((ids, owners),) = vocabulary.read([words_of("GOOD the once good never")])
    assert ids.tolist() == [3, 2, UNKNOWN, 3, UNKNOWN]
    assert owners.tolist() == [0, 1, 2, 3, 4]


def test_equally_frequent_words_come_in_the_order_of_the_alphabet() -> None:
    assert Vocabulary.of([words_of("b c a")], min_count=1).words == ("a", "b", "c")
    assert Vocabulary.of([words_of("A a")], min_count=1, lower=False).words == ("A", "a")
    with pytest.raises(ParameterError, match="min_count of a vocabulary must be at least 1"):
        Vocabulary.of([], min_count=0)


def test_a_vocabulary_survives_a_folder(tmp_path: Path) -> None:
    made = Vocabulary(["two\nlines", "ß", '"', "日"], lower=False)
    made.save(tmp_path)
    again = Vocabulary.load(tmp_path)
    assert (again.words, again.lower) == (made.words, made.lower)


def test_a_broken_vocabulary_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="does not hold a vocabulary"):
        Vocabulary.load(tmp_path)
    (tmp_path / "vocabulary.json").write_text('{"words": ["a", "a"], "lower": true}', "utf-8")
    with pytest.raises(FormatError, match="'a' comes twice"):
        Vocabulary.load(tmp_path)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("level", ["word", "token"])
def test_pieces_of_a_models_units_are_the_tokens_it_reads(architecture: str, level: str) -> None:
    model = load_model(tiny_model(architecture))
    reader = Pieces(model.tokenizer)  # type: ignore[attr-defined]
    texts = model.units([Example(TRICKY), Example(TEXTS[0])], level)  # type: ignore[arg-type]
    for units, (ids, owners) in zip(texts, reader.read(texts), strict=True):
        (code,) = model.reader.encode([units.example])  # type: ignore[attr-defined]
        assert set(owners.tolist()) == set(range(len(units)))
        assert (np.diff(owners) >= 0).all()
        assert ids.min() > PAD
        assert ids.max() < reader.size
        for unit, positions in enumerate(units.positions):
            mine = [number - UNKNOWN - 1 for number in ids[owners == unit].tolist()]
            tokens = [code.tokens[p] for p in positions]
            # Tokens that stand for blanks alone belong to no word's characters.
            solid = [int(code.ids[p]) for p, t in zip(positions, tokens, strict=True) if _touches(t, units.spans[unit])]
            assert mine == solid


def test_units_of_another_model_are_found_by_their_characters() -> None:
    reader = Pieces(tiny_tokenizer("bert"))
    units = words_of("wonderful zzz wonderful")
    ((ids, owners),) = reader.read([units])
    names = reader.tokenizer.convert_ids_to_tokens([number - UNKNOWN - 1 for number in ids.tolist()])
    assert [names[i] for i in np.flatnonzero(owners == 0)] == ["wonderful"]
    assert [names[i] for i in np.flatnonzero(owners == 2)] == ["wonderful"]


def test_texts_are_read_together_as_each_alone() -> None:
    model = load_model(tiny_model("bert"))
    texts = [words_of(TRICKY), words_of("a film", TEXTS[0]), Units(Example("unread"), "word", ()), words_of("dull")]
    texts += model.units([Example(TEXTS[1])], "token")
    texts += [Units(Example("wonderful film"), "word", (Span(10, 14), Span(0, 4), Span(4, 9)))]
    reader = Pieces(tiny_tokenizer("bert"))
    for (ids, owners), units in zip(reader.read(texts), texts, strict=True):
        ((own_ids, own_owners),) = reader.read([units])
        assert (ids.tolist(), owners.tolist()) == (own_ids.tolist(), own_owners.tolist())
    assert reader.read([]) == []


def test_a_unit_without_a_token_of_its_own_is_unknown() -> None:
    units = Units(Example("wonderful film"), "word", (Span(0, 4), Span(4, 9), Span(10, 14)))
    ((ids, owners),) = Pieces(tiny_tokenizer("bert")).read([units])
    assert owners.tolist() == [0, 1, 2]
    assert ids[1] == UNKNOWN
    assert UNKNOWN not in (ids[0], ids[2])


def test_text_that_no_unit_covers_is_not_read() -> None:
    whole, cut = words_of("a film with a heart"), words_of("a film")
    cut = Units(whole.example, "word", cut.spans)
    reader = Pieces(tiny_tokenizer("bert"))
    (some, _), (all_of_it, _) = reader.read([cut, whole])
    assert len(some) == 2 < len(all_of_it)


@pytest.mark.parametrize("architecture", ["bert", "roberta", "xlm-roberta"])
def test_pieces_survive_a_folder(architecture: str, tmp_path: Path) -> None:
    made = Pieces(tiny_tokenizer(architecture))
    made.save(tmp_path)
    again = Pieces.load(tmp_path)
    units = words_of(TRICKY, TEXTS[1])
    assert again.size == made.size
    for ours, theirs in zip(made.read([units])[0], again.read([units])[0], strict=True):
        assert ours.tolist() == theirs.tolist()
    with pytest.raises(FormatError, match="does not hold a tokenizer"):
        Pieces.load(tmp_path / "nowhere")


def test_a_real_tokenizer_survives_a_folder(shared: Path, tmp_path: Path) -> None:
    model = load_model(str(shared / "weights" / "minilm-sst2"), device="cpu")
    made = Pieces(model.tokenizer)  # type: ignore[attr-defined]
    made.save(tmp_path)
    (units,) = model.units([Example("An unfathomably Good film, isn't it?")])
    assert Pieces.load(tmp_path).read([units])[0][0].tolist() == made.read([units])[0][0].tolist()


def _touches(token: tuple[int, int, int] | None, span: Span) -> bool:
    return token is not None and token[0] == span.field and token[1] < span.end and span.start < token[2]
