"""A pretrained encoder as an explainer: what it reads, what it keeps, and how it is saved."""

import copy
from pathlib import Path

import numpy as np
import pytest
import torch

from didact.errors import CapabilityError, ModelError, ParameterError
from didact.models.load import load_model
from didact.models.network import NetworkModel
from didact.protocols import Model
from didact.testing.tiny import ARCHITECTURES, TEXTS, keyword_predict, tiny_model
from didact.trained.shapes.base import Item
from didact.trained.shapes.encoder import AttributionEncoder
from didact.types import Example, Prediction, Units

EXAMPLES = [Example(text) for text in TEXTS]
CAUSAL = ("llama", "mistral", "gpt2")


def network(architecture: str = "bert", **options: object) -> NetworkModel:
    model = load_model(tiny_model(architecture, **options), device="cpu")  # type: ignore[arg-type]
    assert isinstance(model, NetworkModel)
    return model


def built(
    model: Model, examples: list[Example] = EXAMPLES, **settings: object
) -> tuple[AttributionEncoder, list[Units]]:
    units = model.units(examples)
    return AttributionEncoder.build(model, units, 1, {"seed": 0, "dropout": 0.0, **settings}), units


def items(encoder: AttributionEncoder, model: Model, units: list[Units]) -> list[Item]:
    predictions = model.predict([own.example for own in units])
    return encoder.read(model, units, [one.index for one in predictions], predictions)


def numbers(encoder: AttributionEncoder, read: list[Item]) -> torch.Tensor:
    with torch.no_grad():
        result: torch.Tensor = encoder.eval()(encoder.collate(read))[..., 0]
    return result


@pytest.mark.parametrize("architecture", [name for name in ARCHITECTURES if name not in CAUSAL])
def test_the_explained_network_is_copied_whatever_its_architecture(architecture: str) -> None:
    """Without the prediction the copy computes the states of the explained network's own body."""
    model = network(architecture)
    encoder, units = built(model)
    read = items(encoder, model, units)
    assert not any(len(encoder.unread(item)) for item in read)
    wanted = model.states([EXAMPLES[0]])[0][0]
    with torch.no_grad():
        own = encoder.backbone(input_ids=torch.from_numpy(read[0]["input_ids"].astype(np.int64))[None])
    torch.testing.assert_close(own.last_hidden_state[0], wanted, atol=1e-4, rtol=1e-4)
    together = numbers(encoder, read)
    for row, item in zip(together, read, strict=True):
        alone = numbers(encoder, [item])[0]
        torch.testing.assert_close(row[: len(alone)], alone, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("architecture", CAUSAL)
def test_a_network_that_reads_from_left_to_right_is_refused(architecture: str) -> None:
    with pytest.raises(ModelError, match=r"reads from left to right.*give backbone= an encoder"):
        built(network(architecture))


def test_every_row_of_the_prediction_is_learned() -> None:
    """Published code loses the gradient of the class whose number is that of padding."""
    model = network("roberta", labels=("a", "b", "c"))
    encoder, units = built(model)
    encoder(encoder.collate(items(encoder, model, units))).sum().backward()
    assert encoder.prediction.grad is not None
    assert (encoder.prediction.grad.abs().sum(1) > 0).all()


def test_the_prediction_is_z0_and_the_expected_label() -> None:
    model = network(labels=("a", "b", "c"))
    encoder, units = built(model)
    prediction = Prediction(model.labels, (0.0, 1.0, 2.0), (0.2, 0.3, 0.5))
    item = encoder.read(model, units[:1], [2], [prediction])
    z = encoder._vector(encoder.collate(item))[0]
    rows = encoder.prediction
    torch.testing.assert_close(z, rows[0] + 0.2 * rows[1] + 0.3 * rows[2] + 0.5 * rows[3])


def test_words_see_the_prediction_and_padding_changes_nothing() -> None:
    model = network()
    encoder, units = built(model)
    sure, other = (Prediction(model.labels, (0.0, 0.0), chances) for chances in ((0.9, 0.1), (0.1, 0.9)))
    first, second = (numbers(encoder, encoder.read(model, units[:1], [0], [one])) for one in (sure, other))
    encoder.prediction.data[1] += 1.0
    assert float((first - second).abs().max()) > 1e-6


def test_another_output_than_the_predicted_one_has_a_vector_of_its_own() -> None:
    model = network()
    encoder, units = built(model)
    prediction = Prediction(model.labels, (1.0, 0.0), (0.7, 0.3))
    predicted, other = (encoder.read(model, units[:1], [target], [prediction]) for target in (0, 1))
    assert torch.equal(numbers(encoder, predicted), numbers(encoder, other))  # until it has learned
    encoder.other.data[1] = 1.0
    assert not torch.equal(numbers(encoder, predicted), numbers(encoder, other))


def test_embeddings_stay_as_they_are_and_the_rest_learns() -> None:
    model = network()
    before = copy.deepcopy(model.network.state_dict())
    encoder, units = built(model)
    frozen = {name for name, weight in encoder.named_parameters() if not weight.requires_grad}
    assert frozen == {name for name, _ in encoder.named_parameters() if name.startswith("backbone.embeddings.")}
    batch = encoder.collate(items(encoder, model, units))
    optimizer = torch.optim.SGD([weight for weight in encoder.parameters() if weight.requires_grad], lr=0.1)
    encoder(batch).sum().backward()
    optimizer.step()
    after = model.network.state_dict()
    assert all(torch.equal(before[name], after[name]) for name in before), "the explained network was trained"
    free, _ = built(model, frozen_embeddings=False)
    assert all(weight.requires_grad for weight in free.parameters())


def test_tokens_are_merged_to_words_by_the_largest_or_the_mean() -> None:
    model = network()
    largest, units = built(model, [Example("an unforgettable evening")])
    mean, _ = built(model, [Example("an unforgettable evening")], merge="mean")
    read = items(largest, model, units)
    places = read[0]["places"]
    pieces = {row: [int(at) for at in own if at >= 0] for row, own in enumerate(places)}
    assert max(map(len, pieces.values())) > 3
    each = torch.arange(float(places.max() + 2))[None, :, None]
    batch = largest.collate(read)
    for encoder, how in ((largest, max), (mean, np.mean)):
        merged = encoder._by_unit(each, batch["places"])[0, :, 0]
        assert merged.tolist() == pytest.approx([float(how(own)) for own in pieces.values()])


def test_a_black_box_needs_a_backbone_of_its_own() -> None:
    model = load_model(keyword_predict, labels=("negative", "positive"))
    with pytest.raises(CapabilityError, match="no network whose encoder could be copied; give backbone="):
        built(model)
    encoder, units = built(model, backbone="default")
    assert numbers(encoder, items(encoder, model, units)).shape[0] == len(units)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"merge": "min"}, r"merge of an encoder must be one of \('max', 'mean'\), got 'min'"),
        ({"dropout": 1.0}, "dropout of an encoder must be at least 0 and below 1"),
        ({"width": 3}, "unknown setting of encoder: .*width"),
        ({"max_length": 2}, "at least 4 tokens"),
    ],
)
def test_settings_are_checked(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        built(network(), EXAMPLES, **settings)


def test_a_backbone_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="cannot load the encoder"):
        built(network(), backbone=str(tmp_path / "nothing"))
