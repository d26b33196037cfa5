"""Threads on one network: they wait for each other, get the same answers as one after the other, and leave it alone."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from didact.attribution.base import ATTRIBUTIONS
from didact.models.compose import compose
from didact.models.eval_mode import evaluating
from didact.models.exclusive import exclusive
from didact.models.load import load_model
from didact.models.network import NetworkModel
from didact.ops.paths import Line
from didact.testing.tiny import TEXTS, keyword_predict, tiny_model
from didact.types import Example, Target

THREADS, CALLS = 8, 25
TARGET = Target(1, "positive")

Job = Callable[[NetworkModel, Example], list[np.ndarray]]


def gradients(model: NetworkModel, example: Example) -> list[np.ndarray]:
    (units,) = model.units([example])
    line = Line(model.embed([units], absent="mask")[0], model.embed([units])[0], np.linspace(0, 1, 3))
    ((values, gradient),) = model.gradients([units], [TARGET], [line], [np.ones(3)])
    return [values, gradient.numpy()]


def attention(model: NetworkModel, example: Example) -> list[np.ndarray]:
    ((prediction, maps),) = model.attention(model.units([example]))
    return [np.array(prediction.outputs), maps.numpy()]


def weighted_attention(model: NetworkModel, example: Example) -> list[np.ndarray]:
    ((prediction, maps),) = model.attention_times_gradient(model.units([example]), [TARGET])
    return [np.array(prediction.outputs), maps.numpy()]


def perturbation(model: NetworkModel, example: Example) -> list[np.ndarray]:
    (units,) = model.units([example])
    keep = ~np.eye(len(units), dtype=np.bool_)
    return model.score([units], [TARGET], [keep], "drop")


def prediction(model: NetworkModel, example: Example) -> list[np.ndarray]:
    return [np.array(model.predict([example])[0].outputs)]


def states(model: NetworkModel, example: Example) -> list[np.ndarray]:
    return [state.numpy() for state in model.states([example], layers=(0, -1))]


def heads(model: NetworkModel, example: Example) -> list[np.ndarray]:
    return [scores.numpy() for scores in model.head_scores(model.units([example]))]


JOBS: tuple[Job, ...] = (gradients, attention, weighted_attention, perturbation, prediction, states, heads)


def condition(network: torch.nn.Module) -> dict[str, object]:
    hooks = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    return {
        "mode": [module.training for module in network.modules()],
        "attention": network.config._attn_implementation,  # type: ignore[union-attr]
        "requires_grad": [weight.requires_grad for weight in network.parameters()],
        "grads": [weight.grad is None for weight in network.parameters()],
        "hooks": [len(getattr(module, kind)) for module in network.modules() for kind in hooks],
    }


def test_many_threads_get_what_one_gets_and_leave_the_model_as_it_was() -> None:
    network, tokenizer = tiny_model("bert")
    examples = [Example(text) for text in TEXTS]
    work = [(JOBS[number % len(JOBS)], examples[number // 3 % len(examples)]) for number in range(THREADS * CALLS)]
    alone = compose(network, tokenizer)
    expected = [job(alone, example) for job, example in work]
    network.train()
    network.base_model.encoder.layer[0].eval()
    before = condition(network)
    adapters = [compose(network, tokenizer), compose(network, tokenizer)]  # which have tried nothing yet
    together = threading.Barrier(THREADS)

    def calls(thread: int) -> list[list[np.ndarray]]:
        together.wait()
        return [job(adapters[thread % 2], example) for job, example in work[thread::THREADS]]

    with ThreadPoolExecutor(THREADS) as pool:
        results = list(pool.map(calls, range(THREADS)))
    for thread, own in enumerate(results):
        for result, wanted in zip(own, expected[thread::THREADS], strict=True):
            for values, others in zip(result, wanted, strict=True):
                np.testing.assert_allclose(values, others, rtol=1e-6, atol=1e-6)
    assert condition(network) == before
    assert {adapter.fingerprint() for adapter in adapters} == {alone.fingerprint()}


METHODS = (
    "attention",
    "attention_x_gradient",
    "decompx",
    "gradient_norm",
    "gradient_x_input",
    "lrp",
    "occlusion",
    "random",
)


def test_threads_explain_by_mixed_methods_as_one_thread_does() -> None:
    given = tiny_model("bert")
    network = given[0]
    methods = [ATTRIBUTIONS.get(name)() for name in METHODS]
    pairs = [(method, text) for method in methods for text in TEXTS]
    expected = [method.explain(load_model(given), [text])[0].scores for method, text in pairs]
    network.train()
    before, shared = condition(network), load_model(given)
    together = threading.Barrier(THREADS)

    def calls(thread: int) -> list[tuple[int, tuple[float, ...], str]]:
        rng, made = np.random.default_rng(thread), []
        together.wait()
        for number in rng.integers(len(pairs), size=10):
            method, text = pairs[number]
            model = shared if number % 2 else load_model(given)
            made.append((int(number), method.explain(model, [text])[0].scores, model.fingerprint()))
        return made

    with ThreadPoolExecutor(THREADS) as pool:
        results = [one for own in pool.map(calls, range(THREADS)) for one in own]
    for number, scores, _ in results:
        np.testing.assert_allclose(scores, expected[number], rtol=1e-5, atol=1e-6)
    assert condition(network) == before
    assert {fingerprint for _, _, fingerprint in results} == {shared.fingerprint()}


def test_a_function_is_called_by_one_thread_at_a_time() -> None:
    inside: list[int] = []
    most: list[int] = []

    def predict(texts: list[str]) -> np.ndarray:
        inside.append(1)
        time.sleep(0.001)
        most.append(len(inside))
        inside.pop()
        return keyword_predict(texts)

    models = [load_model(predict, labels=("negative", "positive")) for _ in range(THREADS)]
    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(lambda model: [model.predict([Example(text)]) for text in TEXTS], models))
    assert set(most) == {1}


def test_a_tokenizer_used_by_two_adapters_keeps_its_settings_and_cuts_as_each_wants() -> None:
    network, tokenizer = tiny_model("bert")
    tokenizer.backend_tokenizer.enable_truncation(9)
    settings = tokenizer.backend_tokenizer.truncation
    long, short = (load_model((network, tokenizer), max_length=size, max_truncated=1.0) for size in (64, 6))
    examples = [Example(" ".join([text] * number)) for text in TEXTS for number in range(1, 6)]
    together = threading.Barrier(2)

    def lengths(model: object) -> list[int]:
        assert isinstance(model, NetworkModel)
        together.wait()
        return [len(model.reader.encode([example])[0]) for example in examples]

    with ThreadPoolExecutor(2) as pool:
        whole, cut = pool.map(lengths, (long, short))
    assert cut == [6] * len(examples)
    assert whole == [min(64, len(tokenizer(example.text, truncation=False)["input_ids"])) for example in examples]
    tokenizer.backend_tokenizer.enable_truncation(9)
    assert tokenizer.backend_tokenizer.truncation == settings


def test_a_network_is_one_threads_at_a_time_and_the_owner_may_enter_again() -> None:
    network, _ = tiny_model("bert")
    network.train()
    entered, release, seen = threading.Event(), threading.Event(), []

    def hold() -> None:
        with evaluating(network), exclusive(network), evaluating(network):
            entered.set()
            release.wait(30)
            seen.append("first")

    def wait() -> None:
        with evaluating(network):
            seen.append("second")

    first, second = threading.Thread(target=hold), threading.Thread(target=wait)
    first.start()
    assert entered.wait(30)
    second.start()
    with exclusive(object.__new__(threading.Event)):  # another object does not wait
        second.join(0.2)
    assert seen == []
    release.set()
    first.join(30)
    second.join(30)
    assert seen == ["first", "second"]
    assert all(module.training for module in network.modules())


def test_a_failing_thread_lets_the_others_in() -> None:
    network, _ = tiny_model("bert")
    with pytest.raises(KeyError), evaluating(network):
        raise KeyError("planted failure")
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(lambda: evaluating(network).__enter__()).result(30) is None
