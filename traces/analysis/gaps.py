"""Why the device was idle directly before a row."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from traces import ledger
from traces.columns import NONE, decode, encode, matching
from traces.nesting import enclosing, thread_keys
from traces.schema import GAP_CAUSES

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Int64s = NDArray[np.int64]


def causes(rows: pa.Table, gap: Int64s, host: pa.Table) -> pa.DictionaryArray:
    """The cause of each row's gap; None without a gap, or where the launch is unknown.

    step_end: the previous row belongs to another step. launch: the launch call had begun before the device
    became idle, so the time went into the launch itself (stream, graph or queue). Otherwise the host was
    late: sync, its thread sat in a synchronising call when the device became idle; memcpy, the device had
    just finished a copy that the host may have waited for; host, anything else.

    `rows` needs rank, device, start_ns, used_ns, flag, kind, phase, step, launch_start_ns, process, thread;
    `host` is the host calls on the same clock (`start`, `dur`, `name`, `process`, `thread`).
    """
    code = {cause: i for i, cause in enumerate(GAP_CAUSES)}
    out = np.full(rows.num_rows, NONE, np.int32)
    idle_from = rows["start_ns"].to_numpy() - gap
    launched = pc.fill_null(rows["launch_start_ns"], 0).to_numpy()
    known = pc.is_valid(rows["launch_start_ns"]).to_numpy(zero_copy_only=False)
    late = known & (launched >= idle_from)
    previous = _previous(rows)
    copied = pc.equal(rows["kind"], "memcpy").to_numpy(zero_copy_only=False)[previous] & (previous != NONE)
    out[known] = code["launch"]
    out[late] = code["host"]
    out[late & copied] = code["memcpy"]
    out[late & _waiting(rows, idle_from, host)] = code["sync"]
    out[_new_step(rows, previous)] = code["step_end"]
    out[gap <= 0] = NONE
    return decode(out, GAP_CAUSES)


def waits(host: pa.Table) -> pa.Table:
    """Of the host calls those in which the host waits for the device."""
    return host.filter(matching(host["name"], "Synchronize"))


def _waiting(rows: pa.Table, idle_from: Int64s, host: pa.Table) -> NDArray[np.bool_]:
    """True where the launching thread sat in a synchronising call when the device became idle."""
    syncs = waits(host)
    keys, at = thread_keys(syncs, rows)
    inside: NDArray[np.bool_] = enclosing(syncs, keys, idle_from, at) != NONE
    return inside


def _previous(rows: pa.Table) -> Int64s:
    """The usable row before each one on its device, by start; NONE for the first."""
    out = np.full(rows.num_rows, NONE, np.int64)
    good = ledger.usable(rows)
    start = rows["start_ns"].to_numpy()
    for _, _, mine in ledger.devices(rows):
        order = mine[good[mine]]
        order = order[np.argsort(start[order], kind="stable")]
        out[order[1:]] = order[:-1]
    return out


def _new_step(rows: pa.Table, previous: Int64s) -> NDArray[np.bool_]:
    """True where both rows have a step, and not the same one."""
    phase, _ = encode(rows["phase"])
    step = pc.fill_null(rows["step"], NONE).to_numpy()
    both = (previous != NONE) & (step != NONE) & (step[previous] != NONE)
    changed: NDArray[np.bool_] = both & ((step != step[previous]) | (phase != phase[previous]))
    return changed
