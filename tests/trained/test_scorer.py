"""The scorer: what it sees, what it leaves out, and that batches, windows and heads change nothing."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode

from didact.errors import FormatError, InputError, ParameterError
from didact.ops.units import word_spans
from didact.testing.tiny import TEXTS, tiny_tokenizer
from didact.trained.shapes._attention import Sight, _band
from didact.trained.shapes._scorer_config import ScorerConfig
from didact.trained.shapes._vocabulary import Vocabulary
from didact.trained.shapes.base import SHAPES, Item
from didact.trained.shapes.scorer import Scorer
from didact.types import Example, Prediction, Units

LABELS = ("negative", "positive", "neutral")
PREDICTION = Prediction(LABELS, (0.0, 1.0, 0.5), (0.2, 0.5, 0.3))
SMALL = ScorerConfig(labels=LABELS, width=16, blocks=2, outputs=3)
PAIR = ("good food and good company", "the bill was high")

VARIANTS: dict[str, dict[str, Any]] = {
    "published": {},
    "heads": {"conditional": "heads"},
    "sinusoidal": {"positions": "sinusoidal"},
    "learned": {"positions": "learned"},
    "window": {"window": 2},
    "window and heads": {"window": 3, "conditional": "heads"},
    "tokens": {"reading": "tokens"},
    "tokens and window": {"reading": "tokens", "window": 2, "positions": "sinusoidal"},
    "pairs": {"pairs": True, "positions": "sinusoidal"},
    "pairs, heads, window": {"pairs": True, "conditional": "heads", "window": 2, "positions": "learned"},
    "references": {"references": 3, "positions": "learned"},
    "table": {"table": 24, "positions": "learned"},
}


def units_of(text: str, pair: str | None = None) -> Units:
    example = Example(text, pair)
    spans = tuple(span for field, part in enumerate(example.fields) for span in word_spans(part, field))
    return Units(example, "word", spans)


DOCUMENTS = [units_of(text) for text in TEXTS] + [units_of("dull")]


def scorer(**changes: Any) -> Scorer:
    config = dataclasses.replace(SMALL, **changes)
    made = Scorer.for_texts(DOCUMENTS, config, tokenizer=tiny_tokenizer("bert"), min_count=1)
    return made.double().eval()


def items_of(shape: Scorer, documents: Sequence[Units] = DOCUMENTS, target: int = 1) -> list[Item]:
    return shape.read(None, documents, [target] * len(documents), [PREDICTION] * len(documents))


@torch.no_grad()
def run(shape: Scorer, items: Sequence[Item]) -> list[Tensor]:
    """Outputs of each item, without padding."""
    found = shape(shape.collate(items))
    return [row[: int(item["units"])] for row, item in zip(found, items, strict=True)]


@pytest.mark.parametrize("changes", VARIANTS.values(), ids=VARIANTS)
def test_a_padded_batch_is_its_documents_one_by_one(changes: dict[str, Any]) -> None:
    shape = scorer(**changes)
    documents = [*DOCUMENTS, units_of(*PAIR)] if changes.get("pairs") else DOCUMENTS
    items = items_of(shape, documents)
    for together, item, units in zip(run(shape, items), items, documents, strict=True):
        assert together.shape == (len(units), shape.outputs)
        torch.testing.assert_close(together, run(shape, [item])[0], rtol=0, atol=1e-12)
        assert together.isfinite().all()


@pytest.mark.parametrize("changes", VARIANTS.values(), ids=VARIANTS)
def test_all_classes_at_once_are_the_classes_one_by_one(changes: dict[str, Any]) -> None:
    shape = scorer(**changes)
    with torch.no_grad():
        found = shape.forward_all(shape.collate(items_of(shape, target=0)))
    assert found.shape == (len(DOCUMENTS), max(map(len, DOCUMENTS)), len(LABELS), shape.outputs)
    for label in range(len(LABELS)):
        for row, alone in zip(found[:, :, label], run(shape, items_of(shape, target=label)), strict=True):
            torch.testing.assert_close(row[: len(alone)], alone, rtol=0, atol=1e-12)
    assert (found[0, :, 0] - found[0, :, 1]).abs().max() > 1e-3  # the label matters


def test_without_positions_scores_follow_the_words() -> None:
    words = TEXTS[3].replace(",", "").split()
    order = np.random.default_rng(0).permutation(len(words))
    there, moved = units_of(" ".join(words)), units_of(" ".join(words[i] for i in order))
    published, ordered = scorer(), scorer(positions="sinusoidal")
    plain, shuffled = run(published, items_of(published, [there, moved]))
    torch.testing.assert_close(plain[order], shuffled, rtol=0, atol=1e-12)
    plain, shuffled = run(ordered, items_of(ordered, [there, moved]))
    assert (plain[order] - shuffled).abs().max() > 1e-3


def test_repeated_words_have_one_score_each_and_positions_tell_them_apart() -> None:
    twice = units_of("good food and good company")
    published, ordered = scorer(), scorer(positions="learned")
    (alike,) = run(published, items_of(published, [twice]))
    torch.testing.assert_close(alike[0], alike[3])
    (apart,) = run(ordered, items_of(ordered, [twice]))
    assert (apart[0] - apart[3]).abs().max() > 1e-3


def test_unknown_words_are_read_alike_and_take_part() -> None:
    shape = scorer()
    first, second, other = run(shape, items_of(shape, [units_of(f"a {word} film") for word in ("qqq", "xyz", "warm")]))
    torch.testing.assert_close(first, second)
    assert (first - other).abs().max() > 1e-3


def test_places_are_counted_as_in_the_text() -> None:
    # label(1) good(2) food(3) separator(4) the(5) bill(6) label(7); in front come both labels and the separator.
    shape = scorer(pairs=True, positions="learned")
    batch = shape.collate(items_of(shape, [units_of("good food", "the bill"), units_of("good")]))
    assert batch["places"].tolist() == [[1, 7, 4, 2, 3, 5, 6], [1, 4, 3, 2, 0, 0, 0]]
    bare = scorer(conditional="heads", positions="learned", references=2)
    assert bare.collate(items_of(bare, [units_of("good food")]))["places"].tolist() == [[0, 1, 2]]


def test_the_words_of_a_pair_know_their_side() -> None:
    shape = scorer(pairs=True)
    plain, swapped = run(shape, items_of(shape, [units_of("good", "dull"), units_of("dull", "good")]))
    assert (plain - swapped.flip(0)).abs().max() > 1e-3
    with pytest.raises(InputError, match="a pair was given to a scorer that reads single texts"):
        items_of(scorer(), [units_of(*PAIR)])


def test_texts_decide_whether_pairs_are_read() -> None:
    assert not Scorer.for_texts(DOCUMENTS, SMALL).config.pairs
    assert Scorer.for_texts([units_of(*PAIR)], SMALL).config.pairs


def test_tokens_are_averaged_over_their_word() -> None:
    shape = scorer(reading="tokens")
    units = units_of("watched wonderfully")  # one token, and several
    (item,) = items_of(shape, [units])
    assert item["owners"].tolist().count(1) > 1
    pieces = {name: column for name, column in shape.collate([item]).items() if name != "owners"}
    with torch.no_grad():
        each = shape(pieces)[0]
    (found,) = run(shape, [item])
    torch.testing.assert_close(found[0], each[0])
    torch.testing.assert_close(found[1], each[1:].mean(0))


def test_references_are_told_apart() -> None:
    shape = scorer(references=2)
    (item,) = items_of(shape, DOCUMENTS[:1])
    first, second = run(shape, [shape.for_reference(item, 0), shape.for_reference(item, 1)])
    torch.testing.assert_close(first, run(shape, [item])[0])
    assert (first - second).abs().max() > 1e-3
    with pytest.raises(InputError, match="reference 2 was given, but this scorer has 2, counted from 0"):
        shape.for_reference(item, 2)


def test_outputs_of_the_explained_model_that_it_does_not_know_are_refused() -> None:
    with pytest.raises(InputError, match="the target is output 3, but this scorer knows 3 labels"):
        items_of(scorer(), DOCUMENTS, 3)


@pytest.mark.parametrize(("words", "first", "reach"), [(17, 2, 3), (17, 0, 3), (12, 1, 4), (9, 3, 1), (5, 2, 9)])
def test_near_attention_is_attention_with_a_band(words: int, first: int, reach: int) -> None:
    generator = torch.Generator().manual_seed(0)
    wide = [torch.randn(2, first + words, 8, generator=generator, dtype=torch.float64) for _ in range(3)]
    q, k, v = (x.view(2, first + words, 2, 4).transpose(1, 2) for x in wide)  # two heads
    present = torch.arange(words) < torch.tensor([[words], [words - 4]])
    near = (torch.arange(words)[:, None] - torch.arange(words)).abs() <= reach
    allowed = F.pad(near, (first, 0, first, 0), value=True) & F.pad(present, (first, 0), value=True)[:, None, :]
    slow = F.scaled_dot_product_attention(q, k, v, allowed[:, None]).transpose(1, 2).flatten(2)
    sight = Sight.of(present, first, reach)
    forced = Sight(sight.keys, _band(present, first, reach), first, reach)  # in blocks, also where all are near
    for found in (sight.attend(*wide, heads=2), forced.attend(*wide, heads=2)):
        assert found.isfinite().all()
        torch.testing.assert_close(found[0], slow[0], rtol=0, atol=1e-12)
        torch.testing.assert_close(found[1, : first + words - 4], slow[1, : first + words - 4])


def test_a_window_over_the_whole_text_changes_nothing_and_a_narrow_one_does() -> None:
    items = items_of(scorer())
    for wide, whole, narrow in zip(
        run(scorer(window=50), items), run(scorer(), items), run(scorer(window=1), items), strict=True
    ):
        torch.testing.assert_close(wide, whole, rtol=0, atol=0)
        if len(whole) > 3:
            assert (narrow - whole).abs().max() > 1e-3


class Largest(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Notes the most numbers that any tensor held."""

    numbers: int = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        for one in made if isinstance(made, tuple | list) else (made,):
            if isinstance(one, Tensor):
                self.numbers = max(self.numbers, one.numel())
        return made


def largest(window: int | None, words: int) -> int:
    """Numbers in the largest tensor of a pass; attention is written out, where a fused kernel would hide its matrix."""
    shape = Scorer(dataclasses.replace(SMALL, window=window), Vocabulary(["good"]))
    with sdpa_kernel(SDPBackend.MATH), Largest() as seen:  # type: ignore[no-untyped-call]
        (found,) = run(shape, items_of(shape, [units_of("good bad " * (words // 2))]))
    assert found.shape == (words, 3)
    return int(seen.numbers)


def test_with_a_window_memory_grows_with_the_length_and_not_its_square() -> None:
    assert largest(16, 20_000) < 4.1 * largest(16, 5_000)
    assert largest(None, 2_000) > 15 * largest(None, 500)  # the measure does see a square


def test_the_first_weights_are_those_of_the_paper_and_of_the_seed() -> None:
    before = torch.random.get_rng_state()
    shape = Scorer(ScorerConfig(labels=LABELS, width=64, blocks=1), Vocabulary([str(i) for i in range(5000)]))
    assert torch.equal(torch.random.get_rng_state(), before)
    table = shape.embedding.weight
    assert table[0].abs().max() == 0
    assert table[1:].std().item() == pytest.approx(64**-0.5, rel=0.01)
    queries = shape.get_parameter("blocks.0.project.weight")[:64]
    assert queries.abs().max().item() == pytest.approx((6 / 128) ** 0.5, rel=0.01)  # Xavier: sqrt(6 / (in + out))
    again, other = (Scorer(dataclasses.replace(shape.config, seed=seed), shape.reader) for seed in (0, 1))
    assert torch.equal(again.output.weight, shape.output.weight)
    assert not torch.equal(other.output.weight, shape.output.weight)


def test_embeddings_of_another_size_come_out_as_wide_as_the_others() -> None:
    shape = Scorer(ScorerConfig(labels=LABELS, width=64, table=256), Vocabulary([str(i) for i in range(5000)]))
    assert shape.turn is not None
    assert shape.embedding.weight.shape[1] == 256
    assert shape.turn(shape.embedding.weight[1:]).std().item() == pytest.approx(64**-0.5, rel=0.05)


@pytest.mark.parametrize("changes", [{}, {"pairs": True, "positions": "learned", "references": 2}])
def test_folded_it_gives_the_same_numbers_without_the_matrix(changes: dict[str, Any]) -> None:
    shape = scorer(table=24, reading="tokens", **changes)
    folded = shape.finished()
    assert folded.config == dataclasses.replace(shape.config, table=None)
    assert not any(name.startswith("turn") for name, _ in folded.named_parameters())
    for ours, theirs in zip(run(shape, items_of(shape)), run(folded, items_of(folded)), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)
    assert folded.finished() is folded


@pytest.mark.parametrize("table", [None, 12, 24])
def test_inherited_embeddings_keep_what_is_near(table: int | None) -> None:
    """Rows that vary along three directions only lie alike after turning, whether to 12, 16 or 24 numbers."""
    shape = scorer(table=table, reading="tokens")
    rows = torch.randn(shape.reader.size - 2, 3, generator=torch.Generator().manual_seed(1)).double()
    wide = rows @ torch.linalg.qr(torch.randn(20, 20, generator=torch.Generator().manual_seed(2)).double())[0][:3]
    own = shape.embedding.weight.detach().clone()
    shape.inherit(wide)
    table_now = shape.embedding.weight.detach()
    inherited = table_now[2 : shape.reader.size, :20]
    near, before = torch.cdist(inherited, inherited), torch.cdist(rows, rows)
    torch.testing.assert_close(near / near.max(), before / before.max(), rtol=0, atol=1e-5)
    assert torch.equal(table_now[shape.reader.size :], own[shape.reader.size :])  # labels
    assert not shape.embedding.weight.requires_grad
    shape.inherit(wide, keep=False)
    assert shape.embedding.weight.requires_grad


def test_a_matrix_begins_with_the_embeddings_that_the_width_alone_would_have() -> None:
    narrow, wide = scorer(reading="tokens"), scorer(reading="tokens", table=24)
    rows = torch.randn(narrow.reader.size - 2, 24, generator=torch.Generator().manual_seed(1))
    narrow.inherit(rows)
    wide.inherit(rows)
    ours, theirs = wide.finished().embedding.weight, narrow.embedding.weight
    torch.testing.assert_close(ours[2 : len(rows) + 2], theirs[2 : len(rows) + 2], rtol=0, atol=1e-6)


def test_a_scorer_of_words_inherits_nothing() -> None:
    with pytest.raises(ParameterError, match="has no tokens to inherit"):
        scorer().inherit(torch.zeros(3, 4))


@pytest.mark.parametrize("changes", VARIANTS.values(), ids=VARIANTS)
def test_settings_reading_and_weights_make_the_same_scorer_again(changes: dict[str, Any], tmp_path: Path) -> None:
    shape = scorer(**changes)
    shape.save_reading(tmp_path)
    again = SHAPES.get(shape.card.name).from_settings(shape.settings, tmp_path).double().eval()
    assert isinstance(again, Scorer)
    assert again.config == shape.config
    again.load_state_dict(shape.state_dict())
    for ours, theirs in zip(run(shape, items_of(shape)), run(again, items_of(again)), strict=True):
        assert torch.equal(ours, theirs)


def test_it_learns_with_every_part() -> None:
    shape = scorer(pairs=True, positions="learned", references=2, window=2).train()
    items = [shape.for_reference(item, i % 2) for i, item in enumerate(items_of(shape, [*DOCUMENTS, units_of(*PAIR)]))]
    batch = shape.collate(items)
    named = dict(shape.named_parameters())
    loss = shape(batch)[batch["present"]].square().sum()
    for name, gradient in zip(named, torch.autograd.grad(loss, list(named.values())), strict=True):
        assert gradient.isfinite().all(), name
        assert gradient.abs().max() > 0, name
        if name == "embedding.weight":
            assert gradient[0].abs().max() == 0  # padding stays 0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"width": 18}, "width of a scorer must be a multiple of its 4 heads, got 18"),
        ({"blocks": 0}, "blocks of a scorer must be at least 1"),
        ({"window": 0}, "window of a scorer must be at least 1"),
        ({"table": 0}, "table of a scorer must be at least 1"),
        ({"positions": "rotary"}, "positions of a scorer must be one of"),
        ({"conditional": "no"}, "conditional of a scorer must be one of"),
        ({"reading": "bytes"}, "reading of a scorer must be one of"),
        ({"labels": ()}, "labels of a scorer must name"),
        ({"dropout": 1.0}, "dropout of a scorer must be at least 0 and below 1"),
    ],
)
def test_settings_out_of_range_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        dataclasses.replace(SMALL, **changes)


def test_what_does_not_fit_together_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="needs the explained model's tokenizer"):
        Scorer.for_texts(DOCUMENTS, dataclasses.replace(SMALL, reading="tokens"))
    with pytest.raises(ParameterError, match="reads tokens, but was given a reader of words"):
        Scorer(dataclasses.replace(SMALL, reading="tokens"), Vocabulary(["a"]))
    with pytest.raises(FormatError, match="not the settings of a scorer"):
        Scorer.from_settings({"labels": ["a"], "depth": 3}, tmp_path)
