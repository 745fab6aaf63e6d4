"""The points of a roofline: each op by shape, with the time of its kernels and of those that help them.

A point's time is that of the whole call: a GEMM's split-K reduction, or the memset before it, counts with
the GEMM that it serves, so that a build which splits the work in two kernels is not faster for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from traces import ledger
from traces.analysis import achieved
from traces.analysis.breakdown import steps_of, windows_of
from traces.columns import NONE, combine, decode, encode, number

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from traces.store import Run

    Int64s = NDArray[np.int64]
    Bools = NDArray[np.bool_]

KEYS: Final = ("group", "category", "op", "shape", "dtype")
OTHERS: Final = "other phases"
# Where a helper looks for the row it serves: its own call on its own stream first, then its op anywhere.
_CALL: Final = ("rank", "device", "stream", "phase", "step", "module", "op")
_OP: Final = ("phase", "op")
_BEFORE: Final = ("fill", "memset")  # these run before the kernel they serve, reductions after it


@dataclass(frozen=True)
class Point:
    """All calls of one op with one shape in one run. Times in ns and work in FLOPs and bytes, summed.

    `n` kernels carry the work in `kernel_ns`; `helpers` more help them, `work_ns` is the time of both.
    `floor_ns` is the least time by the roofline, None where a ceiling that it needs is not known.
    """

    group: str | None
    category: str | None
    op: str | None
    shape: str | None
    dtype: str | None
    n: int
    helpers: int
    kernel_ns: int
    work_ns: int
    exclusive_ns: int
    flops: int | None
    min_bytes: int | None
    floor_ns: float | None

    @property
    def call_ns(self) -> float:
        """Mean time of a call."""
        return self.work_ns / self.n

    @property
    def intensity(self) -> float | None:
        """FLOPs per byte; None where either is not known."""
        return self.flops / self.min_bytes if self.flops and self.min_bytes else None

    @property
    def tflops(self) -> float | None:
        """10^12 FLOPs per second."""
        return self.flops / self.work_ns / 1e3 if self.flops is not None else None

    @property
    def gb_per_s(self) -> float | None:
        """10^9 bytes per second."""
        return self.min_bytes / self.work_ns if self.min_bytes is not None else None

    @property
    def roofline(self) -> float | None:
        """The least possible time over the time taken (0..1; above where a ceiling was passed)."""
        return self.floor_ns / self.work_ns if self.floor_ns is not None else None


@dataclass(frozen=True)
class Points:
    """The points of one run, most time first, and the busy time that is in none of them.

    `sum(exclusive_ns of points) + sum(unknown_ns) == busy_ns`, to the ns. `unknown` has the time by category
    (None where that is not known), most first; rows of other phases inside the tiles are `OTHERS`.
    """

    points: list[Point]
    busy_ns: int
    unknown: dict[str | None, int]

    def share(self, ns: float) -> float:
        """`ns` as a share (0..1) of the busy time."""
        return ns / self.busy_ns if self.busy_ns else 0.0


def points(run: Run, phase: str | None = None) -> Points:
    """The ops of a run, or of one phase's tiles, by shape. Raises UsageError for an unknown phase."""
    table = run.table
    exclusive, mine = _inside(run, phase)
    carries, helps = achieved.counting(table)
    source = adopt(table, carries, helps)
    known = mine & (source != NONE)
    if phase is not None:
        known &= mine[source]
    rows = np.flatnonzero(known)
    sums = _sums(run, pa.array(exclusive), rows, carries)
    found = _fold(_keys(table.take(pa.array(source[rows]))), sums)
    return Points(found, int(exclusive.sum()), _unknown(table, exclusive, mine, known))


def adopt(table: pa.Table, carries: Bools, helps: Bools) -> Int64s:
    """The row whose work each row's time counts for: itself if it carries work, NONE for rows of no call.

    A helper serves the nearest row of its op that carries work: on its own stream, in its own step and
    module if there is one, else anywhere in the phase. Reductions look back first, fills ahead.
    """
    out = np.where(carries, np.arange(table.num_rows), NONE)
    ahead = pc.fill_null(pc.is_in(table["category"], pa.array(_BEFORE)), False).to_numpy()
    for names in (_CALL, _OP):
        left = np.flatnonzero(carries | (helps & (out == NONE)))
        if len(left) == int(carries.sum()):
            break
        part = table.select(["start_ns", *names]).take(pa.array(left))
        back, on = _nearest(part, carries[left], names)
        near = np.where(ahead[left], np.where(on != NONE, on, back), np.where(back != NONE, back, on))
        out[left] = np.where(near == NONE, out[left], left[near])
    return out


def _nearest(rows: pa.Table, carries: Bools, names: tuple[str, ...]) -> tuple[Int64s, Int64s]:
    """The last row before each one, and the first after it, that carries work and is equal in `names`.

    Rows that carry work are their own; NONE where there is no such row.
    """
    codes = [encode(rows[n])[0] if pa.types.is_string(rows[n].type) else number(rows[n]) for n in names]
    key, _, _ = combine(*codes)
    order = np.lexsort((rows["start_ns"].to_numpy(), key))
    place = np.arange(len(order))
    last = np.maximum.accumulate(np.where(carries[order], place, NONE))
    after = np.minimum.accumulate(np.where(carries[order], place, len(order))[::-1])[::-1]
    out = []
    for at in (last, np.where(after == len(order), NONE, after)):
        found = np.where(at == NONE, NONE, order[at])
        found = np.where((found != NONE) & (key[found] == key[order]), found, NONE)
        nearest = np.empty(len(order), np.int64)
        nearest[order] = found
        out.append(nearest)
    return out[0], out[1]


def _inside(run: Run, phase: str | None) -> tuple[Int64s, Bools]:
    """Each row's exclusive time in the run or the phase's tiles, and which rows are of the phase."""
    if phase is None:
        return ledger.close(run.table)[0], np.ones(run.table.num_rows, bool)
    exclusive, _ = ledger.close_windows(run.table, windows_of(steps_of(run, phase)))
    mine = pc.fill_null(pc.equal(run.table["phase"], phase), False)
    return exclusive, mine.to_numpy(zero_copy_only=False)


def _sums(run: Run, exclusive: pa.Array, rows: Int64s, carries: Bools) -> pa.Table:
    """The columns to add up, of `rows`."""
    columns = achieved.columns(run, exclusive)
    own = pa.array(np.where(carries, run.table["used_ns"].to_numpy(), 0))
    every = {**columns, "exclusive_ns": exclusive, "kernel_ns": own, "n": pa.array(carries.astype(np.int64))}
    return pa.table(every).take(pa.array(rows))


def _keys(rows: pa.Table) -> pa.Table:
    kind, dtypes = achieved.dtypes(rows)
    dtype = decode(kind, dtypes).cast(pa.string())
    return rows.select(["group", "category", "op", "shape"]).append_column("dtype", dtype)


def _fold(keys: pa.Table, sums: pa.Table) -> list[Point]:
    """One point for each combination of keys, most exclusive time first."""
    table = keys
    for name in sums.column_names:
        table = table.append_column(name, sums[name])
    groups = table.group_by(list(KEYS), use_threads=False).aggregate(
        [("n", "count"), *((n, "sum") for n in sums.column_names)]
    )
    out = [_point(row) for row in groups.to_pylist() if row["n_count"]]
    return sorted(out, key=lambda p: (-p.exclusive_ns, -p.work_ns, str((p.category, p.op, p.shape))))


def _point(row: dict[str, Any]) -> Point:
    flops, moved = (None if row[f"{n}_sum"] is None else int(row[f"{n}_sum"]) for n in ("flops", "min_bytes"))
    return Point(
        **{k: row[k] for k in KEYS}, flops=flops, min_bytes=moved,
        n=row["n_sum"], helpers=row["n_count"] - row["n_sum"], kernel_ns=row["kernel_ns_sum"],
        work_ns=row["work_ns_sum"], exclusive_ns=row["exclusive_ns_sum"],
        floor_ns=None if row["floorless_sum"] else row["floor_ns_sum"],
    )  # fmt: skip


def _unknown(table: pa.Table, exclusive: Int64s, mine: Bools, known: Bools) -> dict[str | None, int]:
    codes, texts = encode(table["category"])
    time: dict[str | None, int] = {}
    for code in np.unique(codes[mine & ~known]):
        rows = mine & ~known & (codes == code)
        time[texts[code] if code != NONE else None] = int(exclusive[rows].sum())
    time[OTHERS] = int(exclusive[~mine].sum())
    return {k: ns for k, ns in sorted(time.items(), key=lambda e: -e[1]) if ns}
