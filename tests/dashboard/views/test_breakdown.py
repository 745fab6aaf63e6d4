"""The overview's bars and table against the comparison."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.dashboard.builders import baseline, candidate, charts
from traces.analysis.compare import compare
from traces.attribution.taxonomy import COLOURS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from streamlit.testing.v1 import AppTest


def test_bars_are_the_groups_and_idle_in_their_colours(pair: Path, page: Callable[..., AppTest]) -> None:
    bars = {t["name"]: t for t in charts(page())[0]["data"]}
    assert list(bars) == ["gemm", "attention", "small_op", "idle"]
    assert {name: t["marker"]["color"] for name, t in bars.items()} == {name: COLOURS[name] for name in bars}
    result = compare(baseline(), candidate(), ("group",))
    for row in result.rows:
        assert bars[row["key"]["group"]]["x"] == [row["b"] / 1e6, row["a"] / 1e6]
    assert sum(t["x"][1] for t in bars.values()) == pytest.approx(result.total["a"] / 1e6)


def test_the_table_lists_categories_idle_and_total(pair: Path, page: Callable[..., AppTest]) -> None:
    table = page().dataframe[0].value
    assert table["part"].tolist() == ["gemm", "attention", "norm", "idle", "total"]
    assert table["B ms"].tolist() == [0.008, 0.0025, 0.0005, 0.001, 0.012]


def test_the_chart_is_described_in_words(pair: Path, page: Callable[..., AppTest]) -> None:
    alt = page().get("plotly_chart")[0].proto.alt
    assert "A, 10.00 µs: gemm 6.00 µs" in alt
