"""The embedded model's own network: Transformers' numbers without Transformers' import."""

import subprocess
import sys

import numpy as np
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from didact.models.attention import observed
from didact.models.encoders import embedded_path
from didact.models.load import load_model
from didact.models.native import NativeBertForSequenceClassification
from didact.models.network import NetworkModel
from didact.types import Example

TEXTS = ["A warm and wonderful film.", "The plot is dull, the acting worse, and I left before the end of it."]


def networks() -> tuple[NativeBertForSequenceClassification, torch.nn.Module, dict[str, torch.Tensor]]:
    original = AutoModelForSequenceClassification.from_pretrained(embedded_path()).eval()
    batch = AutoTokenizer.from_pretrained(embedded_path())(TEXTS, padding=True, return_tensors="pt")
    return NativeBertForSequenceClassification.from_pretrained(embedded_path()), original, dict(batch)


@torch.no_grad()
def test_logits_are_those_of_transformers() -> None:
    native, original, batch = networks()
    torch.testing.assert_close(native(**batch).logits, original(**batch).logits, atol=1e-5, rtol=0)
    vectors = native.get_input_embeddings()(batch.pop("input_ids"))
    batch |= {"inputs_embeds": vectors, "position_ids": torch.arange(3, 3 + vectors.shape[1])[None].expand(2, -1)}
    torch.testing.assert_close(native(**batch).logits, original(**batch).logits, atol=1e-5, rtol=0)


@torch.no_grad()
def test_attention_is_that_of_transformers() -> None:
    native, original, batch = networks()
    seen: dict[str, list[torch.Tensor]] = {"native": [], "original": []}
    for name, network in (("native", native), ("original", original)):
        with observed(network, lambda _, probabilities, name=name: seen[name].append(probabilities)):
            network(**batch)
    assert len(seen["native"]) == 4
    for one, other in zip(seen["native"], seen["original"], strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=0)


def test_gradients_are_those_of_transformers() -> None:
    native, original, batch = networks()
    found = []
    for network in (native, original):
        vectors = network.get_input_embeddings()(batch["input_ids"]).detach().requires_grad_(True)
        logits = network(inputs_embeds=vectors, attention_mask=batch["attention_mask"]).logits
        found.append(torch.autograd.grad(logits[:, 1].sum(), vectors)[0])
    torch.testing.assert_close(*found, atol=1e-5, rtol=0)


def test_it_offers_everything_a_bert_offers() -> None:
    native = load_model()
    original = load_model(embedded_path())
    assert isinstance(native, NetworkModel)
    assert isinstance(original, NetworkModel)
    assert native.capabilities == original.capabilities
    assert native.traits == original.traits
    for one, other in zip(
        native.predict([Example(t) for t in TEXTS]), original.predict([Example(t) for t in TEXTS]), strict=True
    ):
        np.testing.assert_allclose(one.outputs, other.outputs, atol=1e-5)


def test_the_first_answer_does_not_wait_for_transformers_models() -> None:
    code = (
        "import sys; from didact.cli import main; "
        "assert main(['explain', 'A wonderful film.', '--format', 'json']) == 0; "
        "heavy = {'transformers.modeling_utils', 'torch._dynamo', 'scipy'} & set(sys.modules); "
        "assert not heavy, heavy"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
