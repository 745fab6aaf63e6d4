"""Chrome JSON: every nanosecond kept, overlaps visible, and read back to the same rows."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.traces.builders import run, step
from traces import store
from traces.export import chrome
from traces.export.host import micros
from traces.ingest import ingest

if TYPE_CHECKING:
    from pathlib import Path

RUNS = store.find([store.gallery()])
SAME = (
    "start_ns", "dur_ns", "used_ns", "exclusive_ns", "gap_ns", "gap_cause", "kind", "name", "group",
    "category", "phase", "step", "rank", "device", "stream", "process", "thread", "correlation", "link",
    "launch_start_ns", "launch_dur_ns", "launch_api", "grid_x", "block_z", "registers", "shared_bytes",
    "occupancy", "bytes", "flag",
)  # fmt: skip


def text(made: store.Run) -> bytes:
    return b"".join(chrome.export(made).text)


def parsed(made: store.Run) -> dict[str, Any]:
    return json.loads(text(made), parse_float=Decimal)  # type: ignore[no-any-return]


def drawn(made: store.Run, cat: str = "kernel") -> list[dict[str, Any]]:
    return [e for e in parsed(made)["traceEvents"] if e.get("cat") == cat]


def again(made: store.Run, folder: Path) -> store.Run:
    path = folder / "again.json"
    path.write_bytes(text(made))
    return ingest(path)


def ns(value: Decimal) -> int:
    assert value * 1000 == int(value * 1000)
    return int(value * 1000)


@pytest.mark.parametrize("path", RUNS, ids=lambda p: p.stem[:24])
def test_a_gallery_run_reads_back_to_the_same_rows(path: Path, tmp_path: Path) -> None:
    made = store.read(path)
    back = again(made, tmp_path)
    for name in SAME:
        assert back.table[name].to_pylist() == made.table[name].to_pylist(), name
    for fact in ("model", "variant", "mode", "workload", "device", "versions", "steps", "unprofiled",
                 "time_base_unix_ns"):  # fmt: skip
        assert back.meta.get(fact) == made.meta.get(fact), fact
    assert not back.meta["health"]["dropped"]
    assert not back.meta["health"]["repaired"]


@given(st.integers(-(2**63), 2**63))
def test_times_keep_every_nanosecond(value: int) -> None:
    assert ns(Decimal(bytes(micros(value)).decode())) == value


def test_times_of_many_days_stay_exact(tmp_path: Path) -> None:
    late = 400 * 86_400_000_000_000 + 1
    made = run(
        [{"start_ns": 0, "dur_ns": 7}, {"start_ns": late, "dur_ns": 1_501}], time_base_unix_ns=10**18 + 3
    )
    assert [ns(e["ts"]) for e in drawn(made)] == [1_000, late + 1_000]
    back = again(made, tmp_path)
    assert back.table["start_ns"].to_pylist() == [0, late]
    assert back.meta["time_base_unix_ns"] == 10**18 + 3


def test_rows_that_overlap_get_threads_of_their_own_and_read_back_to_one_stream(tmp_path: Path) -> None:
    rows = [
        {"start_ns": s, "dur_ns": d, "correlation": 0} for s, d in ((0, 100), (50, 100), (60, 100), (160, 5))
    ]
    made = run(rows)
    shown = drawn(made)
    assert [e["tid"] for e in shown][0::3] == [7, 7]
    assert len({e["tid"] for e in shown}) == 3
    names = {e["tid"]: e["args"]["name"] for e in parsed(made)["traceEvents"] if e["name"] == "thread_name"}
    assert [names[e["tid"]] for e in shown[:3]] == [
        "stream 7",
        "stream 7 (overlap 1)",
        "stream 7 (overlap 2)",
    ]
    back = again(made, tmp_path)
    assert back.table["stream"].to_pylist() == [7] * 4
    assert back.table["dur_ns"].to_pylist() == made.table["dur_ns"].to_pylist()


def test_ranks_and_devices_are_processes_apart_from_the_host() -> None:
    known = {
        "process": 1,
        "thread": 1,
        "launch_start_ns": 0,
        "launch_dur_ns": 1,
        "launch_api": "cuLaunchKernelEx",
    }
    rows = [{"start_ns": 5, "dur_ns": 5, "rank": r, "device": d} | known for r in (0, 1) for d in (0, 1)]
    made = run(rows)
    assert len({e["pid"] for e in drawn(made)} | {1}) == 5
    assert [(e["pid"], e["name"]) for e in drawn(made, "cuda_driver")] == [(1, "cuLaunchKernelEx")]
    titles = {e["args"]["name"] for e in parsed(made)["traceEvents"] if e["name"] == "process_name"}
    assert {"GPU 1, rank 0", "GPU 1, rank 1", "CPU process 1"} <= titles
    assert "distributedInfo" not in parsed(made)


def test_steps_idle_and_what_is_known_of_a_row_are_there() -> None:
    rows = [
        {"start_ns": 0, "dur_ns": 10, "module": "layers.0.mlp", "phase": "decode", "step": 0, "flops": 8,
         "grid_x": 1, "grid_y": 2, "grid_z": 3, "occupancy": 0.5},
        {"start_ns": 30, "dur_ns": 10, "gap_cause": "host"},
    ]  # fmt: skip
    made = run(rows, steps=[step("decode", 0, 0, 40), step("decode", 1, 20, 45, complete=False)])
    first, _ = drawn(made)
    assert first["args"]["module"] == "layers.0.mlp"
    assert (first["args"]["flops"], first["args"]["grid"]) == (8, [1, 2, 3])
    assert float(first["args"]["est. achieved occupancy %"]) == 50
    assert first["cname"] == chrome.COLOURS["gemm"]
    tiles = drawn(made, "kernelgap_step")
    assert [(e["name"], ns(e["dur"])) for e in tiles] == [("decode 0", 40), ("decode 1", 25)]
    assert tiles[0]["tid"] != tiles[1]["tid"]  # they overlap
    (idle,) = drawn(made, "kernelgap_idle")
    assert (idle["name"], ns(idle["ts"]), ns(idle["dur"])) == ("idle: host", 1_010, 20)


def test_inferred_steps_do_not_come_back_as_ranges_of_the_program() -> None:
    known = {"process": 1, "thread": 1, "launch_dur_ns": 1, "launch_api": "cudaLaunchKernel", "phase": "p"}
    rows = [{"start_ns": 5 + i, "dur_ns": 1, "step": i, "launch_start_ns": i} | known for i in range(2)]
    tiles = [step("p", 0, 5, 6), step("p", 1, 6, 7)]
    assert [e["name"] for e in drawn(run(rows, steps=tiles), "user_annotation")] == [
        "kernelgap.p#0",
        "kernelgap.p#1",
    ]
    guessed = [t | {"inferred": True} for t in tiles]
    assert not drawn(run(rows, steps=guessed), "user_annotation")
    assert drawn(run(rows, steps=guessed), "kernelgap_step")[0]["name"] == "p 0 (inferred)"


def test_unusable_rows_and_launches_of_another_clock_are_left_out_and_counted() -> None:
    rows = [
        {"start_ns": 0, "dur_ns": 10, "launch_start_ns": -(2**60), "launch_api": "x"},
        {"start_ns": -(2**60), "dur_ns": 0, "flag": "zero_time"},
        {"start_ns": 5, "dur_ns": None, "flag": "no_duration", "used_ns": 0},
    ]
    found = chrome.export(run(rows))
    assert (found.rows, found.left_out) == (2, {"zero_time": 1, "launch_far_away": 1})
    assert parsed(run(rows))["kernelgap_export"]["left_out"] == found.left_out
    assert ["dur" in e for e in drawn(run(rows))] == [True, False]


def test_an_empty_run_is_an_empty_trace() -> None:
    made = run([{"start_ns": 0, "dur_ns": 1}])
    empty = store.Run(made.table.slice(0, 0), made.meta)
    assert chrome.export(empty).rows == 0
    assert parsed(empty)["traceEvents"] == []


def test_a_cpu_run_reads_back(tmp_path: Path) -> None:
    rows = [
        {"start_ns": s, "dur_ns": 10, "kind": "cpu_op", "name": "aten::mm", "device": None, "stream": None,
         "process": 1, "thread": 9, "phase": "decode", "step": i}
        for i, s in enumerate((0, 20))
    ]  # fmt: skip
    made = run(rows, device={"type": "cpu", "name": "Some CPU"}, steps=[step("decode", 0, 0, 20)])
    back = again(made, tmp_path)
    for name in ("start_ns", "dur_ns", "kind", "name", "thread", "phase", "step"):
        assert back.table[name].to_pylist() == made.table[name].to_pylist(), name


def test_hostile_names_stay_json() -> None:
    names = ['"},{"ph":"X"', "</script>", "\u202e\u2028\x00", "x" * 10_240]
    made = run([{"start_ns": 10 * i, "dur_ns": 1, "name": n, "module": n} for i, n in enumerate(names)])
    assert [e["name"] for e in drawn(made)] == names
