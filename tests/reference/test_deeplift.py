"""DeepLIFT against captum where captum is right, against a derivation by hand of an attention layer, and its axiom."""

import captum.attr
import numpy as np
import pytest
import torch
from torch import Tensor, nn

from didact.attribution.deeplift import DeepLift
from didact.errors import CapabilityError
from didact.ops.backward import Rescale, Substituted
from didact.testing.tiny import TEXTS
from tests.reference.plain import TEXT, encoded, per_unit, special, text_model, value, word_vectors

ENCODERS = ["bert", "distilbert", "roberta", "electra", "albert", "xlm-roberta"]


def feed_forward(seed: int) -> nn.Sequential:
    torch.manual_seed(seed)
    layers = [nn.Linear(6, 9), nn.Tanh(), nn.Linear(9, 8), nn.ReLU(), nn.Linear(8, 7), nn.Sigmoid(), nn.Linear(7, 2)]
    return nn.Sequential(*layers).double()


@pytest.mark.filterwarnings("ignore:Setting forward, backward hooks")
@pytest.mark.parametrize("seed", range(3))
def test_equals_captum_on_a_feed_forward_network(seed: int) -> None:
    model = feed_forward(seed)
    x, reference = torch.randn(2, 1, 6).double().requires_grad_(True)
    theirs = captum.attr.DeepLift(model).attribute(x, reference, target=1)
    rows = torch.cat([x, reference]).detach().requires_grad_(True)
    with Substituted(Rescale(1)):
        outputs = model(rows)
    ours = torch.autograd.grad(outputs[1, 1], rows)[0][1] * (x - reference)
    torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-8)


def contributions_by_hand(weights: dict[str, np.ndarray], x: np.ndarray, ref: np.ndarray) -> np.ndarray:
    """The share of every input number in every output of one attention layer with a norm, carried forward.

    A quantity is (value, value of the reference, contributions of the inputs: shape of the value x inputs). Written
    for one output at a time, in loops.
    """
    tokens, dim = x.shape
    inputs = tokens * dim

    def linear(rows: list[list[tuple]], name: str) -> list[list[tuple]]:
        w, b = weights[name + ".w"], weights[name + ".b"]
        return [[add(*map(scale, row, w[j]), (b[j], b[j], 0.0)) for j in range(dim)] for row in rows]

    def times(a: tuple, b: tuple) -> tuple:
        return a[0] * b[0], a[1] * b[1], a[2] * (b[0] + b[1]) / 2 + b[2] * (a[0] + a[1]) / 2

    def add(*terms: tuple) -> tuple:
        return tuple(sum(term[n] for term in terms) for n in range(3))

    def scale(a: tuple, by: float) -> tuple:
        return tuple(by * part for part in a)

    def curve(f, a: tuple) -> tuple:
        return f(a[0]), f(a[1]), a[2] * (f(a[0]) - f(a[1])) / (a[0] - a[1])

    def norm(row: list[tuple]) -> list[tuple]:
        mean = scale(add(*row), -1 / dim)
        centred = [add(a, mean) for a in row]
        spread = scale(add(*(times(a, a) for a in centred)), 1 / dim)
        inverse = curve(lambda v: (v + 1e-5) ** -0.5, spread)
        return [times(a, inverse) for a in centred]

    def softmax(row: list[tuple]) -> list[tuple]:
        own, other = (np.array([a[n] for a in row]) for n in (0, 1))
        p, q = (np.exp(z) / np.exp(z).sum() for z in (own, other))
        s = (p - q) / (np.log(p) - np.log(q))
        middle = sum(si * a[2] for si, a in zip(s, row, strict=True)) / s.sum()
        return [(p[i], q[i], s[i] * (a[2] - middle)) for i, a in enumerate(row)]

    unit = np.eye(inputs) * (x - ref).ravel()
    start = [[(x[t, i], ref[t, i], unit[t * dim + i]) for i in range(dim)] for t in range(tokens)]
    h = [norm(row) for row in start]
    q, k, v = (linear(h, name) for name in "qkv")
    out = []
    for t in range(tokens):
        logits = [scale(add(*(times(q[t][i], k[u][i]) for i in range(dim))), dim**-0.5) for u in range(tokens)]
        p = softmax(logits)
        mixed = [add(*(times(p[u], v[u][i]) for u in range(tokens))) for i in range(dim)]
        out.append([curve(np.tanh, add(mixed[i], h[t][i])) for i in range(dim)])
    return np.array([[cell[2] for cell in row] for row in out])


def test_equals_a_derivation_by_hand_of_an_attention_layer() -> None:
    rng = np.random.default_rng(0)
    tokens, dim = 3, 4
    weights = {f"{name}.{part}": rng.normal(size=(dim, dim) if part == "w" else dim) for name in "qkv" for part in "wb"}
    x, ref = rng.normal(size=(2, tokens, dim))
    w = {name: torch.from_numpy(array) for name, array in weights.items()}
    rows = torch.from_numpy(np.stack([x, ref])).requires_grad_(True)
    with Substituted(Rescale(1)):
        h = nn.functional.layer_norm(rows, (dim,))
        q, k, v = (nn.functional.linear(h, w[f"{n}.w"], w[f"{n}.b"]) for n in "qkv")
        out = torch.tanh(nn.functional.scaled_dot_product_attention(q, k, v) + h)
    by_hand = contributions_by_hand(weights, x, ref)
    for t in range(tokens):
        for i in range(dim):
            (multipliers,) = torch.autograd.grad(out[1, t, i], rows, retain_graph=True)
            ours = (multipliers[1].numpy() * (x - ref)).ravel()
            np.testing.assert_allclose(ours, by_hand[t, i], rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("scale", ["logit", "log_probability", "probability"])
@pytest.mark.parametrize("baseline", ["zero", "mask", "pad", "token:a"])
@pytest.mark.parametrize("architecture", ENCODERS)
def test_scores_add_up_to_the_difference_from_the_baseline(architecture: str, baseline: str, scale: str) -> None:
    """Tolerance 2e-5 relative to 1 + |difference|; 4e-6 was measured."""
    model = text_model(architecture)
    (found,) = DeepLift(baseline=baseline, scale=scale).explain(model, [TEXT])
    inputs = encoded(model, TEXT)
    full = value(model, found.target.index, scale, **inputs)
    ids = inputs.pop("input_ids")
    tokens = {"mask": model.tokenizer.mask_token_id, "pad": model.tokenizer.pad_token_id}
    vectors, words = word_vectors(model, ids), ~special(model, TEXT)
    absent = tokens.get(baseline, model.tokenizer.convert_tokens_to_ids("a"))
    vectors[0, words] = 0 if baseline == "zero" else word_vectors(model, torch.tensor(absent))
    base = value(model, found.target.index, scale, inputs_embeds=vectors, **inputs)
    assert found.details["base_value"] == pytest.approx(base, abs=1e-5)
    assert abs(sum(found.scores) - (full - base)) < 2e-5 * (1 + abs(full - base))
    assert abs(full - base) > 1e-3 * max(abs(full), abs(base))  # or nothing would be tested


@pytest.mark.filterwarnings("ignore:Setting forward, backward hooks")
def test_captum_misses_the_difference_on_a_transformer() -> None:
    """Captum has rules for its modules only; attention, layer norm and Transformers' activations keep derivatives."""
    model = text_model("bert")
    inputs = encoded(model, TEXT)
    ids = inputs.pop("input_ids")

    class Logits(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = model.network

        def forward(self, vectors: Tensor) -> Tensor:
            rest = {name: given.expand(len(vectors), -1) for name, given in inputs.items()}
            return self.inner(inputs_embeds=vectors, **rest).logits

    x = word_vectors(model, ids)
    start = x.clone()
    start[0, ~special(model, TEXT)] = 0
    network = Logits()
    theirs = captum.attr.DeepLift(network).attribute(x.clone().requires_grad_(True), start, target=1).detach()
    (found,) = DeepLift().explain(model, [TEXT], [1])
    with torch.no_grad():
        difference = float(network(x)[0, 1] - network(start)[0, 1])
    captum_gap = abs(float(theirs.sum()) - difference)
    assert abs(sum(found.scores) - difference) < 1e-5
    assert captum_gap > 0.1 * abs(difference)
    assert np.abs(found.array - per_unit(found.units, theirs[0].sum(-1))).max() > 0.01


def test_a_baseline_at_a_singular_point_is_refused() -> None:
    with pytest.raises(CapabilityError, match="use another baseline"):
        DeepLift(baseline="zero").explain(text_model("llama"), [TEXTS[0]])
