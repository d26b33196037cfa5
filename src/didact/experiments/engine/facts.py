"""Steps whose result is a few facts instead of rows."""

from __future__ import annotations

import json
from typing import cast

import pyarrow as pa

from didact.experiments.engine.toml import Plain

_FACTS = b"didact.facts"


def facts_table(facts: Plain) -> pa.Table:
    """A part that holds facts: plain JSON values by name."""
    return pa.table({"facts": [""]}).replace_schema_metadata({_FACTS: json.dumps(facts).encode()})


def read_facts(table: pa.Table) -> Plain:
    """The facts that a part holds."""
    return cast("Plain", json.loads((table.schema.metadata or {}).get(_FACTS, b"{}")))
