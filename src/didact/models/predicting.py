"""Plain passes of a network between its reader and its head."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from didact.meter import count
from didact.models.batch import Encoded, EncodedBatch, Ints
from didact.models.eval_mode import evaluating
from didact.models.heads.base import Head
from didact.models.outputs import check_defined
from didact.models.planner import Budget, run
from didact.models.readers.base import AnyReader, network_name
from didact.types import Example, Prediction, Span

About = Sequence[Span | str | None]
"""Per example a span or text that the prediction needs an output for."""


def predictions(
    reader: AnyReader,
    head: Head,
    examples: Sequence[Example],
    budget: Budget,
    about: About | None = None,
    then: Callable[[Ints], None] | None = None,
) -> list[Prediction]:
    """One prediction per example, in order.

    Args:
        reader: of the network.
        head: of the network.
        examples: that the reader has checked.
        budget: tokens per batch.
        about: what predictions are about, where a user gave something.
        then: called with the numbers of a batch's examples right after its pass, which is a single one.
    """
    codes = reader.encode(examples)
    if then is not None:
        reader.check_single_pass(codes)
    made: dict[int, Prediction] = {}

    def evaluate(rows: Ints) -> None:
        batch = _batch(reader, [codes[row] for row in rows], () if about is None else [about[row] for row in rows])
        outputs = outputs_of(reader, head, batch).float().cpu()
        check_defined(outputs, [examples[row] for row in rows], network_name(reader.network))
        if then is not None:
            then(rows)
        made.update(zip(rows.tolist(), head.predictions(outputs, batch), strict=True))

    with evaluating(reader.network), torch.inference_mode():
        lengths = np.array([len(code) for code in codes], dtype=np.int64)
        run("predicting", lengths, budget, True, evaluate)
    count(forwards=len(codes), evaluated=len(codes))
    return [made[number] for number in range(len(codes))]


def outputs_of(reader: AnyReader, head: Head, batch: EncodedBatch) -> Tensor:
    """What the network returns for a batch, rows first."""
    return reader.run(batch.inputs, lambda inputs: head.evaluate(reader.network, replace(batch, inputs=inputs)))


def _batch(reader: AnyReader, codes: Sequence[Encoded], about: About) -> EncodedBatch:
    return EncodedBatch(reader.whole(codes), codes, about=about)
