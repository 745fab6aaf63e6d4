"""The kernel table against the statistics per name and the comparison."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING

import pyarrow.csv
import pyarrow.parquet as pq

from dashboard.views import kernels
from tests.dashboard.builders import HOSTILE, baseline, candidate, made
from traces import store
from traces.analysis.compare import compare
from traces.analysis.kernels import KEYS, by_name, paired

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from streamlit.testing.v1 import AppTest

    Page = Callable[..., AppTest]


def test_the_table_shows_one_run_most_time_first(pair: Path, page: Page) -> None:
    table = page(view="Kernels", side="A").dataframe[0].value
    assert table["kernel"].tolist() == ["mm", "sdpa", "ln"]
    assert table["n"].tolist() == [3, 3, 3]
    for column in ("min µs", "p50 µs", "p99 µs", "max µs", "mean µs"):
        assert table[column].tolist() == [6.0, 2.0, 1.0]
    assert table["share %"].tolist() == [60.0, 20.0, 10.0]
    assert page(view="Kernels", side="B").dataframe[0].value["kernel"].tolist()[0] == "_mm"


def test_both_runs_stand_side_by_side_with_the_difference(shelf: Path, page: Page) -> None:
    other = made("triton", [("mm", "gemm", 5_000), ("new", "norm", 700)], 10_000)
    for each in (baseline(), other):
        store.write(each, shelf / store.file_name(each.meta))
    at = page(view="Kernels")
    table = at.dataframe[0].value
    assert table["kernel"].tolist() == ["mm", "sdpa", "ln", "new"]
    assert table["Δ µs/step"].tolist()[0] == -1.0
    assert table["Δ µs/step"].isna().tolist() == [False, True, True, True]
    assert table["A µs/step"].tolist()[:3] == [6.0, 2.0, 1.0]
    assert table["in"].tolist() == ["A and B", "A", "A", "B"]
    assert at.caption[0].value == (
        "4 of 4 names; A: 3 kernels, 9.00 µs per step; B: 2 kernels, 5.70 µs per step; 1 in both"
    )
    assert at.code[-1].value.endswith("--by name,group,category,backend")


def test_work_is_shown_as_rates_where_it_is_known() -> None:
    run = baseline()
    at = run.table.schema.get_field_index("min_bytes")
    sizes = [6_000_000 if n == "mm" else None for n in run.table["name"].to_pylist()]
    known = store.Run(run.table.set_column(at, run.table.schema.field("min_bytes"), [sizes]), run.meta)
    table = kernels.readable(by_name(known, "decode"))
    assert table["GB/s"].to_pylist() == [1_000, None, None]
    assert "TFLOP/s" not in table.column_names


def test_search_narrows_the_table(pair: Path, page: Page) -> None:
    at = page(view="Kernels", side="A", q="SD")
    assert at.dataframe[0].value["kernel"].tolist() == ["sdpa"]
    assert "1 of 3 names" in at.caption[0].value
    assert "Clear them" in page(view="Kernels", q="nothing").info[0].value


def test_the_address_filters_by_group_and_category(pair: Path, page: Page) -> None:
    at = page(view="Kernels", k_group=["small_op", "gemm"])
    assert sorted(at.dataframe[0].value["kernel"].tolist()) == ["_ln", "_mm", "ln", "mm"]
    at = page(view="Kernels", k_group=["small_op", "gemm"], k_category="norm")
    assert at.dataframe[0].value["kernel"].tolist() == ["ln", "_ln"]
    at = page(view="Kernels", k_group="attention", k_category="norm")
    assert "Clear them" in at.info[0].value


def test_downloads_hold_what_the_table_shows() -> None:
    one = by_name(baseline(), "decode")
    both = paired(one, by_name(candidate(), "decode"), compare(baseline(), candidate(), KEYS, "decode"))
    for stats in (one, both):
        assert pq.read_table(io.BytesIO(kernels.as_parquet(stats))).equals(stats)
        back = pyarrow.csv.read_csv(io.BytesIO(kernels.as_csv(stats)))
        assert back["name"].to_pylist() == stats["name"].to_pylist()
        assert json.loads(kernels.as_json(stats)) == stats.to_pylist()


def test_every_format_is_offered(pair: Path, page: Page) -> None:
    labels = [b.proto.label for b in page(view="Kernels").get("download_button")]
    assert labels == ["Download CSV", "Download Parquet", "Download JSON"]


def test_names_are_shown_as_plain_text_and_downloaded_as_they_are() -> None:
    stats = by_name(made("cuda", [(name, "gemm", 10) for name in HOSTILE], 1_000), "decode")
    assert all(name.isprintable() for name in kernels.readable(stats)["kernel"].to_pylist())
    assert set(pq.read_table(io.BytesIO(kernels.as_parquet(stats)))["name"].to_pylist()) == set(HOSTILE)


def test_every_number_on_the_page_has_a_meaning_in_its_help() -> None:
    stats = by_name(baseline(), "decode")
    both = paired(stats, stats, compare(baseline(), baseline(), KEYS, "decode"))
    for table in (stats, both):
        assert set(kernels.readable(table).column_names) <= set(kernels.CONFIG)


def test_the_command_shows_the_same_run(pair: Path, page: Page) -> None:
    shown = page(view="Kernels", side="B").code[-1].value
    assert shown.startswith("python -m profiler show ")
    assert "triton" in shown
    assert shown.endswith("--phase decode --by name,group,category,backend")
