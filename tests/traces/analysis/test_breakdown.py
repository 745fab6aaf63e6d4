from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.traces.builders import run, step
from traces.analysis.breakdown import breakdown
from traces.errors import UsageError

DECODE = {"phase": "decode", "step": 0}


def two_phases() -> object:
    return run(
        [
            {"start_ns": 0, "dur_ns": 10, "phase": "prefill", "step": 0, "category": "gemm"},
            {"start_ns": 12, "dur_ns": 8, **DECODE, "category": "gemm"},
            {"start_ns": 25, "dur_ns": 5, **DECODE, "category": "norm", "group": "small_op"},
            {"start_ns": 28, "dur_ns": 4, "category": "memset", "group": "memory", "stream": 8},
            {"start_ns": 40, "dur_ns": 10, "phase": "decode", "step": 1, "category": "gemm"},
        ],
        steps=[
            step("prefill", 0, 0, 10, complete=False),
            step("decode", 0, 12, 40),
            step("decode", 1, 40, 50, complete=False),
        ],
    )


def test_whole_run_closes_and_is_sorted() -> None:
    got = breakdown(two_phases(), ["group"])  # type: ignore[arg-type]
    assert [(r["group"], r["count"], r["total_ns"], r["exclusive_ns"]) for r in got.rows] == [
        ("gemm", 3, 28, 28),
        ("small_op", 1, 5, 4),
        ("memory", 1, 4, 3),
    ]
    assert (got.span_ns, got.busy_ns, got.idle_ns) == (50, 35, 15)
    assert sum(r["share"] for r in got.rows) == pytest.approx(35 / 50)


def test_a_phase_spans_its_tiles_and_shows_other_rows_as_one_of_phase_null() -> None:
    got = breakdown(two_phases(), ["category"], "decode")  # type: ignore[arg-type]
    assert got.span_ns == 38
    assert [(r["category"], r["phase"], r["exclusive_ns"]) for r in got.rows] == [
        ("gemm", "decode", 18),
        ("norm", "decode", 4),
        (None, None, 3),
    ]
    assert got.idle_ns + sum(r["exclusive_ns"] for r in got.rows) == got.span_ns


def test_overlapping_tiles_count_their_time_once() -> None:
    made = run(
        [
            {"start_ns": 0, "dur_ns": 100, "phase": "d", "step": 0},
            {"start_ns": 40, "dur_ns": 100, "phase": "d", "step": 2, "stream": 8},
        ],
        steps=[step("d", 0, 0, 100, complete=False), step("d", 2, 40, 140, complete=False)],
    )
    got = breakdown(made, ["step"], "d")
    assert (got.span_ns, got.busy_ns) == (140, 140)
    assert [r["exclusive_ns"] for r in got.rows] == [70, 70]


def test_json_has_the_promised_shape() -> None:
    made = breakdown(two_phases(), ["group", "category"]).to_json()  # type: ignore[arg-type]
    assert set(made) >= {
        "schema_version",
        "run",
        "span_ns",
        "busy_ns",
        "idle_ns",
        "devices",
        "rows",
        "health",
    }
    assert set(made["devices"][0]) == {"rank", "device", "span_ns", "busy_ns", "idle_ns", "tail_ns"}
    times = {"count", "total_ns", "exclusive_ns", "share"}
    work = {"flops", "min_bytes", "tflops", "gb_per_s", "roofline", "with_work"}
    assert set(made["rows"][0]) == {"group", "category"} | times | work
    assert made["ceilings"] is None


def test_unknown_columns_and_phases_name_the_known_ones() -> None:
    with pytest.raises(UsageError, match="choose from group"):
        breakdown(two_phases(), ["colour"])  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="its phases: prefill, decode"):
        breakdown(two_phases(), ["group"], "train")  # type: ignore[arg-type]


rows = st.lists(
    st.tuples(
        st.integers(0, 200),
        st.integers(0, 30),
        st.integers(0, 1),
        st.sampled_from(["decode", "prefill", None]),
    ),
    min_size=1,
    max_size=25,
)


@given(rows, st.sampled_from(["group", "name", "layer", "phase", "step", "stream"]), st.booleans())
def test_every_breakdown_closes(
    made: list[tuple[int, int, int, str | None]], by: str, of_phase: bool
) -> None:
    if by == "stream":
        by = "category"
    r = run(
        [
            {
                "start_ns": s,
                "dur_ns": d,
                "device": g,
                "phase": p,
                "step": 0 if p else None,
                "name": f"k{s % 3}",
            }
            for s, d, g, p in made
        ],
        steps=[step("decode", 0, 10, 60), step("decode", 1, 60, 100, complete=False)],
    )
    got = breakdown(r, [by], "decode" if of_phase else None)
    assert got.idle_ns + sum(x["exclusive_ns"] for x in got.rows) == got.span_ns
    assert got.idle_ns == sum(d.idle_ns for d in got.devices) >= 0
    assert sum(d.span_ns for d in got.devices) == got.span_ns
