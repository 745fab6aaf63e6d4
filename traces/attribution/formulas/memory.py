"""Ops that only move data: the least bytes are each input and output once. No FLOPs are counted.

Elementwise, norm, softmax, reduction, copy, lookup and write. Results that the shapes do not give (the mean
that a norm saves for its backward, the one value per row of a reduction) are left out: they are small, and
the bytes are the least.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Final

from traces.attribution.formulas.calls import Tensor, Work, label

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from traces.attribution.formulas.calls import Call


def _aten(names: str, arity: int, *, in_place: bool = True) -> dict[str, int]:
    """Each op, and with `in_place` its variant that ends in an underscore, with the number of operands."""
    suffixes = ("", "_") if in_place else ("",)
    return {f"aten::{name}{suffix}": arity for name in names.split() for suffix in suffixes}


# How many leading inputs are operands: what follows are scalars, or the tensor of an `out=` variant.
ELEMENTWISE: Final = {
    **_aten("abs neg exp exp2 expm1 log log2 log10 log1p sqrt rsqrt sin cos tan tanh sigmoid silu gelu relu "
            "leaky_relu elu hardswish hardsigmoid hardtanh mish reciprocal erf floor ceil round trunc sign "
            "square clamp_min clamp_max nan_to_num bitwise_not", 1),
    **_aten("add sub mul div fmod remainder pow atan2 bitwise_and bitwise_or "
            "bitwise_xor masked_fill", 2),
    **_aten("rsub maximum minimum silu_backward gelu_backward sigmoid_backward tanh_backward "
            "threshold_backward", 2, in_place=False),
    **_aten("clamp lerp addcmul addcdiv", 3),
    "aten::where": 3,
    "kernelgap::add": 2,
}  # fmt: skip
TRUTHS: Final = {
    **_aten("logical_not isnan isinf isfinite", 1, in_place=False),
    **_aten("eq ne lt le gt ge logical_and logical_or logical_xor", 2, in_place=False),
}
# Read the first so many inputs, write something as large as the first.
LIKE_FIRST: Final = {
    "aten::_softmax": (0,), "aten::_log_softmax": (0,), "aten::_softmax_backward_data": (0, 1),
    "aten::native_layer_norm": (0, 2, 3), "aten::native_group_norm": (0, 1, 2),
    "aten::_fused_rms_norm": (0, 2), "kernelgap::rms_norm": (0, 1),
    "kernelgap::softmax": (0,), "kernelgap::bias_gelu_dropout": (0, 1),
}  # fmt: skip
REDUCTIONS: Final = {
    *_aten("sum mean prod amax amin max min argmax argmin any all var std linalg_vector_norm norm", 1,
           in_place=False),
    "kernelgap::argmax",
}  # fmt: skip
# Custom ops whose outputs are among their inputs: (read, written).
LISTED: Final = {
    "aten::copy_": ((1,), (0,)), "aten::fill_": ((), (0,)), "aten::zero_": ((), (0,)),
    "kernelgap::rope": ((0, 1, 2, 3), (0, 1)), "kernelgap::write_kv": ((2, 3), (2, 3)),
    "_C::rms_norm": ((1, 2), (0,)), "_C::fused_add_rms_norm": ((0, 1, 2), (0, 1)),
    "_C::silu_and_mul": ((1,), (0,)), "_C::gelu_and_mul": ((1,), (0,)), "_C::gelu_tanh_and_mul": ((1,), (0,)),
    "_C::rotary_embedding": ((1, 2), (1, 2)), "_C::static_scaled_fp8_quant": ((1,), (0,)),
    "_C::dynamic_scaled_fp8_quant": ((1,), (0,)), "_C::dynamic_per_token_scaled_fp8_quant": ((1,), (0,)),
}  # fmt: skip
_RANK: Final = {"b": 0, "i": 1, "u": 1, "f": 2, "c": 3}  # first letter of a short dtype; bf16 apart
_FLOATING: Final = frozenset(
    _aten("exp exp2 expm1 log log2 log10 log1p sqrt rsqrt sin cos tan tanh sigmoid reciprocal erf div", 1)
)


def elementwise(op: str, call: Call) -> Work | None:
    """Operands broadcast against each other; the result has their promoted dtype (in place: the first's)."""
    arity = ELEMENTWISE.get(op) or TRUTHS[op]
    operands = [call.tensor(i) for i in range(min(arity, len(call.tensors))) if call.given(i)]
    shape = _broadcast(t.shape for t in operands)
    if shape is None or not operands:
        return None
    result = _promoted(operands[1:] if op == "aten::where" else operands, floating=op in _FLOATING)
    if op in TRUTHS:
        result = Tensor(shape, "bool", 1)
    elif op.endswith("_"):
        result = operands[0]
    read = [t for t in operands if t.shape or not shape]  # single values beside tensors may be plain numbers
    moved = sum(t.stored for t in read) + prod(shape) * result.size
    return Work(None, moved, label(shape, result.dtype))


def like_first(op: str, call: Call) -> Work | None:
    """Read the inputs of `LIKE_FIRST[op]`, write a result of the first one's shape and dtype."""
    first = call.tensor(0)
    read = [call.optional(i) for i in LIKE_FIRST[op] if i < len(call.tensors)]
    moved = sum(t.stored for t in read if t is not None) + first.elements * first.size
    return Work(None, moved, label(first.shape, first.dtype))


def reduction(op: str, call: Call) -> Work | None:
    """Read everything once; the result is small and left out. `max(x, y)` of two tensors is elementwise."""
    if call.given(1):
        return None
    x = call.tensor(0)
    return Work(None, x.stored, label(x.shape, x.dtype))


def listed(op: str, call: Call) -> Work | None:
    """Inputs read and inputs written, by place."""
    read, written = LISTED[op]
    outputs = [call.tensor(i) for i in written]
    inputs = [call.tensor(i) for i in read]
    moved = sum(t.stored for t in inputs) + sum(t.stored for t in outputs)
    return Work(None, moved, label(outputs[0].shape, outputs[0].dtype))


def silu_mul(op: str, call: Call) -> Work | None:
    """gate | up [..., 2F] -> [..., F]."""
    x = call.tensor(0)
    return Work(None, x.stored + x.elements * x.size // 2, label(x.shape, x.dtype))


def lookup(op: str, call: Call) -> Work | None:
    """Rows of a table [N, E] by n indices: n rows written, at most N different ones read."""
    table, index = _table(op, call)
    if len(table.shape) != 2:
        return None
    rows, width = table.shape
    row = width * table.size
    moved = index.stored + (min(index.elements, rows) + index.elements) * row
    return Work(None, moved, label((*index.shape, width), table.dtype))


def gather(op: str, call: Call) -> Work | None:
    """One element for each index: as many written, at most the whole input read."""
    x, index = call.tensor(0), call.tensor(2)
    moved = index.stored + (min(index.elements, x.elements) + index.elements) * x.size
    return Work(None, moved, label(index.shape, x.dtype))


def index_write(op: str, call: Call) -> Work | None:
    """`index_copy_(x, dim, index, source)`, `_index_put_impl_(x, indices, values)`: values moved twice."""
    values = call.tensor(3 if op == "aten::index_copy_" else 2)
    if not values.shape:  # one value for many places: how many is not recorded
        return None
    index = call.tensor(2).stored if op == "aten::index_copy_" else 0
    return Work(None, 2 * values.stored + index, label(values.shape, values.dtype))


def cache_write(op: str, call: Call) -> Work | None:
    """vLLM's `reshape_and_cache_flash(key, value, key_cache, value_cache, slots)`: in the cache's dtype."""
    key, value, cache = call.tensor(0), call.tensor(1), call.tensor(2)
    moved = key.stored + value.stored + (key.elements + value.elements) * cache.size
    return Work(None, moved, label(key.shape, key.dtype))


def _table(op: str, call: Call) -> tuple[Tensor, Tensor]:
    """The table and the indices, wherever the op has them. Raises LookupError."""
    if op in ("kernelgap::embedding", "kernelgap::embed"):
        return call.tensor(1), call.tensor(0)
    if op == "aten::index_select":
        if call.scalar(1) not in ("", "0"):
            raise LookupError("not along the rows")
        return call.tensor(0), call.tensor(2)
    return call.tensor(0), call.tensor(1)


def _broadcast(shapes: Iterable[tuple[int, ...]]) -> tuple[int, ...] | None:
    """PyTorch's broadcasting; None if the shapes do not fit."""
    out: list[int] = []
    for shape in shapes:
        sizes = list(shape)
        wider = max(len(out), len(sizes))
        out, sizes = ([1] * (wider - len(s)) + s for s in (out, sizes))
        if any(a != b and 1 not in (a, b) for a, b in zip(out, sizes, strict=True)):
            return None
        out = [b if a == 1 else a for a, b in zip(out, sizes, strict=True)]
    return tuple(out)


def _promoted(operands: list[Tensor], *, floating: bool) -> Tensor:
    """The operand whose dtype the result takes (torch docs, "Tensor Attributes", type promotion).

    Tensors beat single values of the same kind. f16 with bf16 makes f32, and so do integers with a
    floating-point number, or where the op is a floating-point one.
    """
    kinds = [
        (_RANK["f" if t.dtype.startswith("bf") else t.dtype[0]], bool(t.shape), t.size) for t in operands
    ]
    best = max(range(len(operands)), key=lambda i: kinds[i])
    result = operands[best]
    halves = {t.dtype for t in operands if t.shape} >= {"f16", "bf16"}
    whole = floating and kinds[best][0] < _RANK["f"]
    lifted = not result.shape and any(t.shape for t in operands) and kinds[best][0] == _RANK["f"]
    if whole or lifted or (halves and result.size == 2):
        return Tensor((), "f32", 4)
    return result


FORMULAS: Final[dict[str, Callable[[str, Call], Work | None]]] = {
    **dict.fromkeys([*ELEMENTWISE, *TRUTHS], elementwise),
    **dict.fromkeys(LIKE_FIRST, like_first),
    **dict.fromkeys(REDUCTIONS, reduction),
    **dict.fromkeys(LISTED, listed),
    "kernelgap::silu_mul": silu_mul,
    **dict.fromkeys(
        ("aten::embedding", "aten::index_select", "kernelgap::embedding", "kernelgap::embed"), lookup
    ),
    "aten::gather": gather,
    **dict.fromkeys(("aten::index_copy_", "aten::_index_put_impl_"), index_write),
    "_C_cache_ops::reshape_and_cache_flash": cache_write,
}
