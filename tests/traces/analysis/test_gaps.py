"""Why the device was idle: one case per cause, and what holds for any run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.traces.builders import run
from traces import ledger
from traces.analysis.gaps import causes
from traces.schema import GAP_CAUSES

HOST = pa.schema(
    {"start": pa.int64(), "dur": pa.int64(), "name": pa.string(), "process": pa.int64(), "thread": pa.int64()}
)


def kernel(start: int, dur: int, launch: int | None, **known: Any) -> dict[str, Any]:
    where = {"process": 1, "thread": 2}
    return {"start_ns": start, "dur_ns": dur, "launch_start_ns": launch, **where, **known}


def found(rows: list[dict[str, Any]], *calls: tuple[int, int, str]) -> list[str | None]:
    host = pa.Table.from_pylist(
        [
            {"start": s, "dur": d, "name": name, "process": 1, "thread": 2}
            for s, d, name in calls
        ],
        HOST,
    )  # fmt: skip
    table = run(rows).table
    told: list[str | None] = causes(table, table["gap_ns"].to_numpy(), host).to_pylist()
    return told


FIRST = kernel(0, 10, -5)


@pytest.mark.parametrize(
    ("rows", "calls", "expected"),
    [
        ([FIRST, kernel(10, 5, 2)], [], None),  # back to back
        ([FIRST, kernel(15, 5, 2)], [], "launch"),  # launched while the device was still busy
        ([FIRST, kernel(15, 5, 12)], [], "host"),  # launched when it was idle already
        ([FIRST, kernel(15, 5, 12)], [(1, 10, "cudaStreamSynchronize")], "sync"),
        ([FIRST, kernel(15, 5, 12)], [(1, 2, "cudaStreamSynchronize")], "host"),  # it had returned
        ([FIRST | {"kind": "memcpy"}, kernel(15, 5, 12)], [], "memcpy"),
        ([FIRST | {"kind": "memcpy"}, kernel(15, 5, 2)], [], "launch"),
        (
            [FIRST | {"phase": "decode", "step": 0}, kernel(15, 5, 2, phase="decode", step=1)],
            [],
            "step_end",
        ),
        (
            [FIRST | {"phase": "prefill", "step": 0}, kernel(15, 5, 2, phase="decode", step=0)],
            [],
            "step_end",
        ),
        ([FIRST, kernel(15, 5, None)], [], None),  # no launch in the trace: nothing is guessed
    ],
)
def test_each_cause(rows: list[dict[str, Any]], calls: list[tuple[int, int, str]], expected: str) -> None:
    assert found(rows, *calls) == [None, expected]


def test_another_devices_rows_do_not_count() -> None:
    rows = [FIRST | {"phase": "decode", "step": 0}, kernel(15, 5, 2, device=1), kernel(15, 5, 12)]
    assert found(rows) == [None, "host", "host"]  # device 1 is idle from the window's begin, not a new step


rows_of_a_run = st.lists(
    st.tuples(
        st.integers(0, 80), st.integers(0, 12), st.one_of(st.none(), st.integers(-10, 80)),
        st.integers(0, 1), st.integers(0, 2),
    ),
    min_size=1, max_size=20,
)  # fmt: skip


@given(rows_of_a_run, st.integers(0, 90), st.integers(1, 60))
def test_every_gap_has_its_cause_and_gaps_are_the_idle_time(
    made: list[tuple[int, int, int | None, int, int]], first: int, length: int
) -> None:
    """Of each device and of any tile: what is not busy is in the gaps before rows, or in the tail."""
    rows = [
        kernel(start, dur, launch, device=device, phase="decode", step=step)
        for start, dur, launch, device, step in sorted(made, key=lambda r: r[:2])
    ]
    table = run(rows).table
    gap = table["gap_ns"].to_numpy()
    told = found(rows)
    for row, idle, cause in zip(rows, gap, told, strict=True):
        assert cause in (*GAP_CAUSES, None)
        assert not (cause and not idle)
        if idle and row["launch_start_ns"] is not None:
            assert cause
    for total in ledger.close(table)[2]:
        mine = np.array([r["device"] == total.device for r in rows])
        exclusive = table["exclusive_ns"].to_numpy()[mine].sum()
        assert exclusive + gap[mine].sum() + total.tail_ns == total.span_ns
    check_tile(table, gap, (first, first + length))


def check_tile(table: pa.Table, gap: np.ndarray[Any, np.dtype[np.int64]], tile: tuple[int, int]) -> None:
    """Idle inside a tile: the parts of the gaps inside it, and what lies behind a device's last row."""
    start = table["start_ns"].to_numpy()
    ends = start + table["used_ns"].to_numpy()
    device = table["device"].to_numpy()
    opens = start.min()  # the run's window: no gap begins before it
    for total in ledger.close_windows(table, [tile])[1]:
        mine = device == total.device
        inside = np.minimum(start[mine], tile[1]) - np.maximum(start[mine] - gap[mine], tile[0])
        behind = tile[1] - max(int(ends[mine].max()), tile[0])
        before = min(int(opens), tile[1]) - tile[0]
        assert total.idle_ns == np.maximum(inside, 0).sum() + max(behind, 0) + max(before, 0)
