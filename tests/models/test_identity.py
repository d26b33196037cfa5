"""Fingerprints of networks: every value and every rule counts; folder, process and device do not."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from tokenizers import AddedToken, normalizers, pre_tokenizers
from torch import nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from didact.errors import ParameterError
from didact.models import identity
from didact.models.identity import _gpu_checksum, tensor_digests, tokenizer_identity, weight_digests
from didact.models.load import load_model
from didact.models.network import NetworkModel
from didact.testing.tiny import ARCHITECTURES, tiny_model, tiny_tokenizer
from didact.types import Example

SRC = Path(__file__).resolve().parents[2] / "src"


def adapter(given: tuple[PreTrainedModel, PreTrainedTokenizerBase], **options: object) -> NetworkModel:
    made = load_model(given, **options)  # type: ignore[arg-type]
    assert isinstance(made, NetworkModel)
    return made


def test_single_values_of_all_weights_and_buffers_count() -> None:
    """The fingerprint once looked at 64 values of a tensor."""
    network, tokenizer = tiny_model("bert")
    model = adapter((network, tokenizer))
    rng = np.random.default_rng(0)
    tensors = {name: tensor for name, tensor in network.state_dict().items() if tensor.numel()}
    tensors |= dict(network.named_buffers())
    first = model.fingerprint()
    seen = {first}
    for name, tensor in tensors.items():
        flat = tensor.data.view(-1)
        place = int(rng.integers(flat.numel()))
        kept = flat[place].clone()
        flat[place] = torch.nextafter(kept, kept + 1) if kept.is_floating_point() else kept + 1
        seen.add(model.fingerprint())
        assert len(seen) > 1, name
        flat[place] = kept
        assert model.fingerprint() == first
    assert len(seen) == len(tensors) + 1


def test_rows_that_swap_places_count() -> None:
    network, tokenizer = tiny_model("bert")
    model = adapter((network, tokenizer))
    first, table = model.fingerprint(), network.get_input_embeddings().weight
    before = model.predict([Example("a truly wonderful film")])
    with torch.no_grad():
        table[:] = table.flip(0).clone()
    assert model.fingerprint() != first
    assert model.predict([Example("a truly wonderful film")]) != before


@pytest.mark.parametrize("change", ["data", "no_grad", "numpy", "other tensor", "dtype"])
def test_changes_between_calls_are_noticed_however_they_are_made(change: str) -> None:
    network, tokenizer = tiny_model("bert")
    model = adapter((network, tokenizer))
    first, layer = model.fingerprint(), network.classifier
    if change == "data":
        layer.weight.data.mul_(1.5)
    elif change == "no_grad":
        with torch.no_grad():
            layer.weight.mul_(1.5)
    elif change == "numpy":
        layer.weight.detach().numpy()[0, 0] += 1
    elif change == "other tensor":
        layer.weight = nn.Parameter(layer.weight * 2)
    else:
        network.half()
    assert model.fingerprint() != first


def test_adapters_of_one_network_share_its_hashes(monkeypatch: pytest.MonkeyPatch) -> None:
    given = tiny_model("bert")
    hashed: list[int] = []
    digests = identity.tensor_digests

    def count(tensors: list[torch.Tensor]) -> list[str]:
        hashed.append(len(tensors))
        return digests(tensors)

    monkeypatch.setattr(identity, "tensor_digests", count)
    first = adapter(given).fingerprint()
    given[0].classifier.bias.data.add_(1)
    assert adapter(given).fingerprint() != first
    given[0].classifier.bias.data.sub_(1)
    assert hashed[0] > 10
    assert hashed[1:] == [1]


def test_checksums_see_what_hashes_see() -> None:
    rng = np.random.default_rng(1)
    for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.int8, torch.float64, torch.bool):
        for size in (0, 1, 7, 1021, 4096, 20_011):
            tensor = (torch.from_numpy(rng.integers(0, 2, size + 1)) * 3).to(dtype)[1:]
            network = nn.Module()
            network.register_buffer("tensor", tensor)
            first = weight_digests(network)
            for place in rng.integers(0, size, 5) if size else ():
                kept = tensor[place].clone()
                tensor[place] = kept.logical_not() if dtype == torch.bool else kept + 1
                assert weight_digests(network) != first
                tensor[place] = kept
                assert weight_digests(network) == first


def test_the_checksum_of_a_gpu_sees_every_change() -> None:
    """It is computed by torch, so a CPU can compute it too."""
    rng = np.random.default_rng(1)
    for size in (0, 5, 8 * 1021, 50_000):
        data = torch.from_numpy(rng.integers(0, 200, size, dtype=np.uint8))
        first = _gpu_checksum(data)
        assert _gpu_checksum(data.clone()) == first
        for place in rng.integers(0, size, 20) if size else ():
            data[place] += 1
            assert _gpu_checksum(data) != first
            data[place] -= 1
        if size > 5:
            data[:8], data[800:808] = data[800:808].clone(), data[:8].clone()
            assert _gpu_checksum(data) != first


def test_hashes_are_of_type_shape_and_values_whatever_lies_between_them() -> None:
    whole = torch.arange(24, dtype=torch.float32).reshape(4, 6)
    digest = tensor_digests([whole])[0]
    assert tensor_digests([whole.t().contiguous().t(), torch.stack([whole, whole], -1)[..., 0]]) == [digest] * 2
    others = [whole.reshape(6, 4), whole.double(), whole.view(torch.int32), whole + 0.5]
    assert digest not in tensor_digests(others)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_saved_model_has_the_same_fingerprint_wherever_it_lies(architecture: str, tmp_path: Path) -> None:
    """Path and version of Transformers once were part of it."""
    network, tokenizer = tiny_model(architecture)
    for folder in (tmp_path / "first", tmp_path / "second" / "deeper"):
        network.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
    config = json.loads((tmp_path / "second" / "deeper" / "config.json").read_text("utf-8"))
    config["transformers_version"] = "5.0.0"
    (tmp_path / "second" / "deeper" / "config.json").write_text(json.dumps(config), "utf-8")
    one = load_model(tmp_path / "first", device="cpu").fingerprint()
    assert one == load_model(tmp_path / "second" / "deeper", device="cpu").fingerprint()
    shutil.move(tmp_path / "first", tmp_path / "moved")
    assert load_model(tmp_path / "moved", device="cpu").fingerprint() == one


def test_other_processes_get_the_same_fingerprint() -> None:
    code = (
        "from didact.models.load import load_model; from didact.testing.tiny import *;"
        "print(load_model(tiny_model('bert')).fingerprint(), load_model(keyword_predict).fingerprint())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": str(SRC), "PYTHONHASHSEED": "3", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    from didact.testing.tiny import keyword_predict

    expected = [load_model(tiny_model("bert")).fingerprint(), load_model(keyword_predict).fingerprint()]
    assert done.stdout.split() == expected


PINNED = {
    "bert": "f7dbffcf1111f0136d4de9d7063f05d8",
    "electra": "6e9a411a5a9e60d6c4c535ce8d65f93c",
    "distilbert": "e04baeb5c53134cb5b96ed9a3f93bbf1",
}


@pytest.mark.parametrize("architecture", PINNED)
def test_every_version_of_transformers_and_every_device_gives_this_fingerprint(architecture: str) -> None:
    """Weights and vocabulary are made without chance; change the table only with ``didact.store.keys.FORMAT``."""
    network, tokenizer = tiny_model(architecture)
    for weight in network.parameters():
        weight.data.copy_(((torch.arange(weight.numel()) % 7 - 3) / 8).view(weight.shape))
    assert adapter((network, tokenizer)).fingerprint() == PINNED[architecture]
    if torch.cuda.is_available():
        network.to("cuda")
        assert adapter((network, tokenizer)).fingerprint() == PINNED[architecture]


def test_the_embedded_model_has_this_fingerprint() -> None:
    assert load_model(device="cpu").fingerprint() == "db01abb88baf6ae1ad1e5f589878ef34"


Tokenizer = PreTrainedTokenizerBase


def unknown_token(tokenizer: Tokenizer) -> None:
    tokenizer.backend_tokenizer.model.unk_token = "a"


def side(tokenizer: Tokenizer) -> None:
    tokenizer.truncation_side = "left"


def types(tokenizer: Tokenizer) -> None:
    tokenizer.model_input_names = ["input_ids", "attention_mask"]


def mask(tokenizer: Tokenizer) -> None:
    tokenizer.mask_token = "<unk>"


def normalizer(tokenizer: Tokenizer) -> None:
    tokenizer.backend_tokenizer.normalizer = normalizers.BertNormalizer(lowercase=False)


def accents(tokenizer: Tokenizer) -> None:
    tokenizer.backend_tokenizer.normalizer.strip_accents = False


def cutting(tokenizer: Tokenizer) -> None:
    tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()


def added(tokenizer: Tokenizer) -> None:
    tokenizer.add_tokens([AddedToken("film", lstrip=True)])


def ending(tokenizer: Tokenizer) -> None:
    from tokenizers import processors

    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="$A", pair="$A $B:1", special_tokens=[]
    )


def entry(tokenizer: Tokenizer) -> None:
    """Two words of the vocabulary swap their ids; its length stays."""
    inner = json.loads(tokenizer.backend_tokenizer.to_str())
    vocabulary = inner["model"]["vocab"]
    vocabulary["film"], vocabulary["plot"] = vocabulary["plot"], vocabulary["film"]
    tokenizer.backend_tokenizer.model = type(tokenizer.backend_tokenizer).from_str(json.dumps(inner)).model


@pytest.mark.parametrize(
    "change", [unknown_token, side, types, mask, normalizer, accents, cutting, added, ending, entry]
)
def test_every_rule_of_a_tokenizer_counts(change: Callable[[Tokenizer], None]) -> None:
    """Only its length once was part of the fingerprint."""
    network, tokenizer = tiny_model("bert")
    model = adapter((network, tokenizer))
    first = model.fingerprint()
    change(tokenizer)
    assert model.fingerprint() != first


def test_using_a_tokenizer_does_not_count() -> None:
    tokenizer = tiny_tokenizer("gpt2")
    first = tokenizer_identity(tokenizer)
    tokenizer.backend_tokenizer.enable_truncation(9)
    tokenizer(["a film", "a"], padding="longest", truncation=True, max_length=4)
    assert tokenizer_identity(tokenizer) == first


def test_merges_are_the_same_in_both_notations() -> None:
    raw = json.loads(tiny_tokenizer("gpt2").backend_tokenizer.to_str())
    merges = [merge if isinstance(merge, list) else merge.split(" ") for merge in raw["model"]["merges"]]
    notations = [merges, [" ".join(merge) for merge in merges], merges[::-1]]
    digests = [
        identity._rules_digest(json.dumps(raw | {"model": raw["model"] | {"merges": given}})) for given in notations
    ]
    assert digests[0] == digests[1] != digests[2]


def test_settings_of_reader_and_head_count() -> None:
    given = tiny_model("bert")
    prints = {adapter(given).fingerprint(), adapter(given, max_length=16).fingerprint()}
    prints.add(adapter(tiny_model("bert", ("bad", "good"))).fingerprint())
    assert len(prints) == 3
    assert adapter(given, inputs="pair").fingerprint() in prints  # reads a text as before


def test_modules_count_where_the_weights_are_the_same() -> None:
    network, tokenizer = tiny_model("bert")
    model = adapter((network, tokenizer))
    prints = {model.fingerprint()}
    network.bert.pooler.activation = nn.ReLU()
    prints.add(model.fingerprint())
    network.bert.encoder.layer[0].output.LayerNorm.eps = 1e-3
    prints.add(model.fingerprint())
    plain = network.classifier.forward
    network.classifier.forward = lambda states: 2 * plain(states)
    prints.add(model.fingerprint())
    assert len(prints) == 4


class Packed(nn.Module):
    """Keeps its weights as quantised networks do: outside of parameters and buffers."""

    def __init__(self, scale: float, value: float) -> None:
        super().__init__()
        self.packed = (torch.quantize_per_tensor(torch.full((8, 4), value), scale, 0, torch.qint8), torch.ones(4))

    def get_extra_state(self) -> tuple[torch.Tensor, ...]:
        return self.packed


@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor:UserWarning")
def test_packed_weights_count() -> None:
    digests = [weight_digests(Packed(*given)) for given in ((0.1, 1.0), (0.1, 1.0), (0.1, 1.1), (0.2, 2.0))]
    assert digests[0] == digests[1]
    assert len({str(one) for one in digests}) == 3


def test_name_and_version_are_for_functions() -> None:
    with pytest.raises(ParameterError, match="name and version are for functions"):
        load_model(tiny_model("bert"), version="2")
