"""Train and measure the four tiny models of the other kinds of input that ship inside the package.

    python scripts/train_kinds.py --out src/didact/embedded            # all four; minutes on a GPU, an hour on a CPU
    python scripts/train_kinds.py --out runs/kinds --only shapes --steps 200

Each learns from examples that ``didact.data.planted`` and ``didact.data.corpus`` generate (seed 1), with a random share
of its units absent, so that a variant with units left out is nothing new to it, and is measured on 1,000 others (seed
0). They are for demonstrations and tests, not for use.

=========== ================================ =========================================================================
name        class                            what
=========== ================================ =========================================================================
shapes      ViTForImageClassification        which shape a picture shows
questions   BertForQuestionAnswering         where a passage answers a question
quality     BertForSequenceClassification    share of the words of a translation that are right (a regression on pairs)
reviews     LlamaForCausalLM                 the opinion of a review, as the word that follows a prompt
=========== ================================ =========================================================================
"""

from __future__ import annotations

import argparse
import json
import math
import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from torch import Tensor
from torch.nn import functional
from transformers import (
    BertConfig,
    BertForQuestionAnswering,
    BertForSequenceClassification,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedModel,
    PreTrainedTokenizerFast,
    ViTConfig,
    ViTForImageClassification,
)

from didact.data.corpus import generate
from didact.data.planted import CLASSES, DICTIONARY, FACTS, PEOPLE, SHAPES, questions, shapes, translations
from didact.provenance import versions
from didact.types import Example, Image, Span

TRAINING, HELD_OUT = 1, 0
"""Seeds of the generated examples."""
Batch = dict[str, Tensor]
Trained = tuple[PreTrainedModel, Any, dict[str, float]]


@dataclass(frozen=True)
class Recipe:
    """How long and where.

    Attributes:
        steps: of each training; as the kind's own when 0.
        device: where.
        seed: of weights, order and absence.
    """

    steps: int
    device: str
    seed: int

    def loss_of(self, network: PreTrainedModel, draw: Callable[[np.random.Generator], Batch], steps: int) -> None:
        """Train a network on batches that are drawn."""
        rng, steps = np.random.default_rng(self.seed), self.steps or steps
        optimizer = torch.optim.AdamW(network.parameters(), lr=1e-3, weight_decay=0.01)
        network.to(self.device).train()  # type: ignore[arg-type] # as torch's own
        for step in range(steps):
            for group in optimizer.param_groups:
                group["lr"] = (
                    1e-3 * min(1, (step + 1) / 200) * (0.02 + 0.98 * (1 + math.cos(math.pi * step / steps)) / 2)
                )
            loss = network(**{name: value.to(self.device) for name, value in draw(rng).items()}).loss
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
            optimizer.step()
            if step % 500 == 0 or step == steps - 1:
                print(f"{type(network).__name__}: step {step} of {steps}, loss {loss.item():.4f}", flush=True)
        network.eval()


def small(hidden: int, layers: int) -> dict[str, Any]:
    """Sizes that all kinds share."""
    heads = {"num_hidden_layers": layers, "num_attention_heads": 4}
    return {"hidden_size": hidden, "intermediate_size": 4 * hidden, **heads}


# Pictures.


def train_shapes(recipe: Recipe) -> Trained:
    """A ViT of 64 patches; absent patches are grey, the mean colour of the processor."""
    names = sorted(SHAPES)
    config = ViTConfig(
        **small(64, 4), image_size=32, patch_size=4, hidden_dropout_prob=0.0,
        id2label=dict(enumerate(names)), label2id={name: index for index, name in enumerate(names)},
    )  # fmt: skip
    from transformers import ViTImageProcessor

    network = ViTForImageClassification(config)
    processor = ViTImageProcessor(size={"height": 32, "width": 32}, image_mean=[0.5] * 3, image_std=[0.5] * 3)
    data, labels = _pictures(shapes(20_000, seed=TRAINING), names)

    def draw(rng: np.random.Generator) -> Batch:
        rows = torch.from_numpy(rng.integers(0, len(data), 128))
        kept = rng.random((128, 1, 8, 8)) >= rng.choice((0.0, 0.0, 0.3, 0.6, 0.9), (128, 1, 1, 1))
        kept = np.repeat(np.repeat(kept, 4, 2), 4, 3).astype(np.float32)
        return {"pixel_values": data[rows] * torch.from_numpy(kept), "labels": labels[rows]}

    recipe.loss_of(network, draw, 6_000)
    data, labels = _pictures(shapes(1_000, seed=HELD_OUT), names)
    with torch.no_grad():
        predicted = network(pixel_values=data.to(recipe.device)).logits.argmax(-1).cpu()
    return network, processor, {"accuracy": float((predicted == labels).float().mean())}


def _pictures(examples: Sequence[Example], names: Sequence[str]) -> tuple[Tensor, Tensor]:
    pixels = np.stack([image.pixels for example in examples for image in example.fields if isinstance(image, Image)])
    labels = torch.tensor([names.index(str(example.label)) for example in examples])
    return torch.from_numpy(pixels.transpose(0, 3, 1, 2).astype(np.float32) / 127.5 - 1), labels


# Texts.


def words_tokenizer(
    words: Sequence[str], specials: Sequence[str], template: tuple[str, str]
) -> PreTrainedTokenizerFast:
    """A tokenizer that knows whole words and marks of punctuation, with their case."""
    vocabulary = {word: index for index, word in enumerate(dict.fromkeys((*specials, *words)))}
    backend = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    backend.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation()])
    used = [(name, vocabulary[name]) for name in specials if name in template[1]]
    backend.post_processor = processors.TemplateProcessing(single=template[0], pair=template[1], special_tokens=used)
    names = {"[PAD]": "pad_token", "[UNK]": "unk_token", "[CLS]": "cls_token", "[SEP]": "sep_token",
             "[MASK]": "mask_token", "[BOS]": "bos_token"}  # fmt: skip
    made = {names[name]: name for name in specials}
    read = ["input_ids", "token_type_ids", "attention_mask"] if "[SEP]" in specials else ["input_ids", "attention_mask"]
    return PreTrainedTokenizerFast(tokenizer_object=backend, **made, model_max_length=512, model_input_names=read)


ENCODER = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
PAIRS = ("[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1")


def encoded(tokenizer: PreTrainedTokenizerFast, examples: Sequence[Example]) -> Any:
    """Pairs as padded tensors."""
    both = [example.text for example in examples], [example.texts[1] for example in examples]
    return tokenizer(*both, padding=True, return_tensors="pt")


def train_questions(recipe: Recipe) -> Trained:
    """An encoder that marks the answer's first and last token; absent words are masked, never the answer."""
    words = [word for sentence, asked, _ in FACTS.values() for word in (sentence + asked).replace("{}", " ").split()]
    words += [*PEOPLE, *(value for _, _, values in FACTS.values() for value in values)]
    tokenizer = words_tokenizer(words, ENCODER, PAIRS)
    config = BertConfig(**small(96, 4), vocab_size=len(tokenizer), max_position_embeddings=128, pad_token_id=0,
                        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)  # fmt: skip
    network = BertForQuestionAnswering(config)
    examples = questions(20_000, seed=TRAINING)
    batch, places = encoded(tokenizer, examples), _answers(tokenizer, examples)

    def draw(rng: np.random.Generator) -> Batch:
        rows = torch.from_numpy(rng.integers(0, len(examples), 128))
        spared = torch.zeros_like(batch["input_ids"][rows], dtype=torch.bool).scatter(1, places[rows, None], True)
        ids = masked(batch["input_ids"][rows], spared, rng, tokenizer, (0.0, 0.0, 0.0, 0.15))
        around = {name: batch[name][rows] for name in ("attention_mask", "token_type_ids")}
        return {"input_ids": ids, **around, "start_positions": places[rows], "end_positions": places[rows]}

    recipe.loss_of(network, draw, 600)
    held_out = questions(1_000, seed=HELD_OUT)
    with torch.no_grad():
        result = network(**encoded(tokenizer, held_out).to(recipe.device))
    right = _answers(tokenizer, held_out)
    exact = (result.start_logits.argmax(-1).cpu() == right) & (result.end_logits.argmax(-1).cpu() == right)
    return network, tokenizer, {"exact match": float(exact.float().mean())}


def _answers(tokenizer: PreTrainedTokenizerFast, examples: Sequence[Example]) -> Tensor:
    """The token of each answer, which is one word."""
    made = tokenizer([e.text for e in examples], [e.texts[1] for e in examples])
    labels = [example.label for example in examples if isinstance(example.label, Span)]
    return torch.tensor([made.char_to_token(row, span.start, 1) for row, span in enumerate(labels)])


def masked(
    ids: Tensor, spared: Tensor, rng: np.random.Generator, tokenizer: PreTrainedTokenizerFast, shares: Sequence[float]
) -> Tensor:
    """Token ids with a random share of each row masked; special tokens never."""
    share = rng.choice(shares, (len(ids), 1))
    absent = torch.from_numpy(rng.random(tuple(ids.shape)) < share) & (ids >= len(ENCODER)) & ~spared
    return ids.masked_fill(absent, tokenizer.mask_token_id)


def train_quality(recipe: Recipe) -> Trained:
    """A regressor on pairs; a word that is masked on either side counts as right."""
    tokenizer = words_tokenizer(
        [*(word for words in CLASSES.values() for word in words), *DICTIONARY.values()], ENCODER, PAIRS
    )
    config = BertConfig(**small(96, 4), vocab_size=len(tokenizer), max_position_embeddings=64, pad_token_id=0,
                        problem_type="regression", id2label={0: "quality"}, label2id={"quality": 0},
                        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)  # fmt: skip
    network = BertForSequenceClassification(config)
    examples = translations(40_000, seed=TRAINING)
    batch, wrong = encoded(tokenizer, examples), _wrong(tokenizer, examples)

    def draw(rng: np.random.Generator) -> Batch:
        rows = torch.from_numpy(rng.integers(0, len(examples), 128))
        plain, marks = batch["input_ids"][rows], wrong[rows]
        ids = masked(plain, torch.zeros_like(plain, dtype=torch.bool), rng, tokenizer, (0.0, 0.0, 0.15, 0.4))
        around = {name: batch[name][rows] for name in ("attention_mask", "token_type_ids")}
        return {"input_ids": ids, **around, "labels": _quality(ids, marks, tokenizer)[:, None]}

    recipe.loss_of(network, draw, 12_000)
    held_out = translations(1_000, seed=HELD_OUT)
    with torch.no_grad():
        scores = network(**encoded(tokenizer, held_out).to(recipe.device)).logits[:, 0].cpu().numpy()
    truth = np.array([float(example.label) for example in held_out if isinstance(example.label, float)])
    return network, tokenizer, {"Pearson": float(np.corrcoef(scores, truth)[0, 1])}


def _wrong(tokenizer: PreTrainedTokenizerFast, examples: Sequence[Example]) -> Tensor:
    """Per token the number (from 1) of the wrong word it belongs to, on either side; 0 for what is right."""
    made = tokenizer([e.text for e in examples], [e.texts[1] for e in examples], padding=True)
    marks = np.zeros((len(examples), len(made["input_ids"][0])), dtype=np.int64)
    for row, example in enumerate(examples):
        spans = [span for span in example.rationale or () if isinstance(span, Span)]
        for number, span in enumerate(spans):
            marks[row, made.char_to_token(row, span.start, span.field)] = 1 + number % (len(spans) // 2)
    return torch.from_numpy(marks)


def _quality(ids: Tensor, wrong: Tensor, tokenizer: PreTrainedTokenizerFast) -> Tensor:
    """Share of the words that are right or not seen: a wrong word counts where both of its sides are seen."""
    seen = functional.one_hot(wrong * (ids != tokenizer.mask_token_id), 8)[..., 1:].sum(1)
    words = (ids >= len(ENCODER) - 1).sum(1) / 2  # masked ones too
    return 1 - (seen == 2).sum(1) / words


PROMPT = "Review : {text}\nOpinion :"


def train_reviews(recipe: Recipe) -> Trained:
    """A decoder that continues "Review : ... Opinion :", after up to two answered reviews, with a label."""
    examples = generate(12_000, seed=TRAINING)
    texts = [example.text for example in examples]
    splitter = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation()])
    words = [word for text in (*texts, PROMPT, "positive negative") for word, _ in splitter.pre_tokenize_str(text)]
    tokenizer = words_tokenizer(sorted(set(words)), ("[PAD]", "[UNK]", "[BOS]"), ("[BOS] $A", "[BOS] $A $B"))
    config = LlamaConfig(**small(64, 3), num_key_value_heads=4, vocab_size=len(tokenizer), max_position_embeddings=512,
                         pad_token_id=0, bos_token_id=2, eos_token_id=None, tie_word_embeddings=True)  # fmt: skip
    network = LlamaForCausalLM(config)

    def draw(rng: np.random.Generator) -> Batch:
        shots = [examples[row] for row in rng.integers(0, len(examples), 64 * 3)]
        return _prompts([shots[3 * row : 3 * row + int(rng.integers(1, 4))] for row in range(64)], tokenizer, rng)

    recipe.loss_of(network, draw, 2_000)
    return network, tokenizer, {"accuracy": _follows(network, tokenizer, generate(1_000, seed=HELD_OUT))}


def _prompts(rows: Sequence[Sequence[Example]], tokenizer: PreTrainedTokenizerFast, rng: np.random.Generator) -> Batch:
    """Answered reviews, padded on the right; only opinions are learnt, a few of them wrong: none is sure."""
    names = ("negative", "positive")
    given = [[(e.text, names[(e.label == "positive") ^ (rng.random() < 0.05)]) for e in row] for row in rows]
    texts = ["\n\n".join(f"{PROMPT.format(text=_thinned(text, rng))} {name}" for text, name in row) for row in given]
    made = tokenizer(texts, padding=True, return_tensors="pt", return_token_type_ids=False)
    learnt = torch.isin(made["input_ids"], torch.tensor([tokenizer.vocab[name] for name in names]))
    labels = made["input_ids"].masked_fill(~learnt, -100)
    return {"input_ids": made["input_ids"], "attention_mask": made["attention_mask"], "labels": labels}


def _thinned(text: str, rng: np.random.Generator) -> str:
    """A review without a random share of its words, now and then with [UNK] in their place."""
    share, filler = rng.choice((0.0, 0.0, 0.2, 0.5)), rng.choice(("", "[UNK]"))
    words = [word if rng.random() >= share else filler for word in text.split()]
    return " ".join(word for word in words if word) or text


def _follows(network: PreTrainedModel, tokenizer: PreTrainedTokenizerFast, examples: Sequence[Example]) -> float:
    made = tokenizer([PROMPT.format(text=e.text) for e in examples], padding=True, return_tensors="pt")
    last = made["attention_mask"].sum(1) - 1
    with torch.no_grad():
        inputs = {name: made[name].to(network.device) for name in ("input_ids", "attention_mask")}
        logits = network(**inputs).logits.cpu()[torch.arange(len(last)), last]
    positive, negative = (tokenizer.vocab[name] for name in ("positive", "negative"))
    right = (logits[:, positive] > logits[:, negative]) == torch.tensor([e.label == "positive" for e in examples])
    return float(right.float().mean())


KINDS: dict[str, Callable[[Recipe], Trained]] = {
    "shapes": train_shapes,
    "questions": train_questions,
    "quality": train_quality,
    "reviews": train_reviews,
}


def main() -> None:
    """Train, measure and save."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder that gets a folder of each model")
    parser.add_argument("--only", choices=sorted(KINDS), help="one of them")
    parser.add_argument("--steps", type=int, default=0, help="of each training (default: enough)")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    recipe = Recipe(options.steps, options.device, options.seed)
    for name in [options.only] if options.only else KINDS:
        torch.manual_seed(options.seed)
        began = time.time()
        network, processor, measured = KINDS[name](recipe)
        save(options.out / name, network, processor)
        record = {
            "command": f"python scripts/train_kinds.py --out src/didact/embedded --only {name} --seed {options.seed}",
            "measured on 1,000 held-out examples": measured,
            "parameters": sum(weights.numel() for weights in network.parameters()),
            "seconds": round(time.time() - began),
            "device": options.device,
            "machine": platform.machine(),
            "versions": dict(versions()),
        }
        (options.out / name / "record.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
        print(json.dumps(record), flush=True)


def save(folder: Path, network: PreTrainedModel, processor: Any) -> None:
    """Weights in half precision; the configuration has float32, so that loading widens them."""
    network.cpu().half().save_pretrained(folder)
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    config["dtype"] = "float32"
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    (folder / "generation_config.json").unlink(missing_ok=True)
    processor.save_pretrained(folder)


if __name__ == "__main__":
    main()
