"""What the scores of all attention heads cost beside a prediction, and beside reading the attention matrices."""

from __future__ import annotations

from collections.abc import Callable

import torch

from benchmarks.common import (
    Table,
    Timing,
    clock,
    load_long_texts,
    load_network,
    middle,
    parser,
    prepare,
    publish,
    timed,
)
from didact.models.compose import compose
from didact.models.network import NetworkModel
from didact.types import Example, Units

BAR = 1.3
"""Times a prediction that head scores may take."""


def main() -> None:
    """Run the benchmark."""
    options = parser(
        __doc__ or "",
        "  python -m benchmarks.heads --quick\n"
        "  python -m benchmarks.heads --device cuda --texts 512 --rounds 10 --out runs/speed",
    )
    options.add_argument("--texts", type=int, default=32, help="texts of about 250 tokens (default 32)")
    options.add_argument("--device", default="cpu", help="cpu or cuda (default cpu)")
    args = options.parse_args()
    if args.quick:
        args.rounds, args.texts = 2, 4
    prepare(args.threads)
    network, tokenizer, name = load_network()
    model = compose(network.to(args.device), tokenizer)
    examples = [Example(text) for text in load_long_texts(args.texts)]
    measured = _rounds(model, examples, args.rounds)
    which = "wall" if args.device != "cpu" else clock(args.threads)
    seconds = {what: [getattr(one, which) for one in rounds] for what, rounds in measured.items()}
    ratios = {
        what: [own / plain for own, plain in zip(rounds, seconds["prediction"], strict=True)]
        for what, rounds in seconds.items()
    }
    rows = [
        [what, middle([1000 * one / args.texts for one in seconds[what]]), middle(ratios[what])] for what in seconds
    ]
    table = Table(
        f"{args.texts} texts of about 250 tokens, {name}; median of {args.rounds} rounds (range)",
        ["what", f"milliseconds per text ({which})", "times a prediction"],
        rows,
        [
            f"Head scores at most {BAR} times a prediction.",
            f"Largest difference to the matrices: {_gap(model, examples):.1e}.",
        ],
    )
    publish("heads", "Scores of all heads come from mean queries and keys in one fused pass.", [table], seconds, args)


def _rounds(model: NetworkModel, examples: list[Example], rounds: int) -> dict[str, list[Timing]]:
    """Seconds of each way, in turn."""
    units = model.units(examples, "token")
    ways: dict[str, Callable[[], object]] = {
        "prediction": lambda: model.predict(examples),
        "scores of all heads": lambda: model.head_scores(units),
        "attention matrices": lambda: model.attention(units, "all", "logits"),
    }
    for way in ways.values():
        way()
    timings: dict[str, list[Timing]] = {what: [] for what in ways}
    for _ in range(rounds):
        for what, way in ways.items():
            timings[what].append(timed(way))
    return timings


def _gap(model: NetworkModel, examples: list[Example]) -> float:
    """Largest difference between a head score and the mean over the matrix's rows."""
    units = model.units(examples[:2], "token")
    pairs = zip(units, model.head_scores(units), model.attention(units, "all", "logits"), strict=True)
    return max(float((_slow(own, logits) - scores).abs().max()) for own, scores, (_, logits) in pairs)


def _slow(units: Units, logits: torch.Tensor) -> torch.Tensor:
    covered = [own[0] for own in units.positions]
    return logits.cpu()[:, :, covered].mean(2)[..., covered].flatten(0, 1)


if __name__ == "__main__":
    main()
