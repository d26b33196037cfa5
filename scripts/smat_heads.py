"""Draws which attention heads an explainer trained by ``didact train smat`` mixes: docs/pictures/smat.svg.

Usage:
    python scripts/smat_heads.py                                # the example of docs/smat.md is trained first
    python scripts/smat_heads.py --explainer runs/smat          # one that was trained before
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

import numpy as np

from didact.disk import write_text
from didact.render.heads import heads_svg
from didact.trained.explainer import LearnedExplainer
from didact.trained.shapes.head_gate import HeadGate
from didact.trained.shapes.head_mix import HeadMixShape

DOCS = Path(__file__).resolve().parents[1] / "docs"


def main() -> None:
    """Load or train an explainer, and draw it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--explainer", type=Path, metavar="DIR", help="a folder that didact train smat wrote")
    parser.add_argument("--out", type=Path, default=DOCS / "pictures" / "smat.svg", metavar="FILE")
    options = parser.parse_args()
    explainer = documented() if options.explainer is None else LearnedExplainer.from_pretrained(options.explainer)
    write_text(options.out, picture(explainer) + "\n")


def documented() -> LearnedExplainer:
    """The explainer that the example of docs/smat.md trains."""
    block = re.findall(r"```python\n(.*?)```", (DOCS / "smat.md").read_text(encoding="utf-8"), re.DOTALL)[0]
    names: dict[str, object] = {}
    exec(compile(block, "docs/smat.md", "exec"), names)
    explainer = names["explainer"]
    if not isinstance(explainer, LearnedExplainer):
        raise TypeError("the example of docs/smat.md trains no explainer")
    return explainer


def picture(explainer: LearnedExplainer) -> str:
    """The weights of the heads as a heat map."""
    shape = explainer.shape.mix if isinstance(explainer.shape, HeadGate) else explainer.shape
    if not isinstance(shape, HeadMixShape):
        raise TypeError(f"the {shape.card.name} mixes no attention heads")
    weights = shape.weights()
    used = np.count_nonzero(weights)
    title = f"{explainer.about.model}: {used} of {weights.size} heads"
    return heads_svg(weights, shape.config.layers, title=title)


if __name__ == "__main__":
    main()
