"""Options for the explained model."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from didact.errors import ParameterError

if TYPE_CHECKING:
    from didact.protocols import Model


def add_model(parser: argparse.ArgumentParser) -> None:
    """Which model, and how it reads."""
    group = parser.add_argument_group("model")
    group.add_argument(
        "--model",
        metavar="MODEL",
        default="default",
        help="Hub id or directory of a model, a language model or its GGUF file with --prompt (default: the embedded "
        "sentiment classifier)",
    )
    group.add_argument(
        "--inputs",
        metavar="READER",
        help="what the model reads: text, pair, question, patches, prompt, zero_shot (default: detected)",
    )
    group.add_argument(
        "--prompt", type=Path, metavar="FILE", help="TOML file with the prompt that makes a language model a classifier"
    )
    group.add_argument(
        "--label-names",
        metavar="A,B",
        help="names for the outputs in order, or the candidate labels of zero_shot",
    )
    group.add_argument(
        "--dtype", metavar="TYPE", help="dtype of the weights: float32, bfloat16, ... (default: as stored)"
    )
    group.add_argument("--device", help="cpu, cuda, cuda:1, ... (default: the GPU when there is one)")
    group.add_argument("--max-length", type=int, metavar="N", help="maximum length in tokens, at most the model's own")
    group.add_argument(
        "--truncate",
        action="store_true",
        help="explain the part of a text that fits, even when more than half is cut off",
    )
    add_remote_code(group)


def add_remote_code(parser: argparse._ActionsContainer) -> None:
    """Whether the explained model may bring code of its own; no file can say so."""
    parser.add_argument(
        "--trust-remote-code",
        action="store_true",
        help="let the explained model run the code that comes with it; only if you trust its author",
    )


def load(options: argparse.Namespace) -> Model:
    """The model a command line names."""
    from didact.models.load import load_model

    if options.max_length is not None and options.max_length < 3:
        raise ParameterError(f"--max-length must be at least 3, got {options.max_length}")
    chosen = table(options) | {"prompt": options.prompt}
    if getattr(options, "pair", None) is not None and options.model != "default":  # which reads single texts
        chosen.setdefault("inputs", "pair")
    source = chosen.pop("source")
    return load_model(source, trust_remote_code=options.trust_remote_code, **chosen)  # type: ignore[arg-type]


def model_options(options: argparse.Namespace) -> argparse.Namespace:
    """What ``load`` reads of a command line, and nothing else, as another process can be given it."""
    names = ("model", "inputs", "prompt", "label_names", "dtype", "device", "max_length", "truncate")
    return argparse.Namespace(**{name: getattr(options, name) for name in (*names, "trust_remote_code")})


def table(options: argparse.Namespace) -> dict[str, object]:
    """The same as plain values, for recipes; what is not given is left out."""
    entries = {
        "source": options.model,
        "inputs": options.inputs,
        "labels": _names(options.label_names),
        "prompt": None if options.prompt is None else str(options.prompt),
        "dtype": options.dtype,
        "device": options.device,
        "max_length": options.max_length,
        "max_truncated": 1.0 if options.truncate else 0.5,
    }
    return {name: value for name, value in entries.items() if value is not None}


def _names(text: str | None) -> list[str] | None:
    return None if text is None else [name.strip() for name in text.split(",")]
