"""``didact train``: distil a slow explainer into a network that explains in one pass."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from didact.cli import options as shared
from didact.errors import InputError, ParameterError

if TYPE_CHECKING:
    from didact.protocols import Explainer, Model
    from didact.trained.explainer import LearnedExplainer
    from didact.types import Explanation

NAME = "train"
HELP = "Train an explainer: a small network that learns from a slow method and explains in one pass."
EXAMPLES = """examples:
  didact train l2e
  didact train l2e --model ./my-model --data reviews.jsonl --teacher lime --out runs/my-explainer
  didact train l2e --data sst2 --limit 2000 --teacher kernel_shap --set evaluations=200 --signal labelling
  didact train l2e --labels labels.jsonl --out runs/from-labels
  didact explain "A warm, funny and wonderful film." --explainer runs/l2e --fallback lime

A run that was killed goes on where it stopped when the same command is given again.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own options."""
    parser.add_argument("preset", choices=("l2e",), help="what to train: l2e learns another explainer's scores")
    shared.add_model(parser)
    group = parser.add_argument_group("data")
    group.add_argument(
        "--data",
        metavar="DATA",
        help="a file, a folder with a file per split, a preset ('didact list data') or a Hub id "
        "(default: made-up reviews whose evidence is known)",
    )
    group.add_argument("--split", help="which split (default: train, or the only one)")
    group.add_argument("--limit", type=int, default=600, metavar="N", help="at most so many texts (default: 600)")
    group.add_argument("--labels", type=Path, metavar="FILE", help="read labels (.parquet, .jsonl) instead of --data")
    group.add_argument("--force", action="store_true", help="take labels that explain another model")
    shared.add_method(parser)
    group = parser.add_argument_group("teacher")
    group.add_argument(
        "--teacher", metavar="A,B", help="method that makes the labels; the average of several (default: quick lime)"
    )
    group.add_argument(
        "--set", metavar="NAME=VALUE", action="append", default=[], help="a setting of the teacher; may be repeated"
    )
    group.add_argument("--fresh", action="store_true", help="new labels in every epoch, for noisy teachers")
    group = parser.add_argument_group("training")
    group.add_argument("--signal", default="ranking", choices=("ranking", "labelling", "regression"), help="the loss")
    group.add_argument("--epochs", type=int, metavar="N", help="at most so many")
    group.add_argument("--width", type=int, metavar="N", help="of the network; a multiple of 4")
    group.add_argument("--initialisations", type=int, metavar="N", help="train so often and keep the best (default: 1)")
    group.add_argument("--seed", type=int, default=0, help="decides split, first weights and training (default: 0)")
    group = parser.add_argument_group("output")
    group.add_argument("--out", type=Path, default=Path("runs/l2e"), metavar="DIR", help="default: runs/l2e")
    shared.add_store(parser)


def run(options: argparse.Namespace) -> None:
    """Collect labels, train, save, show how well the teacher is followed, and print the folder last."""
    if options.labels is not None and (options.data or options.teacher or options.set):
        raise ParameterError("--labels holds texts and scores, so --data, --teacher and --set do not go with it")
    from didact.progress import listening
    from didact.render.progress import ProgressBar
    from didact.store.parts import Parts
    from didact.trained.presets import train_l2e

    model = shared.load(options)
    teacher = None if options.labels is not None else _teacher(options)
    with listening(ProgressBar()):
        examples, name = _examples(options, model)
        explainer = train_l2e(
            model,
            examples,
            teacher,
            folder=options.out,
            parts=Parts(options.store) if options.store is not None else None,
            data=name,
            **_settings(options),
        )
    explainer.save_pretrained(options.out)
    _show(explainer)
    print(options.out)


def _teacher(options: argparse.Namespace) -> Explainer | list[Explainer]:
    from didact.api import load_explainer
    from didact.trained.presets import default_teacher

    settings = {"level": options.level, "scale": options.scale} | shared.parse_settings(options.set)
    if options.teacher is None:
        return default_teacher(**settings)
    names = [name.strip() for name in options.teacher.split(",") if name.strip()]
    if not names:
        raise ParameterError("--teacher names no method")
    if len(names) > 1 and options.set:
        raise ParameterError(f"--set speaks of one teacher, and {len(names)} were named")
    return [load_explainer(name, **settings) for name in names]


def _examples(options: argparse.Namespace, model: Model) -> tuple[list[Any], str]:
    """Texts or labels, and what to call them."""
    if options.labels is not None:
        from didact.trained.collect import read_labels

        labels: list[Explanation] = read_labels(options.labels, model, force=options.force)
        return labels, f"{len(labels)} labels of {options.labels.name}"
    from didact.data.load import CORPUS, load_data
    from didact.trained.presets import told

    source = options.data or CORPUS
    try:
        split = options.split or (None if source == CORPUS else "train")
        data = load_data(source, split=split, limit=options.limit, seed=options.seed)
    except InputError:
        if options.split is not None or source == CORPUS:
            raise
        data = load_data(source, limit=options.limit, seed=options.seed)
    return list(data.examples), told(data)


def _settings(options: argparse.Namespace) -> dict[str, Any]:
    given = {name: getattr(options, name) for name in ("epochs", "width", "initialisations")}
    chosen = {name: value for name, value in given.items() if value is not None}
    return chosen | {"signal": options.signal, "seed": options.seed, "fresh": options.fresh}


def _show(explainer: LearnedExplainer) -> None:
    from rich.console import Console
    from rich.table import Table

    about = explainer.about
    table = Table("", "held-out texts", box=None, header_style="bold", padding=(0, 2, 0, 0))
    for name, value in (about.scores | about.cost).items():  # type: ignore[operator] # both are dictionaries here
        table.add_row(name, f"{value:.3f}" if isinstance(value, float) else str(value))
    if explainer.doubt is not None:
        table.add_row("a text is doubtful above", f"{explainer.doubt.threshold:.3f}")
    Console().print("", f"How well the network follows {about.teacher} ({about.model}):", "", table, "", sep="\n")
