"""Tiny random classifiers of many architectures, built in code: no download, a few milliseconds each."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import numpy as np
import torch
import transformers
from numpy.typing import NDArray
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForImageClassification,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    PreTrainedTokenizerFast,
)
from transformers.image_processing_base import ImageProcessingMixin

from didact.models.eval_mode import quiet
from didact.types import Example, Floats, Image

TEXTS = (
    "a truly wonderful film with a warm heart",
    "the plot is dull, the acting worse: avoid it",
    "we watched it on a rainy evening in an old cinema",
    "good food and good company, but the bill was too high",
)
"""What the tiny tokenizers are trained on; longer words of other texts split into pieces."""

_Sizes = dict[str, object]
_COMMON: _Sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
_STACK: _Sizes = {"attention_heads": 4, "ffn_dim": 48}
_SIZES: dict[str, _Sizes] = {
    "bert": _COMMON,
    "roberta": _COMMON | {"max_position_embeddings": 130, "type_vocab_size": 1},
    "xlm-roberta": _COMMON | {"max_position_embeddings": 130, "type_vocab_size": 1},
    "electra": _COMMON | {"embedding_size": 16},
    "albert": _COMMON | {"embedding_size": 16},
    "distilbert": {"dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 48},
    "modernbert": _COMMON | {"local_attention": 8, "global_attn_every_n_layers": 2},
    "llama": _COMMON | {"num_key_value_heads": 2},
    "mistral": _COMMON | {"num_key_value_heads": 2, "sliding_window": 8},
    "gpt2": {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 128},
    "deberta-v2": _COMMON | {"relative_attention": True, "pos_att_type": ["p2c", "c2p"], "position_buckets": 8},
    "longformer": _COMMON | {"attention_window": [8, 8], "max_position_embeddings": 130},
}
_ENCODER_DECODERS: dict[str, _Sizes] = {
    "bart": {"d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "max_position_embeddings": 128}
    | {f"{side}_{size}": number for side in ("encoder", "decoder") for size, number in _STACK.items()},
    "t5": {"d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4},
}
_SENTENCE_PIECE = ("xlm-roberta", "albert", "deberta-v2", "t5")
_BYTE_LEVEL = ("roberta", "longformer", "modernbert", "llama", "mistral", "gpt2", "bart")
_DECODERS = ("llama", "mistral", "gpt2")

_CHAT = (
    "{% for message in messages %}<s>{{ message['role'] }}\n{{ message['content'] }}</s>\n{% endfor %}"
    "{% if add_generation_prompt %}<s>assistant\n{% endif %}"
)

ARCHITECTURES: tuple[str, ...] = tuple(_SIZES)
"""With one stack of layers."""
ENCODER_DECODERS: tuple[str, ...] = tuple(_ENCODER_DECODERS)


def tiny_model(
    architecture: str = "bert",
    labels: Sequence[str] = ("negative", "positive"),
    *,
    seed: int = 0,
    auto_class: str = "AutoModelForSequenceClassification",
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """A random classifier (a regressor for one label), its weights wide enough to be far from constant.

    ``auto_class`` is the Transformers class of another kind of network, such as "AutoModelForQuestionAnswering".
    """
    tokenizer = tiny_tokenizer(architecture)
    named, one_stack = dict(enumerate(labels)), architecture in _SIZES
    config = AutoConfig.for_model(
        architecture,
        **({"max_position_embeddings": 128} | _SIZES[architecture] if one_stack else _ENCODER_DECODERS[architecture]),
        vocab_size=len(tokenizer),
        id2label=named,
        label2id={label: number for number, label in named.items()},
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        cls_token_id=tokenizer.cls_token_id,
        sep_token_id=tokenizer.sep_token_id,
        **({"initializer_range": 0.3} if one_stack else _decoder_starts(tokenizer)),
    )
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = getattr(transformers, auto_class).from_config(config)
    return model.eval(), tokenizer


def _decoder_starts(tokenizer: PreTrainedTokenizerBase) -> _Sizes:
    ends = {"decoder_start_token_id": tokenizer.pad_token_id, "forced_eos_token_id": tokenizer.eos_token_id}
    return {"init_std": 0.3, **ends}


def tiny_image_model(
    labels: Sequence[str] = ("dark", "light"), *, seed: int = 0
) -> tuple[PreTrainedModel, ImageProcessingMixin]:
    """A random vision transformer of 4 x 4 patches, and an image processor that stretches images to its input."""
    named = dict(enumerate(labels))
    config = AutoConfig.for_model(
        "vit",
        **_COMMON | {"image_size": 16, "patch_size": 4, "encoder_stride": 4},
        id2label=named,
        label2id={label: number for number, label in named.items()},
        initializer_range=0.3,
    )
    with torch.random.fork_rng(), quiet():
        from transformers import ViTImageProcessor  # warns where there is no torchvision

        torch.manual_seed(seed)
        network = AutoModelForImageClassification.from_config(config)
        return network.eval(), ViTImageProcessor(size={"height": 16, "width": 16})


def tiny_images() -> list[Example]:
    """Images of several sizes, each with a bright corner; none of them is square in the manner of another."""
    made = []
    for number, (height, width) in enumerate(((16, 16), (21, 33), (40, 18))):
        pixels = np.random.default_rng(number).integers(0, 200, (height, width, 3)).astype(np.uint8)
        pixels[: height // 3, : width // 3] = 250
        made.append(Example(Image(pixels)))
    return made


def tiny_language_model(
    architecture: str = "llama", *, seed: int = 0
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """A random decoder that predicts the next token, with a chat template in the manner of ChatML."""
    tokenizer = tiny_tokenizer(architecture)
    tokenizer.chat_template = _CHAT
    config = AutoConfig.for_model(
        architecture,
        **{"max_position_embeddings": 256} | _SIZES[architecture] | {"n_positions": 256},
        vocab_size=len(tokenizer),
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        initializer_range=0.3,
    )
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = AutoModelForCausalLM.from_config(config)
    tokenizer.model_max_length = 256
    return model.eval(), tokenizer


def tiny_tokenizer(architecture: str) -> PreTrainedTokenizerBase:
    """A fast tokenizer in the architecture's manner: WordPiece, byte-level BPE or SentencePiece-like Unigram."""
    inner, special = _trained(architecture)
    names = {"pad_token": "<pad>", "unk_token": "<unk>"} | special
    return PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_str(inner),
        model_max_length=128,
        model_input_names=_inputs(architecture),
        **names,
    )


def keyword_predict(texts: list[str]) -> Floats:
    """A black box with known truth: probability of "positive" from counts of good and bad words."""
    weights = {"wonderful": 2.0, "warm": 1.0, "good": 1.0, "dull": -1.5, "worse": -1.0, "avoid": -2.0}
    rows = []
    for text in texts:
        total = sum(weights.get(word.strip(".,:;!?").lower(), 0.0) for word in text.split())
        rows.append([1 / (1 + np.exp(total)), 1 / (1 + np.exp(-total))])
    return np.array(rows)


def corner_predict(images: list[NDArray[np.uint8]]) -> Floats:
    """A black box of images with known truth: how bright the upper left quarter is; the rest plays no part."""
    rows = []
    for image in images:
        height, width = image.shape[:2]
        total = image[: height // 2, : width // 2].mean() / 32 - 4
        rows.append([1 / (1 + np.exp(total)), 1 / (1 + np.exp(-total))])
    return np.array(rows)


@functools.cache
def _trained(architecture: str) -> tuple[str, dict[str, str]]:
    build = _unigram if architecture in _SENTENCE_PIECE else _bpe if architecture in _BYTE_LEVEL else _wordpiece
    special = {} if architecture in _DECODERS else {"mask_token": "<mask>"}
    special |= {"bos_token": "<s>", "eos_token": "</s>", "cls_token": "<s>", "sep_token": "</s>"}
    tokenizer = build(["<pad>", "<unk>", "<s>", "</s>", "<mask>"])
    if architecture not in _DECODERS:
        ids = [("<s>", tokenizer.token_to_id("<s>")), ("</s>", tokenizer.token_to_id("</s>"))]
        second = "$B:0 </s>:0" if "token_type_ids" not in _inputs(architecture) else "$B:1 </s>:1"
        tokenizer.post_processor = processors.TemplateProcessing(
            single="<s> $A </s>", pair=f"<s> $A </s> {second}", special_tokens=ids
        )
    return tokenizer.to_str(), special


def _inputs(architecture: str) -> list[str]:
    typed = architecture in ("bert", "electra", "albert", "deberta-v2")
    return ["input_ids", "attention_mask", *(["token_type_ids"] if typed else [])]


def _wordpiece(special: list[str]) -> Tokenizer:
    # Built by hand: the trainer breaks ties differently in every process.
    letters = sorted(set("".join(TEXTS)) - {" "})
    whole = sorted({word for text in TEXTS for word in text.split() if word.isalpha()})
    pieces = [*special, *letters, *(f"##{letter}" for letter in letters), "##ly", "##ful", "##ed", *whole]
    vocabulary = {piece: number for number, piece in enumerate(dict.fromkeys(pieces))}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="<unk>"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return tokenizer


def _bpe(special: list[str]) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=360, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    return _train(tokenizer, trainer)


def _unigram(special: list[str]) -> Tokenizer:
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.UnigramTrainer(vocab_size=120, special_tokens=special, unk_token="<unk>", show_progress=False)
    return _train(tokenizer, trainer)


def _train(tokenizer: Tokenizer, trainer: trainers.Trainer) -> Tokenizer:
    train: Callable[..., None] = tokenizer.train_from_iterator
    train(TEXTS * 3, trainer)
    return tokenizer
