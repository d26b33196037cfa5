"""The mask-trained surrogate: a copy, repeatable, and kept on disk."""

from pathlib import Path

import numpy as np
import pytest
import torch

from didact.errors import FormatError, InputError, ModelError, ParameterError
from didact.models.compose import compose
from didact.models.load import load_model
from didact.models.network import NetworkModel
from didact.models.surrogate import FineTuning, fine_tune_masked, load_surrogate, save_surrogate
from didact.progress import listening
from didact.testing.tiny import TEXTS, keyword_predict, tiny_model
from didact.types import Example, Target

QUICK = FineTuning(learning_rate=2e-3, batch=2)


def answers(model: NetworkModel) -> list[tuple[float, ...]]:
    return [one.outputs for one in model.predict([Example(text) for text in TEXTS])]


def masked_error(model: NetworkModel, wanted: NetworkModel) -> float:
    """Mean distance, with one word masked, from what the wanted model says of the whole text."""
    units = model.units([Example(text) for text in TEXTS])
    targets = [Target(0, model.labels[0], "probability" if len(model.labels) > 1 else "logit")] * len(units)
    keep = [~np.eye(len(unit), dtype=bool) for unit in units]
    whole = [one.value(target) for one, target in zip(wanted.predict([u.example for u in units]), targets, strict=True)]
    found = model.score(units, targets, keep, "mask" if model.tokenizer.mask_token else None)
    return float(np.mean(np.concatenate([abs(row - full) for row, full in zip(found, whole, strict=True)])))


@pytest.mark.parametrize(
    ("architecture", "labels", "problem"),
    [
        ("bert", ("negative", "positive"), None),
        ("distilbert", ("score",), None),
        ("roberta", ("a", "b", "c"), "multi_label_classification"),
        ("gpt2", ("negative", "positive"), None),
    ],
)
def test_it_learns_to_answer_as_the_model_does_for_whole_texts(
    architecture: str, labels: tuple[str, ...], problem: str | None
) -> None:
    network, tokenizer = tiny_model(architecture, labels)
    network.config.problem_type = problem  # type: ignore[assignment]
    model = compose(network, tokenizer)
    surrogate = fine_tune_masked(model, TEXTS, share=0.2, epochs=12, settings=QUICK)
    assert masked_error(surrogate, model) < 0.8 * masked_error(model, model)


def test_the_users_model_is_untouched() -> None:
    network, tokenizer = tiny_model("bert")
    network.train()
    model = compose(network, tokenizer)
    before = {name: weight.clone() for name, weight in network.state_dict().items()}
    print_before = model.fingerprint()
    surrogate = fine_tune_masked(model, TEXTS, settings=QUICK)
    assert all(torch.equal(weight, before[name]) for name, weight in network.state_dict().items())
    assert network.training
    assert all(weight.requires_grad and weight.grad is None for weight in network.parameters())
    assert model.fingerprint() == print_before != surrogate.fingerprint()


def test_the_seed_decides() -> None:
    model = compose(*tiny_model("bert"))
    one, same, other = (fine_tune_masked(model, TEXTS, seed=seed, settings=QUICK) for seed in (0, 0, 1))
    assert answers(one) == answers(same) != answers(other)


def test_a_kept_surrogate_answers_exactly_as_before(tmp_path: Path) -> None:
    for name, model in (("network", compose(*tiny_model("bert"))), ("embedded", load_model("default"))):
        assert isinstance(model, NetworkModel)
        surrogate = fine_tune_masked(model, TEXTS, epochs=1, settings=QUICK)
        save_surrogate(surrogate, tmp_path / name)
        back = load_surrogate(tmp_path / name, device="cpu")
        assert answers(back) == answers(surrogate)
        assert back.name == surrogate.name == f"surrogate of {model.name}"
        assert (back.inputs, back.reader.options) == (model.inputs, model.reader.options)


def test_a_flipped_bit_is_refused_and_a_torn_folder_too(tmp_path: Path) -> None:
    save_surrogate(fine_tune_masked(compose(*tiny_model("bert")), TEXTS, epochs=1, settings=QUICK), tmp_path)
    rng = np.random.default_rng(17)
    for path in sorted(tmp_path.iterdir()):
        whole = path.read_bytes()
        harmed = bytearray(whole)
        bit = int(rng.integers(8 * len(whole)))
        harmed[bit // 8] ^= 1 << bit % 8
        path.write_bytes(harmed)
        with pytest.raises(FormatError, match=rf"{path.name}.*delete the folder and run again"):
            load_surrogate(tmp_path, device="cpu")
        path.write_bytes(whole)
    (tmp_path / "checksums.json").unlink()
    with pytest.raises(FormatError, match=r"not complete: checksums\.json is missing"):
        load_surrogate(tmp_path, device="cpu")


def test_pairs(tmp_path: Path) -> None:
    network, tokenizer = tiny_model("bert", ("entailment", "contradiction"))
    model = compose(network, tokenizer, inputs="pair")
    save_surrogate(fine_tune_masked(model, [(TEXTS[0], TEXTS[1])], epochs=1, settings=QUICK), tmp_path)
    assert load_surrogate(tmp_path, "cpu").predict([Example(TEXTS[0], TEXTS[1])])


def test_it_tells_how_far_it_is() -> None:
    class Listener:
        total = done = 0

        def start(self, what: str, total: int) -> None:
            self.total = total if what == "fine-tuning the surrogate" else self.total
            self.done = 0

        def advance(self, steps: int) -> None:
            self.done += steps

        def stop(self) -> None: ...

    listener = Listener()
    with listening(listener):
        fine_tune_masked(compose(*tiny_model("bert")), TEXTS, epochs=2, settings=QUICK)
    assert listener.total == listener.done == 2 * len(TEXTS)


def test_what_cannot_be_is_refused(tmp_path: Path) -> None:
    model = compose(*tiny_model("bert"))
    with pytest.raises(ModelError, match="BlackBox has none"):
        fine_tune_masked(load_model(keyword_predict), TEXTS)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="no texts"):
        fine_tune_masked(model, [])
    with pytest.raises(ParameterError, match="share must be above 0"):
        fine_tune_masked(model, TEXTS, share=0)
    with pytest.raises(ParameterError, match="epochs must be at least 1"):
        fine_tune_masked(model, TEXTS, epochs=0)
    with pytest.raises(ParameterError, match="'blend' mixes"):
        fine_tune_masked(model, TEXTS, settings=FineTuning(absence="blend"))
    with pytest.raises(FormatError, match="holds no surrogate"):
        load_surrogate(tmp_path)
