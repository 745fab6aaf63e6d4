"""The points of a roofline: what is folded, which helpers count, and that no busy time is lost."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.traces.builders import run, step
from traces.analysis.breakdown import breakdown
from traces.analysis.points import OTHERS, Point, points
from traces.errors import UsageError

H200 = {"device": {"type": "cuda", "name": "NVIDIA H200"}}
MM = {"flops": 2_000_000, "min_bytes": 48_000, "shape": "M1 N1 K1 f16", "op": "aten::mm"}
REDUCE = {"category": "gemm_reduce", "op": "aten::mm"}
FILL = {"category": "memset", "kind": "memset", "group": "memory", "op": "aten::mm"}


def made(*rows: dict[str, Any], **known: Any) -> dict[str | None, Point]:
    found = points(run(list(rows), **(H200 | known)), known.get("phase"))
    return {p.shape: p for p in found.points}


def test_calls_of_one_op_and_shape_are_one_point() -> None:
    point = made(*({"start_ns": 100 * i, "dur_ns": 50 + i, **MM} for i in range(3)))["M1 N1 K1 f16"]
    assert (point.n, point.helpers, point.work_ns, point.call_ns) == (3, 0, 153, 51)
    assert (point.category, point.op, point.dtype) == ("gemm", "aten::mm", "f16")
    assert point.intensity == pytest.approx(2_000_000 / 48_000)
    assert point.tflops == pytest.approx(3 * 2_000_000 / 153 / 1e3)
    assert point.gb_per_s == pytest.approx(3 * 48_000 / 153)
    assert point.roofline == pytest.approx(3 * 10 / 153)  # 48 kB at 4.8 TB/s


def test_a_split_k_reduction_counts_with_its_own_product() -> None:
    other = MM | {"shape": "M9 N9 K9 f16"}
    found = made(
        {"start_ns": 0, "dur_ns": 100, **MM},
        {"start_ns": 100, "dur_ns": 40, **REDUCE},
        {"start_ns": 140, "dur_ns": 9, **FILL},  # before the kernel that it serves
        {"start_ns": 150, "dur_ns": 100, **other},
    )
    first, second = found["M1 N1 K1 f16"], found["M9 N9 K9 f16"]
    assert (first.n, first.helpers, first.kernel_ns, first.work_ns) == (1, 1, 100, 140)
    assert (second.n, second.helpers, second.kernel_ns, second.work_ns) == (1, 1, 100, 109)
    assert first.exclusive_ns == 140


def test_a_helper_serves_its_own_stream_and_module() -> None:
    other = MM | {"shape": "M9 N9 K9 f16"}
    found = made(
        {"start_ns": 0, "dur_ns": 100, "stream": 1, "module": "a", **MM},
        {"start_ns": 50, "dur_ns": 100, "stream": 2, "module": "b", **other},
        {"start_ns": 160, "dur_ns": 7, "stream": 1, "module": "a", **REDUCE},
        {"start_ns": 170, "dur_ns": 3, "stream": 3, **REDUCE},  # no product there: the last one of its op
    )
    assert found["M1 N1 K1 f16"].work_ns == 107
    assert found["M9 N9 K9 f16"].work_ns == 103


def test_work_that_is_not_known_is_counted_by_category() -> None:
    found = points(
        run(
            [
                {"start_ns": 0, "dur_ns": 100, **MM},
                {"start_ns": 100, "dur_ns": 30, "category": "norm"},
                {"start_ns": 130, "dur_ns": 5, "category": None},
                {"start_ns": 140, "dur_ns": 8, "flag": "overlap_clipped", **MM},
            ],
            **H200,
        )
    )
    assert found.unknown == {"norm": 30, "gemm": 8, None: 5}
    assert (found.busy_ns, found.share(30)) == (143, pytest.approx(30 / 143))


def test_no_rows_make_no_points() -> None:
    found = points(run([], **H200))
    assert (found.points, found.busy_ns, found.unknown, found.share(1)) == ([], 0, {}, 0.0)


def test_bytes_alone_have_a_rate_but_no_place_on_the_roofline() -> None:
    point = made({"start_ns": 0, "dur_ns": 100, "category": "norm", "min_bytes": 48_000, "shape": "9 f16"})
    assert point["9 f16"].intensity is None
    assert point["9 f16"].tflops is None
    assert point["9 f16"].roofline == pytest.approx(0.1)


def test_fp32_on_plain_units_is_another_point_than_on_tensor_cores() -> None:
    wide = MM | {"shape": "M1 N1 K1 f32"}
    found = points(
        run(
            [
                {"start_ns": 0, "dur_ns": 100, "name": "volta_sgemm_128x64_tn", **wide},
                {"start_ns": 100, "dur_ns": 100, "name": "cutlass_tensorop_s1688gemm", **wide},
            ],
            **H200,
        )
    )
    assert sorted(str(p.dtype) for p in found.points) == ["f32", "tf32"]


def test_a_device_without_peaks_has_points_without_a_roofline() -> None:
    found = made({"start_ns": 0, "dur_ns": 100, **MM}, device={"type": "cpu", "name": "Some CPU"})
    assert found["M1 N1 K1 f16"].roofline is None
    assert found["M1 N1 K1 f16"].gb_per_s == 480


def test_a_phase_has_its_own_rows_and_says_what_else_ran_in_its_tiles() -> None:
    rows = [
        {"start_ns": 0, "dur_ns": 100, "phase": "d", "step": 0, **MM},
        {"start_ns": 100, "dur_ns": 40, **MM},
        {"start_ns": 200, "dur_ns": 40, "phase": "p", "step": 0, **MM},
    ]
    some = run(rows, steps=[step("d", 0, 0, 200), step("p", 0, 200, 240)], **H200)
    found = points(some, "d")
    assert [(p.n, p.work_ns) for p in found.points] == [(1, 100)]
    assert (found.unknown, found.busy_ns) == ({OTHERS: 40}, 140)
    with pytest.raises(UsageError, match="not in this run"):
        points(some, "x")


row = st.fixed_dictionaries(
    {
        "start_ns": st.integers(0, 300),
        "dur_ns": st.integers(0, 60),
        "category": st.sampled_from(["gemm", "gemm_reduce", "memset", "fill", "norm", None]),
        "op": st.sampled_from(["aten::mm", "aten::addmm", None]),
        "module": st.sampled_from(["a", "b", None]),
        "shape": st.sampled_from(["M1 N1 K1 f16", "M2 N1 K1 f16", "9 f32", None]),
        "flops": st.one_of(st.none(), st.integers(0, 10**6)),
        "min_bytes": st.one_of(st.none(), st.integers(0, 10**6)),
        "stream": st.integers(0, 1), "device": st.integers(0, 1),
        "phase": st.sampled_from(["d", "d", "p", None]), "step": st.integers(0, 2),
        "flag": st.sampled_from([None, None, None, "overlap_clipped"]),
    }
)  # fmt: skip


@given(st.lists(row, max_size=25), st.sampled_from([None, "d"]))
def test_points_and_unknown_work_are_all_the_busy_time(made: list[dict[str, Any]], phase: str | None) -> None:
    tiles = [step("d", 0, 0, 150), step("d", 1, 150, 400)]
    some = run(made, steps=tiles, **H200)
    found = points(some, phase)
    told = breakdown(some, ("group",), phase)
    assert found.busy_ns == told.busy_ns
    assert sum(p.exclusive_ns for p in found.points) + sum(found.unknown.values()) == found.busy_ns
    mine = [r for r in told.rows if phase is None or r["phase"] == phase]
    for name in ("flops", "min_bytes"):  # no work is lost or counted twice
        assert sum(getattr(p, name) or 0 for p in found.points) == sum(r[name] or 0 for r in mine)
    assert all(p.n > 0 and p.work_ns >= p.kernel_ns > 0 for p in found.points)
    known = sum(r["with_work"] * r["exclusive_ns"] for r in mine)
    assert sum(p.exclusive_ns for p in found.points) == pytest.approx(known)
