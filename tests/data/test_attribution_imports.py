"""Attributions of other libraries: real objects of shap, lime and captum, and of inseq and ferret where they are
installed; stand-ins with the public fields of these two."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from didact.api import import_attributions
from didact.data.alignment import align
from didact.data.attribution_imports import Outside, resolve
from didact.data.attribution_imports import read as read_object
from didact.errors import DidactError, FormatError, InputError
from didact.models.load import load_model
from didact.testing.tiny import TEXTS, keyword_predict, tiny_tokenizer
from didact.types import Example, Explanation, Prediction, Span, Target
from tests.reference.plain import text_model

TEXT = "good food, good wine but dull"
SAID = Prediction(("negative", "positive"), (-1.0, -0.5), (0.4, 0.6))
POSITIVE = Target(1, "positive", "probability")
LABELS = ["negative", "positive"]


def read(obj: object, *arguments: Any, **options: Any) -> Explanation:
    found = import_attributions(obj, *arguments, **options)
    assert isinstance(found, Explanation)
    assert Explanation.from_json(found.to_json()) == found
    return found


def from_arrays(text: Any, spans: object, scores: object, **more: str) -> Explanation:
    outside = read_object({"spans": spans, "scores": scores, **more}, text)
    assert isinstance(outside, Outside)
    return outside.explanation(POSITIVE, SAID)


def test_arrays_with_spans() -> None:
    found = from_arrays(TEXT, [(0, 4), Span(25, 29)], np.array([1.0, -2.0]), method="mine")
    assert (found.method, found.units.texts, found.scores, found.signed) == (
        "mine",
        ("good", "dull"),
        (1.0, -2.0),
        True,
    )
    pair = from_arrays(("good food", "dull plot"), [(0, 4), (0, 4, 1)], [1, 2])
    assert pair.units.texts == ("good", "dull")
    assert not pair.signed


@pytest.mark.parametrize(
    ("spans", "scores", "message"),
    [
        ([(0, 4)], [1.0, 2.0], r"scores of shape \(2,\) for 1 spans"),
        ([(0, 4)], [float("nan")], "score 0 of outside is nan"),
        ([(0, 4), (5, 9)], [1.0, float("inf")], "score 1 of outside is inf"),
        ([(0, 99)], [1.0], "covers characters 0 to 99 of a text of 29"),
        ([(-1, 4)], [1.0], "covers characters -1 to 4"),
        ([(0, 4, 1)], [1.0], "field 1, but the example has 1"),
        ([(3, 3)], [1.0], "covers no character"),
        ([(3,)], [1.0], r"a span is \(start, end\)"),
        ([], [], "there is no unit"),
        ([(0, 4)], ["high"], "scores must be numbers"),
    ],
)
def test_arrays_that_do_not_fit(spans: list[Any], scores: list[Any], message: str) -> None:
    with pytest.raises(FormatError, match=message):
        from_arrays(TEXT, spans, scores)


def test_shap_with_many_texts_and_labels() -> None:
    shap = pytest.importorskip("shap")
    words = [["good ", "food, ", "good ", "wine ", "but ", "dull"], ["a ", "warm ", "film"]]
    rng = np.random.default_rng(0)
    values = np.empty(2, dtype=object)  # texts of different length, as PartitionExplainer returns them
    for i, text in enumerate((TEXT, "a warm film")):
        positive = rng.normal(size=len(words[i]))
        positive += (keyword_predict([text])[0, 1] - 0.5 - positive.sum()) / len(positive)
        values[i] = np.stack([-positive, positive], axis=1)
    theirs = shap.Explanation(
        values,
        base_values=np.full((2, 2), 0.5),
        data=tuple(np.array(row, dtype=object) for row in words),
        output_names=LABELS,
        hierarchical_values=values,
    )
    several = import_attributions(theirs)
    assert isinstance(several, list)
    assert [one.example.text for one in several] == [TEXT, "a warm film"]
    first = several[0]
    assert first.method == "shap:partition"
    assert (first.target.label, first.target.scale) == ("positive", "probability")
    np.testing.assert_allclose(first.array, theirs.values[0][:, 1])
    np.testing.assert_allclose(first.prediction.probabilities, keyword_predict([TEXT])[0], atol=1e-9)
    assert first.prediction.value(first.target) == pytest.approx(sum(first.scores) + first.details["base_value"])
    assert first.units.texts == ("good", "food,", "good", "wine", "but", "dull")
    other = read(theirs[0], target="negative")
    np.testing.assert_allclose(other.array, theirs.values[0][:, 0])
    sliced = read(theirs[0, :, 1], model=load_model(keyword_predict, labels=LABELS))
    assert (sliced.scores, sliced.target) == (first.scores, first.target)
    np.testing.assert_allclose(sliced.prediction.probabilities, keyword_predict([TEXT])[0])
    with pytest.raises(InputError, match="no label 'great'"):
        import_attributions(theirs, target="great")


def test_lime_gives_a_word_its_weight_wherever_it_stands() -> None:
    lime_text = pytest.importorskip("lime.lime_text")
    explainer = lime_text.LimeTextExplainer(class_names=LABELS, random_state=0)
    theirs = explainer.explain_instance(TEXT, lambda texts: keyword_predict(list(texts)), num_samples=60, labels=(1,))
    found = read(theirs)
    assert found.method == "lime:text"
    assert found.units.texts == ("good", "food", "good", "wine", "but", "dull")
    weights = dict(theirs.as_list(label=1))
    assert found.scores == tuple(weights[word] for word in found.units.texts)
    np.testing.assert_allclose(found.prediction.probabilities, keyword_predict([TEXT])[0])
    with pytest.raises(InputError, match="holds labels \\[1\\], not 0"):
        import_attributions(theirs, target="negative")


@pytest.mark.parametrize("architecture", ["bert", "roberta", "xlm-roberta", "gpt2"])
def test_captum_records_and_arrays_of_embeddings(architecture: str) -> None:
    visualization = pytest.importorskip("captum.attr").visualization
    tokenizer = tiny_tokenizer(architecture)
    text = TEXTS[1]
    batch = tokenizer(text, return_offsets_mapping=True)
    tokens = tokenizer.convert_ids_to_tokens(batch["input_ids"])
    vectors = torch.randn(1, len(tokens), 7, requires_grad=True)
    scores = vectors.sum(-1)[0]
    record = visualization.VisualizationDataRecord(scores, 0.6, 1, 1, "positive", 0.0, tokens, 0.0)
    found = read(record, text, prediction=SAID)
    spans = [tuple(span) for span in batch["offset_mapping"] if span[1] > span[0]]
    places = [i for i, span in enumerate(batch["offset_mapping"]) if span[1] > span[0]]
    written = [text[start:end].strip() for start, end in spans]
    assert [piece for piece in found.units.texts if piece] == [piece for piece in written if piece]
    assert found.target.label == "positive"
    assert found.method == "captum"
    if len(found.units) == len(spans):  # no token for a blank alone
        np.testing.assert_allclose(found.array, scores.detach().numpy()[places], rtol=1e-5, atol=1e-6)
    by_offsets = read({"attributions": vectors[:, places], "offsets": spans, "tokens": "kept"}, text, prediction=SAID)
    np.testing.assert_allclose(by_offsets.array, scores.detach().numpy()[places], rtol=1e-5, atol=1e-6)
    assert by_offsets.units.level == "token"


@dataclass
class TokenWithId:
    token: str
    id: int = 0


@dataclass
class Sequence:
    source: list[TokenWithId]
    target: list[TokenWithId]
    source_attributions: torch.Tensor | None = None
    target_attributions: torch.Tensor | None = None
    attr_pos_start: int = 0


@dataclass
class FeatureAttributionOutput:
    sequence_attributions: list[Sequence]
    info: dict[str, Any] = field(default_factory=dict)


@dataclass
class FerretExplanation:
    text: str
    tokens: list[str]
    scores: np.ndarray
    explainer: str
    target_pos_idx: int
    helper_type: str = "text-classification"


@dataclass
class EarlierFerretExplanation:
    text: str
    tokens: list[str]
    scores: np.ndarray
    explainer: str
    target: int


for stand_in, library in (
    (FeatureAttributionOutput, "inseq.data.attribution"),
    (FerretExplanation, "ferret.explainers"),
    (EarlierFerretExplanation, "ferret.explainers.explanation"),
):
    stand_in.__module__ = library  # an object is known by the module of its class


def pieces(*tokens: str) -> list[TokenWithId]:
    return [TokenWithId(token) for token in tokens]


def test_inseq_sources_and_prefixes() -> None:
    steps = torch.tensor([[1.0, 3.0], [2.0, 0.0], [5.0, 5.0]])
    encoder = Sequence(pieces("▁good", "▁food", "</s>"), pieces("▁yes", "</s>"), source_attributions=steps)
    info = {"attribution_method": "saliency"}
    found = read(FeatureAttributionOutput([encoder], info), prediction=SAID, target=1)
    assert (found.method, found.units.texts, found.scores) == ("inseq:saliency", ("good", "food"), (2.0, 1.0))
    assert found.details["left_out"] == 5.0
    vectors = torch.tensor([[[3.0, 4.0]], [[0.0, 1.0]], [[float("nan")] * 2]])
    decoder = Sequence([], pieces("good", "Ġfood", "Ġyes"), target_attributions=vectors, attr_pos_start=2)
    found = read(FeatureAttributionOutput([decoder], info), "Good food", prediction=SAID)
    assert (found.units.texts, found.scores) == (("Good", "food"), (5.0, 1.0))
    both = import_attributions(FeatureAttributionOutput([encoder, decoder], info), prediction=SAID)
    assert isinstance(both, list)
    assert [one.example.text for one in both] == ["good food", "good food"]


@pytest.mark.filterwarnings("ignore")  # of what inseq itself does
def test_a_real_object_of_inseq(tmp_path: Path) -> None:
    inseq = pytest.importorskip("inseq")
    tokenizer = tiny_tokenizer("gpt2")
    sizes = {"vocab_size": len(tokenizer), "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64}
    special = {name: getattr(tokenizer, name) for name in ("bos_token_id", "eos_token_id", "pad_token_id")}
    torch.manual_seed(0)
    AutoModelForCausalLM.from_config(AutoConfig.for_model("gpt2", **sizes, **special)).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    generation = {"max_new_tokens": 3, "do_sample": False}
    theirs = inseq.load_model(str(tmp_path), "saliency").attribute(
        ["good food and wine", "a film"], generation_args=generation, show_progress=False
    )
    found = import_attributions(theirs, prediction=SAID)
    assert isinstance(found, list)
    assert [one.method for one in found] == ["inseq:saliency"] * 2
    assert [one.units.texts for one in found] == [("good", "food", "and", "w", "in", "e"), ("a", "film")]
    shown = theirs.aggregate("vnorm", normalize=False)
    for one, sequence in zip(found, shown.sequence_attributions, strict=True):
        wanted = sequence.target_attributions[: len(one.units)].mean(1)
        np.testing.assert_allclose(one.scores, wanted, rtol=1e-5)
    again = import_attributions(shown, prediction=SAID)
    assert isinstance(again, list)
    assert again[1].scores == pytest.approx(found[1].scores)


def real_ferret(*fields: object) -> object:
    """An object of ferret itself, made by its own class."""
    return pytest.importorskip("ferret.explainers.explanation", exc_type=ImportError).Explanation(*fields)


@pytest.mark.parametrize("make", [FerretExplanation, EarlierFerretExplanation, real_ferret])
def test_ferret_with_our_model(make: Callable[..., object]) -> None:
    model = text_model("bert")
    text = "An unforgettable evening"
    tokens = list(model.tokenizer.convert_ids_to_tokens(model.tokenizer(text)["input_ids"]))
    theirs = make(text, tokens, np.arange(len(tokens)), "Partition SHAP", 0)
    found = read(theirs, model=model)
    (units,) = model.units([Example(text)], "token")
    assert (found.method, found.target.label) == ("ferret:partition_shap", "negative")
    assert (found.units.spans, found.units.positions) == (units.spans, units.positions)
    assert found.scores == tuple(float(i) for i in range(1, len(tokens) - 1))
    (value,) = model.score([found.units], [found.target], [np.ones((1, len(found.units)), dtype=bool)])
    assert value[0] == pytest.approx(found.prediction.value(found.target), abs=1e-5)


@pytest.mark.parametrize(
    ("text", "tokens", "wanted"),
    [
        ("Un café, bitte", ["[CLS]", "un", "cafe", ",", "bit", "##te", "[SEP]"], ["Un", "café", ",", "bit", "te"]),
        ("  two\n lines", ["Ġtwo", "Ċ", "Ġlines"], ["two", "lines"]),
        ("good ##food", ["good", "#", "#", "food"], ["good", "#", "#", "food"]),
        ("say [SEP] now", ["say", "[SEP]", "now"], ["say", "[SEP]", "now"]),
        ("Straße", ["strass", "##e"], ["Straß", "e"]),
    ],
)
def test_tokens_are_found_in_the_text(text: str, tokens: list[str], wanted: list[str]) -> None:
    spans = [span for span in align(Example(text), tokens) if span is not None]
    assert [text[span.start : span.end] for span in spans] == wanted


def test_tokens_of_a_pair() -> None:
    example = Example("good food", "good plot")
    spans = align(example, ["<s>", "good", "food", "</s>", "good", "plot", "</s>"])
    assert [None if span is None else (span.field, span.start) for span in spans] == [
        None,
        (0, 0),
        (0, 5),
        None,
        (1, 0),
        (1, 5),
        None,
    ]


@pytest.mark.parametrize(
    ("obj", "message"),
    [
        ({"tokens": ["good", "fool"], "scores": [1, 2]}, r"token 1 \('fool'\) does not stand at ' food, good wine"),
        ({"tokens": ["good", "[UNK]"], "scores": [1, 2]}, "give character offsets"),
        ({"tokens": ["good"], "scores": [1, 2]}, "2 scores for 1 tokens"),
        ({"scores": [1, 2]}, r"needs 'scores'.*it has \['scores'\]"),
        ({"tokens": ["<s>"], "scores": [1.0]}, "there is no unit"),
        (object(), "cannot read attributions from builtins.object; known: objects of captum, shap, lime"),
    ],
)
def test_what_cannot_be_read_is_told(obj: object, message: str) -> None:
    with pytest.raises(DidactError, match=message):
        import_attributions(obj, TEXT, prediction=SAID)


def test_what_is_missing_is_told() -> None:
    with pytest.raises(InputError, match="do not hold the text"):
        import_attributions({"spans": [(0, 4)], "scores": [1]}, prediction=SAID)
    with pytest.raises(InputError, match="label index 7 does not exist"):
        import_attributions({"spans": [(0, 4)], "scores": [1]}, TEXT, prediction=SAID, target=7)
    broken = FerretExplanation(TEXT, [], np.zeros(0), "x", 0)
    del broken.tokens
    with pytest.raises(FormatError, match=r"this ferret object cannot be read: .*tokens"):
        import_attributions(broken)


@pytest.mark.parametrize(
    "obj",
    [
        {"scores": [1.0], "spans": [[0.5, 4]]},
        {"scores": [1.0], "spans": [[0, True, 0, 1, 2]]},
        {"scores": [1.0], "spans": [["0", "4"]]},
        {"scores": [1.0], "spans": [[0, 10**30]]},
        {"scores": [float("nan")], "spans": [[0, 4]]},
        {"scores": 3, "spans": [[0, 4]]},
        {"scores": [1.0], "spans": 3},
        {"scores": [1.0], "tokens": 3},
        {"scores": {"a": 1}, "tokens": ["good"]},
        {1: 2, "scores": None},
        {"scores": [1.0], "spans": [[0, 4]], "text": "good \ud800"},
    ],
)
def test_a_mapping_that_cannot_be_right_is_refused(obj: dict[Any, Any]) -> None:
    with pytest.raises(DidactError):
        read_object(obj, "good film")


@pytest.mark.parametrize("target", [True, 0.5, 7, -1, "\u00b2"])
def test_a_target_that_is_no_label_is_refused(target: Any) -> None:
    with pytest.raises(InputError):
        resolve(target, Prediction(("no", "yes"), (0.0, 1.0)), None)
