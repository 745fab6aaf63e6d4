"""The waterfall's steps against the comparison, adding up exactly."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from dashboard.rows import rows_of
from dashboard.views.waterfall import bridge
from tests.dashboard.builders import baseline, candidate, charts, texts
from traces import store
from traces.analysis.compare import compare

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from streamlit.testing.v1 import AppTest


def test_the_sentence_on_top_is_made_from_the_comparison(pair: Path, page: Callable[..., AppTest]) -> None:
    at = page(view="Waterfall")
    said = at.markdown[0].value.replace("\\", "").replace("\u2060", "")
    assert said == (
        "#### B (triton) is 2.00 us/token slower than A (cuda) (+20.0%, profiled wall, noise 0 ns): "
        "+2.00 GEMM, +0.50 attention, -0.50 norms (us)."
    )
    assert "0 ns are left over" in texts(at)


def test_each_step_starts_where_the_one_before_ended() -> None:
    result = compare(baseline(), candidate(), ("category",))
    totals, slower, faster = bridge(rows_of(result), result.total).to_plotly_json()["data"]
    assert list(totals["y"]) == [0.01, 0.012]
    steps = {
        x: (base, y) for t in (slower, faster) for x, base, y in zip(t["x"], t["base"], t["y"], strict=True)
    }
    level = 0.01
    for at in sorted(steps):
        base, rise = steps[at]
        assert base == pytest.approx(level)
        level += rise
    assert level == pytest.approx(0.012)
    assert all(text.startswith("▲ +") for text in slower["text"])
    assert all(text.startswith("▼ −") for text in faster["text"])


@pytest.mark.parametrize("by", ["module", "category", "group", "backend", "op", "kernel name"])
def test_every_way_to_split_leaves_nothing_over(pair: Path, page: Callable[..., AppTest], by: str) -> None:
    at = page(view="Waterfall", by=by)
    assert not at.exception
    assert "0 ns are left over" in texts(at)
    table = at.dataframe[0].value
    assert table["B − A ms"].iloc[:-1].sum() == pytest.approx(table["B − A ms"].iloc[-1])


def test_modules_are_offered_only_where_both_runs_have_them(
    shelf: Path, page: Callable[..., AppTest]
) -> None:
    run = candidate()
    at = run.table.schema.get_field_index("module")
    bare = run.table.set_column(at, "module", run.table["op"])
    for each in (baseline(), store.Run(bare, run.meta)):
        store.write(each, shelf / store.file_name(each.meta))
    opened = page(view="Waterfall")
    assert "module" not in opened.segmented_control(key="by").options


def test_layers_are_enough_to_pair_modules(shelf: Path, page: Callable[..., AppTest]) -> None:
    for each in (baseline(), candidate()):
        table = each.table
        for name, values in (
            ("module", table["op"]),
            ("layer", [pa.array([0] * table.num_rows, pa.int16())]),
        ):
            table = table.set_column(table.schema.get_field_index(name), name, values)
        store.write(store.Run(table, each.meta), shelf / store.file_name(each.meta))
    at = page(view="Waterfall", by="module")
    assert "module" in at.segmented_control(key="by").options
    assert "aligned by order in the layer" in texts(at)


def test_small_differences_on_a_large_step_cut_the_axis_and_say_so() -> None:
    result = compare(baseline(), baseline(), ("category",))
    axis = bridge(rows_of(result), result.total).layout.yaxis
    assert axis.range[0] > 0
    assert "not from zero" in axis.title.text


def test_kernel_names_are_escaped_for_plotly(shelf: Path, page: Callable[..., AppTest]) -> None:
    for each in (baseline(), candidate()):
        names = [f"<a href='http://x'>{n}</a>" for n in each.table["name"].to_pylist()]
        at = each.table.schema.get_field_index("name")
        odd = store.Run(each.table.set_column(at, "name", [names]), each.meta)
        store.write(odd, shelf / store.file_name(each.meta))
    figure = charts(page(view="Waterfall", by="kernel name"))[0]
    assert "<a" not in str(figure)
