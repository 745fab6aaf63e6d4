"""Where a trace viewer shows each row: a process per device, a thread per stream, more where rows overlap.

Viewers nest the slices of one thread and drop those that overlap without nesting (perfetto#4280), so rows
that overlap on a stream are spread over several threads, none of which holds two at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pyarrow.compute as pc

from traces.analysis.timeline import lanes

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa
    from numpy.typing import NDArray

STEPS_TID: Final = 1 << 29  # beyond any stream and any thread
IDLE_TID: Final = STEPS_TID + (1 << 20)
_OWN: Final = 1 << 30  # numbers of threads that are ours alone

Device = tuple[int | None, int | None]  # rank, device
Queue = tuple[int, int | None]  # pid and stream, or process and thread on the CPU device


class Thread(NamedTuple):
    """One line of the viewer: numbers for the file, a name and a place for people."""

    pid: int
    tid: int
    name: str
    order: int


@dataclass(frozen=True)
class Tracks:
    """Per row its `pid` and `tid`; the devices' pids; every process and thread to name."""

    pid: NDArray[np.int64]
    tid: NDArray[np.int64]
    devices: dict[Device, int]
    processes: dict[int, str]
    threads: list[Thread]


def place(table: pa.Table) -> Tracks:
    """Place every row of `table`; those of the CPU device stay on the process and thread that ran them."""
    start = table["start_ns"].to_numpy()
    end = start + pc.fill_null(table["dur_ns"], 0).to_numpy()
    names = ("rank", "device", "stream", "process", "thread", "kind", "launch_start_ns")
    rows = list(zip(*(table[n].to_pylist() for n in names), strict=True))
    hosts = {p or 0 for _, _, _, p, _, kind, launch in rows if launch is not None or kind == "cpu_op"}
    devices = _devices({(r, d) for r, d, _, _, _, kind, _ in rows if kind != "cpu_op"}, hosts)
    queue: list[Queue] = [
        (p or 0, t) if kind == "cpu_op" else (devices[r, d], s) for r, d, s, p, t, kind, _ in rows
    ]
    lane = lanes(start, end, queue).tolist()
    threads = _threads(set(zip(queue, lane, strict=True)), "thread" if not devices else "stream")
    return Tracks(
        np.array([q[0] for q in queue], np.int64),
        np.array([threads[q, at].tid for q, at in zip(queue, lane, strict=True)], np.int64),
        devices,
        {pid: f"CPU process {pid}" for pid in hosts} | {pid: _name(*key) for key, pid in devices.items()},
        list(threads.values()),
    )


def _devices(found: set[Device], taken: set[int]) -> dict[Device, int]:
    """A pid for each device: its number, unless a host process or another rank has it."""
    out: dict[Device, int] = {}
    for rank, device in sorted(found, key=lambda key: [(v is not None, v or 0) for v in key]):
        pid = max(device or 0, 0)
        while pid in taken or pid in out.values():
            pid += 1
        out[rank, device] = pid
    return out


def _threads(found: Iterable[tuple[Queue, int]], what: str) -> dict[tuple[Queue, int], Thread]:
    """A thread for each lane of a queue; the first has the stream's own number, where it has one."""
    out: dict[tuple[Queue, int], Thread] = {}
    in_order = sorted(found, key=lambda f: (f[0][0], f[0][1] is not None, f[0][1] or 0, f[1]))
    for order, (queue, lane) in enumerate(in_order):
        pid, number = queue
        own = number is None or lane or not 0 <= number < STEPS_TID
        name = f"{what} {number}" if number is not None else f"no {what}"
        tid = _OWN + order if own or number is None else number
        out[queue, lane] = Thread(pid, tid, f"{name} (overlap {lane})" if lane else name, order)
    return out


def _name(rank: int | None, device: int | None) -> str:
    name = f"GPU {device}" if device is not None else "GPU"
    return f"{name}, rank {rank}" if rank is not None else name
