"""``didact train``: train an explainer that explains in one pass; the options of a preset are its settings."""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Literal, cast, get_args, get_origin

from didact import disk
from didact.cli import columns, models, printing
from didact.cli import options as shared
from didact.errors import InputError, ParameterError
from didact.settings import ALIASES

if TYPE_CHECKING:
    from didact.protocols import Explainer, Model
    from didact.trained.explainer import LearnedExplainer
    from didact.trained.judging import Judge
    from didact.trained.presets.base import PresetCard, PresetSetting
    from didact.types import Example, Explanation

NAME = "train"
HELP = "Train an explainer: a network that explains in one pass."
EXAMPLES = """examples:
  didact train l2e
  didact train l2e --help
  didact train aml --metric comprehensiveness --trials 30 --out runs/aml
  didact train smat --student model=./my-encoder --out runs/smat
"""
RESUME = "A run that was killed resumes where it stopped when the same command is given again."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """A sub-command per registered preset."""
    from didact.trained.presets.base import PRESETS, Estimating, settings_of

    presets = parser.add_subparsers(
        title="presets", metavar="PRESET", dest="preset", required=True, parser_class=shared.CommandParser
    )
    for card in PRESETS.cards():
        examples = "\n".join(f"  {line}" for line in card.examples)
        command = presets.add_parser(
            card.name,
            help=card.summary,
            description=f"{card.summary} ({card.reference})",
            epilog=f"examples:\n{examples}\n\n{RESUME}" if examples else RESUME,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        _add_preset(command, card, settings_of(PRESETS.get(card.name)))
        if issubclass(PRESETS.get(card.name), Estimating) and not card.tunable:  # --dry-run is among those of a metric
            shared.add_dry_run(command)


def _add_preset(parser: argparse.ArgumentParser, card: PresetCard, settings: Sequence[PresetSetting]) -> None:
    shared.add_model(parser)
    shared.add_limits(parser)
    group = parser.add_argument_group("data")
    group.add_argument(
        "--data",
        metavar="DATA",
        help="a file, a folder with a file per split, a preset ('didact list data') or a Hub id "
        "(default: synthetic reviews with known evidence)",
    )
    columns.add_columns(group)
    group.add_argument("--split", help="which split (default: train, or the only one)")
    most = "texts at most (default: 600, which take minutes on a CPU; a network learns more from more)"
    group.add_argument("--limit", type=int, default=600, metavar="N", help=most)
    if card.learns is not None:
        _add_reference(parser, card)
    if card.tunable:
        _add_metric(parser, card)
    group = parser.add_argument_group(f"settings of {card.name}")
    for setting in settings:
        _add_setting(group, setting)
    group = parser.add_argument_group("output")
    out = Path("runs") / card.name
    group.add_argument("--out", type=Path, default=out, metavar="DIR", help=f"default: {out}")
    shared.add_store(parser)


def _add_reference(parser: argparse.ArgumentParser, card: PresetCard) -> None:
    default, further = (_named(reference) for reference in (card.learns, card.learns_if_short))
    if further:
        default += f", and for short texts its average with {further}"
    group = parser.add_argument_group("reference")
    group.add_argument(
        "--reference",
        metavar="A,B",
        help=f"method whose scores are learned, or several (default: {default})",
    )
    group.add_argument(
        "--set",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="a setting of the reference, of the first default one alone where none is named; of several, "
        "NAME.SETTING=VALUE, such as lime.samples=200; may be repeated",
    )
    group.add_argument("--labels", type=Path, metavar="FILE", help="read scores (.parquet, .jsonl) instead of --data")
    group.add_argument("--force", action="store_true", help="accept scores that explain another model")
    shared.add_method(parser)


def _named(reference: tuple[str, Mapping[str, object]] | None) -> str:
    """A method with its settings, such as "lime (samples=100)"; nothing for None."""
    if reference is None:
        return ""
    name, settings = reference
    return f"{name} ({', '.join(f'{key}={value}' for key, value in settings.items())})"


def _add_metric(parser: argparse.ArgumentParser, card: PresetCard) -> None:
    group = parser.add_argument_group("metric")
    group.add_argument(
        "--metric",
        metavar="NAME",
        help="keep the epoch that is best by this metric on validation texts: a registered one ('didact list "
        "metrics'), or suff, lo, comp, aopc_suff, aopc_comp as in AML (default: the loss)",
    )
    group.add_argument(
        "--metric-set",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="a setting of the metric; may be repeated",
    )
    group.add_argument(
        "--trials",
        type=int,
        default=0,
        metavar="N",
        help=f"search {', '.join(card.tunable)} by the metric in N trials (30 as published; default: 0, no search)",
    )
    group.add_argument("--workers", type=int, default=1, metavar="N", help="parallel trials (default: 1)")
    shared.add_dry_run(parser)


METAVARS: Mapping[object, str] = {int: "N", float: "X", str: "NAME"}


def _add_setting(group: argparse._ArgumentGroup, setting: PresetSetting) -> None:
    """An option of the setting's type; without it the preset's default holds."""
    names = [setting.name, *(alias for alias in ALIASES.get(setting.name, ()) if "loss" in alias)]
    option, kind = [f"--{name.replace('_', '-')}" for name in names], _kind(setting.type)
    text = setting.help.replace("%", "%%")
    shown = "" if setting.default is None else f" (default: {setting.default})"
    if kind is bool:
        group.add_argument(*option, action=argparse.BooleanOptionalAction, default=None, help=text)
    elif get_origin(kind) is Literal:
        group.add_argument(*option, choices=get_args(kind), help=text + shown)
    elif kind in METAVARS:
        group.add_argument(*option, type=cast("type", kind), metavar=METAVARS[kind], help=text + shown)
    elif get_origin(kind) is tuple and (each := get_args(kind)[0]) in METAVARS:
        given = " ".join(map(str, cast("Sequence[object] | None", setting.default) or ()))
        shown = f" (default: {given})" if given else ""
        group.add_argument(*option, type=each, nargs="+", metavar=METAVARS[each], help=text + shown)
    elif get_origin(kind) is Mapping:
        group.add_argument(*option, metavar="NAME=VALUE", action="append", help=f"{text}; may be repeated")
    else:
        raise ValueError(f"a command line has no option for the setting {setting.name!r} of type {setting.type}")


def _kind(annotation: object) -> object:
    """The annotation without None, or the origin of a mapping."""
    parts = [part for part in get_args(annotation) if part is not NoneType]
    return parts[0] if NoneType in get_args(annotation) and len(parts) == 1 else annotation


def run(options: argparse.Namespace) -> None:
    """Train, save, show what was measured, and print the folder last."""
    from didact.experiments.masking.judges import panel
    from didact.progress import listening
    from didact.render.progress import ProgressBar
    from didact.store.parts import Parts
    from didact.trained.held_out import FidelityWarning
    from didact.trained.presets.base import PRESETS, default_references, settings_of
    from didact.trained.train import train
    from didact.types import Example

    card = PRESETS.card(options.preset)
    settings = _settings(options, settings_of(PRESETS.get(card.name)))
    disk.check_writable(options.out / "config.json")
    reference = None if card.learns is None else _reference(options, card)
    judge = _judge(options)
    model = shared.load(options)
    with listening(ProgressBar()), warnings.catch_warnings():
        warnings.simplefilter("ignore", FidelityWarning)  # the verdict below says it
        examples, name = _examples(options, model)
        if reference is None and card.learns is not None and (options.level or options.scale):
            texts = [one for one in examples if isinstance(one, Example)]
            reference = default_references(card, model, texts, options.level, options.scale) if texts else None
        if getattr(options, "dry_run", False):
            printing.document(_estimated(options, model, examples, settings, judge))
            return
        if judge is not None and options.trials:
            settings |= _searched(options, examples, settings, judge)
        explainer = train(
            card.name,
            model,
            examples,
            reference,
            folder=options.out,
            parts=Parts(options.store) if options.store is not None else None,
            data=name,
            judge=judge,
            panel=panel(),
            **settings,  # type: ignore[arg-type] # checked by the preset
        )
    explainer.save_pretrained(options.out)
    _show(explainer)
    printing.line(options.out)


def _settings(options: argparse.Namespace, settings: Sequence[PresetSetting]) -> dict[str, object]:
    """The settings that were given."""
    given = {setting.name: getattr(options, setting.name) for setting in settings}
    return {
        name: shared.parse_settings(value) if isinstance(value, list) and isinstance(value[0], str) else value
        for name, value in given.items()
        if value is not None
    }


def _judge(options: argparse.Namespace) -> Judge | None:
    """What grades explanations while they are trained; None where no metric is named."""
    if getattr(options, "metric", None) is None:
        if getattr(options, "trials", 0) or getattr(options, "metric_set", ()):
            raise ParameterError("--trials and --metric-set go with --metric NAME, by which weights are searched")
        return None
    if options.trials < 0 or options.workers < 1:
        raise ParameterError(
            f"--trials must not be negative and --workers be at least 1, got {options.trials} and {options.workers}"
        )
    from didact.experiments.masking.judges import judge

    return judge(options.metric, **shared.parse_settings(options.metric_set))


def _searched(
    options: argparse.Namespace,
    examples: Sequence[Example] | Sequence[Explanation],
    settings: Mapping[str, object],
    judge: Judge,
) -> Mapping[str, object]:
    """The weights that are best by the metric; trials are stored beside the explainer."""
    from didact.experiments.masking.tuning import TuningConfig, TuningTask, tune

    load = partial(models.load, models.model_options(options))
    task = TuningTask.of(options.preset, settings, load, judge, examples)
    config = TuningConfig(trials=options.trials, workers=options.workers)
    result = tune(task, config, options.out / "search")
    for trial in result.search.failed:
        printing.message(f"didact: trial {trial.number} failed: {trial.failure}")
    chosen = ", ".join(f"{name} {value:.3f}" for name, value in result.best.settings.items())
    printing.line(
        f"{judge.name} {result.best.value:.3f} in trial {result.best.number} of {len(result.search.trials)}: {chosen}"
    )
    return result.best.settings


def _estimated(
    options: argparse.Namespace,
    model: Model,
    examples: Sequence[Example] | Sequence[Explanation],
    settings: Mapping[str, object],
    judge: Judge | None,
) -> str:
    """What search and training would take."""
    from didact.experiments.masking.cost import TrainingTexts
    from didact.experiments.masking.tuning import TuningConfig, split_as_trained
    from didact.trained.presets.base import PRESETS, Estimating, TrainingInput

    preset = PRESETS.get(options.preset).configured(**settings)
    if isinstance(preset, Estimating):
        return printing.estimates_table(preset.estimate(TrainingInput(model=model, examples=examples)))
    split = split_as_trained(options.preset, settings, examples)
    texts = TrainingTexts.of(model, split.train, split.validation, getattr(preset, "level", None))
    epochs = getattr(preset, "epochs", 1)
    rows = [texts.training(epochs, judge)]
    if judge is not None and options.trials:
        rows[:0] = texts.tuning(TuningConfig(trials=options.trials), epochs, judge)
    return printing.estimates_table(rows)


def _reference(options: argparse.Namespace, card: PresetCard) -> list[Explainer] | None:
    """The explainers to learn from; None where labels are given, or nothing is, so that the preset chooses."""
    if options.labels is not None:
        if options.data or options.reference or options.set:
            raise ParameterError("--labels holds texts and scores, so --data, --reference and --set do not go with it")
        return None
    from didact.api import load_explainer
    from didact.trained.presets.base import default_reference

    common = {"level": options.level, "scale": options.scale}
    if options.reference is None:
        return [default_reference(card, **common | shared.parse_settings(options.set))] if options.set else None
    names = [name.strip() for name in options.reference.split(",") if name.strip()]
    if not names:
        raise ParameterError("--reference names no method")
    if len(names) == 1:
        return [load_explainer(names[0], **common | shared.parse_settings(options.set))]
    return _several(names, common, shared.parse_owned(options.set, f"{names[0]}.seed=1"))


def _several(
    names: Sequence[str], common: dict[str, object], given: Mapping[str, dict[str, object]]
) -> list[Explainer]:
    """Explainers of these names, each with the settings that are given as its own."""
    from didact.api import load_explainer

    for owner in given:
        if owner not in names:
            raise ParameterError(f"--set names {owner!r}, but the references are {', '.join(names)}")
    return [load_explainer(name, **common | given.get(name, {})) for name in names]


def _examples(options: argparse.Namespace, model: Model) -> tuple[Sequence[Example] | Sequence[Explanation], str]:
    """Texts or labels, and a description of them."""
    if getattr(options, "labels", None) is not None:
        from didact.scale.label_files import read_labels

        labels = read_labels(options.labels, model, force=options.force)
        return labels, f"{len(labels)} labels of {options.labels.name}"
    from didact.data.load import CORPUS, load_data
    from didact.trained.train import described

    source, seed = options.data or CORPUS, getattr(options, "seed", None) or 0
    fields = columns.chosen(options)
    try:
        split = options.split or (None if source == CORPUS else "train")
        data = load_data(source, split=split, limit=options.limit, seed=seed, fields=fields)
    except InputError:
        if options.split is not None or source == CORPUS:
            raise
        data = load_data(source, limit=options.limit, seed=seed, fields=fields)
    return list(data.examples), described(data)


def _show(explainer: LearnedExplainer) -> None:
    from rich.table import Table

    from didact.trained.disagreement import scope

    about = explainer.about
    table = Table("", "held-out texts", box=None, header_style="bold", padding=(0, 2, 0, 0))
    for name, value in {**about.scores, **about.cost}.items():
        table.add_row(name, f"{value:.3f}" if isinstance(value, float) else str(value))
    title = f"How well the network follows {about.reference} ({about.model}):" if about.reference else about.model
    printing.show("", title, "", table, "")
    _show_panel(explainer)
    if explainer.disagreement is not None:
        printing.line(f"{scope(explainer.disagreement, checked=explainer.checked is not None)}\n")
    if explainer.shape.summary():
        printing.line(f"{explainer.shape.summary().replace('```', '').strip()}\n")
    if explainer.verdict:
        printing.line(f"{explainer.caution or explainer.verdict}\n")


def _show_panel(explainer: LearnedExplainer) -> None:
    """Metrics beside the reference and random scores, where they were computed."""
    from rich.table import Table

    from didact.trained.held_out import panel_of
    from didact.trained.held_out_panel import KEPT

    panel = panel_of(vars(explainer.about))
    if panel is None:
        return
    heads, rows = panel.table(explainer.about.reference)
    table = Table(box=None, header_style="bold", padding=(0, 2, 0, 0))
    for place, head in enumerate(heads):
        table.add_column(head, justify="right" if place else "left")
    for row in rows:
        table.add_row(*row)
    printing.show(table, "")
    printing.line(f"{KEPT}\n")
