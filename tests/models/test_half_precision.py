"""A model in half precision that stands for the whole one."""

from __future__ import annotations

import numpy as np
import torch

from didact.attribution.lime import Lime
from didact.models.half_precision import HalfPrecision
from didact.models.load import load_model
from didact.models.network import NetworkModel
from didact.store import keys
from didact.types import Example

TEXT = Example("The acting is wonderful, but the story drags.")


def _whole() -> NetworkModel:
    found = load_model(device="cpu")
    assert isinstance(found, NetworkModel)
    return found


def test_its_explanations_are_those_of_the_whole_model_but_for_rounding() -> None:
    quick = HalfPrecision(_whole())
    (mine,) = Lime(samples=24).explain(quick, [TEXT])
    (theirs,) = Lime(samples=24).explain(_whole(), [TEXT])
    assert quick.network.dtype == torch.float16
    apart = np.abs(np.array(mine.scores) - np.array(theirs.scores))
    assert 0 < apart.max() < 0.01 * np.abs(theirs.scores).max()


def test_its_explanations_are_kept_under_the_key_of_the_whole_model() -> None:
    found = [
        keys.explanations(model, Lime(), keys.readings(model, [TEXT])) for model in (_whole(), HalfPrecision(_whole()))
    ]
    assert found[0] == found[1]


def test_it_reads_as_the_whole_model_does() -> None:
    whole = load_model(device="cpu", max_length=8)
    assert isinstance(whole, NetworkModel)
    spans = [one.spans for one in whole.units([TEXT])]
    assert [one.spans for one in HalfPrecision(whole).units([TEXT])] == spans
