"""The icicle against the comparison: sizes, colours, search, drilling by the address, folded layers."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from dashboard.views import icicle
from tests.dashboard.builders import HOSTILE, baseline, candidate, charts, made, texts
from traces import store
from traces.analysis.compare import compare
from traces.analysis.tree import BY, identity, tree
from traces.attribution.taxonomy import COLOURS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from streamlit.testing.v1 import AppTest

    Page = Callable[..., AppTest]


def sizes(trace: dict[str, Any]) -> dict[str, int]:
    return dict(zip(trace["ids"], trace["values"], strict=True))


def test_both_runs_are_drawn_with_the_sizes_of_the_comparison(pair: Path, page: Page) -> None:
    at = page(view="Icicle", fold="false")
    result = compare(baseline(), candidate(), BY, "decode")
    for side, chart in zip("ab", charts(at), strict=True):
        found = sizes(chart["data"][0])
        assert found == {n.id: n.ns for n in tree(result, side).nodes}
        assert found[identity(())] == result.total[side]
        assert found[identity(("idle",))] == result.idle[side]


def test_categories_and_kernels_have_the_colour_of_their_group_and_idle_is_hatched(
    pair: Path, page: Page
) -> None:
    trace = charts(page(view="Icicle", side="A"))[0]["data"][0]
    by_label = dict(zip(trace["labels"], trace["marker"]["colors"], strict=True))
    assert (by_label["sdpa"], by_label["attention"]) == (COLOURS["attention"],) * 2
    assert by_label["layers.0.mlp"] == icicle.NEUTRAL
    patterns = dict(zip(trace["labels"], trace["marker"]["pattern"]["shape"], strict=True))
    assert [label for label, shape in patterns.items() if shape] == ["idle"]


def test_a_search_tells_its_share_and_fades_the_rest(pair: Path, page: Page) -> None:
    at = page(view="Icicle", q="sdpa")
    assert "**A** 10.00 µs per step, 20.0 % matched (2.00 µs)" in texts(at)
    assert "**B** 12.00 µs per step, 0.0 % matched (0 ns)" in texts(at)
    trace = charts(at)[0]["data"][0]
    colours = dict(zip(trace["labels"], trace["marker"]["colors"], strict=True))
    assert colours["sdpa"] == COLOURS["attention"]
    assert colours["mm"].startswith("rgba(")


def test_the_address_looks_into_a_part_and_the_table_lists_it(pair: Path, page: Page) -> None:
    part = identity(("layers.1.mlp",))
    at = page(view="Icicle", at=part)
    assert charts(at)[0]["data"][0]["level"] == part
    table = at.dataframe[0].value
    assert table["part"].tolist() == ["norm"]
    assert (table["A µs"].tolist(), table["B µs"].tolist()) == ([1.0], [0.5])
    assert [b.label for b in at.button][-2:] == ["decode step", "layers\\.1\\.mlp"]
    at.button(key="crumb1").click().run()
    assert "at" not in at.query_params


def test_the_keyboard_can_look_into_a_part(pair: Path, page: Page) -> None:
    at = page(view="Icicle")
    into = at.selectbox(key=f"into_{icicle.ROOT}")
    into.select(into.options[0]).run()
    assert at.query_params["at"] == identity(("layers.0.mlp",))
    assert at.dataframe[0].value["part"].tolist() == ["gemm"]


def test_a_part_that_is_not_there_shows_the_whole_step_and_says_so(pair: Path, page: Page) -> None:
    at = page(view="Icicle", at="0123456789ab")
    assert not at.exception
    assert "not here, so the whole step is shown" in texts(at)
    assert charts(at)[0]["data"][0]["level"] == icicle.ROOT


def test_one_run_as_a_treemap(pair: Path, page: Page) -> None:
    found = charts(page(view="Icicle", side="B", shape="Treemap"))
    assert [c["data"][0]["type"] for c in found] == ["treemap"]
    assert found[0]["data"][0]["values"][0] == 12_000


def test_layers_fold_in_both_runs(shelf: Path, page: Page) -> None:
    for variant in ("cuda", "triton"):
        run = made(variant, [("mm", "gemm", 100)] * 12, 2_000)
        at = run.table.schema.get_field_index("layer")
        layers = pa.array(list(range(12)) * 3, pa.int16())
        table = run.table.set_column(at, "layer", layers)
        store.write(store.Run(table, run.meta), shelf / store.file_name(run.meta))
    labels = charts(page(view="Icicle"))[0]["data"][0]["labels"]
    assert labels == ["decode step", "layers.* ×12", "mlp", "gemm", "mm", "idle"]
    unfolded = charts(page(view="Icicle", fold="false"))[0]["data"][0]["labels"]
    assert sum(label.startswith("layers.") for label in unfolded) == 12


def test_too_many_parts_are_folded_and_said_and_the_page_stays_small(shelf: Path, page: Page) -> None:
    kernels = [(f"kernel_{i}_{'x' * 200}", "gemm", 10 + i % 7) for i in range(2_000)]
    for variant in ("cuda", "triton"):
        run = made(variant, kernels, 100_000)
        store.write(run, shelf / store.file_name(run.meta))
    at = page(view="Icicle")
    traces = [c["data"][0] for c in charts(at)]
    assert sum(len(t["ids"]) for t in traces) <= icicle.MOST
    assert all(t["values"][0] == 100_000 for t in traces)
    assert "of the smallest parts are drawn as “n more”" in texts(at)
    assert sum(len(c.proto.spec) for c in at.get("plotly_chart")) < 1_000_000


def test_negative_idle_is_said(shelf: Path, page: Page) -> None:
    known = {"unprofiled": {"decode": {"n": 3, "median_ns": 5_000, "iqr_ns": 0}}}
    for each in (baseline(**known), candidate(**known)):
        store.write(each, shelf / store.file_name(each.meta))
    at = page(view="Icicle")
    assert "the kernels outlast" in texts(at)
    assert not at.exception


def test_the_table_by_category_closes(pair: Path, page: Page) -> None:
    table = page(view="Icicle").dataframe[1].value
    assert table["part"].tolist() == ["gemm", "attention", "norm", "idle", "total"]
    assert table["B ms"].tolist() == [0.008, 0.0025, 0.0005, 0.001, 0.012]


def test_the_chart_is_described_in_words(pair: Path, page: Page) -> None:
    alt = page(view="Icicle").get("plotly_chart")[0].proto.alt
    assert "Icicle of run A's step, 10.00 µs: " in alt
    assert "idle 1.00 µs" in alt


def test_hostile_names_stay_text(shelf: Path, page: Page) -> None:
    evil = made("cuda", [(name, "gemm", 10 + i) for i, name in enumerate(HOSTILE)], 1_000)
    for each in (evil, candidate()):
        store.write(each, shelf / store.file_name(each.meta))
    at = page(view="Icicle", q="<img")
    assert not at.exception
    spec = json.dumps(charts(at))
    assert "<img" not in spec
    assert "</script" not in spec


@pytest.mark.parametrize("view", ["Icicle", "Layer", "Kernels", "Waterfall"])
def test_the_same_run_twice_and_one_run_alone(shelf: Path, page: Page, view: str) -> None:
    only = baseline()
    store.write(only, shelf / store.file_name(only.meta))
    at = page(view=view)
    assert not at.exception
    assert not at.error
