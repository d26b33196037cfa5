"""L2E from model, texts and reference to an explainer: what it learns and keeps, and that a kill changes nothing."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from didact.attribution.lime import Lime
from didact.attribution.occlusion import Occlusion
from didact.attribution.random import Random
from didact.errors import CapabilityError, FormatError, InputError, ParameterError, UnknownNameError
from didact.models.load import load_model
from didact.models.network import NetworkModel
from didact.progress import listening
from didact.protocols import Model
from didact.store.parts import Parts
from didact.testing.tiny import keyword_predict
from didact.trained.explainer import LearnedExplainer
from didact.trained.fidelity import agreement_with_reference
from didact.trained.presets.base import PRESETS, default_references
from didact.trained.shapes.scorer import Scorer
from didact.trained.train import train
from didact.types import Example

LABELS = ("negative", "positive")
WORDS = ("wonderful", "warm", "good", "dull", "worse", "avoid", "film", "plot", "acting", "the", "a", "with", "saw")
SMALL = {"width": 16, "blocks": 1, "dropout": 0.0, "epochs": 20, "learning_rate": 5e-3, "min_count": 1}


def texts(count: int, seed: int = 0) -> list[str]:
    """Texts in which few words decide, of 4 to 9 different words."""
    rng = np.random.default_rng(seed)
    return [" ".join(rng.permutation(WORDS)[: rng.integers(4, 10)]) for _ in range(count)]


@pytest.fixture(scope="module")
def model() -> Model:
    return load_model(keyword_predict, labels=LABELS)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("l2e")


@pytest.fixture(scope="module")
def trained(model: Model, folder: Path) -> LearnedExplainer:
    return train("l2e", model, texts(200), Occlusion(), folder=folder, data="made up", **SMALL)


def test_the_network_follows_its_reference(model: Model, trained: LearnedExplainer) -> None:
    assert trained.about.scores["spearman"] > 0.8
    assert trained.about.scores["top-k IoU"] > 0.7
    (found,) = trained.explain(model, ["we saw a wonderful film"])
    assert found.top(1)[0][0] == "wonderful"


@pytest.mark.parametrize("signal", ["labelling", "regression"])
def test_other_signals_learn_too_and_have_signs(model: Model, folder: Path, signal: str) -> None:
    made = train("l2e", model, texts(300), Occlusion(), parts=Parts(folder / "parts"), signal=signal, **SMALL)
    assert made.about.scores["spearman"] > 0.7
    (found,) = made.explain(model, ["a wonderful film with dull acting"], ["positive"])
    scores = dict(zip(found.units.texts, found.scores, strict=True))
    assert found.signed
    assert scores["wonderful"] > scores["film"] > scores["dull"]


def test_everything_it_came_from_is_on_it(model: Model, trained: LearnedExplainer) -> None:
    about = trained.about
    assert (about.model, about.fingerprint, about.reference) == (model.name, model.fingerprint(), "occlusion")
    assert about.reference_parameters == dict(Occlusion().parameters)
    assert about.data == "made up"
    assert about.cost["training texts"] == 140
    assert about.cost["validation texts"] == about.cost["held-out texts"] == 30
    assert about.cost["speed-up"] > 0  # type: ignore[operator] # a number
    assert trained.disagreement is not None
    assert trained.disagreement.report["texts"] <= 30


@pytest.mark.filterwarnings("ignore::didact.trained.held_out.FidelityWarning")  # few texts and epochs
def test_the_numbers_are_those_of_the_held_out_texts(model: Model, folder: Path) -> None:
    apart = texts(30, seed=1)
    made = train("l2e", model, [*texts(40), *apart], Occlusion(), held_out=apart, **{**SMALL, "epochs": 1})
    assert made.about.cost["held-out texts"] == 30
    assert made.about.cost["training texts"] == 34  # of the other forty, six are for validation
    taught = Occlusion().explain(model, apart)
    found = agreement_with_reference(made.explain(model, apart), taught, made.signal)
    assert made.about.scores["spearman"] == pytest.approx(np.nanmean(found["spearman"]))
    assert made.about.scores["top-k IoU"] == pytest.approx(found["top-k IoU"].mean())


class Stop:
    """A listener that pulls the plug when some work has gone on for some steps."""

    def __init__(self, what: str, steps: int) -> None:
        self.what, self.steps, self.name = what, steps, ""

    def start(self, what: str, total: int) -> None:
        self.name = what

    def advance(self, steps: int) -> None:
        if self.what in self.name:
            self.steps -= steps
            if self.steps < 0:
                raise KeyboardInterrupt

    def stop(self) -> None: ...


@pytest.mark.parametrize(("what", "steps"), [("predicting", 40), ("epoch 1", 20), ("epoch 3", 20)])
def test_after_a_kill_the_same_call_gives_the_same_explainer(
    model: Model, tmp_path: Path, what: str, steps: int
) -> None:
    given: tuple[Any, ...] = (model, texts(60), Occlusion())
    settings = {**SMALL, "epochs": 3}
    with listening(Stop(what, steps)), pytest.raises(KeyboardInterrupt):
        train("l2e", *given, folder=tmp_path, **settings)
    resumed = train("l2e", *given, folder=tmp_path, **settings)
    whole = train("l2e", *given, **settings)
    assert resumed.parameters == whole.parameters  # the hash of the weights is among them
    assert resumed.about.scores == whole.about.scores


def test_a_finished_training_runs_the_reference_never(model: Model, folder: Path, trained: LearnedExplainer) -> None:
    with listening(Stop("training", 0)):
        again = train("l2e", model, texts(200), Occlusion(), folder=folder, data="made up", **SMALL)
    assert again.parameters == trained.parameters
    with pytest.raises(FormatError, match="another training: its configuration"):
        train("l2e", model, texts(200), Occlusion(), folder=folder, **{**SMALL, "epochs": 2})


def test_labels_need_no_reference(model: Model, folder: Path, trained: LearnedExplainer) -> None:
    labels = Occlusion().explain(model, texts(200))
    made = train("l2e", model, labels, **SMALL)
    assert made.parameters == trained.parameters
    with pytest.raises(ParameterError, match="leave out reference"):
        train("l2e", model, labels, "lime", **SMALL)


def test_several_references(model: Model, folder: Path) -> None:
    parts, references = Parts(folder / "parts"), [Occlusion(), Random()]
    settings = {**SMALL, "signal": "regression"}
    averaged = train("l2e", model, texts(200), references, parts=parts, **settings)
    assert averaged.about.reference == "occlusion+random"
    assert averaged.about.reference_parameters["random.seed"] == Random().seed
    apart = train("l2e", model, texts(200), references, parts=parts, combine="apart", **settings)
    assert apart.about.scores["spearman"] > averaged.about.scores["spearman"]  # the first one's words are not blurred
    assert apart.about.scores["spearman"] > 0.6


def test_fresh_labels_in_every_epoch(model: Model) -> None:
    given: tuple[Any, ...] = (model, texts(40), Lime(samples=4))
    settings = {**SMALL, "epochs": 3}
    drawn, kept = (train("l2e", *given, fresh=fresh, **settings) for fresh in (True, False))
    assert drawn.parameters != kept.parameters
    assert drawn.parameters == train("l2e", *given, fresh=True, **settings).parameters


@pytest.mark.filterwarnings("ignore::didact.trained.held_out.FidelityWarning")  # few texts and epochs
def test_the_seed_decides(model: Model, folder: Path) -> None:
    parts = Parts(folder / "parts")
    settings = {**SMALL, "epochs": 1}
    made = [train("l2e", model, texts(60), Occlusion(), parts=parts, seed=seed, **settings) for seed in (0, 0)]
    before = list(parts.keys())
    made.append(train("l2e", model, texts(60), Occlusion(), parts=parts, seed=1, **settings))
    added = set(parts.keys()) - set(before)
    assert len(added) == 2  # another split of the same labels; altered validation and held-out texts alone are new
    assert made[0].parameters == made[1].parameters
    assert made[0].parameters != made[2].parameters


@pytest.mark.parametrize("signal", ["ranking", "labelling"])
def test_epochs_may_be_chosen_by_what_the_top_units_weigh(model: Model, folder: Path, signal: str) -> None:
    settings = {**SMALL, "signal": signal, "choose": "top_weight"}
    made = train("l2e", model, texts(300), Occlusion(), parts=Parts(folder / "parts"), **settings)
    assert made.about.scores["top-k IoU"] > 0.6


def test_kept_embeddings_are_the_explained_models_under_one_matrix(tmp_path: Path) -> None:
    embedded = load_model("default", device="cpu")
    assert isinstance(embedded, NetworkModel)
    settings = {**SMALL, "epochs": 2, "reading": "tokens", "embeddings": "kept"}
    made = train("l2e", embedded, texts(40), Occlusion(), **settings)
    assert isinstance(made.shape, Scorer)
    assert made.shape.config.table is None  # folded: what is saved is no larger than with embeddings of its own
    known = embedded.network.get_input_embeddings().weight.detach().double()
    found = made.shape.embedding.weight.detach()[2 : 2 + len(known)].double()
    centred = known - known.mean(0)
    solved = centred @ torch.linalg.lstsq(centred, found).solution
    torch.testing.assert_close(solved, found, rtol=0, atol=1e-4 * float(found.abs().max()))
    made.save_pretrained(tmp_path)
    again = LearnedExplainer.from_pretrained(tmp_path, device="cpu")
    assert again.explain(embedded, ["a warm film"])[0].scores == made.explain(embedded, ["a warm film"])[0].scores


def test_few_texts_give_no_estimate_of_disagreement(model: Model) -> None:
    made = train("l2e", model, texts(20), Occlusion(), **{**SMALL, "epochs": 1})
    assert made.disagreement is None
    assert made.about.scores


@pytest.mark.parametrize(
    ("given", "settings", "error", "message"),
    [
        (["good film"], {}, InputError, "1 different texts are too few"),
        (texts(9), {"signal": "rank"}, UnknownNameError, "did you mean ranking"),
        (texts(9), {"widht": 3}, ParameterError, "unknown setting of l2e: 'widht'"),
        (texts(9), {"validation": 0.6, "held_out": 0.4}, ParameterError, "leave something to train on"),
        (texts(9), {"signal_settings": {"pairs": 5}}, ParameterError, "unknown parameter of combined 'pairs'"),
        (texts(9), {"fresh": True}, ParameterError, "occlusion has no seed"),
        (texts(9), {"choose": "best"}, ParameterError, "choose of l2e must be 'panel' or 'loss' or 'top_weight', got"),
        (texts(9), {"embeddings": "first"}, ParameterError, "embeddings of l2e must be 'own' or 'kept' or None, got"),
        (texts(9), {"embeddings": "kept", "reading": "words"}, ParameterError, "use reading='tokens'"),
        (texts(9), {"shape": "encoder", "width": 8}, ParameterError, "width of l2e is a setting of shape 'scorer'"),
        (texts(9), {"width": 8, "layers": (0,)}, ParameterError, "layers of l2e is a setting of shape 'probe'"),
        (texts(9), {"shape": "encoder"}, CapabilityError, "no network whose encoder could be copied"),
        (texts(9), {"embeddings": "kept", "reading": "tokens"}, ParameterError, "no embeddings to keep"),
    ],
)
def test_mistakes_are_told(
    model: Model, given: list[str], settings: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        train("l2e", model, given, "occlusion", **settings)


def test_short_texts_are_learned_from_two_references_unless_one_is_given(model: Model) -> None:
    def learned_from(given: list[str], **settings: Any) -> str:
        return train("l2e", model, given, **settings, **{**SMALL, "epochs": 1}).about.reference

    short = texts(20)
    assert learned_from(short) == "lime+kernel_shap"
    assert learned_from(short, reference="occlusion") == "occlusion"
    assert learned_from([" ".join([*row.split(), *(["the"] * 30)]) for row in short]) == "lime"


@pytest.mark.parametrize(("words", "names"), [(32, ["lime", "kernel_shap"]), (33, ["lime"])])
def test_what_is_short_is_decided_by_the_mean_number_of_units(model: Model, words: int, names: list[str]) -> None:
    given = model.units([Example(" ".join(["film"] * count)) for count in (words - 5, words + 5)])
    made = default_references(PRESETS.card("l2e"), model, [own.example for own in given], scale="log_probability")
    assert [one.card.name for one in made] == names
    assert {one.parameters["scale"] for one in made} == {"log_probability"}
