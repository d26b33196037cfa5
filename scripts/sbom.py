"""Writes the bill of materials (CycloneDX JSON) of didact from the lock file.

Usage:
    python scripts/sbom.py --out dist/didact.cdx.json
"""

from __future__ import annotations

import argparse
import json
import re
import tomllib
import uuid
from pathlib import Path

REPO = Path(__file__).resolve().parents[1]
LOCK = REPO / "requirements.lock"
_PINNED = re.compile(r"^([A-Za-z0-9_.-]+)==([^\s;\\]+)\s*(?:;\s*([^\\]+?))?\s*\\?$")
_HASH = re.compile(r"^\s+--hash=sha256:([0-9a-f]{64})")


def main() -> None:
    """Write the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="file to write")
    options = parser.parse_args()
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(bill(), indent=1) + "\n", encoding="utf-8")
    print(options.out)


def bill() -> dict[str, object]:
    """The bill of materials; the same lock and version give the same one."""
    project = tomllib.loads((REPO / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lock = LOCK.read_text(encoding="utf-8")
    serial = uuid.uuid5(uuid.NAMESPACE_OID, f"{project['name']} {project['version']} {lock}")
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{serial}",
        "version": 1,
        "metadata": {
            "component": _component(project["name"], project["version"])
            | {"licenses": [{"license": {"id": project["license"]}}]},
        },
        "components": [
            _component(name, version) | {"hashes": [{"alg": "SHA-256", "content": digest} for digest in hashes]}
            for name, version, hashes in read_lock(lock)
        ],
    }


def read_lock(text: str) -> list[tuple[str, str, list[str]]]:
    """Name, version and hashes of every pinned package."""
    packages: list[tuple[str, str, list[str]]] = []
    for line in text.splitlines():
        if pinned := _PINNED.match(line):
            packages.append((pinned[1], pinned[2], []))
        elif digest := _HASH.match(line):
            packages[-1][2].append(digest[1])
    return packages


def _component(name: str, version: str) -> dict[str, object]:
    address = f"pkg:pypi/{name.lower().replace('_', '-')}@{version}"
    return {"type": "library", "bom-ref": address, "name": name, "version": version, "purl": address}


if __name__ == "__main__":
    main()
