"""All kinds of cases by name."""

from __future__ import annotations

import functools
from collections.abc import Callable
from random import Random

from fuzz.api import api
from fuzz.artefacts import ARTEFACTS, artefact
from fuzz.cases import Attempt
from fuzz.commands import commands
from fuzz.recipes import recipes
from fuzz.sources import readers
from fuzz.workshop import Workshop

KINDS: dict[str, Callable[[Random, Workshop], Attempt]] = {
    "api": api,
    "commands": commands,
    "recipes": recipes,
    "files": readers,
    **{f"artefact-{name}": functools.partial(artefact, name) for name in ARTEFACTS},
}
MUTATED = tuple(f"artefact-{name}" for name in ARTEFACTS)
