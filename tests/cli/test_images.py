"""Images on the command line: explained, compared, written as pictures and pages; bad ones end in one line."""

from pathlib import Path

import numpy as np
import PIL.Image
import pytest

from didact.cli import main
from didact.render.html import read_page
from didact.render.jsonio import load
from didact.render.overlay import overlay
from didact.testing.tiny import tiny_image_model
from didact.types import Image

NOISE = np.random.default_rng(0).integers(0, 256, (30, 40, 3)).astype(np.uint8)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("vit")
    for part in tiny_image_model():
        part.save_pretrained(folder)
    return str(folder)


@pytest.fixture
def cat(tmp_path: Path) -> str:
    PIL.Image.fromarray(NOISE).save(tmp_path / "cat.png")
    return str(tmp_path / "cat.png")


def test_an_image_is_explained(model: str, cat: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    given = ["explain", "--image", cat, "--model", model, "--method", "gradient_norm"]
    assert main([*given, "--format", "json"]) == 0
    (one,) = load(capsys.readouterr().out)
    assert one.example.fields == (Image(NOISE),)
    assert (one.example.id, one.units.level) == ("cat.png", "patch")
    out = tmp_path / "out.png"
    assert main([*given, "--out", str(out)]) == 0
    drawn = np.array(PIL.Image.open(out))
    assert (drawn == overlay(one)).all()
    assert main(given) == 0
    assert "gradient_norm" in capsys.readouterr().out


def test_images_are_compared_on_a_page(model: str, cat: str, tmp_path: Path) -> None:
    out = tmp_path / "out.html"
    methods = "occlusion,attention,integrated_gradients"
    assert main(["compare", "--image", cat, "--model", model, "--methods", methods, "--out", str(out)]) == 0
    made = read_page(out.read_text(encoding="utf-8"))
    assert [each.method for each in made] == methods.split(",")
    assert out.read_text(encoding="utf-8").count("data:image/png") == 1


def test_a_folder_of_images_and_a_bare_path(model: str, cat: str, capsys: pytest.CaptureFixture[str]) -> None:
    folder = Path(cat).parent / "pets" / "dog"
    folder.mkdir(parents=True)
    PIL.Image.fromarray(NOISE[::-1]).convert("L").save(folder / "rex.jpg")
    given = ["--model", model, "--method", "gradient_norm", "--format", "json"]
    assert main(["explain", "--image", str(folder.parent), "--image", cat, *given]) == 0
    dog, other = load(capsys.readouterr().out)
    assert (dog.example.label, dog.example.id, other.example.label) == ("dog", "dog/rex.jpg", None)
    assert main(["explain", cat, *given]) == 0
    assert load(capsys.readouterr().out)[0].example.fields == (Image(NOISE),)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--image", "nowhere.png", "--model", "M"], "there is no image 'nowhere.png'"),
        (["--image", "BROKEN", "--model", "M"], "broken.png is damaged"),
        (["--image", "CAT"], "--image goes with --model"),
        (["--image", "CAT", "a text", "--model", "M"], "give either a text"),
        (["--image", "CAT", "--model", "M", "--max-pixels", "100"], "40 x 30 pixels, more than 100"),
        (["--image", "CAT", "--model", "M", "--max-pixels", "0"], "must be a whole number, at least 1"),
        (["--image", "CAT", "--model", "M", "--format", "png"], "--out FILE.png"),
        (["--image", "CAT", "--image", "CAT", "--model", "M", "--out", "OUT.png"], "there are 2; .html shows them all"),
        (["--image", "EMPTY", "--model", "M"], "no data file and no image"),
        (["A film.", "--model", "M"], "explains single images, got text"),
    ],
)
def test_mistakes_end_in_one_line(
    arguments: list[str], message: str, model: str, cat: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = Path(cat).parent
    (folder / "empty").mkdir()
    (folder / "broken.png").write_bytes(Path(cat).read_bytes()[:1_000])
    names = {"M": model, "CAT": cat, "EMPTY": str(folder / "empty"), "BROKEN": str(folder / "broken.png")}
    names["OUT.png"] = str(folder / "out.png")
    given = [names.get(argument, argument) for argument in arguments]
    assert main(["explain", *given, "--method", "gradient_norm"]) == 2
    error = capsys.readouterr().err.strip()
    assert message in error
    assert error.count("\n") == 0
