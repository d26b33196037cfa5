"""What is installed and released: pinned with hashes, listed in a bill of materials, and whole."""

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from tests.docs.test_docs import script

REPO = Path(__file__).resolve().parents[1]
LOCKS = ("requirements.lock", "requirements-cuda.lock")


def plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def pinned() -> dict[str, str]:
    text = (REPO / "requirements.lock").read_text(encoding="utf-8")
    return {plain(name): version for name, version, _ in script("sbom").read_lock(text)}


def test_every_package_of_the_locks_has_hashes_and_no_address() -> None:
    for name in LOCKS:
        text = (REPO / name).read_text(encoding="utf-8")
        packages = script("sbom").read_lock(text)
        assert len(packages) == len(re.findall(r"^\S+==", text, re.MULTILINE))
        assert all(hashes for _, _, hashes in packages)
        assert "://" not in text
        assert "--index" not in text


def test_the_lock_holds_what_the_constraints_say() -> None:
    lines = (REPO / "constraints.txt").read_text(encoding="utf-8").splitlines()
    wanted = dict(line.split("==") for line in lines if "==" in line)
    locked = pinned()
    differ = {name: locked[plain(name)] for name in wanted if locked.get(plain(name), wanted[name]) != wanted[name]}
    assert not differ, "run: make lock"


def test_the_lock_holds_all_that_the_project_and_its_tests_need() -> None:
    project = tomllib.loads((REPO / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    needed = [*project["dependencies"], *extras["dev"], *extras["docs"]]
    names = {plain(re.split(r"[<>=! ;\[]", entry)[0]) for entry in needed}
    assert names <= pinned().keys(), "run: make lock"


def test_no_library_for_gpus_is_among_what_everybody_installs() -> None:
    assert not [name for name in pinned() if name.startswith(("nvidia", "cuda", "triton"))]


def test_the_bill_of_materials_lists_the_lock() -> None:
    bill = script("sbom").bill()
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    assert bill == script("sbom").bill()
    listed = {plain(one["name"]): one["version"] for one in bill["components"]}
    assert listed == pinned()
    assert all(one["purl"].startswith("pkg:pypi/") and one["hashes"] for one in bill["components"])


def test_wheel_and_sdist_are_whole(tmp_path: Path) -> None:
    pytest.importorskip("hatchling")
    if subprocess.run(["git", "ls-files", "src"], cwd=REPO, capture_output=True, check=False).returncode:
        pytest.skip("needs the repository")
    release = script("release")
    wheel, sdist = release.build(tmp_path)
    release.check_wheel(wheel)
    release.check_sdist(sdist, wheel)
