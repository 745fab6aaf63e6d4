"""The work a row must do, from the shapes its launching op recorded: FLOPs, least bytes, a short shape.

Matrix products (rows M, inner K, columns N): 2*M*N*K FLOPs, and each operand and the result moved once.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final, NamedTuple

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Sequence

# c10 type names as Kineto writes them: short name and bytes per element.
DTYPES: Final = {
    "c10::Half": ("f16", 2), "c10::BFloat16": ("bf16", 2), "float": ("f32", 4), "double": ("f64", 8),
    "c10::Float8_e4m3fn": ("f8e4m3", 1), "c10::Float8_e5m2": ("f8e5m2", 1), "signed char": ("i8", 1),
}  # fmt: skip
# Where an op keeps its two matrices; `linear` holds the second one transposed.
_OPERANDS: Final = {
    "aten::mm": (0, 1, False), "aten::addmm": (1, 2, False), "aten::bmm": (0, 1, False),
    "aten::baddbmm": (1, 2, False), "aten::linear": (0, 1, True), "kernelgap::linear": (0, 1, True),
}  # fmt: skip
_PRODUCTS: Final = ("gemm", "gemv", "quantized_gemm")


class Work(NamedTuple):
    """FLOPs, least bytes to move, and a shape such as `M2 N6144 K4096 f16`."""

    flops: int
    min_bytes: int
    shape: str


def columns(rows: pa.Table, category: pa.Array, ops: pa.Table) -> dict[str, pa.Array]:
    """Columns flops, min_bytes and shape for rows whose op is a matrix product; null elsewhere.

    Of several kernels under one op only the product itself carries the work, not its reduction.
    """
    known: dict[int, Work | None] = {}
    found: list[Work | None] = []
    dims, types = ops["dims"], ops["types"]
    op_rows = (
        rows["op_row"].to_pylist() if rows["op_row"].null_count < rows.num_rows else [None] * rows.num_rows
    )
    for row, op, kind in zip(op_rows, rows["op"].to_pylist(), category.to_pylist(), strict=True):
        if row is None or op not in _OPERANDS or kind not in _PRODUCTS:
            found.append(None)
            continue
        if row not in known:
            known[row] = product(op, dims[row].as_py(), types[row].as_py())
        found.append(known[row])
    return {
        "flops": pa.array([w.flops if w else None for w in found], pa.int64()),
        "min_bytes": pa.array([w.min_bytes if w else None for w in found], pa.int64()),
        "shape": pa.array([w.shape if w else None for w in found], pa.string()),
    }


def product(op: str, dims: str | None, types: str | None) -> Work | None:
    """The work of one matrix product from its recorded `Input Dims` and `Input type`; None if unclear."""
    try:
        shapes, kinds = json.loads(dims or ""), json.loads(types or "")
        at, bt, transposed = _OPERANDS[op]
        left, right = shapes[at], shapes[bt]
        dtype, size = DTYPES[kinds[at]]
    except (ValueError, KeyError, IndexError, TypeError):
        return None
    if not _whole(left) or not _whole(right) or len(left) < 2 or len(right) < 2:
        return None
    k, n = (right[-1], right[-2]) if transposed else (right[-2], right[-1])
    if left[-1] != k:
        return None
    batched = len(right) == 3
    batch = left[0] if batched else 1
    m = left[-2] if batched else _product(left[:-1])
    moved = batch * size * (m * k + k * n + m * n)
    prefix = f"B{batch} " if batched else ""
    return Work(2 * batch * m * n * k, moved, f"{prefix}M{m} N{n} K{k} {dtype}")


def _whole(shape: object) -> bool:
    return isinstance(shape, list) and all(isinstance(n, int) and n > 0 for n in shape)


def _product(numbers: Sequence[int]) -> int:
    out = 1
    for n in numbers:
        out *= n
    return out
