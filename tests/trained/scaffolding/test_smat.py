"""SMaT from model and texts to an explainer: what is searched, trained and measured on which texts."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from didact.attribution.occlusion import Occlusion
from didact.cli import main
from didact.data.planted import shapes, translations
from didact.errors import CapabilityError, InputError, ParameterError, UnknownNameError
from didact.models.load import load_model
from didact.progress import listening
from didact.protocols import Model
from didact.store.parts import Parts
from didact.testing.learned import case_model, case_texts
from didact.testing.tiny import tiny_image_model
from didact.trained.explainer import LearnedExplainer
from didact.trained.held_out_teaching import HeldOutTeaching
from didact.trained.scaffolding.learning import RANKING
from didact.trained.scaffolding.teaching import TeachingTexts
from didact.trained.shapes.head_mix import HeadMixShape
from didact.trained.train import train
from didact.types import Example, Units
from tests.trained.test_presets import Stop

pytestmark = pytest.mark.filterwarnings("ignore::didact.trained.held_out.FidelityWarning")  # a random teacher

QUICK: dict[str, Any] = {
    "student_kind": "bilstm_attention",
    "student": {"embedding": 8, "hidden": 8, "min_count": 1},
    "channel": "attention",
    "examples": 16,
    "student_epochs": 3,
    "curve": 1,
    "students": 3,
    "inner_rate": 0.02,
    "batch": 8,
    "search_settings": {"students": 1, "rounds": 2, "layers": 1, "sets": [2], "finalists": 2, "final_students": 2},
    "fit": {"device": "cpu"},
}
META: dict[str, Any] = {
    "meta": "linear",
    "epochs": 2,
    "learning_rate": 0.01,
    "meta_settings": {"students": 2, "outer_batch": 8, "resets": 4},
}


def made(count: int = 50, model: Model | None = None, **settings: Any) -> LearnedExplainer:
    examples, _ = case_texts("black_box")
    return train("smat", model or case_model("bert"), examples[:count], **{**QUICK, **settings})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("smat")


@pytest.fixture(scope="module")
def trained(folder: Path) -> LearnedExplainer:
    return made(folder=folder)


def test_the_best_heads_of_the_search_are_the_explainer(trained: LearnedExplainer, folder: Path) -> None:
    ranked = json.loads((folder / RANKING).read_text("utf-8"))["ranked"]
    assert isinstance(trained.shape, HeadMixShape)
    np.testing.assert_allclose(trained.shape.weights().ravel(), ranked[0]["weights"], atol=1e-5)
    assert trained.about.cost["best heads of the search"] == ranked[0]["name"]
    assert "all heads" in [candidate["name"] for candidate in ranked]
    assert trained.about.level == "token"


def test_fresh_students_on_held_out_texts_are_on_its_card(trained: LearnedExplainer, tmp_path: Path) -> None:
    measured = HeldOutTeaching.from_dict(trained.about.teaching or {})
    assert (measured.n, measured.students, measured.examples) == (8, 3, 16)
    assert trained.about.scores["area with its explanations"] == measured.area
    assert trained.verdict == measured.sentence
    trained.save_pretrained(tmp_path)
    loaded = LearnedExplainer.from_pretrained(tmp_path, model=case_model("bert"), device="cpu")
    assert loaded.verdict == measured.sentence
    assert loaded.parameters == trained.parameters
    readme = (tmp_path / "README.md").read_text("utf-8")
    assert "## Do students learn from it?" in readme
    assert "attention heads in 2 layers:" in readme
    assert "reference" not in readme.split("## What it is")[1].split("##")[0]


def test_meta_training_goes_on_from_the_search(trained: LearnedExplainer) -> None:
    further = made(**META)
    assert isinstance(trained.shape, HeadMixShape)
    assert isinstance(further.shape, HeadMixShape)
    before, after = trained.shape.weights(), further.shape.weights()
    begun = 0.9 * before + 0.1 / before.size
    assert 0 < np.abs(after - begun).max() < 0.1  # two epochs from where the search ended
    assert further.about.cost["epochs"] == 2
    assert "loss on validation texts, by which the epoch was chosen" in further.about.scores


def test_the_number_of_marked_words_follows_from_a_temperature_that_is_trained(trained: LearnedExplainer) -> None:
    shape = {"shape_settings": {"train_temperature": True, "temperature": 4.0}}
    learned = made(search="none", explanation="sparsemax", students=2, **META | shape)
    assert learned.signal.parameters["explanation"] == "sparsemax"
    assert isinstance(learned.shape, HeadMixShape)
    assert float(learned.shape.log_temperature.detach().exp()) != pytest.approx(4.0, rel=1e-4)
    assert trained.signal.parameters["explanation"] == "softmax"


def test_trainings_that_begin_with_the_same_search_share_it(folder: Path, trained: LearnedExplainer) -> None:
    with listening(Stop("training", 0)):  # no student is trained
        shared = made(folder=None, parts=Parts(folder / "parts"), students=0, spread=0.2)
    assert np.array_equal(shared.shape.weights(), trained.shape.weights())  # type: ignore[operator]
    assert shared.about.cost["best heads of the search"] == trained.about.cost["best heads of the search"]


def test_without_search_and_meta_it_is_the_mean_of_all_heads() -> None:
    static = made(search="none", students=0)
    assert isinstance(static.shape, HeadMixShape)
    np.testing.assert_allclose(static.shape.weights(), 1 / 8)
    assert static.verdict.startswith("No students on held-out texts")
    last = made(search="none", students=0, start="layer:1")
    assert isinstance(last.shape, HeadMixShape)
    np.testing.assert_allclose(last.shape.weights(), [[0] * 4, [0.25] * 4])


def test_any_shape_of_one_output_is_trained_for_teaching() -> None:
    probe = made(search="none", shape="probe", shape_settings={"width": 4}, **META)
    assert probe.shape.card.name == "probe"
    assert probe.about.cost["epochs"] == 2


def tiny_eyes(folder: Path) -> dict[str, Any]:
    """Students of images that begin as a tiny vision transformer."""
    for part in tiny_image_model():
        part.save_pretrained(folder)
    return {"student_kind": None, "student": {"model": str(folder)}, "channel": "head_mix"}


@pytest.mark.parametrize(("kind", "level"), [("quality", "token"), ("shapes", "patch")])
def test_numbers_of_pairs_and_classes_of_images_are_taught_too(kind: str, level: str, tmp_path: Path) -> None:
    settings = tiny_eyes(tmp_path) if kind == "shapes" else {}
    examples = shapes(20, seed=3) if kind == "shapes" else translations(24, seed=3)
    brief = {**QUICK["search_settings"], "rounds": 1, "finalists": 1}
    given = {**QUICK, "examples": 8, "student_epochs": 2, "layers": (1,), "search_settings": brief, **settings}
    explainer = train("smat", load_model(f"default:{kind}", device="cpu"), examples, **given)
    measured = HeldOutTeaching.from_dict(explainer.about.teaching or {})
    assert (explainer.about.level, measured.students) == (level, 3)
    assert -1 <= measured.area <= 1  # a correlation, or an accuracy


def test_every_text_has_one_use(monkeypatch: pytest.MonkeyPatch) -> None:
    """Candidates are compared on validation texts, the result on held-out ones; students learn from neither."""
    seen: list[tuple[set[str], set[str]]] = []
    of = TeachingTexts.of

    def noted(model: Model, units: Sequence[Units], test: Sequence[Example]) -> TeachingTexts:
        seen.append(({own.example.text for own in units}, {example.text for example in test}))
        return of(model, units, test)

    monkeypatch.setattr(TeachingTexts, "of", noted)
    made()
    (pool, searched), (again, held_out) = seen
    assert pool == again
    assert [len(texts) for texts in (pool, searched, held_out)] == [34, 8, 8]
    assert len(pool | searched | held_out) == 50


BRIEF = {**META, "layers": (1,), "search_settings": {**QUICK["search_settings"], "rounds": 1, "finalists": 1}}


@pytest.fixture(scope="module")
def whole() -> LearnedExplainer:
    return made(**BRIEF)


@pytest.mark.parametrize(("title", "steps"), [("students", 30), ("students", 120), ("epoch 2", 8)])
def test_after_a_kill_the_same_call_gives_the_same_explainer(
    tmp_path: Path, whole: LearnedExplainer, title: str, steps: int
) -> None:
    """Killed in the search, in the comparison of the result, and in the meta training."""
    with listening(Stop(title, steps)), pytest.raises(KeyboardInterrupt):
        made(folder=tmp_path, **BRIEF)
    resumed = made(folder=tmp_path, **BRIEF)
    assert resumed.parameters == whole.parameters  # the hash of the weights is among them
    assert resumed.about.scores == whole.about.scores


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        (
            {"shape": "probe"},
            CapabilityError,
            "the probe has not; give search='none', or a shape that has: gradient_gate, head_",
        ),
        ({"validation": 0.0}, ParameterError, "compares heads on validation texts, and there are none"),
        ({"student_kind": "transfomer"}, UnknownNameError, "unknown student 'transfomer'.*transformer"),
        ({"channel": "head_mix"}, ParameterError, "no given channel reaches the student"),
        ({"meta": "liner"}, ParameterError, "liner"),
        ({"search": "races"}, ParameterError, "search of smat must be 'racing' or 'halving'"),
        ({"search_settings": {"rounds": 0}}, ParameterError, "rounds of search must be at least 1"),
        ({"search_settings": {"round": 2}}, ParameterError, "unknown setting of search 'round'.*rounds"),
        ({"beta": 0.0}, ParameterError, "beta of smat must be above 0"),
        ({"curve": 0}, ParameterError, "curve of smat must be at least 1"),
        ({"layers": (5,)}, ParameterError, "layer 5 does not exist; the model has 2 layers"),
        ({"student": {"hiden": 4}}, ParameterError, "unknown parameter of bilstm_attention 'hiden'"),
    ],
)
def test_bad_settings_are_refused_before_students_are_trained(
    settings: dict[str, Any], error: type[Exception], message: str
) -> None:
    with listening(Stop("students", 0)), pytest.raises(error, match=message):
        made(**settings)


def test_what_it_cannot_learn_from_is_refused() -> None:
    with pytest.raises(CapabilityError, match="smat needs a model that is heads"):
        made(model=case_model("black_box"))
    with pytest.raises(InputError, match="smat learns from texts, and explanations were given"):
        train(
            "smat",
            case_model("bert"),
            Occlusion().explain(case_model("bert"), case_texts("black_box")[0][:30]),
            **QUICK,
        )


def test_the_command_line_has_its_settings(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["train", "smat", "--help"])
    shown = " ".join(capsys.readouterr().out.split())
    assert "--search {racing,halving,evolution,none}" in shown
    assert "indices of the layers whose heads are mixed; all when not given" in shown
    assert "didact train smat --data imdb --limit 3000 --search none --meta linear" in shown


def test_trained_by_the_command_line_and_used(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = [
        *("--limit", "40", "--layers", "3", "--student-kind", "bilstm_attention", "--channel", "attention"),
        *("--student", "embedding=8", "--student", "hidden=8", "--student-epochs", "2", "--students", "1"),
        *("--search-settings", "students=1", "--search-settings", "rounds=1", "--search-settings", "final_students=1"),
        *("--fit", "device=cpu", "--out", str(tmp_path / "smat")),
    ]
    assert main(["train", "smat", *given]) == 0
    shown = capsys.readouterr().out
    assert "area with the mean of all heads" in shown
    assert "attention heads in 1 layers" in shown
    assert "There are too few students to tell" in shown
    assert main(["explain", "A warm and funny film.", "--explainer", str(tmp_path / "smat")]) == 0
    assert "warm" in capsys.readouterr().out
    assert main(["train", "smat", *given, "--meta", "newton"]) == 2


def test_a_dry_run_says_what_it_would_take_and_trains_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small = ["--student-kind", "bilstm_attention", "--channel", "attention", "--student", "hidden=8", "--batch", "8"]
    command = [
        "train",
        "smat",
        "--limit",
        "40",
        "--meta",
        "linear",
        "--out",
        str(tmp_path / "out"),
        *small,
        "--dry-run",
    ]
    assert main(command) == 0
    shown = capsys.readouterr().out
    assert "students at most" in shown
    assert "meta training, 6 students" in shown
    assert "comparison, 18 students" in shown
    assert not (tmp_path / "out").exists()
