"""Scores of all heads, the channel that mixes them, and the SMaT student: scalar mix, SGD, a constant learning rate."""

import dataclasses
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from didact.errors import CapabilityError, ParameterError
from didact.models.attention import observed
from didact.models.tokens.encoding import Encoder
from didact.students.attention_tap import tapped_heads, use_attention_tap
from didact.students.base import Batch, CohortOutput, Hint, LabelledExample, StudentRun, TaskSetup
from didact.students.batches import TrainingBatches, cohort_data
from didact.students.channels.head_mix import HeadMix, HeadMixChannel
from didact.students.kinds.transformer import EncoderFactory, Transformer
from didact.students.optimization import Schedule
from didact.students.pooling import ScalarMix
from didact.students.tokenized import tokenised
from didact.students.trainer import CohortTrainer
from didact.testing.tiny import TEXTS, tiny_model
from didact.types import Example, Span

CHANNEL = HeadMixChannel()
SMAT = {"pooling": "scalar_mix", "optimizer": "sgd", "schedule": "constant", "warmup": 0.0, "learning_rate": 0.05}


def saved(folder: Path, architecture: str = "bert") -> str:
    model, tokenizer = tiny_model(architecture)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> str:
    return saved(tmp_path_factory.mktemp("tiny"))


def batch(size: int = 1) -> Batch:
    ids = torch.tensor([[[2, 30, 31, 32, 33, 3], [2, 34, 35, 3, 0, 0]]]).expand(size, -1, -1)
    mask = ids != 0
    text = mask & (ids > 3)
    hints = torch.tensor([[[0, 3.0, 0, 1.0, 0, 0], [0, 1.0, 1.0, 0, 0, 0]]]).expand(size, -1, -1)
    return Batch(ids, torch.zeros_like(ids), mask, text, torch.tensor([[0, 1]]).expand(size, -1), hints)


@pytest.mark.parametrize("architecture", ["bert", "electra", "albert", "distilbert", "modernbert", "gpt2", "llama"])
def test_head_scores_are_the_mean_of_the_logits_over_the_queries(architecture: str) -> None:
    model = tiny_model(architecture)[0].base_model
    one = batch()
    inputs = {"input_ids": one.ids[0, :1], "attention_mask": one.mask[0, :1].long()}
    # A decoder hides later keys from all queries but the last.
    is_causal = architecture in ("gpt2", "llama")
    rows = torch.tensor([[False] * 5 + [True]]) if is_causal else one.text[0, :1]
    logits: list[Tensor] = []
    with observed(model, lambda seen, _: logits.append(seen)):
        states = model(**inputs).last_hidden_state
    wanted = torch.cat([layer[:, :, rows[0]].mean(2) for layer in logits], 1)
    assert use_attention_tap(model)
    with tapped_heads(rows) as tap:
        again = model(**inputs).last_hidden_state
    assert tap.scores.shape == (1, 8, 6)
    torch.testing.assert_close(tap.scores, wanted, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(again, states, atol=1e-4, rtol=1e-4)


def test_a_cohorts_head_view_is_that_of_each_student_alone_and_answers_do_not_change(tiny: str) -> None:
    factory = EncoderFactory(Transformer(model=tiny), TaskSetup(channel=CHANNEL))
    together, alone = factory.cohort([0, 1]), factory.cohort([1])
    with torch.no_grad():
        for parameter in together.parameters():
            if parameter.requires_grad:
                parameter[0].mul_(1.1)
    pair, single = together(batch(2), "heads"), alone(batch(), "heads")
    assert together.heads == alone.heads == 8
    assert pair.attention.shape == (2, 2, 8, 6)
    torch.testing.assert_close(pair.attention[1], single.attention[0], atol=1e-4, rtol=1e-4)
    assert not torch.allclose(pair.attention[0], pair.attention[1])
    torch.testing.assert_close(alone(batch()).answers, single.answers)


def test_the_mix_by_hand() -> None:
    heads = torch.randn(1, 1, 3, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    text = torch.tensor([[[False, True, True, True]]])
    hints = torch.tensor([[[0.0, 1.0, 0.0, 3.0]]])
    nothing = torch.zeros(1, 1, 4, dtype=torch.long)
    one = Batch(nothing, nothing, torch.ones_like(text), text, nothing[..., 0], hints)
    head = CHANNEL.head(3, [7])
    assert isinstance(head, HeadMix)
    assert head.phi.tolist() == [[pytest.approx(1 / 3)] * 3]
    output = CohortOutput(torch.zeros(1), torch.zeros(1), heads)
    e = heads[0, 0].mean(0)[1:].softmax(0)
    by_hand = 0.25 * math.log(0.25 / e[0]) + 0.75 * math.log(0.75 / e[2])
    assert CHANNEL.loss(output, one, head).item() == pytest.approx(by_hand, abs=1e-6)
    logs = CHANNEL.log_explanation(output, one, head)
    torch.testing.assert_close(logs[0, 0, 1:], e.log(), atol=1e-6, rtol=1e-6)
    assert logs[0, 0, 0].item() == pytest.approx(math.log(1e-7))


@pytest.mark.parametrize(("normalise", "shares"), [("sparsemax", [1.0, 0.0]), ("none", [2.0, 0.5])])
def test_the_normaliser_decides_how_much_heads_count(normalise: str, shares: list[float]) -> None:
    channel = HeadMixChannel.configured(normalise=normalise)
    head = channel.head(2, [0])
    assert isinstance(head, HeadMix)
    with torch.no_grad():
        head.phi.copy_(torch.tensor([[2.0, 0.5]]))
    heads = torch.randn(1, 1, 2, 5, generator=torch.Generator().manual_seed(1))
    text = torch.ones(1, 1, 5, dtype=torch.bool)
    nothing = torch.zeros(1, 1, 5, dtype=torch.long)
    one = Batch(nothing, nothing, text, text, nothing[..., 0], torch.ones(1, 1, 5))
    logs = channel.log_explanation(CohortOutput(torch.zeros(1), torch.zeros(1), heads), one, head)
    wanted = (shares[0] * heads[0, 0, 0] + shares[1] * heads[0, 0, 1]).log_softmax(0)
    torch.testing.assert_close(logs[0, 0], wanted)
    with pytest.raises(ParameterError, match="normalise of head_mix must be 'sparsemax'"):
        HeadMixChannel.configured(normalise="argmax")


def test_an_example_without_text_and_a_far_student_give_finite_losses() -> None:
    heads = torch.full((1, 2, 2, 4), 1e6)
    heads[..., 1] = -1e6
    heads.requires_grad_()
    text = torch.tensor([[[False] * 4, [True] * 4]])
    nothing = torch.zeros(1, 2, 4, dtype=torch.long)
    hints = torch.tensor([[[0.0] * 4, [0, 1.0, 0, 0]]])
    one = Batch(nothing, nothing, torch.ones_like(text), text, nothing[..., 0], hints)
    loss = CHANNEL.loss(CohortOutput(torch.zeros(1), torch.zeros(1), heads), one, CHANNEL.head(2, [0]))
    assert loss[0, 0] == 0
    assert loss[0, 1].item() == pytest.approx(-math.log(1e-7), rel=1e-3)
    (gradient,) = torch.autograd.grad(loss.sum(), heads)
    assert gradient.isfinite().all()


def test_an_encoder_that_hides_its_heads_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CapabilityError, match=r"channel 'head_mix' needs .* DebertaV2Model does not"):
        EncoderFactory(Transformer(model=saved(tmp_path, "deberta-v2")), TaskSetup(channel=CHANNEL))


def test_a_scalar_mix_begins_as_the_mean_over_all_layers_of_the_mean_over_tokens(tiny: str) -> None:
    factory = EncoderFactory(Transformer(model=tiny, pooling="scalar_mix"), TaskSetup())
    cohort = factory.cohort([0])
    one = batch()
    hidden = factory.encoder(
        input_ids=one.ids[0], attention_mask=one.mask[0].long(), output_hidden_states=True
    ).hidden_states
    assert len(hidden) == 3
    pooled = torch.stack([(layer * one.mask[0, :, :, None]).sum(1) / one.mask[0].sum(1)[:, None] for layer in hidden])
    wanted = cohort.get_submodule("head")(pooled.mean(0)[None])
    torch.testing.assert_close(cohort(one).answers, wanted, atol=1e-5, rtol=1e-5)


def test_a_scalar_mix_weighs_layers_by_each_students_own_numbers() -> None:
    mix = ScalarMix(2, 2)
    with torch.no_grad():
        mix.mix.copy_(torch.tensor([[0.0, math.log(3.0)], [0.0, 0.0]]))
        mix.gamma.copy_(torch.tensor([2.0, 1.0]))
    layers = [torch.full((2, 1, 1), value) for value in (1.0, 5.0)]
    pooled = mix(layers, torch.ones(2, 1, 1, dtype=torch.bool))
    assert pooled.flatten().tolist() == pytest.approx([2 * (0.25 * 1 + 0.75 * 5), 3.0])


def test_a_step_of_sgd_is_the_functional_step(tiny: str) -> None:
    setup = TaskSetup(channel=CHANNEL)
    schedule = Schedule(learning_rate=0.2, batch_size=2, epochs=1, clip=0.5, weight_decay=0.1, optimizer="sgd")
    factory = EncoderFactory(Transformer(model=tiny, pooling="scalar_mix"), setup)
    trainer = CohortTrainer(factory.cohort([0, 1]), setup, schedule, [5.0, 1.0], [0, 1])
    wanted = trainer.functional_step(trainer.parameters(), batch(2), 0.2, differentiable=False)
    _, norm = trainer.step(batch(2), 0.2)
    assert (norm > 0.5).all(), "the gradient is clipped"
    assert "head.phi" in wanted
    for name, value in wanted.items():
        torch.testing.assert_close(trainer.objective.get_parameter(name), value, atol=1e-6, rtol=1e-5)


def test_a_constant_learning_rate_stays_at_its_peak() -> None:
    schedule = Schedule(learning_rate=0.5, batch_size=1, epochs=1, warmup=0.2, schedule="constant")
    assert [schedule.rate(step, 10) for step in range(10)] == pytest.approx([0.5 / 3, 1.0 / 3, *[0.5] * 8])
    falling = dataclasses.replace(schedule, schedule="linear")
    assert falling.rate(9, 10) == pytest.approx(0.5 / 8)


def pairs(count: int) -> list[LabelledExample]:
    """A source and a translation, with the share of words that they have in common."""
    rng = np.random.default_rng(0)
    words = " ".join(TEXTS).split()
    made = []
    for _ in range(count):
        first = rng.choice(words, 4).tolist()
        same = int(rng.integers(0, 5))
        second = [*first[:same], *rng.choice(words, 4 - same).tolist()]
        made.append(LabelledExample(Example(" ".join(first), " ".join(second)), same / 4))
    return made


def test_students_of_smat_regress_pairs_alone_as_together(tiny: str) -> None:
    pool = pairs(24)
    hints = [Hint((Span(0, 3, 0), Span(0, len(item.example.texts[1]), 1)), np.array([0.7, 0.3])) for item in pool]
    student = Transformer(model=tiny, batch_size=8, epochs=3, clip=5.0, **SMAT)  # type: ignore[arg-type]
    runs = [StudentRun(np.random.default_rng(seed).permutation(24)[:16], hints[:16], 5.0, seed) for seed in range(2)]
    test = [item.example for item in pool]
    alone, together = (
        student.train_and_predict(pool, runs, test, TaskSetup("number", 1, CHANNEL, together=size)) for size in (1, 2)
    )
    for one, other in zip(alone, together, strict=True):
        assert one.failure is None
        np.testing.assert_allclose(one.answers, other.answers, atol=1e-3)
    assert not np.allclose(alone[0].answers, alone[1].answers)


def test_hints_of_both_texts_of_a_pair_reach_their_own_tokens(tiny: str) -> None:
    setup = TaskSetup("number", 1, CHANNEL)
    factory = EncoderFactory(Transformer(model=tiny), setup)
    pool = [LabelledExample(Example("a dull plot", "an old film"), 0.5)]
    texts = tokenised([pool[0].example], Encoder(factory.tokenizer, factory.limit, 1.0))
    hint = Hint((Span(2, 6, 0), Span(7, 11, 1)), np.array([0.25, 0.75]))
    schedule = Schedule(learning_rate=0.1, batch_size=1, epochs=1)
    run = StudentRun(np.zeros(1, dtype=np.int64), [hint], 1.0, 0)
    (one,) = TrainingBatches(cohort_data(pool, texts, texts, setup), [run], setup, schedule)
    fields = texts.fields[0]
    weights = one.hints[0, 0, : len(fields)].numpy()
    assert set(weights[fields == 0].tolist()) == {0.0, 0.25}
    assert set(weights[fields == 1].tolist()) == {0.0, 0.75}
    assert not weights[fields < 0].any()
