"""Students that really learn, what hints change, and settings that are refused."""

from pathlib import Path

import numpy as np
import pytest
import torch

from didact.data.corpus import generate
from didact.errors import ModelError, ParameterError
from didact.students.base import CHANNELS, STUDENTS, Batch, Hint, LabelledExample, StudentRun, TaskSetup
from didact.students.kinds._recurrent import RecurrentCohort
from didact.students.kinds.bilstm_attention import BiLstmAttention
from didact.students.kinds.transformer import EncoderFactory, Transformer
from didact.students.matching import reaching
from didact.testing.tiny import tiny_model
from didact.types import Example, Span

NETWORKS = ["transformer", "bilstm", "bilstm_attention"]


def accuracy(name: str, count: int, **settings: object) -> float:
    examples = generate(count + 100, seed=5)
    pool = [LabelledExample(example, int(example.label == "positive")) for example in examples[:count]]
    runs = [StudentRun(np.arange(count), [None] * count, 0.0, 1)]
    found = STUDENTS.get(name).configured(**settings).train_and_predict(pool, runs, examples[count:], TaskSetup())
    truth = np.array([int(example.label == "positive") for example in examples[count:]])
    assert found[0].failure is None
    return float((found[0].answers == truth).mean())


def test_a_transformer_learns_sentiment_from_few_texts() -> None:
    assert accuracy("transformer", 64, epochs=3, learning_rate=2e-4) > 0.9


def test_a_bilstm_with_attention_learns_sentiment_from_more_texts() -> None:
    settings = {"embedding": 32, "hidden": 16, "epochs": 6, "learning_rate": 1e-2, "batch_size": 16, "min_count": 2}
    assert accuracy("bilstm_attention", 800, **settings) > 0.9


def test_a_bilstm_learns_which_word_comes_first() -> None:
    # A bag of words could not: both classes have the same words.
    rng = np.random.default_rng(0)
    words = ["sun", "rain", "wind", "snow", "fog"]
    texts, answers = [], []
    for _ in range(200):
        first, second = rng.permutation(2)
        filler = " ".join(rng.choice(words, 4))
        texts.append(Example(f"{('left', 'right')[first]} {filler} {('left', 'right')[second]}"))
        answers.append(int(first))
    pool = [LabelledExample(text, answer) for text, answer in zip(texts[:150], answers, strict=False)]
    learner = STUDENTS.get("bilstm").configured(embedding=16, hidden=16, epochs=6, learning_rate=1e-2)
    found = learner.train_and_predict(
        pool, [StudentRun(np.arange(150), [None] * 150, 0.0, 0)], texts[150:], TaskSetup()
    )
    assert (found[0].answers == answers[150:]).mean() > 0.9


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("tiny")
    model, tokenizer = tiny_model("bert")
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


def questions(count: int) -> list[LabelledExample]:
    """The answer is what follows "old" in the passage."""
    rng = np.random.default_rng(0)
    words = ["film", "plot", "bill", "heart", "food", "evening"]
    made = []
    for _ in range(count):
        row = list(rng.choice(words, 6))
        at = int(rng.integers(0, 6))
        passage = " ".join([*row[:at], "old", *row[at:]])
        start = passage.index("old ") + 4
        made.append(LabelledExample(Example("what is old", passage), Span(start, start + len(row[at]), 1)))
    return made


def test_a_transformer_learns_to_point_at_an_answer(tiny: str) -> None:
    labelled = questions(260)
    learner = Transformer(model=tiny, epochs=6, learning_rate=3e-3, batch_size=20, train_embeddings=True)
    run = StudentRun(np.arange(220), [None] * 220, 0.0, 0)
    found = learner.train_and_predict(
        labelled[:220], [run], [item.example for item in labelled[220:]], TaskSetup(kind="span")
    )[0]
    right = [
        item.example.fields[1][first : last + 1] == item.example.fields[1][item.answer.start : item.answer.end]  # type: ignore[union-attr]
        for (first, last), item in zip(found.answers, labelled[220:], strict=True)
    ]
    assert np.mean(right) > 0.8


def test_examples_whose_answer_was_cut_off_teach_nothing(tiny: str) -> None:
    labelled = questions(12)
    cut = [LabelledExample(Example("what is old", "film " * 40 + "old bill"), Span(204, 208, 1)) for _ in range(4)]
    learner = Transformer(model=tiny, epochs=1, batch_size=4, max_length=20, warmup=0, weight_decay=0)
    test = [item.example for item in labelled]
    setup = TaskSetup(kind="span")
    only = learner.train_and_predict(
        [*labelled, *cut], [StudentRun(np.arange(12, 16), [None] * 4, 0.0, 0)], test, setup
    )[0]
    assert only.details["last_loss"] == 0
    assert only.failure is None
    # Nobody can point at a passage that was cut off altogether.
    long = [Example("film " * 40, "old bill")]
    far = Transformer(model=tiny, epochs=1, batch_size=4, max_length=4).train_and_predict(
        labelled, [StudentRun(np.arange(4), [None] * 4, 0.0, 0)], long, setup
    )[0]
    assert far.answers.shape == (1, 2)


def test_alignment_reaches_the_attention_between_question_and_passage(tiny: str) -> None:
    labelled = questions(40)
    hints = [
        Hint((), np.zeros(0), links=((Span(8, 11, 0), Span(item.answer.start - 4, item.answer.start - 1, 1)),))  # type: ignore[union-attr]
        for item in labelled
    ]
    learner = Transformer(model=tiny, epochs=4, learning_rate=2e-3, batch_size=10)
    setup = TaskSetup(kind="span", channel=CHANNELS.get("alignment")())
    test = [item.example for item in labelled[:4]]
    weak, strong = (
        learner.train_and_predict(labelled, [StudentRun(np.arange(40), hints, weight, 0)], test, setup)[0]
        for weight in (1e-6, 3.0)
    )
    assert strong.details["channel_loss"] < 0.5 * weak.details["channel_loss"]


def batch() -> Batch:
    ids = torch.tensor([[[2, 30, 31, 32, 33, 3], [2, 34, 35, 3, 0, 0]]])
    mask = ids != 0
    text = mask & (ids > 3)
    empty = torch.zeros(1, 2)
    return Batch(ids, torch.zeros_like(ids), mask, text, empty, torch.zeros(ids.shape))


@pytest.mark.parametrize("rows", ["first", "mean"])
@pytest.mark.parametrize("layer", [-1, 0])
def test_a_transformers_row_is_the_chosen_layers_attention(tiny: str, rows: str, layer: int) -> None:
    learner = Transformer(model=tiny, rows=rows, layer=layer)  # type: ignore[arg-type]
    factory = EncoderFactory(learner, TaskSetup())
    cohort = factory.cohort([0])
    reading = cohort(batch(), "row")
    assert reading.attention is not None
    model, _ = tiny_model("bert")
    model.set_attn_implementation("eager")
    plain = (
        model.base_model(input_ids=batch().ids[0], attention_mask=batch().mask[0].long(), output_attentions=True)
        .attentions[layer]
        .mean(1)
    )
    wanted = plain[:, 0] if rows == "first" else torch.stack([plain[0].mean(0), plain[1, :4].mean(0)])
    torch.testing.assert_close(reading.attention[0], wanted, atol=1e-5, rtol=1e-5)
    matrix = cohort(batch(), "matrix").attention
    assert matrix is not None
    torch.testing.assert_close(matrix[0][batch().mask[0]], plain[batch().mask[0]], atol=1e-5, rtol=1e-5)


def test_the_attention_of_a_bilstm_is_a_distribution_over_words() -> None:
    learner = BiLstmAttention(embedding=8, hidden=8)
    cohort = learner.cohort([0, 1], 40, TaskSetup())
    assert isinstance(cohort, RecurrentCohort)
    one = batch()
    two = Batch(*(torch.cat([part, part]) for part in (one.ids, one.types, one.mask, one.text, one.answers, one.hints)))
    reading = cohort(two, "row")
    assert reading.attention is not None
    torch.testing.assert_close(reading.attention.sum(-1), torch.ones(2, 2))
    assert (reading.attention[~two.mask] == 0).all()
    torch.testing.assert_close(reading.attention, two.mask / two.mask.sum(-1, keepdim=True))  # untaught: all alike
    with torch.no_grad():
        cohort.get_submodule("scorer").weight.normal_()  # type: ignore[operator, union-attr]
    reading = cohort(two, "row")
    assert reading.attention is not None
    assert (reading.attention[~two.mask] == 0).all()
    assert reading.attention[two.mask].std() > 0.01
    context = (reading.attention[..., None] * reading.states).sum(2)
    torch.testing.assert_close(cohort.answers(context), reading.answers)


@pytest.mark.parametrize("name", NETWORKS)
def test_cards_and_settings(name: str) -> None:
    kind = STUDENTS.get(name)
    assert kind.card.name == name
    assert kind.card.family == "network"
    assert set(reaching(kind.card)) <= set(CHANNELS.names())
    with pytest.raises(ParameterError, match=f"unknown parameter of {name} 'epoch'"):
        kind.configured(epoch=3)
    with pytest.raises(ParameterError, match="epochs"):
        kind.configured(epochs=0)
    with pytest.raises(ParameterError, match="learning_rate"):
        kind.configured(learning_rate=0.0)


def test_an_encoder_that_is_not_there_is_named(tmp_path: Path) -> None:
    labelled = [LabelledExample(Example("a text"), 0)]
    run = StudentRun(np.arange(1), [None], 0.0, 0)
    for place in ("no-such/encoder", str(tmp_path)):
        with pytest.raises(ModelError, match=r"cannot load the encoder.*leave it out"):
            Transformer(model=place).train_and_predict(labelled, [run], [], TaskSetup())


def test_a_layer_that_is_not_there_is_refused(tiny: str) -> None:
    with pytest.raises(ParameterError, match="layer of transformer must be -2 to 1"):
        EncoderFactory(Transformer(model=tiny, layer=5), TaskSetup())


def test_the_position_table_limits_the_length(tmp_path: Path) -> None:
    model, tokenizer = tiny_model("roberta")
    model.save_pretrained(tmp_path)
    tokenizer.model_max_length = 10**9
    tokenizer.save_pretrained(tmp_path)
    assert model.config.max_position_embeddings == 130
    assert EncoderFactory(Transformer(model=str(tmp_path), max_length=512), TaskSetup()).limit == 129


def test_real_minilm_students_agree_together_and_alone(shared: Path) -> None:
    examples = generate(24, seed=2)
    pool = [LabelledExample(example, float(len(example.text))) for example in examples[:16]]
    learner = Transformer(model=str(shared / "weights" / "minilm-base"), batch_size=4, epochs=1, max_length=16)
    runs = [StudentRun(np.random.default_rng(seed).permutation(16), [None] * 16, 0.0, seed) for seed in range(2)]
    alone, together = (
        learner.train_and_predict(pool, runs, examples[16:], TaskSetup(kind="number", together=size)) for size in (1, 2)
    )
    spread = np.std([len(example.text) for example in examples[:16]])
    for one, other in zip(alone, together, strict=True):
        assert np.abs(one.answers - other.answers).max() < 1e-4 * spread
