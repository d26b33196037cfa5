"""Explainers trained for teaching on translations, whose quality is a number; and the table of normalisers."""

import json
import tomllib
from pathlib import Path

import numpy as np
import pytest

import didact
from didact.data.dataset import Dataset
from didact.experiments.engine.run import run_job, run_recipe
from didact.experiments.engine.steps import RunOptions
from didact.experiments.papers import smat
from didact.experiments.scaffolding.findings import ScaffoldingFindings
from didact.experiments.scaffolding.job import ScaffoldingJob
from didact.experiments.scaffolding.recipe import ScaffoldingRecipe
from didact.experiments.scaffolding.report import page
from didact.experiments.simulability.prepare import prepare
from didact.testing.tiny import tiny_model
from tests.experiments.test_kinds import pairs

TRANSLATIONS = """
name = "mlqe"
tables = [5, 6]
explainers = [{ method = "attention_logits", label = "attention_all_layers", level = "token" }]
trained = [{ preset = "smat", search = "none", start = "layer:0", students = 0, level = "token" }]
students = ["ridge"]
controls = []
sizes = [8, 10]
subsets = 3
"""
NORMALISERS = """
name = "normalisers"
tables = [7]
explainers = [{ method = "attention_logits", label = "attention_all_layers", level = "token" }]
trained = [
  { preset = "smat", label = "smat_sparsemax", search = "none", students = 0 },
  { preset = "smat", label = "smat_softmax", search = "none", students = 0, normalise = "softmax" },
]
students = ["ridge"]
channels = [{ channel = "prior", label = "sparsemax" }, { channel = "prior", label = "softmax", weight = 3.0 }]
reach = { smat_sparsemax = ["sparsemax"], smat_softmax = ["softmax"] }
controls = []
sizes = [8]
subsets = 3
model = { source = "default" }
data = { source = "corpus", limit = 16 }
test = { source = "corpus", limit = 12, seed = 1 }
"""


@pytest.fixture(scope="module")
def translated(tmp_path_factory: pytest.TempPathFactory) -> ScaffoldingFindings:
    folder = tmp_path_factory.mktemp("translations")
    tagged = folder / "tagged.jsonl"
    rows = [
        {"id": f"{at}", "source": "a dull film plot", "target": "the good warm evening", "score": 0.5}
        | {"source_tags": ["OK", "BAD", "OK", "OK"], "target_tags": ["OK", "OK", "BAD", ("OK", "BAD")[at % 2]]}
        for at in range(4)
    ]
    tagged.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    fields = {"text": "source", "text_pair": "target", "label": "score", "tags": "source_tags"}
    rated = {"label": "en-de", "source": str(tagged), "sides": ["source", "translation"]}
    table = rated | {"fields": {**fields, "tags_pair": "target_tags"}}
    recipe = ScaffoldingRecipe.from_dict({**tomllib.loads(TRANSLATIONS), "plausibility": [table]})
    model = didact.load_model(tiny_model("bert", ["quality"]), device="cpu")
    pool, test = (Dataset("pairs", name, tuple(pairs(14, seed)), ()) for seed, name in enumerate(("train", "test")))
    job = ScaffoldingJob(prepare(recipe, model=model, data=pool, test=test), RunOptions(folder / "mlqe", device="cpu"))
    assert run_job(job).complete
    return ScaffoldingFindings.read(folder / "mlqe")


def test_numbers_are_measured_by_their_correlation(translated: ScaffoldingFindings) -> None:
    group = translated.groups[0]
    row = translated.row(group, "smat")
    assert row is not None
    assert translated.metric == "Pearson's r"
    answers = next(iter(translated.simulation.answers.values()))["smat"]
    wanted = [np.corrcoef(own, translated.simulation.truth)[0, 1] for own in answers]
    np.testing.assert_allclose(row.values["end"].mean(axis=1), wanted)


def test_a_page_draws_how_students_gain_by_more_texts(translated: ScaffoldingFindings) -> None:
    assert [group.size for group in translated.groups] == [8, 10]
    assert "training texts (logarithmic)" in page(translated)


def test_both_sides_of_translations_are_compared_with_their_tags(translated: ScaffoldingFindings) -> None:
    assert translated.rated_sides == [("en-de", "source"), ("en-de", "translation")]
    for side in ("source", "translation"):
        best = translated.agreement("en-de", side, "best head")
        own = translated.agreement("en-de", side, "smat")
        assert best is not None
        assert own is not None
        assert 0 <= own.mean <= 1
    line = next(line for line in smat.table(6, smat.read(translated.folder)).splitlines() if "(SMaT)" in line)
    means = [translated.agreement("en-de", side, "smat") for side in ("source", "translation")]
    assert f"| 0.64 / 0.65 | **{' / '.join(f'{one.mean:.3f}' for one in means if one)}** |" in line


def test_the_table_of_normalisers_has_each_in_its_column(tmp_path: Path) -> None:
    recipe = ScaffoldingRecipe.from_dict(tomllib.loads(NORMALISERS))
    assert run_recipe(recipe.on_device("cpu"), RunOptions(tmp_path / "run", device="cpu")).complete
    findings = ScaffoldingFindings.read(tmp_path / "run")
    group = findings.groups[0]
    line = next(line for line in smat.table(7, smat.read(tmp_path)).splitlines() if "(SMaT)" in line)
    cells = [cell.strip() for cell in line.split("|")[2:-1]]
    for at, name in enumerate(("sparsemax", "softmax")):
        row = findings.row_of(group, f"smat_{name}", name)
        assert row is not None
        assert cells[2 * at + 1] == f"**{findings.spread(row.quartiles('end'))}**"
    assert cells[5] == cells[7] == "–"
    assert cells[0].startswith("0.8630")
    against = [claim.rival for claim in findings.claims if claim.method == "smat_softmax"]
    assert "smat_sparsemax" in against  # the first of the trained ones
    assert any("smat_softmax against smat_sparsemax: " in sentence for sentence in findings.sentences)
