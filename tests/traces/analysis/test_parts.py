"""The kernels behind a part of a comparison add up to it."""

from __future__ import annotations

from tests.dashboard.builders import baseline, candidate
from tests.traces.builders import run, step
from traces.analysis.compare import compare
from traces.analysis.parts import SCHEMA, kernels_of


def test_the_kernels_of_a_part_add_up_to_it_on_both_sides() -> None:
    coarse = compare(baseline(), candidate(), ("category",), "decode")
    fine = compare(baseline(), candidate(), ("category", "name"), "decode")
    for row in coarse.rows:
        table = kernels_of(fine, {tuple(row["key"].values())}, 1)
        assert table.schema == SCHEMA
        for side in ("a", "b"):
            assert sum(v or 0 for v in table[f"{side}_ns"].to_pylist()) == row[side]


def test_a_kernel_of_one_run_has_nulls_for_the_other() -> None:
    fine = compare(baseline(), candidate(), ("category", "name"), "decode")
    rows = kernels_of(fine, {("gemm",)}, 1).to_pylist()
    assert [(r["name"], r["a_ns"], r["b_ns"]) for r in rows] == [("_mm", None, 8_000), ("mm", 6_000, None)]
    assert (rows[1]["a_per_step"], rows[1]["a_mean_ns"]) == (1, 6_000)


def test_several_rows_are_one_part_and_equal_names_are_added_up() -> None:
    rows = [
        {"start_ns": 10 * i, "dur_ns": 2 + i, "module": f"layers.{i}", "phase": "decode", "step": 0,
         "flops": 1_000, "min_bytes": 8}
        for i in range(3)
    ]  # fmt: skip
    made = run(rows, steps=[step("decode", 0, 0, 40)])
    fine = compare(made, made, ("module", "category", "name"), "decode")
    found = kernels_of(fine, {("layers.0", "gemm"), ("layers.2", "gemm")}, 2).to_pylist()
    assert [(r["name"], r["a_per_step"], r["a_ns"], r["a_mean_ns"]) for r in found] == [("k", 2, 6, 3)]
    assert (found[0]["a_tflops"], found[0]["b_gb_per_s"]) == (2_000 / 6 / 1e3, 16 / 6)


def test_no_rows_no_kernels() -> None:
    fine = compare(baseline(), candidate(), ("category", "name"), "decode")
    assert kernels_of(fine, set(), 1).num_rows == 0
