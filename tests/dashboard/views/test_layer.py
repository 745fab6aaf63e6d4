"""The layer's bars and table against the analysis."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from dashboard.views import layer as view
from tests.dashboard.builders import charts, texts, words
from tests.traces.analysis.test_layer import PLAN, TOTAL, Part, blocks, of
from traces import store
from traces.analysis.layer import layer
from traces.attribution.taxonomy import COLOURS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from streamlit.testing.v1 import AppTest

    Page = Callable[..., AppTest]

FAST: list[Part] = [(m, c, f"_{n}", ns - (10 if n == "sdpa" else 0)) for m, c, n, ns in PLAN]


@pytest.fixture
def layers(shelf: Path) -> Path:
    """A of four layers, B of three, whose attention is faster by 10 ns."""
    store.write(blocks(PLAN, [5, 0, 90, 2]), shelf / "a.parquet")
    store.write(blocks(FAST, [0, 1, 2]), shelf / "b.parquet")
    return shelf


def test_the_median_layer_comes_first(layers: Path, page: Page) -> None:
    at = page(view="Layer", a="a", b="b")
    assert at.selectbox(key="layer").value == "median layer"
    said = words(at)
    assert "#### Median layer (A 3, B 1): A 176 ns, B 165 ns: B is 0.01 µs faster than A (−6.2%): " in said
    assert "−10 ns attn · attention" in said
    assert "over 4 layers median 176 ns, IQR 174 ns to 179 ns" in said


def test_the_table_closes_to_the_layer(layers: Path, page: Page) -> None:
    table = page(view="Layer", a="a", b="b", layer="1").dataframe[0].value
    assert table["operation"].tolist() == [
        "norm", "attn.qkv", "attn · small op", "attn · attention", "(layer itself)", "mlp.down", "layer",
    ]  # fmt: skip
    for column in ("A µs", "B µs", "B − A µs", "A n", "A %"):
        assert table[column].iloc[:-1].sum() == pytest.approx(table[column].iloc[-1])
    assert table["A µs"].iloc[-1] == TOTAL / 1e3
    assert table["B / A"].iloc[3] == 0.5
    assert table["A kernels"].iloc[1] == "mm, sum, zero"


def test_bars_stand_in_order_in_the_colours_of_their_groups(layers: Path) -> None:
    found = layer(of(blocks(PLAN, [0]), blocks(FAST, [0])), 0)
    figure = view.bars(found)
    a, b = figure.data
    assert list(a.x) == [0.01, 0.056, 0.004, 0.02, 0.004, 0.08]
    assert list(b.x)[3] == 0.01
    assert a.marker.color[3] == COLOURS["attention"]
    assert figure.layout.yaxis.autorange == "reversed"
    assert figure.layout.xaxis.range == figure.layout.xaxis2.range


def test_a_layer_of_one_run_only(layers: Path, page: Page) -> None:
    at = page(view="Layer", a="a", b="b", layer="3")
    assert not at.exception
    assert "only A has it" in texts(at)
    assert at.dataframe[0].value["B µs"].isna().all()


def test_a_layer_that_is_not_there_is_the_median(layers: Path, page: Page) -> None:
    at = page(view="Layer", a="a", b="b", layer="77")
    assert not at.exception
    assert at.selectbox(key="layer").value == "median layer"


def test_without_layers_the_page_says_so(pair: Path, page: Page) -> None:
    at = page(view="Layer")
    assert "No layer of this phase is known" in at.info[0].value
    assert not at.get("plotly_chart")


def test_the_chart_is_described_in_words(layers: Path, page: Page) -> None:
    at = page(view="Layer", a="a", b="b", layer="0")
    assert "A: norm 10 ns, attn.qkv 56 ns" in at.get("plotly_chart")[0].proto.alt
    assert at.code[-1].value.endswith("--by layer,module,group")
    assert len(charts(at)) == 1
