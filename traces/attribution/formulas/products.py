"""Matrix products and convolutions: 2 FLOPs per multiply-add; operands, bias and result moved once."""

from __future__ import annotations

import json
from math import prod
from typing import TYPE_CHECKING, Final, NamedTuple

from traces.attribution.formulas.calls import Tensor, Work

if TYPE_CHECKING:
    from collections.abc import Callable

    from traces.attribution.formulas.calls import Call


class Operands(NamedTuple):
    """Where an op keeps its two matrices, and what else it reads; `transposed`: the second is [N, K]."""

    left: int
    right: int
    transposed: bool = False
    extra: tuple[int, ...] = ()  # bias, residual, scales
    out_dtype: int | None = None  # where the scalar that names the result's dtype stands
    out_size: int | None = None  # bytes of a result element, where it is not the operands'
    results: float = 1  # how many results of M x N are written: a fused op may keep half, or add another


PRODUCTS: Final = {
    "aten::mm": Operands(0, 1), "aten::bmm": Operands(0, 1),
    "aten::addmm": Operands(1, 2, extra=(0,)), "aten::baddbmm": Operands(1, 2, extra=(0,)),
    "aten::_addmm_activation": Operands(1, 2, extra=(0,)), "aten::addmm_": Operands(1, 2, extra=(0,)),
    "aten::linear": Operands(0, 1, True, (2,)), "aten::_int_mm": Operands(0, 1, out_size=4),
    "aten::_scaled_mm": Operands(0, 1, extra=(2, 3, 4), out_dtype=6),
    "kernelgap::linear": Operands(0, 1, True, (2, 3)), "kernelgap::splitk_linear": Operands(0, 1, True, (2,)),
    "kernelgap::norm_qkv_rope": Operands(0, 2, True, (1, 3)),
    "kernelgap::linear_add": Operands(0, 1, True, (2, 3, 4), results=2),
    "kernelgap::norm_gate_up_silu": Operands(0, 2, True, (1, 3), results=0.5),
    "kernelgap::norm_lm_head": Operands(0, 2, True, (1,)),
}  # fmt: skip
# c10::ScalarType numbers, as `Concrete Inputs` holds them (c10/core/ScalarType.h): bytes per element.
_SCALAR_TYPES: Final = {"5": 2, "6": 4, "7": 8, "15": 2, "23": 1, "24": 1}
# Where padding, stride, dilation and groups stand: their order differs.
_CONVOLUTIONS: Final = {"aten::cudnn_convolution": (2, 3, 4, 5), "aten::miopen_convolution": (3, 4, 5, 6)}


def matrix_product(op: str, call: Call) -> Work | None:
    """The product of `PRODUCTS[op]`: [..., M, K] by [K, N] or [B, K, N]."""
    at = PRODUCTS[op]
    left, right = call.tensor(at.left), call.tensor(at.right)
    if (
        min(len(left.shape), len(right.shape)) < 2
        or len(right.shape) > 3
        or not left.elements * right.elements
    ):
        return None
    k, n = right.shape[-2:][::-1] if at.transposed else right.shape[-2:]
    if left.shape[-1] != k:
        return None
    batched = len(right.shape) == 3
    if batched and (len(left.shape) != 3 or left.shape[0] != right.shape[0]):
        return None
    batch = left.shape[0] if batched else 1
    m = left.shape[-2] if batched else prod(left.shape[:-1])
    extra = [call.optional(i) for i in at.extra if i < len(call.tensors)]
    moved = left.stored + right.stored + int(batch * m * n * at.results) * _out_size(call, at, left)
    moved += sum(t.stored for t in extra if t is not None)
    prefix = f"B{batch} " if batched else ""
    return Work(2 * batch * m * n * k, moved, f"{prefix}M{m} N{n} K{k} {left.dtype}")


def grouped_product(op: str, call: Call) -> Work | None:
    """`_grouped_mm`: rows [M, K] in groups by weights [G, K, N], every row in one group.

    Which groups have rows is data on the device, so the least bytes are unknown.
    """
    left, right = call.tensor(0), call.tensor(1)
    if len(left.shape) != 2 or len(right.shape) != 3 or left.shape[1] != right.shape[1]:
        return None
    (m, k), (groups, _, n) = left.shape, right.shape
    return Work(2 * m * n * k, None, f"G{groups} M{m} N{n} K{k} {left.dtype}")


def convolution(op: str, call: Call) -> Work | None:
    """x [N, C, ...], weight [O, C/groups, ...]: each output element is a product over C/groups * kernel.

    Needs the scalars that the trace records as `Concrete Inputs`; output size as in torch.nn.Conv2d.
    """
    x, weight = call.tensor(0), call.tensor(1)
    places = _CONVOLUTIONS[op]
    padding, stride, dilation = (json.loads(call.scalar(i) or "null") for i in places[:3])
    kernel, spatial = weight.shape[2:], x.shape[2:]
    if not all(isinstance(v, list) and len(v) == len(kernel) for v in (padding, stride, dilation)):
        return None
    sizes = zip(spatial, kernel, padding, stride, dilation, strict=True)
    out = [(n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, p, s, d in sizes]
    if x.shape[1] != weight.shape[1] * int(call.scalar(places[3])) or min(out, default=0) < 1:
        return None
    results = x.shape[0] * weight.shape[0] * prod(out)
    moved = x.stored + weight.stored + results * x.size
    form = "x".join(map(str, (*x.shape, *weight.shape[:1], *kernel)))
    return Work(2 * results * prod(weight.shape[1:]), moved, f"conv {form} {x.dtype}")


def _out_size(call: Call, at: Operands, left: Tensor) -> int:
    """Bytes of a result element; an out_dtype that was not recorded counts as the operands' own."""
    if at.out_dtype is not None:
        return _SCALAR_TYPES.get(call.scalar(at.out_dtype), left.size)
    return at.out_size or left.size


FORMULAS: Final[dict[str, Callable[[str, Call], Work | None]]] = {
    **dict.fromkeys(PRODUCTS, matrix_product),
    "aten::_grouped_mm": grouped_product,
    "aten::_scaled_grouped_mm": grouped_product,
    **dict.fromkeys(_CONVOLUTIONS, convolution),
}
