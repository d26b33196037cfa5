"""An encoder with several students' weights against the students by themselves."""

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from didact.errors import CapabilityError
from didact.students.attention_tap import tapped_attention, use_attention_tap
from didact.students.stacked import StackedEmbedding, StackedLinear, check_stackable, stacked
from didact.testing.tiny import tiny_model

STACKABLE = ["bert", "roberta", "xlm-roberta", "electra", "albert", "distilbert", "modernbert", "gpt2"]
SHAPE = (6, 9)


def encoder(architecture: str) -> PreTrainedModel:
    model: Any = tiny_model(architecture)[0].base_model
    if getattr(model, "pooler", None) is not None:
        model.pooler = None
    found: PreTrainedModel = model
    return found


def inputs(rows: int = SHAPE[0]) -> dict[str, Tensor]:
    ids = torch.randint(5, 30, (rows, SHAPE[1]), generator=torch.Generator().manual_seed(0))
    lengths = torch.tensor([9, 4, 7, 9, 2, 6])[:rows]
    mask = torch.arange(SHAPE[1]) < lengths[:, None]
    return {"input_ids": ids.masked_fill(~mask, 0), "attention_mask": mask.long()}


@pytest.mark.parametrize("architecture", STACKABLE)
def test_students_in_a_stack_read_and_learn_as_they_do_alone(architecture: str) -> None:
    model = encoder(architecture)
    words = model.get_input_embeddings()
    words.requires_grad_(False)
    together = stacked(model, 3, [words])
    alone = [copy.deepcopy(model) for _ in range(3)]
    for number, scale in enumerate((1.0, 1.2, 0.8)):
        for one in (alone[number], _slice(together, number)):
            with torch.no_grad():
                for weight in one if isinstance(one, list) else [w for w in one.parameters() if w.requires_grad]:
                    weight.mul_(scale)
    given = inputs()
    states = together(**given).last_hidden_state
    there = given["attention_mask"].bool()
    states[there].square().sum().backward()
    for number, one in enumerate(alone):
        rows = slice(2 * number, 2 * number + 2)
        own = one(**{name: value[rows] for name, value in given.items()}).last_hidden_state
        torch.testing.assert_close(states[rows][there[rows]], own[there[rows]], atol=1e-4, rtol=1e-4)
        own[there[rows]].square().sum().backward()
        # Weights are transposed in a stack, so gradients are compared by their sizes.
        wanted = sorted(float(w.grad.norm()) for w in one.parameters() if w.grad is not None)
        found = sorted(float(w.grad[number].norm()) for w in together.parameters() if w.grad is not None)
        assert found == pytest.approx(wanted, rel=1e-3, abs=1e-3)


def _slice(together: nn.Module, number: int) -> list[Tensor]:
    return [weight[number] for weight in together.parameters() if weight.requires_grad]


def test_the_given_model_is_left_as_it_was_and_shared_modules_are_kept_once() -> None:
    model = encoder("bert")
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    words: Any = model.get_input_embeddings()
    together = stacked(model, 4, [words])
    with torch.no_grad():
        for weight in together.parameters():
            weight.add_(1)
    assert all(torch.equal(weight, before[name]) for name, weight in model.state_dict().items())
    assert words.weight.requires_grad
    total = sum(weight.numel() for weight in model.parameters())
    assert sum(weight.numel() for weight in together.parameters()) == 4 * total - 3 * words.weight.numel()
    assert [name for name, weight in together.named_parameters() if not weight.requires_grad] == [
        "embeddings.word_embeddings.weight"
    ]


def test_a_module_of_an_unknown_kind_is_named() -> None:
    with pytest.raises(
        CapabilityError, match=r"LlamaModel cannot be stacked: layers\.0\.input_layernorm is a LlamaRMS"
    ):
        stacked(encoder("llama"), 2)


@pytest.mark.parametrize("architecture", STACKABLE)
def test_usual_encoders_pass_the_trial(architecture: str) -> None:
    check_stackable(encoder(architecture), inputs(4))


@pytest.mark.parametrize("architecture", ["deberta-v2", "longformer"])
def test_encoders_that_use_their_weights_in_ways_of_their_own_fail_the_trial(architecture: str) -> None:
    with pytest.raises(CapabilityError, match="cannot be stacked"):
        check_stackable(encoder(architecture), inputs(4))


@pytest.mark.parametrize("architecture", STACKABLE)
@pytest.mark.parametrize("layer", [0, 1])
def test_a_glance_sees_the_attention_of_the_wanted_layer(architecture: str, layer: int) -> None:
    model = encoder(architecture)
    given = inputs()
    model.set_attn_implementation("eager")
    plain = model(**given, output_attentions=True)
    wanted = plain.attentions[layer].mean(1)
    assert use_attention_tap(model)
    there = given["attention_mask"].bool()
    with tapped_attention(layer, "all") as tap:
        states = model(**given).last_hidden_state
    assert tap.probabilities is not None
    torch.testing.assert_close(tap.probabilities[there], wanted[there], atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(states[there], plain.last_hidden_state[there], atol=1e-4, rtol=1e-4)
    with tapped_attention(layer, "first") as tap:
        model(**given)
    assert tap.probabilities is not None
    torch.testing.assert_close(tap.probabilities[:, 0], wanted[:, 0], atol=1e-5, rtol=1e-5)


def test_first_weights_of_a_layer_depend_on_the_seed_alone() -> None:
    state = torch.random.get_rng_state()
    many = StackedLinear.drawn([3, 5, 8], 4, 2, 0.1)
    one = StackedLinear.drawn([5], 4, 2, 0.1)
    assert torch.equal(many.weight[1], one.weight[0])
    assert not torch.equal(many.weight[0], many.weight[1])
    assert torch.equal(torch.random.get_rng_state(), state), "the global generator is not touched"


def test_embeddings_are_looked_up_in_each_students_own_table() -> None:
    table = torch.arange(12.0).view(2, 3, 2)
    found = StackedEmbedding(table)(torch.tensor([[0, 2], [0, 2]]))
    assert found.tolist() == [[[0, 1], [4, 5]], [[6, 7], [10, 11]]]
