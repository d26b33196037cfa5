"""Layer conductance against captum on the same points, against its own integral, and against its sum."""

import numpy as np
import pytest
import torch
from captum.attr import LayerConductance as CaptumLayerConductance
from torch import Tensor, nn

from didact.attribution.layer_conductance import LayerConductance
from didact.errors import CapabilityError, ParameterError
from didact.models.hidden import hidden_layers
from didact.models.network import NetworkModel
from didact.testing.tiny import TEXTS, tiny_model
from tests.reference.plain import TEXT, encoded, per_unit, read, special, text_model, value, word_vectors

ARCHITECTURES = ["bert", "distilbert", "roberta", "electra", "modernbert", "deberta-v2", "gpt2", "llama"]
WORD = dict.fromkeys(["roberta", "modernbert", "gpt2", "llama"], "Ġgood") | dict.fromkeys(
    ["bert", "distilbert", "electra"], "good"
)
WORD["deberta-v2"] = "<mask>"


def layer_of(model: NetworkModel, index: int) -> nn.Module:
    """The layer, by the names a user would type."""
    inner = model.network.base_model
    kind = model.network.config.model_type
    stack = {"distilbert": "transformer.layer", "modernbert": "layers", "gpt2": "h", "llama": "layers"}
    found = inner.get_submodule(stack.get(kind, "encoder.layer"))
    assert isinstance(found, nn.ModuleList)
    return found[index]


def ends(model: NetworkModel, baseline: str) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
    """Embeddings of baseline and text (1, tokens, dim), and the other inputs."""
    inputs = encoded(model, TEXT)
    text = word_vectors(model, inputs.pop("input_ids"))
    word = model.tokenizer.convert_tokens_to_ids(WORD[model.network.config.model_type])
    known = {"mask": model.tokenizer.mask_token_id, "pad": model.tokenizer.pad_token_id, "token": word}
    token = known.get(baseline)
    start = text.clone()
    start[0, ~special(model, TEXT)] = (
        torch.zeros_like(text[0, 0]) if token is None else word_vectors(model, torch.tensor(token))
    )
    return start, text, inputs


@pytest.mark.parametrize("baseline", ["mask", "pad", "zero"])
@pytest.mark.parametrize("architecture", ["bert", "distilbert", "roberta"])
def test_the_left_rule_equals_captum(architecture: str, baseline: str) -> None:
    model = text_model(architecture)
    start, text, inputs = ends(model, baseline)
    for index in (0, 1):

        def forward(vectors: Tensor) -> Tensor:
            rest = {name: given.expand(len(vectors), -1) for name, given in inputs.items()}
            return read(model.network(inputs_embeds=vectors, **rest).logits, 1, "log_probability")

        theirs = CaptumLayerConductance(forward, layer_of(model, index)).attribute(
            text, start, n_steps=9, method="riemann_trapezoid"
        )
        theirs = theirs[0] if isinstance(theirs, tuple) else theirs
        method = LayerConductance(steps=9, baseline=baseline, layer=index, rule="left", scale="log_probability")
        (found,) = method.explain(model, [TEXT], [1])
        np.testing.assert_allclose(found.array, per_unit(found.units, theirs[0].sum(-1).detach()), atol=1e-4)
        # After the last layer, all that matters to the classifier stands at the special token it reads.
        assert np.abs(found.array).max() > 1e-2 if index == 0 else not found.array.any()
        assert abs(found.details["specials"]) > 1e-2


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_tends_to_the_integral_of_gradient_times_velocity(architecture: str) -> None:
    """The definition: integral over the path of dF/dy dy/dalpha, dy/dalpha from finite differences in doubles."""
    model = text_model(architecture)
    model.network.double()
    start, text, inputs = ends(model, "token")
    seen: list[Tensor] = []

    def keep(module: nn.Module, given: object, output: Tensor | tuple[Tensor]) -> None:
        seen.append(output[0] if isinstance(output, tuple) else output)

    def states(alphas: Tensor) -> tuple[Tensor, Tensor]:
        seen.clear()
        at = (start + alphas[:, None, None] * (text - start)).requires_grad_(True)
        rest = {name: given.expand(len(at), -1) for name, given in inputs.items()}
        return model.network(inputs_embeds=at, **rest).logits[:, 1], seen[0]

    handle = layer_of(model, 0).register_forward_hook(keep)
    nodes, weights = np.polynomial.legendre.leggauss(150)
    # Not smaller, which would magnify rounding: ModernBERT rotates queries and keys in single precision in any case.
    alphas, step = torch.from_numpy(nodes + 1) / 2, 1e-3
    velocity = (states(alphas + step)[1] - states(alphas - step)[1]) / (2 * step)
    numbers, here = states(alphas)
    (gradient,) = torch.autograd.grad(numbers.sum(), here)
    handle.remove()
    total = torch.einsum("k,ktd->t", torch.from_numpy(weights) / 2, gradient * velocity).detach()
    gaps = []
    for steps in (20, 200):
        (found,) = LayerConductance(steps=steps, baseline=f"token:{WORD[architecture]}").explain(model, [TEXT], [1])
        gaps.append(np.abs(found.array - per_unit(found.units, total)).max())
    assert gaps[1] < 0.01 * np.abs(per_unit(found.units, total)).max()
    if architecture != "distilbert":  # its classifier has a ReLU, at whose kinks every rule is of first order
        assert gaps[1] < gaps[0] / 25  # the trapezoid's error falls with the square of the steps


@pytest.mark.parametrize("architecture", ["bert", "distilbert", "roberta"])
def test_all_positions_together_pass_on_the_difference(architecture: str) -> None:
    model = text_model(architecture)
    start, _, inputs = ends(model, "mask")
    (found,) = LayerConductance(steps=300).explain(model, [TEXT], [1])
    base = value(model, 1, inputs_embeds=start, **inputs)
    full = value(model, 1, **encoded(model, TEXT))
    assert found.details["base_value"] == pytest.approx(base, abs=1e-5)
    total = found.array.sum() + found.details["specials"]
    assert total == pytest.approx(full - base, abs=2e-3 * (1 + abs(full - base)))
    assert found.details["completeness_gap"] == pytest.approx(total - (full - base), abs=1e-5)
    (coarse,) = LayerConductance(steps=5).explain(model, [TEXT], [1])
    (captums,) = LayerConductance(steps=5, rule="left").explain(model, [TEXT], [1])
    assert abs(coarse.details["completeness_gap"]) < abs(captums.details["completeness_gap"])


def test_batches_cut_through_a_line_do_not_change_it() -> None:
    whole = LayerConductance(steps=11).explain(text_model("bert"), list(TEXTS))
    pieces = LayerConductance(steps=11).explain(text_model("bert", batch_tokens=70), list(TEXTS))
    for one, other in zip(whole, pieces, strict=True):
        np.testing.assert_allclose(one.array, other.array, rtol=1e-4, atol=1e-4)


def test_a_layer_that_is_not_there_is_named() -> None:
    with pytest.raises(ParameterError, match=r"layer 2 .* 2 layers"):
        LayerConductance(layer=2).explain(text_model("bert"), [TEXT])


def test_shared_layers_are_refused() -> None:
    assert hidden_layers(tiny_model("albert")[0]) is None
    with pytest.raises(CapabilityError, match="layer_conductance needs a model that is hidden"):
        LayerConductance().explain(text_model("albert"), [TEXT])
