"""The toybox is there while it is installed, and leaves no trace."""

import importlib.metadata
import sys

import pytest

from tests.third_party.installed import REGISTRIES, SITE, installed


def test_what_is_installed_is_gone_afterwards() -> None:
    before = [(registry.names(), dict(registry._classes)) for registry in REGISTRIES]
    with installed():
        assert importlib.metadata.version("toybox") == "1.0"
        for registry, (known, _) in zip(REGISTRIES, before, strict=True):
            names = sorted(set(registry.names()) - set(known))
            assert len(names) == (registry.kind != "preset"), registry.kind
            assert [registry.get(name).__module__ for name in names] == [f"toybox.{name}" for name in names]
    after = [(registry.names(), dict(registry._classes)) for registry in REGISTRIES]
    assert after == before
    assert str(SITE) not in sys.path
    assert not any(name.startswith("toybox") for name in sys.modules)
    with pytest.raises(importlib.metadata.PackageNotFoundError):
        importlib.metadata.version("toybox")


def test_it_can_be_installed_again() -> None:
    for _ in range(2):
        with installed():
            assert all(registry.get(name) for registry in REGISTRIES for name in registry.names() if "toy_" in name)
