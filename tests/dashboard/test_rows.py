"""Rows of a comparison for the page: folded layers, added-up rests, and sums that stay exact."""

from __future__ import annotations

from dashboard.rows import largest, rows_of, table
from tests.dashboard.builders import HOSTILE, baseline, candidate, made
from traces.analysis.compare import compare


def test_rows_and_idle_add_up_to_the_total() -> None:
    for by in (("category",), ("module", "category"), ("name",), ("group",)):
        result = compare(baseline(), candidate(), by)
        rows = rows_of(result)
        assert sum(r.a for r in rows) == result.total["a"]
        assert sum(r.b for r in rows) == result.total["b"]
        assert rows[-1].name == "idle"


def test_layers_are_folded_into_one_row_per_module_and_category() -> None:
    many = made("cuda", [("mm", "gemm", 100)] * 12, 2_000)
    rows = rows_of(compare(many, many, ("module", "category")))
    assert [(r.name, r.a) for r in rows] == [("layers.*.mlp · gemm", 1_200), ("idle", 800)]


def test_the_smallest_changes_are_added_up_in_one_row() -> None:
    rows = rows_of(compare(baseline(), candidate(), ("name",)))
    few = largest(rows, 4)
    assert [r.name for r in few] == ["_mm", "mm", "4 more", "idle"]
    assert sum(r.delta for r in few) == sum(r.delta for r in rows)
    assert largest(rows, 99) == rows


def test_the_table_closes_with_idle_and_total() -> None:
    result = compare(baseline(), candidate(), ("category",))
    lines = table(rows_of(result), result.total).to_pylist()
    assert [(line["part"], line["A ms"], line["B %"]) for line in lines[-2:]] == [
        ("idle", 0.001, 100 / 12), ("total", 0.01, 100.0),
    ]  # fmt: skip


def test_hostile_names_become_plain_text() -> None:
    odd = made("cuda", [(name, "gemm", 10) for name in HOSTILE], 1_000)
    result = compare(odd, odd, ("name",))
    assert all(part.isprintable() for part in table(rows_of(result), result.total)["part"].to_pylist())
