"""What rows reached of the work that is known of them: columns that a breakdown adds up, and a sum's rates.

Which time counts: that of the rows that carry work, and of the kernels that help them (the reduction after a
split-K product, a memset before it) where they are in the same sum. So a product alone has its kernel's rate,
and its module or op has the whole call's. It is the rows' own time (`used_ns`), not their share of overlapped
time: a kernel that shares the device is not faster for it. Flagged rows, their times in doubt, do not count.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from traces.analysis.roofline import dtype_of, peaks
from traces.columns import NONE, combine, encode

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from traces.analysis.roofline import Peaks
    from traces.store import Run

    Bools = NDArray[np.bool_]

# Rows that only help the kernel of their call, if they carry no work of their own.
HELPERS: Final = ("gemm_reduce", "attention_reduce", "fill", "memset")
_EXACT: Final = pa.decimal128(38, 0)  # many rows' FLOPs can exceed int64
# Each is summed: FLOPs and bytes, the time that they took, the least time by the roofline, how many rows have
# no known least time (then the sum has none), and the exclusive time whose work is known.
SUMMED: Final = ("flops", "min_bytes", "work_ns", "floor_ns", "floorless", "known_ns")


def columns(run: Run, exclusive: pa.Array) -> dict[str, pa.Array]:
    """The columns `SUMMED` of each row of the run; `exclusive` is each row's exclusive time, ns."""
    table = run.table
    carries, helps = counting(table)
    counts = carries | helps
    floor = _floors(run, carries)
    lacking = pa.array(~carries)
    return {
        "flops": pc.if_else(lacking, None, table["flops"].combine_chunks()).cast(_EXACT),
        "min_bytes": pc.if_else(lacking, None, table["min_bytes"].combine_chunks()).cast(_EXACT),
        "work_ns": pc.if_else(pa.array(counts), table["used_ns"].combine_chunks(), 0),
        "floor_ns": pa.array(np.nan_to_num(floor)),
        "floorless": pa.array((carries & np.isnan(floor)).astype(np.int64)),
        "known_ns": pc.if_else(pa.array(counts), exclusive, 0),
    }


def counting(table: pa.Table) -> tuple[Bools, Bools]:
    """Which rows carry known work, and which have none of their own but help those (`HELPERS`)."""
    sound = pc.and_(pc.is_null(table["flag"]), pc.greater(table["used_ns"], 0))
    has_work = pc.or_(pc.is_valid(table["flops"]), pc.is_valid(table["min_bytes"]))
    carries = _numpy(pc.and_(sound, has_work))
    return carries, _helps(table, carries) & _numpy(sound)


def dtypes(rows: pa.Table) -> tuple[NDArray[np.int64], list[str | None]]:
    """The number of each row's dtype (`roofline.dtype_of`, from `shape` and `name`), and the dtypes."""
    shapes, shape_texts = encode(rows["shape"])
    names, name_texts = encode(rows["name"])
    kind, first, _ = combine(shapes, names)
    found = [
        dtype_of(shape_texts[shapes[i]] if shapes[i] != NONE else None, name_texts[names[i]]) for i in first
    ]
    distinct = list(dict.fromkeys(found))
    return np.array([distinct.index(d) for d in found], np.int64)[kind], distinct


def rates(sums: dict[str, Any]) -> dict[str, Any]:
    """From sums of `SUMMED` and `exclusive_ns`: what a row of a breakdown says about its work.

    `flops` and `min_bytes` (int), `tflops` (10^12/s) and `gb_per_s` (10^9 bytes/s) over the time that counts,
    `roofline` (0..1: the least time over that time), each None where no row has it; `with_work` (0..1), the
    share of the exclusive time that counts.
    """
    flops, moved = (None if sums[n] is None else int(sums[n]) for n in ("flops", "min_bytes"))
    ns = sums["work_ns"]
    known = flops is not None or moved is not None
    exclusive = sums["exclusive_ns"]
    return {
        "flops": flops,
        "min_bytes": moved,
        "tflops": flops / ns / 1e3 if flops is not None and ns else None,
        "gb_per_s": moved / ns if moved is not None and ns else None,
        "roofline": sums["floor_ns"] / ns if known and ns and not sums["floorless"] else None,
        "with_work": sums["known_ns"] / exclusive if known and exclusive else 0.0,
    }


def ceilings(run: Run, dtype: str | None = None) -> Peaks | None:
    """The ceilings of the run's device; None for one that is not known (a CPU, a GPU not in the table)."""
    device = run.meta["device"]
    measured = device.get("measured")
    return peaks(device.get("name"), dtype, measured if isinstance(measured, dict) else None)


def _floors(run: Run, carries: Bools) -> NDArray[np.float64]:
    """The least time of each row's work, ns; NaN where it has none or a ceiling is not known."""
    out = np.full(run.table.num_rows, np.nan)
    index = np.flatnonzero(carries)
    rows = run.table.select(["shape", "name", "flops", "min_bytes"]).take(pa.array(index))
    if not len(index):
        return out
    kind, found = dtypes(rows)
    roofs = [ceilings(run, d) for d in found]
    flop_rate, byte_rate = (
        np.array([getattr(roof, n, None) or np.nan for roof in roofs])[kind]
        for n in ("flops_per_s", "bytes_per_s")
    )
    parts = [
        np.where(_numpy(pc.is_valid(rows[n])), _floats(rows[n]) / rate * 1e9, 0.0)
        for n, rate in (("flops", flop_rate), ("min_bytes", byte_rate))
    ]
    out[index] = np.maximum(*parts)  # NaN wins: a needed ceiling is missing
    return out


def _helps(table: pa.Table, carries: Bools) -> Bools:
    """Rows without work of categories `HELPERS` whose op, in this phase, has a row that carries work."""
    ops, _ = encode(table["op"])
    phases, _ = encode(table["phase"])
    pair, _, _ = combine(ops, phases)
    served = np.zeros(len(pair) + 1, dtype=bool)
    served[pair[carries]] = True
    helper = _numpy(pc.is_in(table["category"], pa.array(HELPERS)))
    found: Bools = helper & ~carries & (ops != NONE) & served[pair]
    return found


def _numpy(mask: pa.ChunkedArray | pa.Array) -> Bools:
    found: Bools = pc.fill_null(mask, False).to_numpy(zero_copy_only=False)
    return found


def _floats(column: pa.ChunkedArray) -> NDArray[np.float64]:
    found: NDArray[np.float64] = pc.fill_null(column, 0).cast(pa.float64(), safe=False).to_numpy()
    return found
