from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.traces.readers.nsys_exports import FORMS, YEARS, Made, tid
from traces.readers import nsys, nsys_rows
from traces.readers.timeline import GPU, HOST

if TYPE_CHECKING:
    from pathlib import Path

    from traces.readers.timeline import Timeline

INT64 = st.integers(-(2**63), 2**63 - 1)
TIMES = st.none() | INT64 | st.sampled_from([0, -(2**63), 2**63 - 1])


def read(tmp_path: Path, made: Made, form: str = "sqlite") -> Timeline:
    return nsys.read(made.write(tmp_path, form))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("year", YEARS)
def test_rows_of_every_year_and_form(tmp_path: Path, year: int, form: str) -> None:
    made = Made(year).kernel("void gemm<float>(int)", 100, 107, correlationId=5, deviceId=1, streamId=9)
    made.activity("MEMCPY", 110, 112, bytes=64, copyKind=1, srcKind=0, dstKind=2, correlationId=6)
    made.activity("MEMSET", 120, 121, bytes=8, memKind=2, correlationId=7)
    made.call("cudaLaunchKernel_v7000", 90, 95, correlationId=5)
    timeline = read(tmp_path, made, form)
    assert (timeline.gpu.schema, timeline.host.schema) == (GPU, HOST)
    kernel, copy, fill = timeline.gpu.to_pylist()
    assert kernel == {
        "start": 100, "dur": 7, "kind": "kernel", "name": "void gemm<float>(int)", "rank": None, "device": 1,
        "stream": 9, "process": 7, "correlation": 5, "external": None, "graph_id": None, "graph_node": None,
        "bytes": None, "grid_x": 2, "grid_y": 3, "grid_z": 1, "block_x": 128, "block_y": 1, "block_z": 1,
        "registers": 32, "shared_bytes": 1040, "occupancy": None,
    }  # fmt: skip
    assert {k: copy[k] for k in ("start", "dur", "kind", "name", "bytes", "grid_x")} == {
        "start": 110, "dur": 2, "kind": "memcpy", "name": "Memcpy HtoD (Pageable -> Device)", "bytes": 64,
        "grid_x": None,
    }  # fmt: skip
    assert (fill["kind"], fill["name"], fill["bytes"]) == ("memset", "Memset (Device)", 8)
    assert timeline.host.to_pylist() == [
        {"start": 90, "dur": 5, "name": "cudaLaunchKernel", "process": 7, "thread": 8, "correlation": 5}
    ]
    assert timeline.events == 4
    assert (timeline.notes.repaired, timeline.notes.dropped) == ({}, {})


@pytest.mark.parametrize("form", FORMS)
def test_a_graph_traced_by_node(tmp_path: Path, form: str) -> None:
    made = Made(2025).kernel(graphNodeId=(5 << 32) + 3).kernel(graphNodeId=2**63 + 1).kernel(graphNodeId=0)
    made.activity("MEMSET", bytes=4, graphNodeId=(5 << 32) + 4).call("cudaGraphLaunch_v10000")
    gpu = read(tmp_path, made, form).gpu
    assert gpu["graph_node"].to_pylist() == [(5 << 32) + 3, None, None, (5 << 32) + 4]
    assert gpu["graph_id"].to_pylist() == [5, None, None, 5]


def test_the_graph_id_that_newer_exports_have_wins(tmp_path: Path) -> None:
    made = Made(2026).kernel(graphNodeId=(5 << 32) + 3, graphId=9).kernel(graphNodeId=5 << 32, graphId=0)
    assert read(tmp_path, made).gpu["graph_id"].to_pylist() == [9, 5]


def test_a_graph_traced_as_a_whole(tmp_path: Path) -> None:
    made = Made(2024).activity("GRAPH_TRACE", 5, 95, graphId=5, graphExecId=6)
    made.activity("GRAPH_TRACE", 0, 0, graphExecId=6, deviceId=2**31 - 1).activity("GRAPH_TRACE", 7, 8)
    rows = read(tmp_path, made).gpu.to_pylist()
    assert [(r["kind"], r["name"], r["graph_id"], r["dur"], r["device"]) for r in rows] == [
        ("graph", "CUDA graph 5", 5, 90, 0),
        ("graph", "CUDA graph 6", 6, 0, None),
        ("graph", "CUDA graph", None, 1, 0),
    ]


def test_replays_that_left_no_rows_are_counted(tmp_path: Path) -> None:
    made = Made(2023).kernel(correlationId=1)
    made.call("cudaGraphLaunch_v10000", correlationId=1).call("cudaGraphLaunch_v10000", correlationId=2)
    made.call("cuGraphLaunch", correlationId=1, globalTid=tid(70, 8))  # another process
    assert read(tmp_path, made).notes.dropped["graph_replay_without_rows"]["count"] == 2


def test_names_demangled_then_short_then_mangled_then_none(tmp_path: Path) -> None:
    made = Made().kernel("full")
    made.kernel(demangledName=None, shortName=made.string("short"))
    made.kernel(demangledName=9999, shortName=9998, mangledName=made.string("_Z1k"))
    made.kernel("", shortName=None).kernel(demangledName=None)
    timeline = read(tmp_path, made)
    assert timeline.gpu["name"].to_pylist() == ["full", "short", "_Z1k", nsys_rows.UNNAMED, nsys_rows.UNNAMED]
    assert timeline.notes.repaired["no_name"] == {"count": 2, "first_offset": 3}


def test_without_strings_every_kernel_is_kept_and_counted(tmp_path: Path) -> None:
    made = Made().kernel().kernel().call("cudaLaunchKernel_v7000")
    del made.rows["StringIds"]
    timeline = read(tmp_path, made)
    assert timeline.gpu["name"].to_pylist() == [nsys_rows.UNNAMED] * 2
    assert timeline.host["name"].to_pylist() == [None]
    assert timeline.notes.repaired["no_name"]["count"] == 2


def test_hopeless_times_saturate_and_stay(tmp_path: Path) -> None:
    low, high = -(2**63), 2**63 - 1
    made = Made()
    for start, end in [(0, 0), (9, 4), (low, high), (high, low), (None, 5), (8, None), (-5, 5)]:
        made.kernel("k", start, end)
    timeline = read(tmp_path, made)
    assert timeline.gpu["start"].to_pylist() == [0, 9, low, high, 0, 8, -5]
    assert timeline.gpu["dur"].to_pylist() == [0, -5, high, low, 0, 0, 10]
    assert timeline.notes.repaired == {
        "no_timestamp": {"count": 1, "first_offset": 4}, "no_duration": {"count": 1, "first_offset": 5},
    }  # fmt: skip


def test_host_calls_without_a_time_are_dropped_and_counted(tmp_path: Path) -> None:
    made = Made().call("a", None, 5).call("b", -(2**63), 5).call("c_v7000_ptsz", 1, 5).call("d_v2", -8, 5)  # type: ignore[arg-type]
    timeline = read(tmp_path, made)
    assert timeline.host["name"].to_pylist() == ["c_v7000_ptsz", "d"]
    assert timeline.notes.dropped["no_timestamp"]["count"] == 2


@pytest.mark.parametrize("form", FORMS)
def test_processes_and_devices_that_share_ids_stay_apart(tmp_path: Path, form: str) -> None:
    made = Made()
    for process, device in [(7, 0), (0xFFFFFF, 1), (1, 7)]:
        made.kernel(globalPid=tid(process), deviceId=device, correlationId=42)
        made.call("cudaLaunchKernel_v7000", globalTid=tid(process, 0xABCDEF), correlationId=42)
    timeline = read(tmp_path, made, form)
    assert timeline.gpu["process"].to_pylist() == [7, 0xFFFFFF, 1]
    assert timeline.host["process"].to_pylist() == [7, 0xFFFFFF, 1]
    assert timeline.host["thread"].to_pylist() == [0xABCDEF] * 3
    assert timeline.gpu["correlation"].to_pylist() == [42] * 3


def test_what_does_not_fit_a_column_is_null(tmp_path: Path) -> None:
    made = Made().kernel(registersPerThread=2**40, gridX=2**31 - 1, dynamicSharedMemory=2**31, globalPid=None)
    (row,) = read(tmp_path, made).gpu.to_pylist()
    assert [row[n] for n in ("registers", "grid_x", "shared_bytes", "process")] == [
        None,
        2**31 - 1,
        None,
        None,
    ]


def test_names_of_copies(tmp_path: Path) -> None:
    made = Made()
    for copy, source, target in [
        (2, 2, 1),
        (8, 2, 2),
        (10, None, 2),
        (11, 4, 4),
        (99, 0, 2),
        (None, None, None),
    ]:
        made.activity("MEMCPY", bytes=1, copyKind=copy, srcKind=source, dstKind=target)
    for kind in (2, 1, None, 77):
        made.activity("MEMSET", bytes=1, memKind=kind)
    assert read(tmp_path, made).gpu["name"].to_pylist() == [
        "Memcpy DtoH (Device -> Pinned)", "Memcpy DtoD (Device -> Device)", "Memcpy PtoP",
        "Memcpy unified HtoD (Managed -> Managed)", "Memcpy (Pageable -> Device)", "Memcpy",
        "Memset (Device)", "Memset (Pinned)", "Memset", "Memset",
    ]  # fmt: skip


def full() -> Made:
    made = Made(2026).kernel().call("cudaLaunchKernel_v7000").range("decode", 0, 9)
    made.activity("MEMCPY", bytes=1).activity("MEMSET", bytes=1).activity("GRAPH_TRACE", graphId=1)
    made.add("ANALYSIS_DETAILS", duration=99, startTime=0, stopTime=99)
    return made.add("TARGET_INFO_CUDA_DEVICE", gpuId=0, cudaId=0, pid=7)


@pytest.mark.parametrize("table", [name for name, rows in full().rows.items() if rows])
def test_any_table_may_be_missing(tmp_path: Path, table: str) -> None:
    whole, made = full(), full()
    del made.rows[table]
    timeline = read(tmp_path, made)
    is_gpu = table.rpartition("_")[2] in ("KERNEL", "MEMCPY", "MEMSET", "TRACE")
    assert timeline.gpu.num_rows == 4 - is_gpu
    assert timeline.events == sum(len(whole.rows[t]) for t in whole.rows if "KIND" in t or "NVTX" in t) - (
        is_gpu or table in ("CUPTI_ACTIVITY_KIND_RUNTIME", "NVTX_EVENTS")
    )


@pytest.mark.parametrize("form", FORMS)
def test_tables_renamed_by_a_later_version_are_found_and_counted(tmp_path: Path, form: str) -> None:
    made = full()
    for table in ("CUPTI_ACTIVITY_KIND_KERNEL", "NVTX_EVENTS", "StringIds"):
        made.rows[f"{table}_V3"] = made.rows.pop(table)
    timeline = read(tmp_path, made, form)
    assert (timeline.gpu.num_rows, timeline.ranges.num_rows) == (4, 1)
    assert timeline.gpu["name"][0].as_py() == "k"
    assert timeline.notes.repaired["renamed_table"]["count"] == 3


def test_of_two_versions_of_a_table_the_one_with_rows_is_read_and_a_second_is_counted(tmp_path: Path) -> None:
    made = Made().add("CUPTI_ACTIVITY_KIND_KERNEL_V2", start=1, end=2).kernel("new")
    path = made.write(tmp_path)
    first = nsys.read(path)
    assert first.gpu["name"].to_pylist() == ["new"]
    assert first.notes.dropped["table_of_other_version"]["count"] == 1
    with sqlite3.connect(path) as connection:
        connection.execute("DELETE FROM CUPTI_ACTIVITY_KIND_KERNEL")
    connection.close()
    second = nsys.read(path)
    assert second.gpu["start"].to_pylist() == [1]
    assert second.notes.repaired["renamed_table"]["count"] == 1


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(["KERNEL", "MEMCPY", "MEMSET", "GRAPH_TRACE"]), TIMES, TIMES, INT64),
        max_size=9,
    ),
    st.lists(st.tuples(TIMES, INT64), max_size=5),
    st.sampled_from(FORMS),
)
def test_rows_in_are_rows_out(
    tmp_path_factory: pytest.TempPathFactory, gpu: list[Any], host: list[Any], form: str
) -> None:
    made = Made(2026)
    for table, start, end, odd in gpu:
        made.activity(
            table, start, end, correlationId=odd, graphNodeId=abs(odd), deviceId=odd, bytes=odd, gridZ=odd
        )
    for start, odd in host:
        made.call("cudaGraphLaunch_v10000", start, odd, correlationId=odd, globalTid=abs(odd))
    timeline = read(tmp_path_factory.mktemp("made"), made, form)
    lost = timeline.notes.dropped.get("no_timestamp", {"count": 0})["count"]
    assert timeline.gpu.num_rows == len(gpu)
    assert timeline.host.num_rows + lost == len(host)
    timeline.gpu.validate(full=True)
    order = ["KERNEL", "MEMCPY", "MEMSET", "GRAPH_TRACE"]
    expected = [start or 0 for _, start, *_ in sorted(gpu, key=lambda row: order.index(row[0]))]
    assert timeline.gpu["start"].to_pylist() == expected
