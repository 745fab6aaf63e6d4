"""Rates of a breakdown's rows: which work and which time count."""

from __future__ import annotations

from typing import Any

import pytest

from tests.traces.builders import run, step
from traces.analysis.breakdown import breakdown

H200 = {"device": {"type": "cuda", "name": "NVIDIA H200"}}
GEMM = {"flops": 2_000_000, "min_bytes": 48_000, "shape": "M1 N1 K1 f16", "op": "aten::mm"}


def rows(*made: dict[str, Any], by: str, phase: str | None = None, **known: Any) -> dict[str, dict[str, Any]]:
    found = breakdown(run(list(made), **(H200 | known)), [by], phase)
    return {r[by]: r for r in found.rows}


def test_a_product_has_its_kernels_rate_and_its_module_that_of_the_call() -> None:
    call = [
        {"start_ns": 0, "dur_ns": 100, "category": "gemm", "module": "a.down", **GEMM},
        {"start_ns": 100, "dur_ns": 60, "category": "gemm_reduce", "module": "a.down", "op": "aten::mm"},
        {"start_ns": 160, "dur_ns": 40, "category": "norm", "group": "small_op", "module": "a.down"},
    ]
    alone = rows(*call, by="category")
    assert alone["gemm"]["tflops"] == pytest.approx(2_000_000 / 100 / 1e3)
    assert alone["gemm"]["gb_per_s"] == pytest.approx(480)
    assert alone["gemm"]["roofline"] == pytest.approx(10 / 100)  # 48 kB at 4.8 TB/s
    assert alone["gemm"]["with_work"] == 1
    assert (alone["gemm_reduce"]["flops"], alone["gemm_reduce"]["with_work"]) == (None, 0)
    whole = rows(*call, by="module")["a.down"]
    assert whole["gb_per_s"] == pytest.approx(48_000 / 160)
    assert whole["roofline"] == pytest.approx(10 / 160)
    assert whole["with_work"] == pytest.approx(160 / 200)


def test_helpers_of_calls_whose_work_is_unknown_do_not_count() -> None:
    found = rows(
        {"start_ns": 0, "dur_ns": 100, "category": "gemm", **GEMM},
        {"start_ns": 100, "dur_ns": 50, "category": "attention_reduce", "op": "kernelgap::attention"},
        {"start_ns": 150, "dur_ns": 50, "category": "memset", "op": None},
        by="group",
    )  # fmt: skip
    assert found["gemm"]["gb_per_s"] == pytest.approx(480)
    assert found["gemm"]["with_work"] == pytest.approx(0.5)


def test_overlapping_kernels_are_not_faster_for_it() -> None:
    found = rows(
        {"start_ns": 0, "dur_ns": 100, "category": "gemm", **GEMM},
        {"start_ns": 0, "dur_ns": 100, "category": "collective", "group": "communication", "stream": 9},
        by="category",
    )
    assert found["gemm"]["exclusive_ns"] == 50
    assert found["gemm"]["gb_per_s"] == pytest.approx(480)
    assert found["gemm"]["with_work"] == 1


def test_flagged_rows_do_not_count() -> None:
    found = rows(
        {"start_ns": 0, "dur_ns": 100, "category": "gemm", **GEMM},
        {"start_ns": 100, "dur_ns": 1, "category": "gemm", "flag": "overlap_clipped", **GEMM},
        {"start_ns": 200, "dur_ns": 9, "used_ns": 0, "category": "gemm", **GEMM},
        by="category",
    )
    assert found["gemm"]["flops"] == 2_000_000
    assert found["gemm"]["with_work"] == pytest.approx(100 / 101)


def test_each_rows_own_roof_counts_in_a_sum() -> None:
    """A compute-bound and a memory-bound row: the least time is the sum, not the larger of two sums."""
    heavy = {"flops": 989_400_000, "min_bytes": 4_800, "shape": "M1 N1 K1 f16"}  # 1000 ns, 1 ns
    light = {"min_bytes": 4_800_000, "shape": "9 f16"}  # 1000 ns
    found = rows(
        {"start_ns": 0, "dur_ns": 2000, "category": "gemm", **heavy},
        {"start_ns": 2000, "dur_ns": 2000, "category": "norm", **light},
        by="group",
    )  # fmt: skip
    assert found["gemm"]["roofline"] == pytest.approx(0.5)
    assert found["gemm"]["tflops"] == pytest.approx(989_400_000 / 4000 / 1e3)


def test_no_roofline_without_peaks() -> None:
    made = {"start_ns": 0, "dur_ns": 100, "category": "gemm"}
    assert rows(made | GEMM, by="category", device={"name": "NVIDIA A10G"})["gemm"]["roofline"] is None
    odd = GEMM | {"shape": "M1 N1 K1 f7"}
    found = rows(made | odd, by="category")["gemm"]
    assert (found["roofline"], found["gb_per_s"]) == (None, 480)


def test_measured_ceilings_of_the_run_win() -> None:
    device = {"name": "NVIDIA H200", "measured": {"read_bytes_per_s": 2.4e12}}
    made = {"start_ns": 0, "dur_ns": 100, "category": "gemm", **GEMM}
    assert rows(made, by="category", device=device)["gemm"]["roofline"] == pytest.approx(0.2)
    damaged = device | {"measured": "fast"}
    assert rows(made, by="category", device=damaged)["gemm"]["roofline"] == pytest.approx(0.1)


def test_sums_beyond_int64_are_exact() -> None:
    most = 2**63 - 1
    made = [
        {"start_ns": 10 * n, "dur_ns": 10, "category": "gemm", "flops": most, "shape": "M1 N1 K1 f16"}
        for n in range(5)
    ]
    assert rows(*made, by="category")["gemm"]["flops"] == 5 * most


def test_in_a_phase_only_its_own_rows_count() -> None:
    found = rows(
        {"start_ns": 0, "dur_ns": 100, "phase": "d", "step": 0, "category": "gemm", **GEMM},
        {"start_ns": 100, "dur_ns": 100, "category": "gemm", **GEMM},
        by="category", phase="d", steps=[step("d", 0, 0, 200, complete=False)],
    )  # fmt: skip
    assert (found["gemm"]["phase"], found["gemm"]["flops"]) == ("d", 2_000_000)
    assert found[None]["flops"] == 2_000_000  # what other phases ran in the tile
