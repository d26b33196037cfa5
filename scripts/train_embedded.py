"""Train and measure the small sentiment classifier that ships inside the package.

    python scripts/train_embedded.py train --out src/didact/embedded/sentiment --minutes 8
    python scripts/train_embedded.py evaluate --out src/didact/embedded/sentiment

The recipe: a lower-cased WordPiece vocabulary of our own; word embeddings started from a projection of the teacher's;
masked-language-model pretraining on the training texts; then classification of random crops and whole reviews (IMDB)
and of phrases (SST-2). Half of the rows are taught by fine-tuned teachers, in the other half a random share of the
words is replaced by [MASK] and the gold label is the target: the model then estimates p(label | the visible words),
which is what perturbation-based explainers ask of it.

``--data`` must hold ``imdb/train.jsonl.gz`` and ``sst2_glue/train.jsonl.gz`` (``text`` and ``label`` per line; evaluate
reads ``imdb/test.jsonl.gz`` and ``sst2_glue/validation.jsonl.gz``), ``--weights`` the teachers ``minilm-imdb`` and,
optionally, ``minilm-sst2``. No test or validation file is read while training: what is chosen is chosen on rows held
out of the training files.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import math
import os
import platform
import random
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers
import torch
import transformers
from tokenizers import BertWordPieceTokenizer
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    BertConfig,
    BertForMaskedLM,
    BertForSequenceClassification,
)

LABELS = {0: "negative", 1: "positive"}
SPECIALS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
Rows = list[tuple[str, int]]


def main() -> None:
    """Parse the command line and run one command."""
    args = parse_arguments()
    if args.threads:
        torch.set_num_threads(args.threads)
    if args.command == "train":
        train(args.data, args.weights, args.out, Recipe(seed=args.seed, steps=args.steps, minutes=args.minutes))
    else:
        evaluate(args.data, args.out, args.limit)


def parse_arguments() -> argparse.Namespace:
    """Describe the two commands."""
    shared = Path(os.environ.get("DIDACT_SHARED", "../shared"))
    parser = argparse.ArgumentParser(description="Train or evaluate the embedded sentiment model.")
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("train", "evaluate"):
        command = commands.add_parser(name)
        command.add_argument("--data", type=Path, default=shared / "data", help="folder with imdb/ and sst2_glue/")
        command.add_argument("--out", type=Path, required=True, help="folder of the model")
        command.add_argument("--threads", type=int, default=0, help="CPU threads; 0 leaves torch's default")
        if name == "evaluate":
            command.add_argument("--limit", type=int, default=0, help="rows per test set; 0 means all")
            continue
        command.add_argument("--weights", type=Path, default=shared / "weights", help="folder with the teachers")
        command.add_argument("--seed", type=int, default=0)
        command.add_argument("--steps", type=int, default=0, help="optimiser steps in all; wins over --minutes")
        command.add_argument("--minutes", type=float, default=8.0, help="time for the optimiser steps")
    return parser.parse_args()


@dataclass(frozen=True)
class Recipe:
    """Every choice of a training run."""

    seed: int = 0
    steps: int = 0
    minutes: float = 8.0
    vocabulary: int = 8192
    hidden: int = 192
    layers: int = 4
    heads: int = 6
    feed_forward: int = 768
    positions: int = 512
    dropout: float = 0.1
    mlm_share: float = 0.35  # part of the budget spent on pretraining
    mlm_rate: float = 0.2  # part of the pieces to predict
    mlm_lr: float = 1.5e-3
    lr: float = 6e-4
    weight_decay: float = 0.05
    ema: float = 0.999
    tokens_per_batch: int = 131072 if torch.cuda.is_available() else 2048
    phrases_per_batch: int = 512 if torch.cuda.is_available() else 16
    teacher_weight_reviews: float = 0.7
    teacher_weight_phrases: float = 0.5
    held_out_reviews: float = 0.08  # share of the reviews
    held_out_sentences: int = 1000  # at most, and at most a tenth of the long phrases


# ---------------------------------------------------------------------------------------------------------- training


def train(data: Path, weights: Path, out: Path, recipe: Recipe) -> None:
    """Train from the texts to a saved folder with its record."""
    torch.manual_seed(recipe.seed)
    torch.set_float32_matmul_precision("high")
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    files = {"imdb": data / "imdb" / "train.jsonl.gz", "sst2_glue": data / "sst2_glue" / "train.jsonl.gz"}
    reviews, held_reviews = split_reviews(read_rows(files["imdb"]), recipe)
    phrases, held_sentences = split_phrases(read_rows(files["sst2_glue"]), recipe)
    say(f"{len(reviews)} reviews, {len(phrases)} phrases; held out {len(held_reviews)} and {len(held_sentences)}")

    out.mkdir(parents=True, exist_ok=True)
    write_tokenizer([text for text, _ in reviews + phrases], out, recipe)
    teachers = load_teachers(weights, device)
    names = {"student": out} | {name: weights / name for name in teachers}
    pieces = {name: AutoTokenizer.from_pretrained(folder) for name, folder in names.items()}
    corpora = {
        "reviews": Corpus.build(reviews, pieces, device),
        "phrases": Corpus.build(phrases, pieces, device),
        "held_reviews": Corpus.build(held_reviews, {"student": pieces["student"]}, device),
        "held_sentences": Corpus.build(held_sentences, {"student": pieces["student"]}, device),
    }
    say("texts encoded")

    config = model_config(recipe, len(pieces["student"]))
    pretrained, mlm_log = pretrain(config, corpora, starting_embeddings(pieces, teachers), recipe, device)
    model, log = classify(config, pretrained, corpora, teachers, recipe, device)
    save_model(model, out)
    record = {
        "recipe": asdict(recipe),
        "teachers": sorted(teachers),
        "pretraining": mlm_log,
        "classification": log,
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "sha256": {f"{name}/train.jsonl.gz": sha256(path) for name, path in files.items()},
    }
    update_record(out, "training", record)


def pretrain(
    config: BertConfig, corpora: dict[str, Corpus], embeddings: Tensor, recipe: Recipe, device: torch.device
) -> tuple[nn.Module, dict[str, Any]]:
    """Masked-language-model pretraining; returns the averaged encoder."""
    model: Any = nn.Module.to(BertForMaskedLM(config), device)
    model.bert.embeddings.word_embeddings.weight.data.copy_(embeddings)
    generator = torch.Generator(device).manual_seed(recipe.seed)
    dice = random.Random(recipe.seed)
    kinds = (("reviews", 256, False), ("reviews", 512, True), ("reviews", 256, False), ("phrases", 64, True))

    def loss(step: int) -> Tensor:
        name, length, whole = dice.choice(kinds)
        corpus = corpora[name]
        pick = corpus.draw(recipe.tokens_per_batch // length, 0 if whole else length, generator)
        ids, attention, body = corpus.gather("student", pick, length)
        wanted = body & (torch.rand(ids.shape, device=device, generator=generator) < recipe.mlm_rate)
        fate = torch.rand(ids.shape, device=device, generator=generator)
        noise = torch.randint(len(SPECIALS), config.vocab_size, ids.shape, device=device, generator=generator)
        shown = torch.where(wanted & (fate < 0.8), SPECIALS.index("[MASK]"), ids)
        shown = torch.where(wanted & (fate > 0.9), noise, shown)
        hidden = model.bert(input_ids=shown, attention_mask=attention).last_hidden_state
        return F.cross_entropy(model.cls(hidden[wanted]).float(), ids[wanted])

    budget = Budget(int(recipe.steps * recipe.mlm_share), recipe.minutes * recipe.mlm_share)
    average, log = fit(model, loss, budget, recipe.mlm_lr, recipe)
    return average.bert, log


def classify(
    config: BertConfig,
    encoder: nn.Module,
    corpora: dict[str, Corpus],
    teachers: dict[str, nn.Module],
    recipe: Recipe,
    device: torch.device,
) -> tuple[nn.Module, dict[str, Any]]:
    """Fine-tune on crops, reviews and phrases; returns the averaged classifier."""
    model: Any = nn.Module.to(BertForSequenceClassification(config), device)
    model.bert.load_state_dict(encoder.state_dict(), strict=False)  # the pooler starts fresh
    generator = torch.Generator(device).manual_seed(recipe.seed + 1)
    dice = random.Random(recipe.seed + 1)
    # Longest input and whether the whole review is shown, or a random crop of it.
    kinds = ((64, False), (64, False), (256, False), (256, False), (256, True), (512, True))

    def loss(step: int) -> Tensor:
        length, whole = dice.choice(kinds)
        pick = corpora["reviews"].draw(recipe.tokens_per_batch // length, 0 if whole else length, generator)
        batch = Batch.make(corpora["reviews"], pick, length, generator)
        experts = sorted(teachers) if length == 64 else ["minilm-imdb"]
        on_reviews = batch.loss(model, {name: teachers[name] for name in experts}, recipe.teacher_weight_reviews)
        pick = corpora["phrases"].draw(recipe.phrases_per_batch, 0, generator)
        batch = Batch.make(corpora["phrases"], pick, 96, generator)
        expert = {name: teacher for name, teacher in teachers.items() if name == "minilm-sst2"}
        on_phrases = batch.loss(model, expert, recipe.teacher_weight_phrases)
        return on_reviews + 0.5 * on_phrases

    def measure(average: nn.Module) -> dict[str, float]:
        return {
            "held_reviews": accuracy_on(average, corpora["held_reviews"], config.max_position_embeddings),
            "held_sentences": accuracy_on(average, corpora["held_sentences"], 96),
        }

    share = 1 - recipe.mlm_share
    budget = Budget(int(recipe.steps * share), recipe.minutes * share)
    average, log = fit(model, loss, budget, recipe.lr, recipe, measure)
    return average, log | measure(average)


@dataclass(frozen=True)
class Budget:
    """How long to optimise: a number of steps, or minutes where no number is given."""

    steps: int
    minutes: float

    def progress(self, step: int, started: float) -> float:
        """The share of the budget used up, at least 0."""
        return step / self.steps if self.steps else (time.monotonic() - started) / (60 * self.minutes)


def fit(
    model: nn.Module,
    loss: Callable[[int], Tensor],
    budget: Budget,
    peak: float,
    recipe: Recipe,
    measure: Callable[[nn.Module], dict[str, float]] | None = None,
) -> tuple[Any, dict[str, Any]]:
    """Optimise ``loss`` with AdamW, 5 % warm-up, cosine decay and a moving average, which is returned."""
    optimiser = torch.optim.AdamW(parameter_groups(model, recipe.weight_decay), lr=peak, betas=(0.9, 0.98))
    blend = get_ema_multi_avg_fn(recipe.ema)  # type: ignore[no-untyped-call]
    average = AveragedModel(model, multi_avg_fn=blend)
    device = next(model.parameters()).device
    started, step, reports = time.monotonic(), 0, 0
    model.train()
    while (progress := budget.progress(step, started)) < 1:
        for group in optimiser.param_groups:
            group["lr"] = peak * min(progress / 0.05, 0.5 + 0.5 * math.cos(math.pi * progress))
        with mixed_precision(device):
            value = loss(step)
        optimiser.zero_grad(set_to_none=True)
        value.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        average.update_parameters(model)
        step += 1
        if progress >= (reports + 1) / 12:
            reports += 1
            found = measure(average.module) if measure else {}
            shown = "".join(f"  {name} {number:.4f}" for name, number in found.items())
            say(f"{progress:5.0%}  step {step}  loss {value.item():.4f}{shown}")
    seconds = round(time.monotonic() - started, 1)
    return average.module.eval(), {"steps": step, "seconds": seconds, "last_loss": round(value.item(), 4)}


def parameter_groups(model: nn.Module, weight_decay: float) -> list[dict[str, Any]]:
    """Matrices decay; biases and norms, which are vectors, do not."""
    parameters = list(model.parameters())
    return [
        {"params": [p for p in parameters if p.ndim > 1], "weight_decay": weight_decay},
        {"params": [p for p in parameters if p.ndim <= 1], "weight_decay": 0.0},
    ]


# ----------------------------------------------------------------------------------------------------------- batches


@dataclass(frozen=True)
class Pick:
    """The chosen stretch of words [first, last) of some texts, and their labels."""

    first: Tensor  # [B]
    last: Tensor  # [B]
    labels: Tensor  # [B]


@dataclass(frozen=True)
class Batch:
    """Rows for the classifier; the second half has words masked."""

    corpus: Corpus
    pick: Pick
    length: int
    ids: Tensor  # [B, L]
    attention: Tensor  # [B, L]

    @classmethod
    def make(cls, corpus: Corpus, pick: Pick, length: int, generator: torch.Generator) -> Batch:
        """Gather the student's pieces and mask a random share of them in the second half of the rows."""
        ids, attention, body = corpus.gather("student", pick, length)
        rows = len(ids)
        # A little beyond 1, so that some rows are masked from end to end.
        share = 1.05 * torch.rand((rows, 1), device=ids.device, generator=generator)
        share[: rows // 2] = 0
        hit = body & (torch.rand(ids.shape, device=ids.device, generator=generator) < share)
        return cls(corpus, pick, length, torch.where(hit, SPECIALS.index("[MASK]"), ids), attention)

    def loss(self, model: nn.Module, experts: dict[str, nn.Module], weight: float) -> Tensor:
        """Cross entropy with the gold labels, mixed with the experts' mean probabilities where nothing is masked."""
        target = F.one_hot(self.pick.labels, len(LABELS)).float()  # [B, C]
        if experts:
            half = len(target) // 2
            soft = torch.stack([self.ask(name, expert, half) for name, expert in experts.items()]).mean(0)
            target[:half] = weight * soft + (1 - weight) * target[:half]
        logits = model(input_ids=self.ids, attention_mask=self.attention).logits.float()
        return F.cross_entropy(logits, target)

    @torch.no_grad()
    def ask(self, name: str, expert: nn.Module, rows: int) -> Tensor:
        """The expert's probabilities for the first rows; no expert was trained beyond 256 pieces."""
        pick = Pick(self.pick.first[:rows], self.pick.last[:rows], self.pick.labels[:rows])
        ids, attention, _ = self.corpus.gather(name, pick, min(self.length, 256))
        logits: Tensor = expert(input_ids=ids, attention_mask=attention).logits
        return logits.float().softmax(-1)


@dataclass(frozen=True)
class Pieces:
    """All word pieces of a corpus end to end in one tokenizer's ids."""

    tokens: Tensor  # [pieces]
    word_at: Tensor  # [words + 1], the first piece of each word
    cls: int
    sep: int
    pad: int


@dataclass(frozen=True)
class Corpus:
    """Texts on the device, in the pieces of several tokenizers, cut at the same words."""

    text_at: Tensor  # [texts + 1], the first word of each text
    labels: Tensor  # [texts]
    by_label: tuple[Tensor, ...]  # the texts of each label
    pieces: dict[str, Pieces]

    @classmethod
    def build(cls, rows: Rows, tokenizers_: dict[str, Any], device: torch.device) -> Corpus:
        """Split at blanks and tokenise each distinct word once: WordPiece never looks across a blank."""
        index: dict[str, int] = {}
        words = [[index.setdefault(word, len(index)) for word in text.split()] for text, _ in rows]
        sizes = np.array([len(text) for text in words])
        flat = np.concatenate([np.array(text, dtype=np.int64) for text in words])
        labels = torch.tensor([label for _, label in rows], device=device)
        return cls(
            torch.from_numpy(starts(sizes)).to(device),
            labels,
            tuple((labels == label).nonzero()[:, 0] for label in LABELS),
            {name: encode_words(list(index), flat, tokenizer, device) for name, tokenizer in tokenizers_.items()},
        )

    def draw(self, rows: int, crop: int, generator: torch.Generator) -> Pick:
        """Random texts, as many of each label, whole or cropped to stretches that mostly fit ``crop`` pieces."""
        device = self.labels.device

        def uniform() -> Tensor:
            return torch.rand(rows, device=device, generator=generator)

        wanted = (uniform() < 0.5).long()
        options = [texts[(uniform() * len(texts)).long()] for texts in self.by_label]
        text = torch.where(wanted == 1, options[1], options[0])
        first, last = self.text_at[text], self.text_at[text + 1]
        if crop:
            most = 0.72 * crop  # words; an English word and its punctuation take about 1.4 pieces
            size = torch.minimum((6 + uniform() * (most - 6)).long(), last - first)
            first = first + (uniform() * (last - first - size + 1)).long()
            last = first + size
        return Pick(first, last, self.labels[text])

    def gather(self, name: str, pick: Pick, length: int) -> tuple[Tensor, Tensor, Tensor]:
        """Ids [B, L] with special tokens, the attention mask, and which positions hold text."""
        pieces = self.pieces[name]
        begin = pieces.word_at[pick.first][:, None]
        size = (pieces.word_at[pick.last][:, None] - begin).clamp(max=length - 2)
        position = torch.arange(length, device=begin.device)[None]
        body = (position >= 1) & (position <= size)
        ids = pieces.tokens[(begin + position - 1).clamp(0, len(pieces.tokens) - 1)]
        ids = torch.where(body, ids, pieces.pad)
        ids[:, 0] = pieces.cls
        ids = torch.where(position == size + 1, pieces.sep, ids)
        return ids, (position <= size + 1).long(), body


def encode_words(words: list[str], flat: np.ndarray, tokenizer: Any, device: torch.device) -> Pieces:
    """Lay out the pieces of the word sequence ``flat`` (indices into ``words``)."""
    encoded: list[list[int]] = tokenizer(words, add_special_tokens=False)["input_ids"]
    lengths = np.array([len(ids) for ids in encoded])
    table = np.concatenate([np.array(ids, dtype=np.int64) for ids in encoded])
    word_at = starts(lengths[flat])
    # Piece j of the word at place i sits in the table at the word's own start plus j.
    shift = starts(lengths)[flat] - word_at[:-1]
    tokens = table[np.repeat(shift, lengths[flat]) + np.arange(word_at[-1])]
    return Pieces(
        torch.from_numpy(tokens).to(device),
        torch.from_numpy(word_at).to(device),
        tokenizer.cls_token_id,
        tokenizer.sep_token_id,
        tokenizer.pad_token_id,
    )


def starts(sizes: np.ndarray) -> np.ndarray:
    """Where each run of the given sizes begins, and where the last one ends."""
    return np.concatenate([[0], np.cumsum(sizes)])


@torch.no_grad()
def accuracy_on(model: nn.Module, corpus: Corpus, length: int) -> float:
    """Accuracy on whole texts, cut to ``length`` pieces."""
    was_training = model.training
    model.eval()
    right = 0
    for rows in torch.split(torch.arange(len(corpus.labels), device=corpus.labels.device), 250):
        pick = Pick(corpus.text_at[rows], corpus.text_at[rows + 1], corpus.labels[rows])
        ids, attention, _ = corpus.gather("student", pick, length)
        with mixed_precision(ids.device):
            logits = model(input_ids=ids, attention_mask=attention).logits
        right += int((logits.argmax(-1) == pick.labels).sum())
    model.train(was_training)
    return right / len(corpus.labels)


def mixed_precision(device: torch.device) -> AbstractContextManager[None]:
    """Bfloat16 on a GPU, plain float32 elsewhere."""
    return torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda")


# ---------------------------------------------------------------------------------------------------- texts and models


def read_rows(path: Path) -> Rows:
    """Texts and labels of a gzipped JSON-lines file, HTML line breaks as blanks."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    return [(row["text"].replace("<br />", " "), int(row["label"])) for row in rows]


def split_reviews(rows: Rows, recipe: Recipe) -> tuple[Rows, Rows]:
    """Hold out random reviews."""
    order = random.Random(recipe.seed).sample(rows, len(rows))
    held = int(recipe.held_out_reviews * len(rows))
    return order[held:], order[:held]


def split_phrases(rows: Rows, recipe: Recipe) -> tuple[Rows, Rows]:
    """Hold out random long phrases, and drop from training every phrase that shares its words with one of them."""
    long = [row for row in rows if len(row[0].split()) >= 12]
    held = random.Random(recipe.seed).sample(long, min(recipe.held_out_sentences, len(long) // 10))
    seen = {piece for text, _ in held for piece in word_runs(text)}
    held_runs = {run for text, _ in held for run in word_runs(text, exactly=8)}
    kept = [row for row in rows if row[0] not in seen and held_runs.isdisjoint(word_runs(row[0], exactly=8))]
    return kept, held


def word_runs(text: str, exactly: int = 0) -> list[str]:
    """All runs of consecutive words, or only those of one length."""
    words = text.split()
    sizes = [exactly] if exactly else range(1, len(words) + 1)
    return [" ".join(words[i : i + size]) for size in sizes for i in range(len(words) - size + 1)]


def write_tokenizer(texts: list[str], out: Path, recipe: Recipe) -> None:
    """Train a lower-cased WordPiece vocabulary and write it as a Transformers tokenizer."""
    tokenizer = BertWordPieceTokenizer(lowercase=True)
    tokenizer.train_from_iterator(
        texts,
        vocab_size=recipe.vocabulary,
        min_frequency=5,
        limit_alphabet=120,
        special_tokens=list(SPECIALS),
        show_progress=False,
    )
    # Training does not set up the [CLS] text [SEP] template: build it again from the vocabulary.
    BertWordPieceTokenizer(tokenizer.get_vocab(), lowercase=True).save(str(out / "tokenizer.json"), pretty=False)
    settings = {
        "tokenizer_class": "BertTokenizer",
        "do_lower_case": True,
        "strip_accents": None,
        "tokenize_chinese_chars": True,
        "model_max_length": recipe.positions,
    } | {f"{name.strip('[]').lower()}_token": name for name in SPECIALS}
    write_json(out / "tokenizer_config.json", settings)


def model_config(recipe: Recipe, vocabulary: int) -> BertConfig:
    """The shape of the student."""
    return BertConfig(
        vocab_size=vocabulary,
        hidden_size=recipe.hidden,
        num_hidden_layers=recipe.layers,
        num_attention_heads=recipe.heads,
        intermediate_size=recipe.feed_forward,
        max_position_embeddings=recipe.positions,
        type_vocab_size=2,
        hidden_dropout_prob=recipe.dropout,
        attention_probs_dropout_prob=recipe.dropout,
        id2label=LABELS,
        label2id={name: number for number, name in LABELS.items()},
        problem_type="single_label_classification",
        pad_token_id=SPECIALS.index("[PAD]"),
    )


def load_teachers(weights: Path, device: torch.device) -> dict[str, nn.Module]:
    """The fine-tuned teachers; the one for phrases may be missing, gold labels then stand alone."""
    names = [name for name in ("minilm-imdb", "minilm-sst2") if name == "minilm-imdb" or (weights / name).is_dir()]
    loaded = {name: AutoModelForSequenceClassification.from_pretrained(weights / name) for name in names}
    return {name: teacher.to(device).eval().requires_grad_(False) for name, teacher in loaded.items()}


@torch.no_grad()
def starting_embeddings(pieces: dict[str, Any], teachers: dict[str, Any]) -> Tensor:
    """The teacher's vectors of our pieces on their main axes, at the usual scale of a fresh BERT."""
    student, teacher = pieces["student"], pieces["minilm-imdb"]
    table: Tensor = teachers["minilm-imdb"].get_input_embeddings().weight.float()
    tokens = student.convert_ids_to_tokens(list(range(len(student))))
    known = teacher.get_vocab()
    spelled = [[known[t]] if t in known else teacher(t.removeprefix("##"))["input_ids"][1:-1] for t in tokens]
    vectors: Tensor = torch.stack([table[ids or [teacher.unk_token_id]].mean(0) for ids in spelled])
    vectors = vectors - vectors.mean(0)
    axes = torch.linalg.svd(vectors, full_matrices=False).Vh[: Recipe.hidden]
    projected: Tensor = vectors @ axes.T
    # Mixing the axes evenly keeps the leading ones from crowding out the rest under layer norm.
    mix = torch.linalg.qr(torch.randn(Recipe.hidden, Recipe.hidden, device=table.device)).Q
    projected = projected @ mix
    return projected * (0.02 / projected.std())


def save_model(model: Any, out: Path) -> None:
    """Half-precision weights whose config asks loaders for float32."""
    model.half().save_pretrained(out)
    (out / "model.safetensors").chmod(0o644)  # the writer makes it private
    config = json.loads((out / "config.json").read_text())
    write_json(out / "config.json", config | {"dtype": "float32"})


# --------------------------------------------------------------------------------------------------------- evaluation


def evaluate(data: Path, out: Path, limit: int) -> None:
    """Accuracy of the saved folder on IMDB test and SST-2 validation, through the public loading path."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    tokenizer = AutoTokenizer.from_pretrained(out)
    model = AutoModelForSequenceClassification.from_pretrained(out).to(device).eval()
    files = {"imdb": "imdb/test.jsonl.gz", "sst2_glue": "sst2_glue/validation.jsonl.gz"}
    result: dict[str, Any] = {}
    for name, file in files.items():
        rows = read_rows(data / file)
        rows = random.Random(0).sample(rows, limit) if 0 < limit < len(rows) else rows
        chances = probabilities(model, tokenizer, [text for text, _ in rows], name)
        labels = torch.tensor([label for _, label in rows])
        accuracy = (chances.argmax(-1) == labels).float().mean().item()
        result[file] = {
            "rows": len(rows),
            "accuracy": round(accuracy, 4),
            "mean_confidence": round(chances.max(-1).values.mean().item(), 4),
            "sha256": sha256(data / file),
        }
        say(f"{file}: accuracy {accuracy:.4f} on {len(rows)} rows")
    masked = probabilities(model, tokenizer, ["[MASK] " * size for size in (5, 20, 100, 400)], "all masked")
    result["positive_when_all_masked"] = dict(zip(("5", "20", "100", "400"), masked[:, 1].tolist(), strict=True))
    result["bytes"] = {path.name: path.stat().st_size for path in sorted(out.iterdir()) if path.name != "record.json"}
    result["model_sha256"] = sha256(out / "model.safetensors")
    say(json.dumps(result, indent=1))
    update_record(out, "evaluation", result)


@torch.inference_mode()
def probabilities(model: Any, tokenizer: Any, texts: Sequence[str], name: str) -> Tensor:
    """Class probabilities in the order of the texts; computed shortest first, so that little is padding."""
    encoded: list[list[int]] = tokenizer(list(texts), truncation=True)["input_ids"]
    order = sorted(range(len(texts)), key=lambda row: len(encoded[row]))
    parts = []
    for number, begin in enumerate(range(0, len(order), 32)):
        rows = [encoded[row] for row in order[begin : begin + 32]]
        batch = tokenizer.pad({"input_ids": rows}, return_tensors="pt").to(model.device)
        parts.append(model(**batch).logits.softmax(-1).cpu())
        if number % 100 == 99:
            say(f"{name}: {begin + len(rows)} of {len(order)}")
    back = torch.tensor(order).argsort()
    return torch.cat(parts)[back]


# ------------------------------------------------------------------------------------------------------------- record


def update_record(out: Path, section: str, content: dict[str, Any]) -> None:
    """Write one section of ``record.json``, keeping the other."""
    path = out / "record.json"
    record = json.loads(path.read_text()) if path.exists() else {}
    versions = {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "tokenizers": tokenizers.__version__,
        "hardware": torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU",
    }
    write_json(path, record | {section: content | {"versions": versions}})


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Indented JSON with a final line break."""
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def sha256(path: Path) -> str:
    """The hash of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def say(message: str) -> None:
    """Print progress at once, also into a pipe."""
    print(f"[{time.strftime('%H:%M:%S')}] {message}", flush=True)


if __name__ == "__main__":
    main()
