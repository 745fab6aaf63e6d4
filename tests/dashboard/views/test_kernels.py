"""The kernel table against the statistics per name."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pyarrow.csv
import pyarrow.parquet as pq

from dashboard.views import kernels
from tests.dashboard.builders import HOSTILE, baseline, made
from traces.analysis.kernels import by_name

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from streamlit.testing.v1 import AppTest


def test_the_table_shows_one_run_most_time_first(pair: Path, page: Callable[..., AppTest]) -> None:
    table = page(view="Kernels").dataframe[0].value
    assert table["kernel"].tolist() == ["mm", "sdpa", "ln"]
    assert table["n"].tolist() == [3, 3, 3]
    assert table["p99 µs"].tolist() == [6.0, 2.0, 1.0]
    assert table["share %"].tolist() == [60.0, 20.0, 10.0]
    assert page(view="Kernels", side="B").dataframe[0].value["kernel"].tolist()[0] == "_mm"


def test_search_narrows_the_table(pair: Path, page: Callable[..., AppTest]) -> None:
    at = page(view="Kernels", q="SD")
    assert at.dataframe[0].value["kernel"].tolist() == ["sdpa"]
    assert "1 of 3 names" in at.caption[0].value
    assert "Clear the search" in page(view="Kernels", q="nothing").info[0].value


def test_downloads_hold_what_the_table_shows() -> None:
    stats = by_name(baseline(), "decode")
    assert pq.read_table(io.BytesIO(kernels.as_parquet(stats))).equals(stats)
    back = pyarrow.csv.read_csv(io.BytesIO(kernels.as_csv(stats)))
    assert back["total_ns"].to_pylist() == stats["total_ns"].to_pylist()
    assert back["name"].to_pylist() == ["mm", "sdpa", "ln"]


def test_names_are_shown_as_plain_text_and_downloaded_as_they_are() -> None:
    stats = by_name(made("cuda", [(name, "gemm", 10) for name in HOSTILE], 1_000), "decode")
    assert all(name.isprintable() for name in kernels.readable(stats)["kernel"].to_pylist())
    assert set(pq.read_table(io.BytesIO(kernels.as_parquet(stats)))["name"].to_pylist()) == set(HOSTILE)


def test_the_command_shows_the_same_run(pair: Path, page: Callable[..., AppTest]) -> None:
    shown = page(view="Kernels", side="B").code[-1].value
    assert shown.startswith("python -m profiler show ")
    assert "triton" in shown
    assert shown.endswith("--phase decode --by name")
