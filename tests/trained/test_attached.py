"""A model with its explainer attached gives what ``explain`` does: called, exported, and as a pipeline."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import didact
from didact.errors import CapabilityError, InputError, MismatchError, ModelError, ParameterError
from didact.meter import metered
from didact.models.load import load_model
from didact.models.network import NetworkModel
from didact.models.prompting.prompts import Prompt
from didact.testing.tiny import TEXTS, keyword_predict, tiny_image_model, tiny_images, tiny_language_model, tiny_model
from didact.trained.attached import AttachedModel, AttachedOutput
from didact.trained.explainer import LearnedExplainer
from didact.trained.metadata import ExplainerMetadata
from didact.trained.shapes.probe import Probe
from didact.trained.signals.ablate import Ablate
from didact.types import Example, Explanation

MANY = [*TEXTS, "An unforgettable evening - good, warm, good!"]


def tiny(architecture: str = "bert", labels: tuple[str, ...] = ("negative", "positive", "neither")) -> NetworkModel:
    model = load_model(tiny_model(architecture, labels))
    assert isinstance(model, NetworkModel)
    return model


def probe(model: NetworkModel, examples: list[Example] | None = None, **settings: object) -> LearnedExplainer:
    """With random weights: nothing here is about what it learned."""
    units = model.units(examples or [Example(text) for text in TEXTS])
    chosen = {"per_class": True, "norm": "position", "rank": 8, "width": 16, "blocks": 1, "seed": 3} | settings
    shape = Probe.build(model, units, 1, chosen)
    about = ExplainerMetadata.of(model, reference="kernel_shap", level=model.levels[0], scale=model.scales[0])
    return LearnedExplainer(shape, Ablate(spread=2.0), about)


def same(made: AttachedOutput, wanted: list[Explanation], within: float = 1e-5) -> None:
    for row, explanation in enumerate(wanted):
        size = len(explanation.units)
        np.testing.assert_allclose(made.scores[row, :size].cpu(), explanation.scores, atol=within)
        assert not made.scores[row, size:].any()
        np.testing.assert_allclose(made.logits[row].cpu(), explanation.prediction.outputs, atol=within)
        assert made.labels[row] == explanation.prediction.label
    if made.words:
        assert made.words == [explanation.units.texts for explanation in wanted]


@pytest.fixture(scope="module")
def model() -> NetworkModel:
    return tiny()


@pytest.fixture(scope="module")
def explainer(model: NetworkModel) -> LearnedExplainer:
    return probe(model)


@pytest.fixture(scope="module")
def served(model: NetworkModel, explainer: LearnedExplainer) -> AttachedModel:
    return didact.attach(model, explainer)


@pytest.mark.parametrize("architecture", ["bert", "roberta", "distilbert", "gpt2"])
def test_rows_padded_for_a_replay_get_the_same(architecture: str) -> None:
    model = tiny(architecture)
    explainer = probe(model)
    plain, replayed = didact.attach(model, explainer), didact.attach(model, explainer, replay=True)
    fed = plain.encode(MANY)
    wider = replayed.padding.padded(fed, replayed.padding.further(fed))
    assert {own.shape[1] % 16 for own in wider.values()} == {0}
    for _ in range(3):
        made, wanted = replayed(**fed), plain(**fed)
        for name in ("logits", "label_scores", "scores"):
            torch.testing.assert_close(getattr(made, name), getattr(wanted, name), atol=1e-5, rtol=1e-5)
    same(replayed(MANY), didact.explain(MANY, model, explainer))


def test_rows_whose_padding_would_be_read_are_not_padded_for_a_replay() -> None:
    model = tiny("gpt2")
    explainer = probe(model)
    plain, replayed = didact.attach(model, explainer), didact.attach(model, explainer, replay=True)
    fed = plain.encode(MANY[:1])
    unmasked = {name: own for name, own in fed.items() if name != "attention_mask"}
    assert replayed.padding.further(fed)
    assert not replayed.padding.further(unmasked)
    torch.testing.assert_close(replayed(**unmasked).scores, plain(**fed).scores, atol=1e-5, rtol=1e-5)
    known = model.network.config.pad_token_id
    try:
        model.network.config.pad_token_id = None  # its head then reads the last position, padding or not
        explainer = probe(model)
        plain, replayed = didact.attach(model, explainer), didact.attach(model, explainer, replay=True)
        assert not replayed.padding.further(fed)
        torch.testing.assert_close(replayed(**fed).logits, plain(**fed).logits, atol=1e-5, rtol=1e-5)
    finally:
        model.network.config.pad_token_id = known


def test_what_the_explainer_computes_may_be_fused(
    model: NetworkModel, explainer: LearnedExplainer, served: AttachedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend="eager", fullgraph=True))
    fused = didact.attach(model, explainer, replay=True, fuse=True)
    for texts in (MANY, MANY[:1], MANY[:2]):
        fed = served.encode(texts)
        torch.testing.assert_close(fused(**fed).label_scores, served(**fed).label_scores, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("given", [{"replay": "all"}, {"replay": 1}, {"fuse": "yes"}])
def test_other_values_of_replay_and_fuse_are_refused(
    model: NetworkModel, explainer: LearnedExplainer, given: dict[str, Any]
) -> None:
    with pytest.raises(ParameterError, match=rf"{next(iter(given))}.* must be .*got {next(iter(given.values()))!r}"):
        didact.attach(model, explainer, **given)


def test_a_machine_that_cannot_fuse_says_so(
    model: NetworkModel, explainer: LearnedExplainer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("Failed to find C compiler")

    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend=broken))
    with pytest.raises(CapabilityError, match=r"Failed to find C compiler.*without fuse=True"):
        didact.attach(model, explainer, fuse=True)(MANY)


def test_scores_alone_may_be_replayed(model: NetworkModel, explainer: LearnedExplainer, served: AttachedModel) -> None:
    replayed = didact.attach(model, explainer, replay="scores")
    fed = served.encode(MANY)
    for _ in range(3):
        made, wanted = replayed(**fed), served(**fed)
        for name in ("logits", "label_scores", "scores"):
            torch.testing.assert_close(getattr(made, name), getattr(wanted, name), atol=1e-5, rtol=1e-5)
    same(replayed(MANY), didact.explain(MANY, model, explainer))
    for wrong in ("heads", 1):
        with pytest.raises(ParameterError, match=f"True, False or 'scores', got {wrong!r}"):
            didact.attach(model, explainer, replay=wrong)  # type: ignore[arg-type]


def test_a_model_that_returns_nan_is_refused_where_its_labels_are_read() -> None:
    broken = tiny()
    served = didact.attach(broken, probe(broken))
    with torch.no_grad():
        list(broken.network.parameters())[-1].fill_(float("nan"))
    made = served(MANY)
    assert torch.isnan(made.logits).all()
    with pytest.raises(ModelError):
        _ = made.labels
    with pytest.raises(ModelError):
        _ = made.scores


def test_images_are_not_padded_for_a_replay() -> None:
    images = tiny_images()
    model = load_model(tiny_image_model())
    assert isinstance(model, NetworkModel)
    explainer = probe(model, images)
    replayed = didact.attach(model, explainer, replay=True)
    fed = replayed.encode(images)
    assert not replayed.padding.further(fed)
    same(replayed(images), didact.explain(images, model, explainer))


@pytest.mark.parametrize("architecture", ["bert", "roberta", "distilbert", "gpt2"])
def test_texts_get_what_explain_gives_in_one_pass(architecture: str) -> None:
    model = tiny(architecture)
    explainer = probe(model)
    served = didact.attach(model, explainer)
    model.network.train()
    with metered() as meter:
        made = served(MANY)
    assert (meter.forwards, model.network.training) == (len(MANY), True)
    same(made, didact.explain(MANY, model, explainer))
    for index, label in enumerate(model.labels):
        (wanted,) = didact.explain(MANY[:1], model, explainer, target=label)
        np.testing.assert_allclose(made.label_scores[0, index, : len(wanted.units)], wanted.scores, atol=1e-5)


@pytest.mark.parametrize("architecture", ["roberta", "gpt2"])
def test_it_is_called_like_the_network(architecture: str) -> None:
    model = tiny(architecture)
    explainer = probe(model)
    served = didact.attach(model, explainer)
    wanted = didact.explain(list(TEXTS), model, explainer)
    same(served(**model.tokenizer(list(TEXTS), padding=True, return_tensors="pt")), wanted)
    encoded: dict[str, Any] = served.encode(TEXTS)
    same(served(**encoded), wanted)
    left = model.tokenizer(list(TEXTS), padding=True, padding_side="left", return_tensors="pt")
    assert served(**left).words == [one.units.texts for one in wanted]


def test_images_and_numbers_are_served_too() -> None:
    images = tiny_images()
    model = load_model(tiny_image_model())
    assert isinstance(model, NetworkModel)
    explainer = probe(model, images)
    same(didact.attach(model, explainer)(images), didact.explain(images, model, explainer))
    number = tiny("bert", ("stars",))
    explainer = probe(number)
    same(didact.attach(number, explainer)(MANY), didact.explain(MANY, number, explainer))


@pytest.mark.parametrize("architecture", ["distilbert"])
def test_one_graph_is_exported_for_any_number_of_texts_of_any_length(architecture: str, tmp_path: Path) -> None:
    model = tiny(architecture)
    explainer = probe(model)
    served = didact.attach(model, explainer)
    program = torch.export.load(served.export(tmp_path / "served.pt2")).module()
    for texts in (MANY, [" ".join(TEXTS)], ["good"] * 3):
        inputs = served.encode(texts)
        logits, scores = program(*inputs.values())
        for row, wanted in enumerate(didact.explain(texts, model, explainer)):
            chosen = scores[row, : len(wanted.units), wanted.target.index].detach()
            np.testing.assert_allclose(chosen, wanted.scores, atol=1e-5)
            np.testing.assert_allclose(logits[row].detach(), wanted.prediction.outputs, atol=1e-5)


def test_the_same_graph_runs_in_onnx(
    model: NetworkModel, explainer: LearnedExplainer, served: AttachedModel, tmp_path: Path
) -> None:
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(str(served.export(tmp_path / "served.onnx")), providers=["CPUExecutionProvider"])
    assert [own.name for own in session.get_outputs()] == ["logits", "scores"]
    for texts in (MANY, [" ".join(TEXTS)]):
        inputs = {name: own.numpy() for name, own in served.encode(texts).items()}
        logits, scores = session.run(None, inputs)
        for row, wanted in enumerate(didact.explain(texts, model, explainer)):
            chosen = scores[row, : len(wanted.units), wanted.target.index]
            np.testing.assert_allclose(chosen, wanted.scores, atol=1e-4)
            np.testing.assert_allclose(logits[row], wanted.prediction.outputs, atol=1e-4)


@pytest.mark.parametrize("size", [1, 2])
def test_the_pipeline_returns_label_score_and_words(
    model: NetworkModel, explainer: LearnedExplainer, tmp_path: Path, size: int
) -> None:
    from transformers import pipeline

    import didact.trained.pipeline

    explainer.save_pretrained(tmp_path)
    explain = pipeline(  # type: ignore[call-overload] # its tasks are a list of names
        didact.trained.pipeline.TASK, model=model.network, tokenizer=model.tokenizer, explainer=str(tmp_path)
    )
    wanted = didact.explain(list(TEXTS), model, explainer)
    for made, own in zip(explain(list(TEXTS), batch_size=size), wanted, strict=True):
        assert made["label"] == own.prediction.label
        assert made["score"] == pytest.approx(max(own.prediction.probabilities), abs=1e-5)
        assert [(one["word"], one["start"]) for one in made["words"]] == [
            (text, span.start) for text, span in zip(own.units.texts, own.units.spans, strict=True)
        ]
        np.testing.assert_allclose([one["score"] for one in made["words"]], own.scores, atol=1e-5)
    assert explain(TEXTS[0])["label"] == wanted[0].prediction.label
    with pytest.raises(ParameterError, match="needs an explainer"):
        pipeline("didact-explain", model=model.network, tokenizer=model.tokenizer)  # type: ignore[call-overload]


def test_what_cannot_be_attached_is_refused(model: NetworkModel, explainer: LearnedExplainer, tmp_path: Path) -> None:
    with pytest.raises(MismatchError, match="was trained for"):
        didact.attach(tiny("distilbert"), explainer)
    with pytest.raises(ParameterError, match="does not read the pass that predicts"):
        didact.attach(model, probe(model, norm="unit"))
    complete = LearnedExplainer(explainer.shape, replace(explainer.signal, complete=True), explainer.about)  # type: ignore[type-var]
    with pytest.raises(ParameterError, match="1 more evaluations of the model"):
        didact.attach(model, complete)
    with pytest.raises(ParameterError, match=r"what is attached is a learned explainer.*got 3"):
        didact.attach(model, 3)
    with pytest.raises(CapabilityError, match="is a function"):
        didact.attach(load_model(keyword_predict, labels=["negative", "positive"]), explainer)
    prompt = Prompt("{text}\nIt is", {"bad": " dull", "good": " good"})
    prompted = load_model(tiny_language_model("llama"), prompt=prompt)
    assert isinstance(prompted, NetworkModel)
    with pytest.raises(CapabilityError, match="label_words head"):
        didact.attach(prompted, probe(prompted))


def test_bad_calls_are_refused(model: NetworkModel, served: AttachedModel, tmp_path: Path) -> None:
    ids = model.tokenizer(list(TEXTS), padding=True, return_tensors="pt")["input_ids"]
    calls: list[tuple[Callable[[], object], str]] = [
        (lambda: served(), "got neither"),
        (lambda: served(list(TEXTS), input_ids=ids), "got both"),
        (lambda: served([]), "at least one text"),
        (lambda: served(TEXTS[0]), "put a single text into a list"),
        (lambda: served(input_ids=[[1, 2]]), "input_ids must be a tensor"),  # type: ignore[arg-type]
        (lambda: served(input_ids=ids, attention_mask=torch.ones(1, 2)), r"must both be \(rows, positions\)"),
        (lambda: served(input_ids=ids.flip(1)), "words of row 0 cannot be recovered"),
        (lambda: served(pixel_values=torch.zeros(1, 3, 4, 4)), "give texts"),
    ]
    for call, sentence in calls:
        with pytest.raises(InputError, match=sentence):
            call()
    with pytest.raises(ParameterError, match=r"ends in .pt2 or .onnx, got 'served.bin'"):
        served.export(tmp_path / "served.bin")
