"""The library view: runs in a table, other files as sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.dashboard.builders import baseline, texts
from traces import store

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


def test_filters_are_in_the_address(pair: Path, page: Callable[..., AppTest]) -> None:
    at = page(view="Library", variant=["triton"])
    assert list(at.dataframe[0].value["variant"]) == ["triton"]
    assert "1 of 2 runs" in texts(at)
    at.multiselect(key="variant").set_value([]).run()
    assert len(at.dataframe[0].value) == 2
    assert len(page(view="Library", gpu=["NVIDIA H200"], mode=["graph"]).dataframe[0].value) == 2


def test_filters_that_leave_nothing_say_so(pair: Path, page: Callable[..., AppTest]) -> None:
    at = page(view="Library", variant=["triton"], model=["small"])
    at.multiselect(key="variant").set_value(["cuda"]).run()
    assert len(at.dataframe[0].value) == 1
    at = page(view="Library", variant=["gone"])
    assert not at.exception
    assert len(at.dataframe[0].value) == 2  # an unknown value is no filter


def test_another_folder_is_listed_from_the_address(
    pair: Path, page: Callable[..., AppTest], tmp_path: Path
) -> None:
    other = tmp_path.parent / f"{tmp_path.name}-other"
    store.write(baseline(run_id="far"), other / "far.parquet")
    at = page(view="Library", folder=[str(other), "/nope", "x" * 5000, "a\0b"])
    assert not at.exception
    assert "far" in list(at.dataframe[0].value["run"])
    assert "/nope is not a folder here" in texts(at).replace("\\", "").replace(" ⚠", "")
    at.button(key=f"close {other}").click().run()
    assert "far" not in list(at.dataframe[0].value["run"])
    assert (other / "far.parquet").exists()


def test_a_folder_typed_in_goes_into_the_address(
    pair: Path, page: Callable[..., AppTest], tmp_path: Path
) -> None:
    other = tmp_path.parent / f"{tmp_path.name}-more"
    store.write(baseline(run_id="far"), other / "far.parquet")
    at = page(view="Library")
    at.text_input(key="source").set_value(other.as_uri())
    next(b for b in at.button if b.label == "Open").click().run()
    assert str(other) in at.query_params["folder"]
    assert "far" in list(at.dataframe[0].value["run"])


def test_an_upload_becomes_a_run_and_what_does_not_says_why(
    pair: Path, page: Callable[..., AppTest], tmp_path: Path
) -> None:
    data = store.write(
        baseline(run_id="new"), tmp_path.parent / f"{tmp_path.name}-up" / "x.parquet"
    ).read_bytes()
    at = page(view="Library")
    at.file_uploader[0].upload("../../x.parquet", data).run()
    assert not at.exception
    assert "became the run small" in at.success[0].value
    assert len(at.dataframe[0].value) == 3
    at.file_uploader[0].upload("y.parquet", b"?").run()
    assert "not a readable Parquet file" in at.error[0].value
