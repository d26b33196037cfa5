"""Requests that are answered: the same results as from Python."""

import base64
import io
from typing import Any

import httpx2
import numpy as np
import pytest
from PIL import Image as Pillow

from didact.api import explain, load_explainer, load_model
from didact.service.config import ServedModel
from didact.testing.tiny import tiny_image_model, tiny_model
from didact.types import Explanation
from tests.service.conftest import TEXT, tiny_config


def post(path: str, **body: Any) -> Any:
    async def use(client: httpx2.AsyncClient) -> httpx2.Response:
        return await client.post(path, json=body)

    return use


def test_explanations_are_those_of_python(asked: Any) -> None:
    texts = [TEXT, "the plot is dull"]
    response = asked(post("/v1/explain", inputs=texts, method="kernel_shap", settings={"evaluations": 40}))
    assert response.status_code == 200, response.text
    explanations = [Explanation.from_dict(plain) for plain in response.json()["explanations"]]
    expected = load_explainer("kernel_shap", evaluations=40).explain(load_model(tiny_model()), texts)
    for one, other in zip(explanations, expected, strict=True):
        np.testing.assert_allclose(one.scores, other.scores, atol=1e-5)
        assert one.units == other.units
        assert one.parameters == other.parameters
        assert one.target == other.target


def test_without_a_method_the_models_default_is_used(asked: Any) -> None:
    (plain,) = asked(post("/v1/explain", inputs=[TEXT], target="negative")).json()["explanations"]
    assert plain["method"] == "integrated_gradients"
    assert plain["target"]["label"] == "negative"


def test_a_pair_of_labels_is_explained_as_in_python(asked: Any) -> None:
    response = asked(post("/v1/explain", inputs=[TEXT], method="occlusion", target=["positive", "negative"]))
    explanation = Explanation.from_dict(response.json()["explanations"][0])
    target = ("positive", "negative")
    (expected,) = load_explainer("occlusion").explain(load_model(tiny_model()), [TEXT], [target])
    assert explanation.target == expected.target
    assert explanation.target.contrast_label == "negative"
    np.testing.assert_allclose(explanation.scores, expected.scores, atol=1e-5)


def test_every_class_of_each_input_the_most_probable_first(asked: Any) -> None:
    texts = [TEXT, "the plot is dull"]

    async def use(client: httpx2.AsyncClient) -> list[httpx2.Response]:
        body = {"inputs": texts, "method": "occlusion", "target": "all"}
        compared = {"input": TEXT, "methods": ["occlusion", "lime"], "target": "all"}
        cheap = {**body, "target": None}
        return [
            await client.post("/v1/explain", json=body),
            await client.post("/v1/compare", json=compared),
            await client.post("/v1/cost", json=body),
            await client.post("/v1/cost", json=cheap),
        ]

    made, compared, cost, cheap = asked(use)
    explanations = [Explanation.from_dict(plain) for plain in made.json()["explanations"]]
    expected = explain(texts, load_model(tiny_model()), method="occlusion", target="all")
    assert [each.target for each in explanations] == [each.target for each in expected]
    for one, other in zip(explanations, expected, strict=True):
        np.testing.assert_allclose(one.scores, other.scores, atol=1e-5)
    assert [each["method"] for each in compared.json()["explanations"]] == ["occlusion"] * 2 + ["lime"] * 2
    assert cost.json()["cost"] == 2 * cheap.json()["cost"]


def test_predictions(asked: Any) -> None:
    response = asked(post("/v1/predict", inputs=[TEXT, {"text": TEXT}]))
    one, other = response.json()["predictions"]
    assert one["labels"] == ["negative", "positive"]
    np.testing.assert_allclose(one["outputs"], other["outputs"], atol=1e-6)


def test_pairs_and_images(asked: Any) -> None:
    pixels = io.BytesIO()
    Pillow.fromarray(np.full((20, 20, 3), 200, dtype=np.uint8)).save(pixels, "PNG")
    models = (ServedModel("nli", tiny_model(), {"inputs": "pair"}), ServedModel("looks", tiny_image_model()))

    async def use(client: httpx2.AsyncClient) -> list[httpx2.Response]:
        pair = {"text": "a man sleeps", "text_pair": "nobody is awake"}
        image = {"image": base64.b64encode(pixels.getvalue()).decode()}
        bodies = ({"inputs": [pair], "model": "nli"}, {"inputs": [image], "model": "looks", "method": "occlusion"})
        return [await client.post("/v1/explain", json=body) for body in bodies]

    of_pair, of_image = asked(use, tiny_config(models=models))
    assert of_pair.json()["explanations"][0]["units"]["example"]["text_pair"] == "nobody is awake", of_pair.text
    assert of_image.json()["explanations"][0]["units"]["level"] == "patch", of_image.text


def test_a_comparison_explains_by_each_method_and_names_those_that_cannot(asked: Any) -> None:
    methods = ["occlusion", "human", "integrated_gradients"]
    plain = asked(post("/v1/compare", input=TEXT, methods=methods)).json()
    assert [each["method"] for each in plain["explanations"]] == ["occlusion", "integrated_gradients"]
    assert [each["method"] for each in plain["skipped"]] == ["human"]


def test_cost_is_that_of_a_dry_run(asked: Any) -> None:
    plain = asked(post("/v1/cost", inputs=[TEXT], method="occlusion")).json()
    explanation = load_explainer("occlusion").explain(load_model(tiny_model()), [TEXT])[0]
    assert plain["forwards"] == explanation.cost.forwards
    assert plain["cost"] == pytest.approx(plain["forwards"] * (max(map(max, explanation.units.positions)) + 1))
    assert plain["seconds"] > 0
    assert not plain["is_job"]


def test_lists_of_models_and_methods(asked: Any) -> None:
    async def use(client: httpx2.AsyncClient) -> Any:
        return [(await client.get(path)).json() for path in ("/v1/models", "/v1/methods", "/livez", "/openapi.json")]

    models, methods, alive, described = asked(use)
    assert models["models"][0]["labels"] == ["negative", "positive"]
    assert "kernel_shap" in [card["name"] for card in methods["methods"]]
    assert alive == {"status": "alive"}
    assert described["components"]["schemas"]["ExplainBody"]["examples"]


def test_figures_count_what_was_answered(asked: Any) -> None:
    async def use(client: httpx2.AsyncClient) -> str:
        await client.post("/v1/predict", json={"inputs": [TEXT]})
        await client.get("/nowhere/42")
        return (await client.get("/metrics")).text

    text = asked(use)
    assert 'didact_requests_total{path="/v1/predict",status="200"} 1.0' in text
    assert 'path="other",status="404"' in text
