"""Watches the functions that a pass calls and differentiates them by the given rules."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Protocol, TypeGuard, cast

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from didact.ops.autograd import Context
from didact.ops.backward.rules import Pointwise, Rules, vjp

Pullback = Callable[..., Iterable[Tensor]]
"""(upstream, *inputs) -> what each input gets."""

Function = Callable[..., Tensor]
"""A function of torch, called as the model called it."""

_ACTIVATIONS = """
    gelu relu tanh silu sigmoid erf elu selu celu leaky_relu relu6 hardtanh hardswish hardsigmoid softplus mish pow
    square abs clamp sin cos
"""
_CURVES = "exp log logsigmoid log_sigmoid sqrt rsqrt reciprocal expm1 log1p"
_LINEAR = """
    add __add__ __radd__ add_ sub __sub__ __rsub__ rsub sub_ neg linear addmm mm mean sum cat stack concat split chunk
    unbind view view_as reshape reshape_as transpose permute contiguous clone expand expand_as unsqueeze squeeze flatten
    unflatten movedim swapaxes repeat repeat_interleave tile roll flip pad narrow select diagonal unfold as_strided
    index_select gather __getitem__ __setitem__ copy_ masked_fill where tril triu dropout to float double half bfloat16
    type type_as embedding conv1d conv2d
"""


class Substituted(TorchFunctionMode):
    """Inside the block, differentiable functions are called as ever but are differentiated by the given rules.

    Weights count as constants. An activation that a model writes out in arithmetic (gelu as a product with a tanh) is
    recognised and treated as one function. A function without a rule keeps its derivative; ``unruled`` names it.

    Args:
        rules: what to do instead of differentiating.
    """

    def __init__(self, rules: Rules) -> None:
        super().__init__()
        self.rules = rules
        self.unruled: set[str] = set()
        self._pulling = False

    def __torch_function__(
        self, func: Function, types: object, args: Sequence[object] = (), kwargs: Mapping[str, object] | None = None
    ) -> object:
        """Called by torch for every function on tensors."""
        kwargs = dict(kwargs or {})
        name = getattr(func, "__name__", "")
        if self._pulling or name in ("__get__", "__set__"):
            return func(*args, **kwargs)
        args = [_constant(arg) for arg in args]
        kwargs = {key: _constant(arg) for key, arg in kwargs.items()}
        if not torch.is_grad_enabled() or not any(map(_active, _flat([*args, *kwargs.values()]))):
            return func(*args, **kwargs)
        if _in_place(name) and isinstance(args[0], Tensor):
            args[0]._didact_curve = None  # type: ignore[attr-defined] # changed in place
        handler = _HANDLERS.get(name)
        result: object = NotImplemented
        if handler is not None:
            args += [kwargs.pop(key) for key in _FIRST if key in kwargs]
            result = handler(self, func, *args, **kwargs)
        if result is NotImplemented:
            result = func(*args, **kwargs)
            if name not in _KNOWN and any(map(_active, _flat([result]))):
                self.unruled.add(name)
        return result.detach() if name in self.rules.frozen and isinstance(result, Tensor) else result

    @property
    def details(self) -> dict[str, float]:
        """For the details of an explanation: how many functions had no rule, if any."""
        return {"unruled_operations": float(len(self.unruled))} if self.unruled else {}

    def ruled(self, compute: Callable[..., Tensor], pull: Pullback, *inputs: Tensor) -> Tensor:
        """``compute(*inputs)``, differentiated by ``pull(upstream, *inputs)``."""

        def quietly(*tensors: Tensor) -> Iterable[Tensor]:
            outer, self._pulling = self._pulling, True
            try:
                return pull(*tensors)
            finally:
                self._pulling = outer

        result: Tensor = _Ruled.apply(compute, quietly, *inputs)  # type: ignore[no-untyped-call]
        return result


class _RuledContext(Context, Protocol):
    pull: Pullback


class _Ruled(torch.autograd.Function):
    """A value with a pullback of its own; half precision is widened for the pullback."""

    @staticmethod
    def forward(ctx: _RuledContext, compute: Callable[..., Tensor], pull: Pullback, *inputs: Tensor) -> Tensor:
        ctx.pull = pull
        ctx.save_for_backward(*inputs)
        return compute(*inputs)

    @staticmethod
    def backward(ctx: _RuledContext, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        inputs = ctx.saved_tensors
        pulled = ctx.pull(*(_wide(tensor) for tensor in (*upstream, *inputs)))
        return (None, None, *(down.to(x.dtype) for down, x in zip(pulled, inputs, strict=True)))


# Handlers take a function's own arguments and return its result, or NotImplemented where no rule applies.


def _pointwise(mode: Substituted, func: Function, x: object, *rest: object, **options: object) -> object:
    """A nonlinear function of every entry."""
    if not _active(x) or any(isinstance(arg, Tensor) for arg in (*rest, *options.values())):
        return NotImplemented
    options.pop("inplace", None)
    rule = mode.rules.curve if func.__name__ in _CURVES.split() else mode.rules.activation
    return _applied(mode, lambda t: func(t, *rest, **options), rule, x)


def _applied(mode: Substituted, function: Pointwise, rule: Callable[..., Tensor], x: Tensor) -> Tensor:
    return _tagged(mode.ruled(function, lambda g, t: (rule(g, function, t),), x), x, function)


def _product(mode: Substituted, func: Function, a: object, b: object, **options: object) -> object:
    """A product of two activations; with a constant it is linear."""
    if options:
        return NotImplemented
    elementwise = func.__name__ not in ("matmul", "__matmul__", "bmm")
    if not (_active(a) and _active(b)):
        result = func(a, b)
        scalar, x = (a, b) if _active(b) else (b, a)
        if not elementwise or not isinstance(scalar, (int, float)) or not _active(x):
            return result
        return _tagged(result, x, lambda t: t * scalar)
    (source, f), (other, h) = _curve(a), _curve(b)
    if elementwise and source is other:  # x * tanh(x) and the like: one function of x
        return _one_function(mode, func(a.detach(), b.detach()), lambda t: f(t) * h(t), source)
    return _bilinear(mode, torch.mul if elementwise else torch.matmul, a, b)


def _one_function(mode: Substituted, value: Tensor, function: Pointwise, source: Tensor) -> Tensor:
    rule = mode.rules.activation
    return _tagged(mode.ruled(lambda _: value, lambda g, t: (rule(g, function, t),), source), source, function)


def _bilinear(mode: Substituted, multiply: Callable[[Tensor, Tensor], Tensor], a: Tensor, b: Tensor) -> Tensor:
    def pull(g: Tensor, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        for_a, for_b = vjp(multiply, g, a, b)
        return for_a, for_b

    return mode.ruled(multiply, lambda g, a, b: mode.rules.product(g, pull, a, b), a, b)


def _einsum(mode: Substituted, func: Function, equation: object, *operands: object) -> object:
    tensors = operands[0] if len(operands) == 1 and isinstance(operands[0], (list, tuple)) else operands
    if not isinstance(equation, str) or len(tensors) != 2:
        return NotImplemented
    first, second = tensors
    if not (_active(first) and _active(second)):
        return func(equation, first, second)
    return _bilinear(mode, lambda a, b: torch.einsum(equation, a, b), first, second)


def _quotient(mode: Substituted, func: Function, a: object, b: object, **options: object) -> object:
    """Division by an activation is a product with its reciprocal."""
    if options:
        return NotImplemented
    if not _active(b):
        result = func(a, b)
        return _tagged(result, a, lambda t: t / b) if isinstance(b, (int, float)) and _active(a) else result
    inverse = _applied(mode, torch.reciprocal, mode.rules.curve, b)
    return _product(mode, torch.mul, a, inverse)


def _reversed_quotient(mode: Substituted, func: Function, b: object, a: object) -> object:
    return _quotient(mode, func, a, b)


def _scaled_in_place(mode: Substituted, func: Function, x: object, factor: object) -> object:
    return NotImplemented if _active(factor) else func(x, factor)


def _sum(mode: Substituted, func: Function, a: object, b: object, **options: object) -> object:
    """Linear; but what is still one function of every entry of the same tensor is remembered as such."""
    result = func(a, b, **options)
    if options:
        return result
    if isinstance(a, (int, float)) or isinstance(b, (int, float)):
        scalar, x = (a, b) if isinstance(a, (int, float)) else (b, a)
        return _tagged(result, x, lambda t: func(t, scalar)) if _active(x) else result
    if _active(a) and _active(b):
        (source, f), (other, h) = _curve(a), _curve(b)
        return _tagged(result, source, lambda t: func(f(t), h(t))) if source is other else result
    return result


def _softmax(
    mode: Substituted, func: Function, x: Tensor, dim: int | None = None, *rest: object, **options: object
) -> object:
    if dim is None:
        return NotImplemented
    rule = mode.rules.log_softmax if func.__name__ == "log_softmax" else mode.rules.softmax
    axis = dim if dim < 0 else dim - x.dim()
    return mode.ruled(lambda t: func(t, dim, *rest, **options), lambda g, t: (rule(g, t, axis),), x)


def _layer_norm(mode: Substituted, func: Function, x: Tensor, *rest: object, **options: object) -> object:
    options |= zip(("normalized_shape", "weight", "bias", "eps"), rest, strict=False)
    return _norm(mode, func, x, options, centred=True)


def _rms_norm(mode: Substituted, func: Function, x: Tensor, *rest: object, **options: object) -> object:
    options |= zip(("normalized_shape", "weight", "eps"), rest, strict=False)
    return _norm(mode, func, x, options, centred=False)


def _norm(mode: Substituted, func: Function, x: Tensor, options: dict[str, object], *, centred: bool) -> object:
    if any(map(_active, options.values())):
        return NotImplemented
    dims = tuple(range(-len(cast("Sequence[int]", options["normalized_shape"])), 0))
    weight, eps = cast("Tensor | None", options.get("weight")), cast("float | None", options.get("eps"))
    added = eps if eps is not None else 1e-5 if centred else torch.finfo(x.dtype).eps  # torch's own defaults

    def pull(g: Tensor, x: Tensor) -> tuple[Tensor]:
        weighted = g if weight is None else g * weight.to(g.dtype)
        return (mode.rules.norm(weighted, x, dims, added, centred),)

    return mode.ruled(lambda t: func(t, **options), pull, x)


def _attention(
    mode: Substituted, func: Function, q: Tensor, k: Tensor, v: Tensor, *rest: object, **options: object
) -> object:
    options |= zip(("attn_mask", "dropout_p", "is_causal"), rest, strict=False)
    mask = cast("Tensor | None", options.get("attn_mask"))
    if not (_active(q) and _active(k) and _active(v)) or _active(mask) or options.get("dropout_p"):
        return NotImplemented
    if options.pop("enable_gqa", False):
        k, v = (t.repeat_interleave(q.shape[-3] // t.shape[-3], -3) for t in (k, v))
    scale = cast("float | None", options.get("scale")) or q.shape[-1] ** -0.5
    causal = bool(options.get("is_causal"))

    def pull(g: Tensor, q: Tensor, k: Tensor, v: Tensor) -> list[Tensor]:
        return mode.rules.attention(g, q, k, v, _additive(mask, causal, q, k), scale)

    return mode.ruled(lambda q, k, v: func(q, k, v, **options), pull, q, k, v)


def _additive(mask: Tensor | None, causal: bool, q: Tensor, k: Tensor) -> Tensor | None:
    """What is added to the logits; absent keys get the lowest number, not minus infinity, so that no row is empty."""
    if causal:
        mask = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool, device=q.device).tril()
    if mask is None or mask.dtype != torch.bool:
        return None if mask is None else mask.clamp_min(torch.finfo(mask.dtype).min).to(q.dtype)
    return torch.zeros(mask.shape, dtype=q.dtype, device=q.device).masked_fill(~mask, torch.finfo(q.dtype).min)


def _linear(mode: Substituted, func: Function, *args: object, **options: object) -> object:
    """Linear layers; with a stabiliser, only its share of what arrives is passed on."""
    epsilon = mode.rules.epsilon
    if sum(map(_active, (*args, *options.values()))) > 1:
        return NotImplemented
    result = func(*args, **options)
    if not epsilon:
        return result
    return mode.ruled(
        lambda z: z.view_as(z), lambda g, z: (g * z / (z + torch.where(z < 0, -epsilon, epsilon)),), result
    )


_KNOWN = frozenset(_LINEAR.split())

_FIRST = ("input", "query", "key", "value")
"""Arguments that may come by name but are meant by position, in this order."""

_HANDLERS: dict[str, Callable[..., object]] = {
    **dict.fromkeys((_ACTIVATIONS + _CURVES).split(), _pointwise),
    **dict.fromkeys(("mul", "multiply", "__mul__", "__rmul__", "matmul", "__matmul__", "bmm"), _product),
    **dict.fromkeys(("mul_", "div_"), _scaled_in_place),
    **dict.fromkeys(("div", "divide", "true_divide", "__truediv__"), _quotient),
    **dict.fromkeys(("__rdiv__", "__rtruediv__"), _reversed_quotient),
    **dict.fromkeys(("add", "__add__", "__radd__", "sub", "__sub__", "__rsub__"), _sum),
    **dict.fromkeys(("softmax", "log_softmax"), _softmax),
    **dict.fromkeys(("linear", "addmm", "conv2d"), _linear),
    "einsum": _einsum,
    "layer_norm": _layer_norm,
    "rms_norm": _rms_norm,
    "scaled_dot_product_attention": _attention,
}


def _curve(x: Tensor) -> tuple[Tensor, Pointwise]:
    """The tensor that ``x`` is a function of, entry by entry, and that function; itself when nothing is known."""
    known: tuple[Tensor, Pointwise] | None = getattr(x, "_didact_curve", None)
    return known or (x, lambda t: t)


def _tagged(result: Tensor, x: Tensor, function: Pointwise) -> Tensor:
    """Remember ``result`` as a function of what ``x`` is a function of."""
    source, inner = _curve(x)
    result._didact_curve = (source, lambda t: function(inner(t)))  # type: ignore[attr-defined]
    return result


def _in_place(name: str) -> bool:
    return name == "__setitem__" or (name.endswith("_") and not name.endswith("__"))


def _active(value: object) -> TypeGuard[Tensor]:
    """Whether this is a tensor that depends on the input: weights have been made constants."""
    return isinstance(value, Tensor) and value.requires_grad


def _constant(value: object) -> object:
    if isinstance(value, torch.nn.Parameter):
        return value.detach()
    if isinstance(value, (list, tuple)) and type(value) in (list, tuple):
        return type(value)(map(_constant, value))
    return value


def _flat(values: Iterable[object]) -> Iterator[object]:
    for value in values:
        if isinstance(value, (list, tuple)):
            yield from _flat(value)
        else:
            yield value


def _wide(tensor: Tensor) -> Tensor:
    return tensor.float() if tensor.dtype in (torch.float16, torch.bfloat16) else tensor
