from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.traces.readers.nsys_exports import FORMS, YEARS, Made, tid
from traces.readers import nsys
from traces.readers.timeline import OPS, RANGES, UNCLOSED

if TYPE_CHECKING:
    from pathlib import Path

    from traces.readers.timeline import Timeline


def read(tmp_path: Path, made: Made, form: str = "sqlite") -> Timeline:
    return nsys.read(made.write(tmp_path, form))


def spans(timeline: Timeline) -> list[tuple[Any, ...]]:
    return [
        (r["name"], r["start"], r["start"] + r["dur"], r["unclosed"]) for r in timeline.ranges.to_pylist()
    ]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("year", YEARS)
def test_ranges_of_a_thread_and_of_a_process(tmp_path: Path, year: int, form: str) -> None:
    made = Made(year).range("decode_0", 10, 20)
    made.range(None, 30, 40, eventType=60, textId=made.string("registered"), domainId=None)
    for other in (33, 34, 39, 75, 76):  # categories, marks, names, domains
        made.range("other", -5, None, eventType=other, domainId=1)
    timeline = read(tmp_path, made, form)
    assert timeline.ranges.schema == RANGES.append(UNCLOSED)
    assert timeline.ranges.to_pylist() == [
        {"start": 10, "dur": 10, "name": "decode_0", "process": 7, "thread": 8, "unclosed": False},
        {"start": 30, "dur": 10, "name": "registered", "process": 7, "thread": None, "unclosed": False},
    ]
    assert (timeline.events, timeline.notes.dropped) == (7, {})


def test_only_start_end_ranges_and_registered_names(tmp_path: Path) -> None:
    made = Made()
    for i in range(3):
        made.range(None, i, i + 1, eventType=60, textId=made.string(f"step {i}"))
    assert read(tmp_path, made).ranges["name"].to_pylist() == ["step 0", "step 1", "step 2"]


def test_user_domains_prefix_their_names_and_libraries_are_left_out(tmp_path: Path) -> None:
    made = Made()
    domains = [
        "cuBLAS",
        "cuBLASLt",
        "cuDNN",
        "cuSPARSE",
        "NCCL",
        "libcudf",
        "cuDNN v9",
        "engine",
        "cublasting",
    ]
    for i, name in enumerate(domains, 1):
        made.range(name, -(10**10), None, eventType=75, domainId=i)
        made.range("gemm", i, i + 1, domainId=i)
    made.range("other process", 0, 1, domainId=8, globalTid=tid(70, 8))
    timeline = read(tmp_path, made)
    assert timeline.ranges["name"].to_pylist() == ["engine:gemm", "cublasting:gemm"]
    assert timeline.notes.dropped["range_of_unnamed_domain"]["count"] == 1


def test_what_emit_nvtx_wrote_is_an_op_and_record_function_a_range(tmp_path: Path) -> None:
    made = Made()
    ops = [
        "aten::mm, op_id = 5", "aten::add, seq = 3, op_id = 6, sizes = [[2, 3], [], [3]]", "aten::zeros",
        "AddmmBackward0, seq = 12", "mylib::fused, op_id = 9, input_op_ids = [(5,0)]",
    ]  # fmt: skip
    for text in ops:
        made.range(text, 1, 2)
    for text in ("decode_3, op_id = 7", "Optimizer.step#Adam.step, op_id = 8", "a, b = 5", "ns::not_emitted"):
        made.range(text, 3, 4)
    timeline = read(tmp_path, made)
    assert timeline.ops.schema == OPS
    assert timeline.ops["name"].to_pylist() == [
        "aten::mm",
        "aten::add",
        "aten::zeros",
        "AddmmBackward0",
        "mylib::fused",
    ]
    assert timeline.ops.slice(0, 1).to_pylist() == [
        {"start": 1, "dur": 1, "name": "aten::mm", "process": 7, "thread": 8}
        | dict.fromkeys(("external", "dims", "types", "strides", "concrete"))
    ]
    assert timeline.ranges["name"].to_pylist() == [
        "decode_3", "Optimizer.step#Adam.step", "a, b = 5", "ns::not_emitted",
    ]  # fmt: skip


def test_a_range_without_an_end_lasts_to_the_last_known_time(tmp_path: Path) -> None:
    made = (
        Made()
        .range("open", 5, None)
        .range("decode", 10, 20)
        .kernel(start=30, end=44)
        .kernel(start=1, end=2**62)
    )
    timeline = read(tmp_path, made)
    assert spans(timeline) == [("open", 5, 44, True), ("decode", 10, 20, False)]
    assert timeline.notes.repaired["unclosed_range"]["count"] == 1


@pytest.mark.parametrize("clock", [0, 10**10])
def test_a_range_that_ends_with_the_session_was_never_closed(tmp_path: Path, clock: int) -> None:
    made = Made().range("open", 5, 100).range("closed", 10, 99)
    made.add("ANALYSIS_DETAILS", duration=100, startTime=clock, stopTime=clock + 100)
    assert spans(read(tmp_path, made)) == [("open", 5, 100, True), ("closed", 10, 99, False)]


def test_where_the_session_is_unknown_two_ends_at_the_last_instant_tell(tmp_path: Path) -> None:
    made = Made().range("outer", 5, 100).range("inner", 6, 100).range("closed", 7, 8).kernel(start=10, end=20)
    made.range("of another thread", 5, 100, globalTid=tid(7, 9))
    assert [u for *_, u in spans(read(tmp_path, made))] == [True, True, False, False]


def test_a_last_range_that_ends_properly_is_closed(tmp_path: Path) -> None:
    made = Made().range("outer", 5, 100).range("inner", 6, 90).kernel(start=10, end=100)
    timeline = read(tmp_path, made)
    assert [u for *_, u in spans(timeline)] == [False, False]
    assert timeline.notes.repaired == {}


def test_ranges_with_hopeless_times_are_dropped_and_counted(tmp_path: Path) -> None:
    made = Made().range("a", None, 5).range("b", -(2**63), 5).range("c", 9, 4).range("d", 5, -(2**63))
    made.range("before the capture", -50, 5).range(None, 1, 2).range("endless", 1, 2**63 - 1)
    timeline = read(tmp_path, made)
    assert timeline.ranges["name"].to_pylist() == ["before the capture", "endless"]
    counts = {reason: found["count"] for reason, found in timeline.notes.dropped.items()}
    assert counts == {"no_timestamp": 2, "reversed_range": 2, "unnamed_range": 1}
