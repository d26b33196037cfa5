"""Cut the texts of a data set into sentences, as further texts for explainers that learn from a model alone.

    python scripts/sentences.py --data imdb --split train --limit 60000 --out runs/imdb-sentences/train.jsonl.gz

Sentences end at a full stop, exclamation or question mark before a blank, or at a line break; they carry no labels.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import re
from pathlib import Path

from didact.data.load import load_data

_END = re.compile(r"(?<=[.!?])[\"')]*\s+|\n+|<br\s*/?>")


def main() -> None:
    """Read, cut, draw and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True)
    parser.add_argument("--split", default="train")
    parser.add_argument("--least", type=int, default=6, help="words of a sentence at least (default 6)")
    parser.add_argument("--most", type=int, default=40, help="words of a sentence at most (default 40)")
    parser.add_argument("--limit", type=int, help="draw so many sentences")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, required=True, help="a .jsonl.gz file")
    options = parser.parse_args()
    texts = load_data(options.data, split=options.split).examples
    found = {sentence.strip() for text in texts for sentence in _END.split(text.text) if sentence}
    kept = sorted(text for text in found if options.least <= len(text.split()) <= options.most)
    random.Random(options.seed).shuffle(kept)
    rows = "".join(json.dumps({"text": text}, ensure_ascii=False) + "\n" for text in kept[: options.limit])
    options.out.parent.mkdir(parents=True, exist_ok=True)
    with options.out.open("wb") as raw, gzip.GzipFile(fileobj=raw, mode="wb", mtime=0) as file:
        file.write(rows.encode("utf-8"))
    print(f"{len(kept[: options.limit])} of {len(kept)} sentences of {len(texts)} texts in {options.out}")


if __name__ == "__main__":
    main()
