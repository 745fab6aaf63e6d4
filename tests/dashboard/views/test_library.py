"""The library view: runs in a table, other files as sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.dashboard.builders import texts

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from streamlit.testing.v1 import AppTest


def test_runs_are_listed(pair: Path, page: Callable[..., AppTest]) -> None:
    table = page(view="Library").dataframe[0].value
    assert sorted(table["variant"]) == ["cuda", "triton"]
    assert set(table["steps"]) == {"3"}


def test_files_that_are_no_runs_have_a_sentence_beside_their_name(
    pair: Path, page: Callable[..., AppTest]
) -> None:
    (pair / "broken.parquet").write_bytes(b"?")
    assert "could not be opened: 1." in texts(page())
    said = next(m.value for m in page(view="Library").markdown if "broken" in m.value)
    assert "**broken\\.parquet**: not a readable Parquet file" in said


def test_many_broken_files_do_not_flood_the_page(pair: Path, page: Callable[..., AppTest]) -> None:
    for number in range(60):
        (pair / f"b{number}.parquet").write_bytes(b"?")
    assert "and 10 more" in texts(page(view="Library"))
