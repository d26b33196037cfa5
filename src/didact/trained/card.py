"""The README of a saved explainer, written from its configuration."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import cast

from didact.render.markup import markdown_table
from didact.render.markup import markdown_text as text
from didact.trained.disagreement import DisagreementEstimate, scope
from didact.trained.held_out import HeldOutResult, held_out_result, panel_of
from didact.trained.held_out_panel import KEPT
from didact.trained.metadata import SavedConfig, SavedOrigin
from didact.types import JsonValue


def readme(config: SavedConfig, place: str) -> str:
    """What it explains, where it came from, how good it is and how to load it, as Markdown for people and the Hub.

    Args:
        config: what ``config.json`` holds.
        place: folder or Hub id for the lines that load it.
    """
    model, about = config["explained"]["name"], config["about"]
    parts = [
        _head(config),
        f"# An explainer for {text(model)}\n\nA network that computes in one pass how important each "
        f"{text(config['level'])} of an input is for the prediction of {text(model)}. {_words(about)[0]} Made with "
        f"didact: a {text(config['shape']['name'])} trained by {text(config['signal']['name'])}.",
        _table("What it is", ("", ""), _facts(config)),
        f"## What it learned\n\n{config['learned']}" if config.get("learned") else "",
        _verdict(about),
        _panel(about),
        _table("Scores on held-out texts", ("measure", "value"), about["scores"]),
        _disagreement(about),
        _table("What it costs", ("", ""), about["cost"]),
        *(_table(f"The {text(name)} runtime against torch", ("", ""), facts) for name, facts in _runtimes(config)),
        f"## Use it\n\n```python\nfrom didact.trained.explainer import LearnedExplainer\n"
        f"explainer = LearnedExplainer.from_pretrained({json.dumps(place)}{_only_runtime(config)})\n"
        "explanations = explainer.explain(model, texts)  # model: didact.load_model(...)\n```\n\n"
        "The network explains this model only: loading it for another model is refused unless "
        f"`force=True` is given. {_words(about)[2]}",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _head(config: SavedConfig) -> str:
    tags = ["explainability", "feature-attribution", json.dumps(config["method"])]
    return "\n".join(["---", "library_name: didact", "tags:", *(f"- {tag}" for tag in tags), "---"])


_WORDS = {
    "masks": (
        "It was trained on the model itself: what it marks should keep the prediction when it is shown alone, and "
        "change it when it is removed.",
        "Do predictions rest on what it marks?",
        "It was trained for the effect of masking on the prediction, so metrics of that kind favour it; where a "
        "single decision matters, look at others too.",
    ),
    "teaching": (
        "It was trained with students that imitate the model: they should learn fastest from its explanations.",
        "Do students learn from it?",
        "What teaches students best need not be what a prediction rests on; where a single decision matters, look at "
        "other explanations too.",
    ),
}
"""Of explainers that learned from no reference: from what, the question on held-out texts, and what to beware of."""


def _words(about: SavedOrigin) -> tuple[str, str, str]:
    result = _result(about)
    if result is not None and result.kind in _WORDS:
        return _WORDS[result.kind]
    return (
        f"It was trained on the scores of {text(_reference(about))} and replaces it.",
        "Does it follow its reference?",
        "It is an approximation; where a single decision matters, run the reference.",
    )


def _result(about: SavedOrigin) -> HeldOutResult | None:
    return held_out_result(cast("Mapping[str, object]", about), text(_reference(about)))


def _verdict(about: SavedOrigin) -> str:
    """The section on what was measured on held-out texts."""
    result = _result(about)
    return "" if result is None else f"## {_words(about)[1]}\n\n{result.caution or result.sentence}"


def _panel(about: SavedOrigin) -> str:
    """The table of metrics beside the reference and random scores."""
    panel = panel_of(cast("Mapping[str, object]", about))
    if panel is None:
        return ""
    heads, rows = panel.table(_reference(about))
    table = markdown_table([*map(text, heads)], [[*map(text, row)] for row in rows], "lr")
    return f"## Beside its reference and random scores\n\n{table}\n\n{KEPT}"


def _disagreement(about: SavedOrigin) -> str:
    """The section on when a fallback is used."""
    known = about["disagreement"]
    if known is None:
        return ""
    estimate = DisagreementEstimate.from_dict(known)
    return f"## Expected disagreement\n\n{scope(estimate, checked=about.get('checked') is not None)}"


def _facts(config: SavedConfig) -> dict[str, str]:
    about, versions = config["about"], config["versions"]
    return {
        "explained model": f"{config['explained']['name']}, fingerprint {config['explained']['fingerprint']}",
        "its labels": ", ".join(config["explained"]["labels"]),
        **_origin(about),
        "training texts": about["data"] or "not recorded",
        "hash of the training data": about["data_hash"] if about["data_hash"] else "not recorded",
        "network": config["shape"]["name"] + _settings(config["shape"]["settings"], without=("labels",)),
        "signal": config["signal"]["name"] + _settings(config["signal"]["settings"]),
        "weights": f"{config['weights']['count']:,} numbers, hash {config['weights']['hash']}",
        "made with": ", ".join(f"{name} {version}" for name, version in sorted(versions.items())),
    }


def _origin(about: SavedOrigin) -> dict[str, str]:
    """The reference and its settings, for explainers that learned from one."""
    result = _result(about)
    if result is not None and result.kind != "agreement":
        return {}
    return {"reference": _reference(about) + _settings(about["reference_parameters"])}


def _runtimes(config: SavedConfig) -> list[tuple[str, dict[str, JsonValue]]]:
    """Other runtimes and their facts by readable names."""
    known = config.get("runtimes", {})
    return [(name, {fact.replace("_", " "): value for fact, value in facts.items()}) for name, facts in known.items()]


def _only_runtime(config: SavedConfig) -> str:
    """The argument that is needed where there are no weights for torch."""
    names = [] if "model.safetensors" in config["files"] else list(config.get("runtimes", {}))
    return "".join(f", runtime={json.dumps(name)}" for name in names[:1])


def _reference(about: SavedOrigin) -> str:
    return about["reference"] or "a reference that was not recorded"


def _settings(settings: Mapping[str, object], without: tuple[str, ...] = ()) -> str:
    listed = [f"{name}={_value(one)}" for name, one in settings.items() if name not in without and one is not None]
    return f" ({', '.join(listed)})" if listed else ""


def _value(setting: object) -> str:
    """The setting, or how many numbers it has where these are too many to read."""
    return f"{len(setting)} values" if isinstance(setting, list) and len(setting) > 16 else str(setting)


def _table(title: str, heads: tuple[str, str], rows: Mapping[str, object]) -> str:
    if not rows:
        return ""
    lines = [f"| {_cell(name)} | {_cell(value)} |" for name, value in rows.items()]
    return "\n".join([f"## {title}\n", f"| {heads[0]} | {heads[1]} |", "|---|---|", *lines])


def _cell(value: object) -> str:
    return text(f"{value:.4g}" if isinstance(value, float) else str(value))
