"""The work a row must do, from the shapes its launching op recorded: FLOPs, least bytes, a short shape.

The formulas are in `formulas/`: products, attention, memory. A call's work belongs to one kernel: to the one
that does it, never to those that help (a split-K or attention reduction, a memset, a layout change). Where
several kernels of a call could be the one, nobody gets it: how they share it is not known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from traces.attribution.formulas import attention, memory, products
from traces.attribution.formulas.calls import Work, plausible, read
from traces.attribution.taxonomy import GROUPS
from traces.columns import NONE, combine, decode, encode, matching

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from traces.attribution.formulas.calls import Call

__all__ = ["KNOWN", "Work", "columns", "of_op", "product"]

_FORMULAS: Final[dict[str, Callable[[str, Call], Work | None]]] = (
    products.FORMULAS | attention.FORMULAS | memory.FORMULAS
)
# Ops whose work follows from their shapes: readers keep the shapes of these.
KNOWN: Final = frozenset((*_FORMULAS, *attention.OURS))
# Categories of the kernel that does a call's work, by the kind of formula.
_PRODUCT: Final = ("gemm", "gemv", "quantized_gemm", "grouped_gemm", "conv", "fused")
_WORKERS: Final = (
    (frozenset(products.FORMULAS), _PRODUCT),
    (frozenset((*attention.FORMULAS, *attention.OURS)), ("attention", "fused")),
    (frozenset(memory.FORMULAS), (*GROUPS["small_op"], "memcpy", "unknown")),
)
CALL: Final = ("name", "dims", "types", "strides", "concrete")


def of_op(
    op: str,
    dims: str | None,
    types: str | None,
    strides: str | None = None,
    concrete: str | None = None,
    *,
    visible: int | None = None,
) -> Work | None:
    """The work of one call from the JSON texts that the profiler recorded; None where it is not known.

    `dims`, `types`, `strides`, `concrete`: `Input Dims`, `Input type`, `Input Strides`, `Concrete Inputs`.
    Without strides an expanded input counts at its full size; without concrete inputs nobody knows whether an
    attention of a whole prompt was causal (its FLOPs are None), and convolutions have no work. `visible`: how
    many keys a query of `kernelgap::attention` over a KV cache sees at least.
    """
    call = read(dims, types, strides, concrete) if op in KNOWN else None
    if call is None:
        return None
    try:
        ours = op in attention.OURS
        work = attention.positioned(op, call, visible) if ours else _FORMULAS[op](op, call)
    except (LookupError, ValueError, TypeError, ArithmeticError):  # not the inputs that this op takes
        return None
    return work if work is not None and plausible(work) else None


def product(op: str, dims: str | None, types: str | None) -> Work | None:
    """`of_op` for matrix products alone."""
    return of_op(op, dims, types) if op in products.PRODUCTS else None


def columns(
    rows: pa.Table, category: pa.DictionaryArray, ops: pa.Table, visible: int | None = None
) -> dict[str, pa.Array]:
    """Columns flops, min_bytes and shape for rows that do the work of an op in `KNOWN`; null elsewhere.

    `rows` has the columns op, op_row (into `ops`), kind and name. `visible` as in `of_op`.
    """
    found = np.full(rows.num_rows, NONE, np.int64)
    works: list[Work | None] = []
    index = _workers(rows, category)
    calls = ops.select(list(CALL)).take(rows["op_row"].take(pa.array(index)))
    if len(index):
        coded = [encode(calls[n]) for n in CALL]
        number = coded[0][0].astype(np.int64)
        for codes, _ in coded[1:]:
            number, first, _ = combine(number.astype(np.int32), codes)
        found[index] = number
        for i in first:
            name, *texts = (texts[codes[i]] if codes[i] != NONE else None for codes, texts in coded)
            works.append(of_op(name or "", *texts, visible=visible))
    taken = pa.array(found, mask=found == NONE)
    return {
        "flops": pa.array([w.flops if w else None for w in works], pa.int64()).take(taken),
        "min_bytes": pa.array([w.min_bytes if w else None for w in works], pa.int64()).take(taken),
        "shape": decode(found, [w.shape if w else None for w in works]),
    }


def _workers(rows: pa.Table, category: pa.DictionaryArray) -> NDArray[np.int64]:
    """The rows that do the work of their call: of a fitting category, and the only such row of the call."""
    able = np.zeros(rows.num_rows, dtype=bool)
    ops, op_texts = encode(rows["op"])
    categories, category_texts = encode(category)
    for names, fitting in _WORKERS:
        mine = np.array([t in names for t in op_texts] + [False])[ops]
        fits = np.array([t in fitting for t in category_texts] + [False])[categories]
        able |= mine & fits
    kept = pc.fill_null(pc.not_equal(rows["kind"], "memcpy"), False).to_numpy(zero_copy_only=False)
    if not kept.all():  # of copies only those within the device's memory have its bandwidth for a limit
        kept |= matching(rows["name"], "DtoD").to_numpy(zero_copy_only=False)
    able &= kept & pc.is_valid(rows["op_row"]).to_numpy(zero_copy_only=False)
    index = np.flatnonzero(able)
    calls = rows["op_row"].take(pa.array(index)).to_numpy()
    _, number, count = np.unique(calls, return_inverse=True, return_counts=True)
    alone: NDArray[np.int64] = index[count[number] == 1]
    return alone
