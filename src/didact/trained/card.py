"""The README of a saved explainer, written from its configuration."""

from __future__ import annotations

import json
from collections.abc import Mapping

from didact.render.markup import markdown_text as text
from didact.trained.disagreement import SCOPE
from didact.trained.held_out import HeldOutAgreement
from didact.trained.held_out_masks import HeldOutMasks
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
        f"# An explainer for {text(model)}\n\nA network that computes in one pass how much each "
        f"{text(config['level'])} of an input counts for what {text(model)} predicts. {_learned(config)} Made with "
        f"didact: a {text(config['shape']['name'])} trained by {text(config['signal']['name'])}.",
        _table("What it is", ("", ""), _facts(config)),
        f"## What it learned\n\n{config['learned']}" if config.get("learned") else "",
        _verdict(about),
        _table("Scores on held-out texts", ("measure", "value"), about["scores"]),
        f"## Expected disagreement\n\n{SCOPE}" if about["disagreement"] is not None else "",
        _table("What it costs", ("", ""), about["cost"]),
        *(_table(f"The {text(name)} runtime against torch", ("", ""), facts) for name, facts in _runtimes(config)),
        f"## Use it\n\n```python\nfrom didact.trained.explainer import LearnedExplainer\n"
        f"explainer = LearnedExplainer.from_pretrained({json.dumps(place)}{_only_runtime(config)})\n"
        "explanations = explainer.explain(model, texts)  # model: didact.load_model(...)\n```\n\n"
        "The network learned what this model looks at and nothing else: loading it for another model is refused unless "
        f"`force=True` is given. {_limits(about)}",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _head(config: SavedConfig) -> str:
    tags = ["explainability", "feature-attribution", json.dumps(config["method"])]
    return "\n".join(["---", "library_name: didact", "tags:", *(f"- {tag}" for tag in tags), "---"])


def _learned(config: SavedConfig) -> str:
    """What it learned from."""
    about = config["about"]
    if about.get("masks") is None:
        return f"It learned that from {text(_reference(about))} and replaces it."
    return (
        "It learned that from the model itself: what it marks should keep the prediction when it is shown alone, and "
        "change it when it is taken away."
    )


def _limits(about: SavedOrigin) -> str:
    """What to do where one pass is not enough."""
    if about.get("masks") is None:
        return "It is an approximation; where a single decision matters, run the reference."
    return (
        "It was trained towards what masking does to the prediction, so measures of that kind favour it; where a "
        "single decision matters, look at others too."
    )


def _verdict(about: SavedOrigin) -> str:
    """The section on what was measured on held-out texts."""
    masks = about.get("masks")
    if masks is not None:
        measured = HeldOutMasks.from_dict(masks)
        return f"## Do predictions rest on what it marks?\n\n{measured.caution or measured.sentence}"
    known = about.get("agreement")
    if known is None:
        return ""
    agreement, reference = HeldOutAgreement.from_dict(known), text(_reference(about))
    return f"## Does it follow its reference?\n\n{agreement.caution(reference) or agreement.sentence(reference)}"


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
    if about.get("masks") is not None:
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
    listed = [f"{name}={value}" for name, value in settings.items() if name not in without and value is not None]
    return f" ({', '.join(listed)})" if listed else ""


def _table(title: str, heads: tuple[str, str], rows: Mapping[str, object]) -> str:
    if not rows:
        return ""
    lines = [f"| {_cell(name)} | {_cell(value)} |" for name, value in rows.items()]
    return "\n".join([f"## {title}\n", f"| {heads[0]} | {heads[1]} |", "|---|---|", *lines])


def _cell(value: object) -> str:
    return text(f"{value:.4g}" if isinstance(value, float) else str(value))
