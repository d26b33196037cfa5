"""Measures prompted language models: accuracy, faithfulness of methods, reuse of prefixes, and peers at the same work.

    python scripts/kinds_prompts.py --model SmolLM2-135M-Instruct.Q4_1.gguf --out docs/results/kinds/prompts.json
    python scripts/kinds_prompts.py --model DIR --texts 3 --accuracy 10 --only accuracy faithfulness

The data are the presets sst2 and ag_news, the prompts those in docs/kinds/prompts. With --choose N, ways to put the
prompt (order of shots, calibration, as a chat) are compared by their accuracy on N training texts, and the best is
used; test texts have no part in it. Sections that --seconds leaves no time for are not begun; each is written as soon
as it is done.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch

import didact
from didact.attribution.occlusion import Occlusion
from didact.data.load import load_data
from didact.metrics.base import METRICS
from didact.models.load import load_model
from didact.models.network import NetworkModel
from didact.models.prompting.prompts import Prompt
from didact.models.readers.prompt import PromptReader
from didact.protocols import Evidence
from didact.provenance import versions
from didact.stats.bootstrap import interval
from didact.stats.correlation import spearman
from didact.types import Example, Floats

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

PROMPTS = Path("docs/kinds/prompts")
ROUNDS = 3
"""That reading a prefix once and reading it for every variant are timed in, one beside the other."""
TASKS = {"sst2": "validation", "ag_news": "test"}
METHODS: dict[str, dict[str, object]] = {
    "occlusion": {},
    "lime": {"samples": 200},
    "kernel_shap": {"evaluations": 200},
    "integrated_gradients": {"steps": 16, "max_steps": 64},
    "gradient_x_input": {},
    "attention": {},
    "self_ranking": {},
    "random": {},
}
GRADES = ("sufficiency", "comprehensiveness", "log_probability_drop")
Section = Callable[[NetworkModel, list[Example], argparse.Namespace], Any]


def main() -> None:
    """Run the sections and write what there is after each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="GGUF file or directory of a language model")
    parser.add_argument("--out", type=Path, help="where the record goes, as JSON")
    parser.add_argument("--texts", type=int, default=50, help="explained per task")
    parser.add_argument("--accuracy", type=int, default=400, help="predicted per task")
    parser.add_argument(
        "--choose", type=int, default=0, help="training texts that prompts are compared on (default: 0)"
    )
    parser.add_argument("--timed", type=int, default=10, help="texts that are timed")
    parser.add_argument("--seconds", type=float, default=540.0, help="begin nothing new after so many")
    parser.add_argument("--device")
    parser.add_argument("--batches", nargs="+", type=int, default=[4, 16, 64], help="that interpreto is tried with")
    parser.add_argument("--tasks", nargs="+", default=list(TASKS), choices=list(TASKS))
    parser.add_argument("--only", nargs="+", default=list(SECTIONS), choices=list(SECTIONS))
    args = parser.parse_args()
    for record in measured(args):
        text = json.dumps(record, indent=1)
        if args.out:
            args.out.parent.mkdir(parents=True, exist_ok=True)
            args.out.write_text(text + "\n", encoding="utf-8")
    print(text)


def measured(args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """The record, after every section again."""
    began = time.perf_counter()
    first = load_model(args.model, prompt=PROMPTS / "sst2.toml", device=args.device)
    assert isinstance(first, NetworkModel)
    machine = torch.cuda.get_device_name() if first.reader.device.type == "cuda" else cpu()
    record: dict[str, Any] = {"model": first.name, "machine": machine, "command": command(args)}
    record |= {"versions": dict(versions()), "tasks": {}}
    for task in args.tasks:
        model = prompted(first, task)
        examples = list(load_data(task, split=TASKS[task], limit=max(args.texts, args.accuracy)).examples)
        own: dict[str, Any] = {"shots": len(prompt_of(model).shots), "split": TASKS[task], "seconds": {}}
        record["tasks"][task] = own
        if args.choose:
            training = list(load_data(task, split="train", limit=args.choose).examples)
            model, own["prompts"] = chosen_prompt(model, training)
            yield record
        for name in args.only:
            if time.perf_counter() - began < args.seconds:
                start = time.perf_counter()
                own[name] = SECTIONS[name](model, examples, args)
                own["seconds"][name] = round(time.perf_counter() - start, 1)
                print(task, name, own["seconds"][name], file=sys.stderr, flush=True)
                yield record


def cpu() -> str:
    """The CPU as the record names it."""
    threads = torch.get_num_threads()
    return f"CPU, {threads} thread{'s' if threads > 1 else ''}"


def command(args: argparse.Namespace) -> str:
    """The command that makes the record; of paths only the last part."""
    given = [Path(word).name if Path(word) in (Path(args.model), args.out) else word for word in sys.argv[1:]]
    return " ".join(["python scripts/kinds_prompts.py", *given])


def prompted(first: NetworkModel, task: str) -> NetworkModel:
    """The same network with a task's prompt."""
    return with_prompt(first, Prompt.read(PROMPTS / f"{task}.toml"))


def with_prompt(first: NetworkModel, prompt: Prompt) -> NetworkModel:
    """The same network with another prompt."""
    model = load_model((first.network, first.tokenizer), prompt=prompt)
    assert isinstance(model, NetworkModel)
    model.name = first.name
    return model


def chosen_prompt(model: NetworkModel, training: list[Example]) -> tuple[NetworkModel, dict[str, Any]]:
    """The model with the prompt of the highest accuracy on training texts, and the accuracy of each."""
    own = prompt_of(model)
    shots = {"as written": own.shots, "reversed": own.shots[::-1]}
    neutral = {"": (), ", calibrated": ("N/A",), ", calibrated by three": ("N/A", "[MASK]", "text")}
    ways = {
        f"shots {order}{', chat' if chat else ''}{how}": replace(own, shots=given, chat=chat, calibration=texts)
        for order, given in shots.items()
        for chat in (False, True)
        for how, texts in neutral.items()
    }
    right: dict[str, float] = {}
    for name, prompt in ways.items():
        tried = with_prompt(model, prompt)
        wanted = [gold_index(tried, example) for example in training]
        right[name] = float(np.mean([one.index for one in tried.predict(training)] == np.array(wanted)))
        print(name, right[name], file=sys.stderr, flush=True)
    best = max(right, key=right.__getitem__)
    return with_prompt(model, ways[best]), {"training texts": len(training), "accuracy": right, "chosen": best}


def prompt_of(model: NetworkModel) -> Prompt:
    """The prompt of a model."""
    return cast("PromptReader", model.reader).prompt


def accuracy(model: NetworkModel, examples: list[Example], args: argparse.Namespace) -> dict[str, Any]:
    """Share of texts whose label is predicted."""
    chosen = examples[: args.accuracy]
    right = [
        float(own.index == gold_index(model, example))
        for example, own in zip(chosen, model.predict(chosen), strict=True)
    ]
    return {**estimate(right), "chance": 1 / len(model.labels)}


def gold_index(model: NetworkModel, example: Example) -> int:
    """Number of the gold label; data sets name theirs in their own way."""
    return example.label if isinstance(example.label, int) else model.labels.index(str(example.label))


def faithfulness(model: NetworkModel, examples: list[Example], args: argparse.Namespace) -> dict[str, Any]:
    """Methods by metrics on the first texts; "random" is the chance level."""
    rows: dict[str, Any] = {}
    for method, settings in METHODS.items():
        explainer = didact.load_explainer(method, **settings)
        began = time.perf_counter()
        explained = explainer.explain(model, examples[: args.texts])
        seconds = (time.perf_counter() - began) / args.texts
        evidence = Evidence(explained, model)
        rows[method] = {
            name: estimate([own.value for own in METRICS.get(name)().measure(evidence)]) for name in GRADES
        } | {"seconds per text": seconds, "settings": settings}
        if method == "self_ranking":
            invented = [own.details["invented"] for own in explained]
            listed = [own.details["listed"] for own in explained]
            rows[method] |= {"listed": float(np.mean(listed)), "invented": float(np.mean(invented))}
        print(model.name, method, round(seconds, 2), file=sys.stderr, flush=True)
    return rows


def prefix_reuse(model: NetworkModel, examples: list[Example], args: argparse.Namespace) -> dict[str, Any]:
    """Variants per second with and without reuse, each the fastest of some rounds side by side."""
    chosen = examples[: args.timed]
    units = model.units(chosen)
    targets = [model.target(None, own, "log_probability") for own in model.predict(chosen)]
    rng = np.random.default_rng(0)
    single = [~np.eye(len(own), dtype=np.bool_) for own in units]
    masks = {"one absent": single, "random": [rng.random(own.shape) < 0.5 for own in single]}
    whole = model.traits
    rows: dict[str, Any] = {"reused": whole.reuses_prefix}
    for kind, keep in masks.items():
        made: dict[bool, tuple[float, list[Floats]]] = {}
        for reuse in (True, False) * ROUNDS:
            model._traits = replace(whole, reuses_prefix=reuse)
            run = timed(partial(model.score, units, targets, keep))
            made[reuse] = min(made.get(reuse, run), run, key=itemgetter(0))
        model._traits = whole
        count = sum(len(own) for own in keep)
        rows[kind] = {
            "variants": count,
            "per second": count / made[True][0],
            "per second without": count / made[False][0],
            "speed-up": made[False][0] / made[True][0],
            "largest difference": float(np.abs(np.concatenate(made[True][1]) - np.concatenate(made[False][1])).max()),
        }
    return rows


def captum(model: NetworkModel, examples: list[Example], args: argparse.Namespace) -> dict[str, Any]:
    """Feature ablation of words by captum's LLMAttribution, all target tokens in one pass, beside our occlusion.

    Both evaluate the whole prompt and each text without one of its words, deleted; captum explains the log-likelihood
    of the predicted label's words, so ours explains the same (scale "logit").
    """
    from captum.attr import FeatureAblation, LLMAttribution, TextTemplateInput

    chosen, written = examples[: args.timed], cast("PromptReader", model.reader).written
    predicted = model.predict(chosen)
    ours, explained = timed(lambda: Occlusion(absence="delete", scale="logit").explain(model, chosen))
    attribution = LLMAttribution(FeatureAblation(model.network), model.tokenizer)

    def theirs() -> list[Floats]:
        made = []
        for own, prediction in zip(explained, predicted, strict=True):
            pieces = split_words(own.example.text, own.units.spans)
            slots = "".join("{}" + gap.replace("{", "{{").replace("}", "}}") for _, gap in pieces)
            around = [part.replace("{", "{{").replace("}", "}}") for part in (written.before, written.after)]
            given = TextTemplateInput(around[0] + slots + around[1], values=[word for word, _ in pieces])
            target = prompt_of(model).words[prediction.index]
            result = attribution.attribute(given, target=target, forward_in_tokens=False, skip_tokens=[])
            made.append(result.seq_attr.detach().double().cpu().numpy().ravel())
        return made

    seconds, scores = timed(theirs)
    agreement = [spearman(own.array, other) for own, other in zip(explained, scores, strict=True) if len(other) > 2]
    return {
        "evaluations": sum(len(own.units) for own in explained) + len(chosen),
        "ours seconds": ours,
        "captum seconds": seconds,
        "speed-up": seconds / ours,
        "spearman": estimate(agreement),
    }


def interpreto(model: NetworkModel, examples: list[Example], args: argparse.Namespace) -> dict[str, Any]:
    """Occlusion by interpreto, which explains all words of a prompt; timed per evaluation, at its best batch size."""
    import interpreto as library

    chosen, written = examples[: args.timed], cast("PromptReader", model.reader).written
    predicted = model.predict(chosen)
    seconds, explained = timed(lambda: Occlusion(absence="delete").explain(model, chosen))
    prompts = [written.before + own.text + written.after for own in chosen]
    words = [prompt_of(model).words[own.index] for own in predicted]
    rows: dict[int, float] = {}
    evaluations = sum(len(text.split()) for text in prompts)
    for batch in args.batches:
        explainer = library.Occlusion(
            model.network,
            model.tokenizer,
            batch_size=batch,
            granularity=library.Granularity.WORD,
        )
        rows[batch] = timed(partial(explainer, prompts, words))[0] / evaluations
    ours = seconds / sum(own.cost.forwards for own in explained)
    best = min(rows, key=rows.__getitem__)
    return {"seconds per evaluation": rows[best], "batch": best, "ours": ours, "speed-up": rows[best] / ours}


def split_words(text: str, spans: Sequence[didact.Span]) -> list[tuple[str, str]]:
    """Each word with the blank before it, so that it goes with the word, and what stands behind it."""
    pieces, last = [], 0
    for span in spans:
        pieces.append((text[last : span.end], ""))
        last = span.end
    return [*pieces[:-1], (pieces[-1][0], text[last:])]


def estimate(values: Sequence[float]) -> dict[str, Any]:
    """Mean with its 95 % interval, None where there are too few values for one."""
    own = interval(values)
    ends = [end if np.isfinite(end) else None for end in (own.low, own.high)]
    return {"mean": own.mean, "low": ends[0], "high": ends[1], "n": len(values)}


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds of the second of two runs, and the result."""
    work()
    began = time.perf_counter()
    made = work()
    return time.perf_counter() - began, made


SECTIONS: dict[str, Section] = {
    "accuracy": accuracy,
    "prefix_reuse": prefix_reuse,
    "captum": captum,
    "interpreto": interpreto,
    "faithfulness": faithfulness,
}

if __name__ == "__main__":
    main()
