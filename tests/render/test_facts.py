import dataclasses

import pytest

from didact.render import facts
from didact.render.formats import render
from didact.types import Explanation, Prediction
from tests.render.conftest import Make


@pytest.mark.parametrize(
    ("share", "shown"), [(0.9871, "98.7 %"), (0.99999, "> 99.9 %"), (1.0, "100.0 %"), (0.0001, "< 0.1 %"), (0, "0.0 %")]
)
def test_percent_never_claims_certainty(share: float, shown: str) -> None:
    assert facts.percent(share) == shown


@pytest.mark.parametrize(
    ("share", "amount"), [(0.004, "less than 1 %"), (0.12, "12 %"), (0.999, "99 %"), (1.0, "100 %")]
)
def test_truncation_is_neither_hidden_nor_overstated(make: Make, share: float, amount: str) -> None:
    assert facts.warnings(make(truncated=share)) == [f"{amount} of the text was cut off by the model's length limit"]


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0.0042, "4.2 ms"), (1.25, "1.2 s"), (42.4, "42 s"), (61, "1 min 1 s"), (3700, "1 h 1 min"), (0.9999, "1.0 s")],
)
def test_durations(seconds: float, shown: str) -> None:
    assert facts.duration(seconds) == shown


@pytest.mark.parametrize(
    ("scores", "shown"),
    [
        ([0.41234, -0.12, 0.0, -0.0001], ["+0.412", "-0.120", "0.000", "0.000"]),
        ([1234.5, -3.2], ["+1234", "-3"]),
        ([3e-7, -1e-7], ["+3.00e-07", "-1.00e-07"]),
        ([12.345], ["+12.3"]),
    ],
)
def test_numbers_line_up(make: Make, scores: list[float], shown: list[str]) -> None:
    text = " ".join("abcd"[: len(scores)])
    assert facts.numbers(make(text, scores=scores)) == shown


def test_unsigned_numbers_carry_no_plus(make: Make) -> None:
    assert facts.numbers(make("a b", scores=[0.5, 0.25], signed=False)) == ["0.500", "0.250"]


def test_groups_forgive_the_noise_of_batches(make: Make) -> None:
    close = Prediction(("negative", "positive"), (-2.10001, 2.20001), (0.013, 0.987))
    assert len(facts.grouped([make(), make(prediction=close)])) == 1
    assert len(facts.grouped([make(), make("Other text."), make(method="lime")])) == 2


def test_every_format_shows_every_warning(make: Make) -> None:
    warned = dataclasses.replace(make(truncated=0.3), warnings=("the scores do not add up",))
    warned = dataclasses.replace(warned, units=dataclasses.replace(warned.units, unknown=0.5))
    assert len(facts.warnings(warned)) == 3
    for several in ([warned], [warned, dataclasses.replace(make(truncated=0.3), method="lime")]):
        for form in ("html", "tex", "txt"):
            shown = " ".join(render(several, form).replace("\\", "").split())
            for line in ("30 % of the text was cut off", "tokens are unknown", "do not add up"):
                assert line in shown
    assert Explanation.from_json(warned.to_json()) == warned
