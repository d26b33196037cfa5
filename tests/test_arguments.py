"""Arguments of the public functions are refused by name where they cannot be meant."""

from collections.abc import Callable

import numpy as np
import pytest

import didact
from didact.data.load import load_data
from didact.errors import DidactError, InputError, ParameterError
from didact.settings import checked

WRONG: dict[str, Callable[[], object]] = {
    "methods of compare": lambda: didact.compare("a film", methods=5),  # type: ignore[arg-type]
    "method of explain": lambda: didact.explain("a film", method=5),  # type: ignore[call-overload]
    "progress of explain": lambda: didact.explain("a film", progress="yes"),  # type: ignore[call-overload]
    "seeds of evaluate": lambda: didact.evaluate("corpus", seeds=3),  # type: ignore[arg-type]
    "sizes of simulate": lambda: didact.simulate("corpus", sizes=1.5),  # type: ignore[arg-type]
    "labels of load_model": lambda: didact.load_model(labels=3),  # type: ignore[arg-type]
    "device of load_model": lambda: didact.load_model(device={}),  # type: ignore[arg-type]
    "max_length of load_model": lambda: didact.load_model(max_length="long"),  # type: ignore[arg-type]
    "epsilon of lrp": lambda: didact.explain("a film", method="lrp", epsilon=1e300),
    "fields of load_data": lambda: load_data(["a"], fields=[1]),  # type: ignore[arg-type]
    "split of load_data": lambda: load_data(["a"], split=range(3)),  # type: ignore[arg-type]
    "path of save": lambda: didact.save([], 5),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("named", WRONG)
def test_an_argument_of_another_type_is_refused_by_name(named: str) -> None:
    with pytest.raises(ParameterError, match=named.replace(" of ", " of .*")):
        WRONG[named]()


@pytest.mark.parametrize("given", [5, None, "text", [1], {"a": 1}])
def test_only_explanations_are_shown(given: object) -> None:
    with pytest.raises(InputError, match="explanation"):
        didact.show(given)  # type: ignore[arg-type]


@pytest.mark.parametrize("given", [np.zeros(2), {}, 0.5, [1, 2]])
def test_a_model_or_a_name_of_another_type_is_refused(given: object) -> None:
    with pytest.raises(DidactError):
        didact.explain("a film", given)
    with pytest.raises(DidactError):
        didact.load_explainer(given)  # type: ignore[arg-type]


def test_numbers_and_arrays_of_numpy_are_taken() -> None:
    @checked
    def take(first: object, count: int, share: float, names: list[str]) -> object:
        return count, share, list(names)

    assert take(None, np.int64(3), np.float32(0.5), np.array(["a", "b"])) == (3, 0.5, ["a", "b"])  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="count of take"):
        take(None, np.float64(3.5), 1.0, [])  # type: ignore[arg-type]


def test_a_negative_seed_is_refused() -> None:
    with pytest.raises(ParameterError, match="a seed must not be negative, got -1"):
        didact.explain("a good film", method="lime", seed=-1, samples=10)


def test_a_call_with_unknown_or_doubled_arguments_is_refused() -> None:
    with pytest.raises(ParameterError, match=r"load_model\(\): got an unexpected keyword argument 'lables'"):
        didact.load_model(lables=["a", "b"])  # type: ignore[call-arg]
    with pytest.raises(ParameterError, match=r"explain\(\): multiple values for argument 'model'"):
        didact.explain("a film", "default", "lime", model=1)  # type: ignore[call-overload]


def test_a_background_that_no_file_can_be_is_refused() -> None:
    with pytest.raises(InputError, match="background file"):
        didact.explain("a good film", method="deep_shap", background="\ud800")


def test_objects_that_fail_when_looked_into_are_refused() -> None:
    class Failing:
        def __iter__(self) -> object:
            raise RuntimeError("planted")

    with pytest.raises(DidactError, match="cannot be read: planted"):
        didact.import_attributions({"scores": [1.0], "tokens": Failing()}, "a film")
