"""Plausibility against masks of pixels, worked out by hand on four patches."""

import numpy as np
import pytest

from didact.attribution.human import Human
from didact.metrics.base import METRICS
from didact.models.load import load_model
from didact.protocols import Evidence
from didact.types import Box, Example, Explanation, Image, Mask, Prediction, Target, Units

SIDE = 4
PATCHES = tuple(
    Box(left, top, left + SIDE, top + SIDE) for top in (0, SIDE) for left in (0, SIDE, 2 * SIDE)
)  # two rows of three


def explanation(codes: np.ndarray, scores: tuple[float, ...], label: str = "cat") -> Explanation:
    image = Image(np.zeros((2 * SIDE, 3 * SIDE, 3), dtype=np.uint8))
    example = Example(image, label=label, rationale=[Mask.of(codes == 1, codes == 2)])
    prediction = Prediction(("cat", "dog"), (1.0, -1.0), (0.88, 0.12))
    return Explanation("lime", Units(example, "patch", PATCHES), scores, Target(0, "cat"), prediction)


def trimap() -> np.ndarray:
    """Patch 0 is marked, patch 1 half marked, patch 2 a quarter, patch 3 nobody classified, the rest is background."""
    codes = np.zeros((2 * SIDE, 3 * SIDE), dtype=int)
    codes[:SIDE, :SIDE] = 1
    codes[:2, SIDE : 2 * SIDE] = 1
    codes[:1, 2 * SIDE :] = 1
    codes[SIDE:, :SIDE] = 2
    return codes


def auc(one: Explanation, **settings: object) -> float:
    return METRICS.get("rationale_auc").configured(**settings).measure(Evidence([one]))[0].value


def test_patches_with_half_of_their_pixels_marked_are_the_rationale() -> None:
    # Gold are patches 0 and 1; patch 3 does not count, however high its score; 2, 4 and 5 are outside.
    assert auc(explanation(trimap(), (5, 4, 3, 99, 2, 1))) == 1.0
    assert auc(explanation(trimap(), (1, 2, 3, -99, 4, 5))) == 0.0
    assert auc(explanation(trimap(), (5, 1, 3, 0, 2, 4))) == pytest.approx(3 / 6)


def test_unclassified_pixels_do_not_count_for_or_against_a_patch() -> None:
    codes = trimap()
    codes[2:4, SIDE : 2 * SIDE] = 2  # the lower half of patch 1: all that is classified of it is marked
    codes[0, 2 * SIDE : 2 * SIDE + 2] = 2  # patch 2 has 2 of 14 left
    assert auc(explanation(codes, (5, 4, 3, 99, 2, 1))) == 1.0


def test_an_image_whose_gold_label_is_not_explained_does_not_count() -> None:
    assert np.isnan(auc(explanation(trimap(), (5, 4, 3, 99, 2, 1), "dog")))
    assert auc(explanation(trimap(), (5, 4, 3, 99, 2, 1), "dog"), explained="any") == 1.0


@pytest.mark.parametrize("name", [card.name for card in METRICS.cards() if card.family == "plausibility"])
def test_every_comparison_takes_masks(name: str) -> None:
    (grade,) = METRICS.get(name).configured().measure(Evidence([explanation(trimap(), (5, 4, 3, 9, 2, 1))]))
    assert grade.value == pytest.approx(1.0)


def test_the_human_explanation_is_the_marked_share() -> None:
    model = load_model(lambda images: [[0.5, 0.5]] * len(images), inputs="image", labels=["cat", "dog"])
    example = explanation(trimap(), (0,) * 6).example
    model.view.squares = 2  # type: ignore[attr-defined]
    (made,) = Human(level="patch").explain(model, [example])
    # The image is 12 x 8: the upper left square has 16 + 2 * 2 of 24 pixels marked.
    assert made.scores[0] == pytest.approx(20 / 24)
    assert made.scores[3] == 0.0
