"""The hot path: what an absent unit means, what is evaluated, and what survives trouble."""

import numpy as np
import pytest
import torch

from didact.errors import ModelError, ParameterError
from didact.meter import metered
from didact.models import planner
from didact.models.load import load_model
from didact.models.network import NetworkModel
from didact.models.planner import Budget, batches, is_out_of_memory, run
from didact.testing.tiny import TEXTS, tiny_model
from didact.types import Example, Target, Units

POSITIVE = Target(1, "positive", "logit")


def model_of(architecture: str = "bert") -> NetworkModel:
    model = load_model(tiny_model(architecture))
    assert isinstance(model, NetworkModel)
    return model


def random_masks(units: Units, rows: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).random((rows, len(units))) < 0.6


def plain_logit(model: NetworkModel, **inputs: torch.Tensor) -> float:
    with torch.inference_mode():
        return float(model.network(**inputs).logits[0, 1])


@pytest.mark.parametrize("architecture", ["bert", "roberta", "distilbert", "llama"])
def test_many_examples_at_once_give_what_single_rows_give(architecture: str) -> None:
    model = model_of(architecture)
    units = model.units([Example(text) for text in TEXTS])
    keep = [random_masks(unit, 7, seed) for seed, unit in enumerate(units)]
    together = model.score(units, [POSITIVE] * 4, keep, "delete")
    for unit, masks, values in zip(units, keep, together, strict=True):
        ids = model.reader.encode([unit.example])[0].ids
        for row, value in zip(masks, values, strict=True):
            absent = {p for u, kept in zip(unit.positions, row, strict=True) if not kept for p in u}
            left = [i for p, i in enumerate(ids) if p not in absent] or [model.vocabulary.filler_id]
            assert value == pytest.approx(plain_logit(model, input_ids=torch.tensor([left])), abs=1e-4)


def test_a_repeated_variant_is_evaluated_once() -> None:
    model = model_of()
    units = model.units([Example(TEXTS[0])])
    keep = np.repeat(random_masks(units[0], 5), 10, axis=0)
    with metered() as meter:
        values = model.score(units, [POSITIVE], [keep])[0]
    assert (meter.forwards, meter.evaluated) == (50, 5)
    np.testing.assert_array_equal(values, np.repeat(values[::10], 10))


@pytest.mark.parametrize("operator", ["delete", "drop"])
def test_removed_tokens_are_not_computed(operator: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = model_of()
    units = model.units([Example(TEXTS[0])])
    widths: list[int] = []
    forward = model.network.forward

    def spy(**inputs: torch.Tensor) -> object:
        widths.append(inputs["input_ids"].shape[1])
        return forward(**inputs)

    _ = model.traits
    monkeypatch.setattr(model.network, "forward", spy)
    nothing = np.zeros((1, len(units[0])), dtype=bool)
    model.score(units, [POSITIVE], [nothing], operator)
    assert widths == [2]  # only the two special tokens are left


def test_scales_are_the_same_number_seen_differently() -> None:
    model = model_of()
    units = model.units([Example(TEXTS[1])] * 3)
    keep = [random_masks(units[0], 4)] * 3
    targets = [Target(0, "negative", "log_probability"), Target(0, "negative", "probability"), Target(0, "negative")]
    logs, shares, logits = model.score(units, targets, keep)
    np.testing.assert_allclose(np.exp(logs), shares, rtol=1e-4)
    other = model.score(units[:1], [Target(1, "positive")], keep[:1])[0]
    np.testing.assert_allclose(shares, 1 / (1 + np.exp(other - logits)), rtol=1e-4)


def test_several_labels_at_once_use_a_sigmoid() -> None:
    network, tokenizer = tiny_model("bert", ["a", "b", "c"])
    network.config.problem_type = "multi_label_classification"
    model = load_model((network, tokenizer))
    prediction = model.predict([Example(TEXTS[0])])[0]
    np.testing.assert_allclose(prediction.probabilities, 1 / (1 + np.exp(-np.array(prediction.outputs))), rtol=1e-4)
    units = model.units([Example(TEXTS[0])])
    full = np.ones((1, len(units[0])), dtype=bool)
    value = model.score(units, [Target(2, "c", "probability")], [full])[0][0]
    assert value == pytest.approx(prediction.probabilities[2], abs=1e-6)


def test_a_decoder_without_a_padding_token_is_scored_row_by_row() -> None:
    network, tokenizer = tiny_model("gpt2")
    expected = load_model((network, tokenizer))
    units = expected.units([Example(text) for text in TEXTS[:2]])
    keep = [random_masks(unit, 3) for unit in units]
    before = expected.score(units, [POSITIVE] * 2, keep, "delete")
    network.config.pad_token_id = None
    model = load_model((network, tokenizer))
    assert isinstance(model, NetworkModel)
    assert not model.traits.batches
    for first, second in zip(before, model.score(units, [POSITIVE] * 2, keep, "delete"), strict=True):
        np.testing.assert_allclose(first, second, atol=1e-5)


def test_wrong_shapes_and_operators_are_named() -> None:
    model = model_of()
    units = model.units([Example(TEXTS[0])])
    with pytest.raises(ParameterError, match=r"shape \(variants, 8\), got \(1, 3\)"):
        model.score(units, [POSITIVE], [np.ones((1, 3), dtype=bool)])
    with pytest.raises(ParameterError, match="unknown perturbation 'erase'"):
        model.score(units, [POSITIVE], [np.ones((1, 8), dtype=bool)], "erase")
    with pytest.raises(ParameterError, match="'zebra' is not one token"):
        model.score(units, [POSITIVE], [np.ones((1, 8), dtype=bool)], "token:zebra")
    with pytest.raises(ParameterError, match="has no mask token"):
        model_of("gpt2").score(units, [POSITIVE], [np.ones((1, 8), dtype=bool)], "mask")


def test_batches_keep_the_budget_and_pad_little() -> None:
    lengths = np.array([3, 9, 4, 9, 2, 8])
    order = np.argsort(-lengths, kind="stable")
    made = [lengths[batch].tolist() for batch in batches(lengths, order, Budget(18), pads=True)]
    assert made == [[9, 9], [8, 4], [3, 2]]
    alike = [lengths[batch].tolist() for batch in batches(lengths, order, Budget(18), pads=False)]
    assert alike == [[9, 9], [8], [4], [3], [2]]
    alone = [lengths[batch].tolist() for batch in batches(lengths, order, Budget(1), pads=True)]
    assert alone == [[9], [9], [8], [4], [3], [2]]


def test_a_batch_is_cut_where_padding_costs_more_than_another_pass() -> None:
    lengths = np.array([20, 20, 4, 4, 4])
    order = np.arange(5)
    cheap = [lengths[batch].tolist() for batch in batches(lengths, order, Budget(1000, fixed=10), pads=True)]
    assert cheap == [[20, 20], [4, 4, 4]]
    dear = [lengths[batch].tolist() for batch in batches(lengths, order, Budget(1000, fixed=48), pads=True)]
    assert dear == [[20, 20, 4, 4, 4]]  # 3 rows x 16 tokens of padding


def test_out_of_memory_halves_the_budget_and_goes_on() -> None:
    lengths = np.full(100, 10)
    budget = Budget(400)
    seen: list[int] = []

    def evaluate(rows: np.ndarray) -> None:
        if len(rows) > 12:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate")
        seen.extend(rows.tolist())

    run("test", lengths, budget, True, evaluate)
    assert sorted(seen) == list(range(100))
    assert budget.tokens == 100


def test_out_of_memory_on_one_row_is_an_honest_error() -> None:
    def evaluate(rows: np.ndarray) -> None:
        raise RuntimeError("[enforce fail at alloc_cpu.cpp:117] err == 0. DefaultCPUAllocator: can't allocate memory")

    with pytest.raises(ModelError, match="out of memory on a single row of 7 tokens"):
        run("test", np.full(4, 7), Budget(28), True, evaluate)


def test_other_errors_are_not_taken_for_memory() -> None:
    assert not is_out_of_memory(RuntimeError("size mismatch"))

    def evaluate(rows: np.ndarray) -> None:
        raise RuntimeError("size mismatch")

    with pytest.raises(RuntimeError, match="size mismatch"):
        run("test", np.full(4, 7), Budget(28), True, evaluate)


def test_scores_survive_memory_running_out_half_way(monkeypatch: pytest.MonkeyPatch) -> None:
    model = model_of()
    units = model.units([Example(text) for text in TEXTS])
    keep = [random_masks(unit, 20) for unit in units]
    expected = model.score(units, [POSITIVE] * 4, keep)
    forward = model.network.forward

    def tight(**inputs: torch.Tensor) -> object:
        if inputs["input_ids"].numel() > 200:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return forward(**inputs)

    monkeypatch.setattr(model.network, "forward", tight)
    for first, second in zip(expected, model.score(units, [POSITIVE] * 4, keep), strict=True):
        np.testing.assert_allclose(first, second, atol=1e-5)
    assert model.budget.tokens <= 200


def test_progress_is_reported_to_whoever_listens() -> None:
    from didact.progress import listening

    class Ear:
        def __init__(self) -> None:
            self.heard: list[object] = []

        def start(self, what: str, total: int) -> None:
            self.heard.append((what, total))

        def advance(self, steps: int) -> None:
            self.heard.append(steps)

        def stop(self) -> None:
            self.heard.append("stop")

    ear = Ear()
    with listening(ear):
        planner.run("counting", np.full(5, 10), Budget(20), True, lambda rows: None)
    assert ear.heard == [("counting", 5), 2, 2, 1, "stop"]
