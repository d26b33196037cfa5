"""Students that read images: patches, hints on them, and what they learn of a teacher of shapes."""

import numpy as np
import pytest
import torch

import didact
from didact.data.planted import shapes
from didact.errors import InputError
from didact.models.attention import observed
from didact.simulation.execution import simulate
from didact.simulation.hints import HintFormat
from didact.simulation.simulability import Plan, Setting, SimulabilityData, WeightedChannel, teacher_answers
from didact.students.base import STUDENTS, Hint, LabelledExample, StudentRun, TaskSetup
from didact.students.batches import TrainingBatches, cohort_data
from didact.students.channels.head_mix import HeadMixChannel
from didact.students.kinds.transformer import Transformer
from didact.students.kinds.vision_transformer import ImageEncoderFactory, VisionTransformer
from didact.students.patched import patched
from didact.types import Box, Example, Image

CHANNEL = HeadMixChannel()


@pytest.fixture(scope="module")
def factory() -> ImageEncoderFactory:
    return ImageEncoderFactory(VisionTransformer(), TaskSetup("class", 4, CHANNEL))


def image(width: int, height: int, seed: int = 0) -> Example:
    return Example(Image(np.random.default_rng(seed).integers(0, 255, (height, width, 3)).astype(np.uint8)))


def test_hints_reach_the_patches_that_show_them(factory: ImageEncoderFactory) -> None:
    read = patched([image(64, 48), image(32, 32)], factory.reader)  # 8 x 8 patches of 8 x 6 pixels, then of 4 x 4
    assert read.pixels.shape[0] == 2
    assert read.width == 65
    assert not read.text[:, 0].any(), "the first position is no part of the image"
    assert read.text[:, 1:].all()
    corner = read.touched(0, [Box(0, 0, 16, 6), Box(60, 46, 64, 48)])
    assert np.flatnonzero(corner[0]).tolist() == [1, 2]
    assert np.flatnonzero(corner[1]).tolist() == [64]
    own = read.patches[1].regions
    assert np.array_equal(read.touched(1, own), np.eye(65, dtype=bool)[1:])
    assert np.array_equal(read.touched(1, own[::-1]), np.eye(65, dtype=bool)[1:][::-1])


def test_batches_hold_each_students_own_pixels_and_hints(factory: ImageEncoderFactory) -> None:
    pool = [LabelledExample(image(32, 32, seed), seed % 2) for seed in range(4)]
    read = patched([item.example for item in pool], factory.reader)
    hints = [Hint((Box(0, 0, 4, 4), Box(4, 0, 8, 4)), np.array([0.25, 0.75]))] * 2
    setup = TaskSetup("class", 4, CHANNEL)
    runs = [StudentRun(np.array(places), hints, 1.0, seed) for seed, places in enumerate(([0, 1], [2, 3]))]
    schedule = VisionTransformer(batch_size=2, epochs=1).planned()
    (batch,) = TrainingBatches(cohort_data(pool, read, read, setup), runs, setup, schedule)
    assert batch.pixels is not None
    assert batch.places is not None
    for student in range(2):
        for row in range(2):
            wanted = read.pixels[int(batch.places[student, row])]
            assert np.array_equal(batch.pixels[student, row].numpy(), wanted)
    assert batch.hints[0, 0, :4].tolist() == [0, 0.25, 0.75, 0]


def test_head_scores_of_images_are_the_mean_of_the_logits_over_the_patches(factory: ImageEncoderFactory) -> None:
    pool = [LabelledExample(image(32, 32, seed), 0) for seed in range(2)]
    read = patched([item.example for item in pool], factory.reader)
    setup = TaskSetup("class", 4, CHANNEL)
    run = StudentRun(np.arange(2), [None, None], 0.0, 0)
    schedule = VisionTransformer(batch_size=2, epochs=1).planned()
    (batch,) = TrainingBatches(cohort_data(pool, read, read, setup), [run], setup, schedule)
    cohort = factory.cohort([0])
    output = cohort(batch, "heads")
    logits: list[torch.Tensor] = []
    with observed(factory.encoder, lambda seen, _: logits.append(seen)):
        assert batch.pixels is not None
        factory.encoder(pixel_values=batch.pixels[0])
    wanted = torch.cat([layer[:, :, 1:].mean(2) for layer in logits], 1)
    assert output.attention is not None
    assert output.attention.shape == (1, 2, cohort.heads, 65)
    torch.testing.assert_close(output.attention[0], wanted, atol=1e-4, rtol=1e-4)


def test_students_of_images_are_trained_alike_alone_and_together_with_the_mix_of_heads() -> None:
    examples = shapes(24, seed=1)
    pool = [LabelledExample(example, float(number % 3)) for number, example in enumerate(examples)]
    student = VisionTransformer(
        batch_size=8, epochs=2, pooling="scalar_mix", optimizer="sgd", schedule="constant", learning_rate=5e-3
    )
    hints = [Hint((Box(0, 0, 8, 8),), np.ones(1)) for _ in range(16)]
    runs = [StudentRun(np.random.default_rng(seed).permutation(24)[:16], hints, 5.0, seed) for seed in range(2)]
    alone, together = (
        student.train_and_predict(pool, runs, examples, TaskSetup("number", 1, CHANNEL, together=size))
        for size in (1, 2)
    )
    for one, other in zip(alone, together, strict=True):
        assert one.failure is None
        np.testing.assert_allclose(one.answers, other.answers, atol=1e-3)
        assert one.details["channel_loss"] == pytest.approx(other.details["channel_loss"], rel=1e-4)


def test_a_simulation_with_images_runs_from_explanations_to_scores() -> None:
    model = didact.load_model("default:shapes")
    pool, test = (teacher_answers(model, shapes(count, seed=seed)) for count, seed in ((12, 3), (10, 4)))
    explained = didact.explain([item.example for item in pool], model, "attention", progress=False)
    hints = HintFormat(kind="softmax", temperature=0.1).hints(explained)
    data = SimulabilityData(pool, test, {"attention": hints}, outputs=len(model.labels))
    student = STUDENTS.get("vision_transformer").configured(epochs=2, batch_size=4, learning_rate=1e-3)
    found = simulate(data, {"vit": student}, {"mix": WeightedChannel(CHANNEL, 5.0)}, Plan((8,), 2, curve=1))
    table = found.curves.scores[Setting("vit", "mix", 8)]
    assert table["attention"].shape == table["none"].shape == (2, 2, 10)
    assert np.isfinite(table["attention"]).all()


def test_students_refuse_what_they_do_not_read(factory: ImageEncoderFactory) -> None:
    pictures = [LabelledExample(image(32, 32), 0)] * 2
    texts = [LabelledExample(Example("a text"), 0)] * 2
    channels = {"mix": WeightedChannel(CHANNEL)}
    for data, student, said in (
        (pictures, Transformer(), "transformer reads texts, and an image .* read images: vision_transformer"),
        (texts, VisionTransformer(), "vision_transformer reads images, and .*a text.* was given"),
    ):
        with pytest.raises(InputError, match=said):
            simulate(SimulabilityData(data, data, {}), {"one": student}, channels, Plan((2,), 1))
    read = patched([image(32, 32)], factory.reader)
    assert read.pixels.dtype == np.float32
