"""The work a row must do, from the shapes its launching op recorded: FLOPs, least bytes, a short shape.

Matrix products (rows M, inner K, columns N): 2*M*N*K FLOPs, and each operand and the result moved once.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from traces.columns import NONE, combine, decode, encode

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


def columns(rows: pa.Table, category: pa.DictionaryArray, ops: pa.Table) -> dict[str, pa.Array]:
    """Columns flops, min_bytes and shape for rows whose op is a matrix product; null elsewhere.

    `rows` has the columns op and op_row (into `ops`). Of several kernels under one op only the product
    itself carries the work, not its reduction.
    """
    found = np.full(rows.num_rows, NONE, np.int32)
    works: list[Work | None] = []
    wanted = pc.and_(pc.is_in(rows["op"], pa.array(_OPERANDS)), pc.is_in(category, pa.array(_PRODUCTS)))
    index = np.flatnonzero(pc.and_(wanted, pc.is_valid(rows["op_row"])).to_numpy(zero_copy_only=False))
    calls = ops.take(rows["op_row"].take(index)).select(["name", "dims", "types"])
    coded = [encode(calls[n]) for n in calls.column_names]
    if len(index):
        number, first, _ = combine(*(codes for codes, _ in coded))
        found[index] = number
        for i in first:
            name, dims, types = (texts[codes[i]] if codes[i] != NONE else None for codes, texts in coded)
            works.append(product(name or "", dims, types))
    taken = pa.array(found, mask=found == NONE)
    return {
        "flops": pa.array([w.flops if w else None for w in works], pa.int64()).take(taken),
        "min_bytes": pa.array([w.min_bytes if w else None for w in works], pa.int64()).take(taken),
        "shape": decode(found, [w.shape if w else None for w in works]),
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
    flops = 2 * batch * m * n * k
    if max(flops, moved) >= 2**63:  # no machine does this; the recorded shape is damaged
        return None
    return Work(flops, moved, f"{prefix}M{m} N{n} K{k} {dtype}")


def _whole(shape: object) -> bool:
    return isinstance(shape, list) and all(isinstance(n, int) and n > 0 for n in shape)


def _product(numbers: Sequence[int]) -> int:
    out = 1
    for n in numbers:
        out *= n
    return out
