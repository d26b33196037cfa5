"""What every registered explainer must pass, as plain functions that third parties can run too.

``CHECKS`` maps a name to a check; ``applicable`` lists the checks that make sense for a card on a case (a kind of
model); ``check`` runs one and raises AssertionError with what went wrong.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import pytest
import torch

from didact.errors import DidactError
from didact.meter import metered
from didact.models.functions.blackbox import BlackBox
from didact.models.functions.images import ImageInputs
from didact.models.load import load_model
from didact.models.network import NetworkModel
from didact.models.prompting.prompts import Prompt
from didact.models.readers.prompt import PromptReader
from didact.protocols import Explainer, Model
from didact.regions import overlapping
from didact.testing.tiny import (
    TEXTS,
    corner_predict,
    keyword_predict,
    tiny_image_model,
    tiny_images,
    tiny_language_model,
    tiny_model,
)
from didact.types import Box, Card, Example, Explanation, Span

CASES = ("bert", "distilbert", "roberta", "vit", "black_box", "image_function", "prompt")
FUNCTIONS = ("black_box", "image_function")
"""Cases of plain functions, which nobody can look into and whose truth is known."""
SAMPLE = (
    Example(TEXTS[0], rationale=(Span(8, 17), Span(30, 40))),
    Example("An unforgettable evening - good, warm, good!", rationale=(Span(27, 31),)),
    Example(TEXTS[3], rationale=()),
)

Check = Callable[[Explainer, Model], None]


def make_case(case: str, labels: Sequence[str] = ("negative", "positive")) -> Model:
    """The model of a case."""
    if case == "black_box":
        return load_model(keyword_predict, labels=labels)
    if case == "image_function":
        return BlackBox(corner_predict, ImageInputs(parts=20), labels=labels)
    if case == "prompt":
        words = {label: f" {word}" for label, word in zip(labels, ("dull plot", "dull heart"), strict=True)}
        prompt = Prompt("Review: {text}\nIt has a", words, shots=[("good food", labels[-1])], absence="token:.")
        return load_model(tiny_language_model("llama"), prompt=prompt)
    return load_model(tiny_image_model(labels) if case == "vit" else tiny_model(case, labels))


def reads_images(model: Model) -> bool:
    """Whether examples are images."""
    if isinstance(model, BlackBox):
        return model.inputs == "image"
    return isinstance(model, NetworkModel) and model.reader.card.fields == ("image",)


def sample(model: Model) -> list[Example]:
    """Examples of the model's kind, with rationales."""
    if not reads_images(model):
        return list(SAMPLE)
    return [Example(*image.fields, rationale=(Box(0, 0, 6, 6),)) for image in tiny_images()]


def applicable(card: Card, case: str) -> list[str]:
    """Names of the checks that are meaningful for this card on this case."""
    model = make_case(case)
    if not card.needs <= model.capabilities or (reads_images(model) and "image" not in card.inputs):
        return ["refuses_what_it_cannot"]
    skipped = {"refuses_what_it_cannot"}
    if case in FUNCTIONS:
        skipped |= {"specials_never_scored", "model_untouched", "model_untouched_after_failure", "pairs", "regression"}
        skipped |= {"symmetry"} if case == "image_function" else set()  # superpixels differ in size
    else:
        skipped |= {"pairs", "regression"} if case == "prompt" else set()
        skipped |= {"dummy", "symmetry"}  # a random network has no unit that is known to play no part
    skipped |= {name for name in ("completeness", "dummy", "symmetry") if name not in card.axioms}
    skipped |= {"contrastive_target"} if card.family == "learned" else set()  # they learned to explain one label
    if "pair" not in card.inputs or reads_images(model):
        skipped.add("pairs")
    if not card.seeded:
        skipped.add("another_seed_differs")
    if card.family == "control":
        skipped.add("model_untouched_after_failure")  # may be done before the model fails
    return [name for name in CHECKS if name not in skipped]


def check(name: str, explainer: Explainer, case: str = "bert") -> None:
    """Run one check."""
    CHECKS[name](explainer, make_case(case))


def refuses_what_it_cannot(explainer: Explainer, model: Model) -> None:
    """A model without what the card needs gets an error that names methods that would work."""
    with pytest.raises(DidactError, match=r"methods that (work with it|take images): .*occlusion"):
        explainer.explain(model, [sample(model)[0]])


def finite_one_per_unit(explainer: Explainer, model: Model) -> None:
    """One finite score per unit, and units that are the source's own words."""
    examples = sample(model)
    for example, explanation in zip(examples, explainer.explain(model, examples), strict=True):
        assert len(explanation.scores) == len(explanation.units) > 0
        assert np.isfinite(explanation.array).all()
        assert reads_images(model) or all(piece in example.text for piece in explanation.units.texts)


def specials_never_scored(explainer: Explainer, model: Model) -> None:
    """No unit covers a special token, and every other token belongs to a unit."""
    assert isinstance(model, NetworkModel)
    for explanation in explainer.explain(model, sample(model)):
        code = model.reader.encode([explanation.example])[0]
        covered = sorted(position for positions in explanation.units.positions for position in positions)
        special = [True] + [False] * (len(code) - 1) if reads_images(model) else [t is None for t in code.tokens]
        assert covered == [position for position, other in enumerate(special) if not other]


def batch_of_one_equals_many(explainer: Explainer, model: Model) -> None:
    """What else is in the batch changes nothing."""
    examples = sample(model)
    together = explainer.explain(model, examples)
    for example, explanation in zip(examples, together, strict=True):
        (alone,) = explainer.explain(model, [example])
        np.testing.assert_allclose(alone.array, explanation.array, rtol=1e-3, atol=1e-4)


def same_seed_same_scores(explainer: Explainer, model: Model) -> None:
    """Repeating gives the same scores."""
    first, second = (explainer.explain(model, [sample(model)[1]])[0] for _ in range(2))
    np.testing.assert_allclose(first.array, second.array, rtol=1e-5, atol=1e-6)


def another_seed_differs(explainer: Explainer, model: Model) -> None:
    """The seed is really used: on a text too long to enumerate, another one gives other scores."""
    long = sample(model)[0] if reads_images(model) else Example(" ".join(TEXTS))
    other: Explainer = dataclasses.replace(explainer, seed=123)  # type: ignore[type-var]
    assert explainer.explain(model, [long])[0].scores != other.explain(model, [long])[0].scores


def model_untouched(explainer: Explainer, model: Model) -> None:
    """Hooks, modes, gradients, attention implementation, weights, device and dtype are as before."""
    assert isinstance(model, NetworkModel)
    model.network.train()
    model.network.base_model.eval()
    before = network_state(model)
    explainer.explain(model, [sample(model)[0]])
    assert network_state(model) == before


def model_untouched_after_failure(explainer: Explainer, model: Model) -> None:
    """The same when the user's model fails half way."""
    assert isinstance(model, NetworkModel)
    assert model.capabilities  # computed before the model starts to fail
    calls = 0

    def fail(*_: object) -> None:
        nonlocal calls
        calls += 1
        if calls > 1:
            raise KeyError("planted failure")

    part = getattr(model.network, "base_model", model.network)  # every pass goes through it
    hook = part.register_forward_hook(fail)
    model.network.train()
    before = network_state(model)
    with pytest.raises(KeyError, match="planted failure"):
        explainer.explain(model, [sample(model)[0]])
    assert network_state(model) == before
    hook.remove()


def prediction_is_plain(explainer: Explainer, model: Model) -> None:
    """The prediction on the explanation is the model's own."""
    first = sample(model)[0]
    (explanation,) = explainer.explain(model, [first])
    if isinstance(model, NetworkModel):
        plain = _plain_shares(model, first)
    else:
        (field,) = first.fields
        plain = (keyword_predict([field]) if isinstance(field, str) else corner_predict([field.pixels]))[0].tolist()
    np.testing.assert_allclose(explanation.prediction.probabilities, plain, atol=1e-6)
    assert explanation.target.index == int(np.argmax(plain))


def _plain_shares(model: NetworkModel, example: Example) -> list[float]:
    """Probabilities of the labels from the network itself; of a language model each label's words written out."""
    reader, likelihoods = model.reader, []
    with torch.inference_mode():
        if not isinstance(reader, PromptReader):
            logits: torch.Tensor = model.network(**_encoded(model, example)).logits[0]
            return logits.softmax(-1).tolist()
        ids = model.tokenizer(reader.written.before + example.text + reader.written.after)["input_ids"]
        for word in reader.continuations(reader.prompt.words):
            log_p = model.network(torch.tensor([[*ids, *word]])).logits[0, len(ids) - 1 : -1].log_softmax(-1)
            likelihoods.append(float(log_p[range(len(word)), word].sum()))
    return torch.tensor(likelihoods).softmax(0).tolist()


def target_by_name_and_index(explainer: Explainer, model: Model) -> None:
    """A label's name and its index mean the same, also for the class that was not predicted."""
    for index, name in enumerate(model.labels):
        (by_index,) = explainer.explain(model, sample(model)[:1], [index])
        (by_name,) = explainer.explain(model, sample(model)[:1], [name])
        assert by_index.target == by_name.target
        assert by_index.target.label == name
        np.testing.assert_allclose(by_index.array, by_name.array, rtol=1e-5, atol=1e-6)


def contrastive_target(explainer: Explainer, model: Model) -> None:
    """Why this label rather than that: the difference of both is explained, and one label twice is refused."""
    last, first = model.labels[-1], model.labels[0]
    (explanation,) = explainer.explain(model, sample(model)[:1], [(last, first)])
    assert explanation.target.name == f"{last} rather than {first}"
    values = [
        explanation.prediction.value(dataclasses.replace(explanation.target.first, index=index))
        for index in (len(model.labels) - 1, 0)
    ]
    assert abs(explanation.prediction.value(explanation.target) - (values[0] - values[1])) < 1e-9
    assert np.isfinite(explanation.array).all()
    with pytest.raises(DidactError, match="two different labels"):
        explainer.explain(model, sample(model)[:1], [(last, last)])


def declared_needs_suffice(explainer: Explainer, model: Model) -> None:
    """It works on a model that offers nothing beyond what the card needs."""
    first = sample(model)[:1]
    (full,) = explainer.explain(model, first)
    (narrow,) = explainer.explain(_Narrow(model, explainer.card.needs), first)
    np.testing.assert_allclose(full.array, narrow.array, rtol=1e-5, atol=1e-6)


def metered_equals_declared(explainer: Explainer, model: Model) -> None:
    """Forwards and backwards counted by the meter are those the method declares."""
    explainer.explain(model, sample(model)[:1])  # probes the model, and may guard its first batch
    with metered() as meter:
        explanations = explainer.explain(model, sample(model))
    declared = [explainer.cost(explanation.units) for explanation in explanations]
    assert meter.forwards == sum(cost.forwards for cost in declared)
    assert meter.backwards == sum(cost.backwards for cost in declared)
    assert [(e.cost.forwards, e.cost.backwards) for e in explanations] == [(c.forwards, c.backwards) for c in declared]


def json_round_trip(explainer: Explainer, model: Model) -> None:
    """Nothing is lost through JSON."""
    (explanation,) = explainer.explain(model, [sample(model)[1]])
    assert Explanation.from_json(explanation.to_json()) == explanation


def pairs(explainer: Explainer, model: Model) -> None:
    """A pair is explained in both its texts."""
    assert isinstance(model, NetworkModel)
    both = load_model((model.network, model.tokenizer), inputs="pair")
    (explanation,) = explainer.explain(both, [Example(TEXTS[0], TEXTS[1], rationale=(Span(8, 17), Span(12, 16, 1)))])
    assert {span.field for span in explanation.units.spans} == {0, 1}
    assert len(explanation.scores) == len(explanation.units)


def regression(explainer: Explainer, model: Model) -> None:
    """A one-output model is explained on its output."""
    assert isinstance(model, NetworkModel)
    (explanation,) = explainer.explain(make_case(model.network.config.model_type, ["score"]), sample(model)[:1])
    assert explanation.prediction.is_regression
    assert explanation.target.label == "score"
    assert np.isfinite(explanation.array).all()


def completeness(explainer: Explainer, model: Model) -> None:
    """Scores add up to the difference between the target and its base value."""
    for explanation in explainer.explain(model, sample(model)):
        gap = explanation.prediction.value(explanation.target) - explanation.details["base_value"]
        assert abs(float(explanation.array.sum()) - gap) <= explainer.card.tolerance * (1 + abs(gap))


def dummy(explainer: Explainer, model: Model) -> None:
    """Words or pixels that the black box does not read get nothing."""
    if reads_images(model):
        _dummy_pixels(explainer, model)
        return
    (explanation,) = explainer.explain(model, ["a dull old film"])
    scores = dict(zip(explanation.units.texts, explanation.scores, strict=True))
    assert abs(scores["old"]) < 1e-8 < abs(scores["dull"])


def _dummy_pixels(explainer: Explainer, model: Model) -> None:
    few = BlackBox(corner_predict, ImageInputs(parts=6), labels=model.labels)
    (explanation,) = explainer.explain(few, tiny_images()[1:2])
    pixels = explanation.example.fields[0].pixels  # type: ignore[union-attr]
    read = Box(0, 0, pixels.shape[1] // 2, pixels.shape[0] // 2)
    matters = overlapping(explanation.units.regions, [read])
    assert np.abs(explanation.array[~matters]).max() < 1e-8 < np.abs(explanation.array[matters]).max()


def symmetry(explainer: Explainer, model: Model) -> None:
    """Two occurrences of one word that count the same get the same score."""
    (explanation,) = explainer.explain(model, ["good food, good wine"])
    scores = [s for text, s in zip(explanation.units.texts, explanation.scores, strict=True) if text == "good"]
    assert abs(scores[0] - scores[1]) < 1e-8 < abs(scores[0])


CHECKS: dict[str, Check] = {
    function.__name__: function
    for function in (
        refuses_what_it_cannot,
        finite_one_per_unit,
        specials_never_scored,
        batch_of_one_equals_many,
        same_seed_same_scores,
        another_seed_differs,
        model_untouched,
        model_untouched_after_failure,
        prediction_is_plain,
        target_by_name_and_index,
        contrastive_target,
        declared_needs_suffice,
        metered_equals_declared,
        json_round_trip,
        pairs,
        regression,
        completeness,
        dummy,
        symmetry,
    )
}


def _encoded(model: NetworkModel, example: Example) -> Mapping[str, torch.Tensor]:
    """The example as Transformers' own tools feed it to the network."""
    (field,) = example.fields
    if isinstance(field, str):
        text: Mapping[str, torch.Tensor] = model.tokenizer(field, return_tensors="pt")
        return text
    processor: Callable[..., Mapping[str, torch.Tensor]] = model.reader.processor  # type: ignore[attr-defined]
    return processor(images=[field.pixels], return_tensors="pt")


class _Narrow:
    """A model that shows only the always-there functions and those of the given capabilities."""

    ALWAYS = frozenset({"name", "labels", "scales", "levels", "precision", "default_absence", "target", "units"})
    ALWAYS |= {"fingerprint", "recent_fingerprint", "predict", "score"}
    BY_NEED: ClassVar = {
        "differentiable": frozenset({"embed", "gradients", "values_at", "soft_score", "soft_outputs", "keep_outputs"}),
        "attentive": frozenset({"attention", "attention_times_gradient", "reads"}),
        "hidden": frozenset({"hidden_gradients", "states"}),
        "heads": frozenset({"head_grid", "head_scores"}),
        "layered": frozenset({"trace"}),
        "generative": frozenset({"generate"}),
    }

    def __init__(self, model: Model, needs: frozenset[str]) -> None:
        self._model = model
        self.capabilities = needs
        self._shown = self.ALWAYS.union(*(self.BY_NEED[need] for need in needs))

    def __getattr__(self, name: str) -> Any:
        if name not in self._shown:
            kind = AttributeError if name == "pending" else AssertionError  # methods can do without that one
            raise kind(f"the method used {name!r}, which its card does not declare as a need")
        return getattr(self._model, name)


def network_state(model: NetworkModel) -> dict[str, object]:
    """All of a network that explaining may not change: hooks, modes, gradients, attention, place and weights."""
    network = model.network
    hooks = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    return {
        "hooks": [len(getattr(module, kind)) for module in network.modules() for kind in hooks],
        "training": [module.training for module in network.modules()],
        "grads": [parameter.grad is None for parameter in network.parameters()],
        "requires_grad": [parameter.requires_grad for parameter in network.parameters()],
        "attention": getattr(getattr(network, "config", None), "_attn_implementation", None),
        "device": str(model.reader.device),
        "dtype": str(model.dtype),
        "weights": [float(parameter.detach().double().sum()) for parameter in network.parameters()],
    }
