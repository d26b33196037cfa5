"""Images as data: folders, tables, masks, and what is wrong with them in one line."""

import io
import itertools
import json
import zipfile
from pathlib import Path

import numpy as np
import PIL.Image
import pytest

from didact.data.images import PackedFile, oxford_pets_splits
from didact.data.load import load_data
from didact.data.presets import PRESETS
from didact.data.rows import RowReader
from didact.errors import DidactError, FormatError, InputError
from didact.types import Box, Image, Mask

PIXELS = np.random.default_rng(0).integers(0, 256, (6, 8, 3)).astype(np.uint8)
MARKED = np.zeros((6, 8), dtype=bool)
MARKED[1:3, 2:5] = True


def save(path: Path, pixels: np.ndarray = PIXELS) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    PIL.Image.fromarray(pixels).save(path)
    return path


def test_a_folder_of_images_has_labels_and_masks(tmp_path: Path) -> None:
    save(tmp_path / "cat" / "1.png")
    save(tmp_path / "cat" / "1.mask.png", MARKED.astype(np.uint8) * 255)
    save(tmp_path / "dog" / "2.PNG", PIXELS[::-1])
    data = load_data(tmp_path)
    assert (data.split, data.labels) == ("all", ("cat", "dog"))
    cat, dog = data.examples
    assert (cat.fields, cat.label, cat.id, cat.rationale) == (
        (Image(PIXELS),),
        "cat",
        "cat/1.png",
        (Mask.of(MARKED),),
    )
    assert (dog.label, dog.rationale) == ("dog", None)
    assert load_data(tmp_path, limit=1).fingerprint != data.fingerprint


def test_folders_may_be_splits_and_labels_may_be_missing(tmp_path: Path) -> None:
    save(tmp_path / "train" / "cat" / "1.png")
    save(tmp_path / "test" / "cat" / "2.png", PIXELS[::-1])
    assert load_data(tmp_path).examples[0].id == "cat/2.png"
    assert load_data(tmp_path, split="train").examples[0].fields == (Image(PIXELS),)
    assert load_data(tmp_path / "test" / "cat").examples[0].label is None


def test_a_table_names_its_images(tmp_path: Path) -> None:
    save(tmp_path / "pictures" / "1.png")
    save(tmp_path / "pictures" / "m.png", MARKED.astype(np.uint8))
    rows = [
        {"image": "pictures/1.png", "label": "cat", "mask": "pictures/m.png"},
        {"image": "pictures/1.png", "label": "cat", "rationale": [[0, 0, 2, 3]]},
        {"image": str(tmp_path / "pictures" / "1.png")},
    ]
    (tmp_path / "pets.jsonl").write_text("\n".join(map(json.dumps, rows)))
    masked, boxed, bare = load_data(tmp_path / "pets.jsonl").examples
    assert masked.fields == boxed.fields == bare.fields == (Image(PIXELS),)
    assert masked.rationale == (Mask.of(MARKED),)
    assert boxed.rationale == (Box(0, 0, 2, 3),)


def test_lists_and_cells_hold_images_in_every_form() -> None:
    file = io.BytesIO()
    PIL.Image.fromarray(PIXELS).save(file, "PNG")
    pil = PIL.Image.fromarray(PIXELS)
    listed = [pil, PIXELS, {"image": pil}, {"image": {"bytes": file.getvalue(), "path": None}}, {"img": PIXELS}]
    assert {example.fields for example in load_data(listed)} == {(Image(PIXELS),)}
    named = [{"image": pil, "caption": "a cat", "label": 1}]
    assert load_data(named, fields={"text": "caption", "image": "image"}).examples[0].fields == (Image(PIXELS), "a cat")


def test_a_picture_beside_a_text_is_left_alone() -> None:
    row = {"text": "A fine kettle.", "image": "https://example.org/kettle.jpg"}
    assert load_data([row]).examples[0].fields == ("A fine kettle.",)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"image": "nowhere.png"}, r"item 0 of the list: field 'image': there is no image 'nowhere.png'"),
        ({"image": b"no image"}, "is not an image"),
        ({"image": {"path": None}}, "an image is a path"),
        ({"image": PIXELS, "mask": MARKED[:3]}, "the mask has 8 x 3 pixels, but its image 8 x 6"),
        ({"image": PIXELS, "mask": PIXELS}, "a mask is"),
        ({"image": PIXELS, "mask": "nowhere.png"}, "a mask is a file"),
        ({"image": PIXELS, "rationale": [[0, 3]]}, r"list of \[left, top, right, bottom\]"),
        ({"image": PIXELS, "rationale": [[0, 0, 9, 3]]}, "box 0 covers .* of an image of 8 x 6"),
    ],
)
def test_what_is_wrong_with_a_row_is_said(row: dict[str, object], message: str) -> None:
    with pytest.raises(FormatError, match=message):
        load_data([row])


def test_a_damaged_file_of_a_folder_is_named(tmp_path: Path) -> None:
    whole = save(tmp_path / "cat" / "1.png", np.random.default_rng(0).integers(0, 256, (64, 64, 3)).astype(np.uint8))
    whole.write_bytes(whole.read_bytes()[:500])
    with pytest.raises(DidactError, match=r"1\.png.*damaged"):
        load_data(tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="no data file and no image"):
        load_data(tmp_path / "empty")


def test_a_sample_of_files_is_drawn_by_name_and_no_other_is_read(tmp_path: Path) -> None:
    for number in range(12):
        save(tmp_path / ("cat" if number < 8 else "dog") / f"{number}.png", np.roll(PIXELS, number))
    whole = load_data(tmp_path)
    few = load_data(tmp_path, limit=6)
    assert sorted(example.label for example in few) == ["cat"] * 4 + ["dog"] * 2  # type: ignore[type-var]
    assert {example.id: example.fields for example in few}.items() <= {e.id: e.fields for e in whole}.items()
    assert load_data(tmp_path, limit=3).examples == few.examples[:3]
    for path in tmp_path.rglob("*.png"):
        if path.relative_to(tmp_path).as_posix() not in {example.id for example in few}:
            path.write_bytes(b"damaged")
    assert load_data(tmp_path, limit=6).examples == few.examples
    with pytest.raises(FormatError, match="png"):
        load_data(tmp_path)


def test_a_table_of_files_is_sampled_by_their_names(tmp_path: Path) -> None:
    for number in range(4):
        save(tmp_path / f"{number}.png", np.roll(PIXELS, number))
    table = tmp_path / "pets.jsonl"
    table.write_text("\n".join(json.dumps({"image": f"{number}.png"}) for number in range(4)))
    (chosen,) = load_data(table, limit=1)
    (number,) = [number for number in range(4) if chosen.fields == (Image(np.roll(PIXELS, number)),)]
    for other in {0, 1, 2, 3} - {number}:
        (tmp_path / f"{other}.png").unlink()
    assert load_data(table, limit=1).examples == (chosen,)


def test_few_pets_are_read_without_the_others(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DIDACT_SHARED", str(shared))
    opened: list[str] = []
    read = PackedFile.read
    monkeypatch.setattr(PackedFile, "read", lambda self: opened.append(self.name) or read(self))
    pets = load_data("oxford_pets", limit=4)
    assert {pet.label for pet in pets} == {"cat", "dog"}
    assert all(pet.rationale for pet in pets)
    assert len(opened) == 8


def test_a_damaged_archive_is_named(tmp_path: Path) -> None:
    (tmp_path / "labels.csv").write_text("name,split,species,breed\nrex_1,test,2,beagle\n")
    with zipfile.ZipFile(tmp_path / "test.zip", "w") as file:
        file.writestr("images/other.webp", b"")
    rows = oxford_pets_splits(tmp_path)["test"]
    with pytest.raises(FormatError, match=r"images/rex_1\.webp of .*test\.zip cannot be read"):
        RowReader({}).read(rows(), "pets")
    (tmp_path / "test.zip").write_bytes(b"no archive")
    with pytest.raises(InputError, match=r"test\.zip or its labels\.csv cannot be read"):
        RowReader({}).read(rows(), "pets")


def test_pets_have_masks_and_two_kinds_of_labels(shared: Path) -> None:
    rows = itertools.islice(oxford_pets_splits(shared / "data" / "oxford_pets")["test"](), 3)
    fields = PRESETS["oxford_pets"].fields
    for where, row in rows:
        (example,) = RowReader({}, (), fields).read([(where, row)], "pets")
        (breed,) = RowReader({"label": "breed"}, (), fields).read([(where, row)], "pets")
        assert (example.label, breed.label) == ("cat", "Abyssinian")
        (mask,) = example.rationale or ()
        assert isinstance(mask, Mask)
        assert 0.01 < mask.pixels.mean() < 0.99
        assert set(np.unique(mask.codes)) == {0, 1, 2}


def test_cifar_has_its_published_pixels(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DIDACT_SHARED", str(shared))
    data = load_data("cifar10", split="test")
    pixels = np.stack([example.fields[0].pixels for example in data])  # type: ignore[union-attr]
    assert pixels.shape == (2_000, 32, 32, 3)
    np.testing.assert_allclose(pixels.mean((0, 1, 2)) / 255, (0.4914, 0.4822, 0.4465), atol=0.01)
