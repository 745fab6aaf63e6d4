"""The waterfall's steps against the comparison, adding up exactly."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from dashboard.rows import Row, largest, rows_of
from dashboard.views import part
from dashboard.views.waterfall import bridge
from tests.dashboard.builders import baseline, candidate, charts, made, texts
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
    assert list(totals["x"]) == [0.01, 0.012]
    steps = {
        y: (base, x) for t in (slower, faster) for x, base, y in zip(t["x"], t["base"], t["y"], strict=True)
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
    axis = bridge(rows_of(result), result.total).layout.xaxis
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


def test_a_part_of_the_address_lists_its_kernels_and_adds_up(
    pair: Path, page: Callable[..., AppTest]
) -> None:
    at = page(view="Waterfall", part="gemm")
    assert at.selectbox(key="part").value == "gemm"
    table = at.dataframe[0].value
    assert table["kernel"].tolist() == ["_mm", "mm"]
    assert (table["B µs"].tolist()[0], table["A µs"].tolist()[1]) == (8.0, 6.0)
    assert (table["A n"].tolist()[1], table["A µs each"].tolist()[1]) == (1.0, 6.0)
    assert "2 kernels of gemm, per step: A 6.00 µs, B 8.00 µs" in texts(at)


@pytest.mark.parametrize("by", ["module", "category", "group", "backend", "op", "kernel name"])
def test_every_part_has_kernels_that_add_up_to_its_row(
    pair: Path, page: Callable[..., AppTest], by: str
) -> None:
    at = page(view="Waterfall", by=by)
    choice = at.selectbox(key="part")
    rows = at.dataframe[0].value.set_index("part")
    for name in choice.options:
        at = at.selectbox(key="part").select(name).run()
        assert not at.exception
        if name == "idle":
            assert "Idle has no kernels" in at.info[0].value
            continue
        table = at.dataframe[0].value
        assert table["A µs"].sum() / 1e3 == pytest.approx(rows.loc[name]["A ms"])
        assert table["B µs"].sum() / 1e3 == pytest.approx(rows.loc[name]["B ms"])


def test_a_click_chooses_the_bar_and_a_second_one_lets_it_go(
    pair: Path, page: Callable[..., AppTest], monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = largest(rows_of(compare(baseline(), candidate(), ("category",))), 14)
    state: dict[str, Any] = {"chart": {"selection": {"points": [{"y": 2.0}]}}}
    monkeypatch.setattr(part.st, "session_state", state)
    part.pick(shown, "chart")
    assert state["part"] == shown[1].name
    for at in (0, len(shown) + 1):  # the totals are not parts
        state["chart"] = {"selection": {"points": [{"y": at}]}}
        part.pick(shown, "chart")
        assert state["part"] is None
    state["chart"] = {"selection": {"points": []}}
    part.pick(shown, "chart")
    assert state["part"] is None


def test_a_part_of_another_split_is_forgotten(pair: Path, page: Callable[..., AppTest]) -> None:
    at = page(view="Waterfall", by="group", part="norm")
    assert not at.exception
    assert at.selectbox(key="part").value is None
    at = page(view="Waterfall", part="norm")
    at.segmented_control(key="by").set_value("group").run()
    assert not at.exception
    assert at.selectbox(key="part").value is None


def test_the_bar_of_the_smallest_parts_has_kernels_too(shelf: Path, page: Callable[..., AppTest]) -> None:
    for variant, more in (("cuda", 0), ("triton", 1)):
        kernels = [(f"k{i}", "gemm", 100 + more * i) for i in range(20)]
        run = made(variant, kernels, 5_000)
        store.write(run, shelf / store.file_name(run.meta))
    at = page(view="Waterfall", by="kernel name", part="8 more")
    assert len(at.dataframe[0].value) == 8


def test_equal_and_hostile_names_of_parts_stay_distinct() -> None:
    rows = [Row(n, "gemm", 1, 1, "matched") for n in ("a", "a", "\u202e" + "x" * 9_000)]
    names = part.names(rows)
    assert names[:2] == ["a", "a #2"]
    assert names[2].isprintable()
    assert len(names[2]) < 140
