"""The page: what it opens on, what its address holds, and that nothing in the library takes it down."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.dashboard.builders import HOSTILE, baseline, candidate, made, texts
from traces import store

if TYPE_CHECKING:
    from collections.abc import Callable

    from streamlit.testing.v1 import AppTest

    Page = Callable[..., AppTest]

VIEWS = (
    "Overview", "Waterfall", "Timeline", "Icicle", "Kernels", "Roofline", "Idle", "Layer", "Library",
)  # fmt: skip
A, B = (store.file_name(r.meta).removesuffix(".parquet") for r in (baseline(), candidate()))


def test_without_runs_the_page_says_how_to_make_one(shelf: Path, page: Page) -> None:
    at = page()
    assert not at.exception
    assert at.title[0].value == "No runs yet"
    assert "python -m profiler capture" in at.code[0].value


def test_without_runs_damaged_files_are_still_named(shelf: Path, page: Page) -> None:
    (shelf / "broken.parquet").write_bytes(b"?")
    assert "broken\\.parquet" in texts(page())


def test_it_opens_on_the_baseline_and_the_candidate(pair: Path, page: Page) -> None:
    at = page()
    assert (at.selectbox(key="run_a").value, at.selectbox(key="run_b").value) == (A, B)
    assert (at.query_params["a"], at.query_params["b"]) == (A, B)


def test_the_address_picks_runs_and_view(pair: Path, page: Page) -> None:
    at = page(a=B, b=A, view="Waterfall", by="group")
    assert (at.selectbox(key="run_a").value, at.selectbox(key="run_b").value) == (B, A)
    assert "faster than A" in texts(at)


def test_a_link_to_a_missing_run_says_so_and_shows_another(pair: Path, page: Page) -> None:
    at = page(a="gone")
    assert "names a run that is not here: gone" in at.warning[0].value
    assert at.selectbox(key="run_a").value == A


def test_a_link_to_a_phase_or_a_view_that_is_not_there_says_so(pair: Path, page: Page) -> None:
    at = page(phase="warm_up", view="Nowhere")
    assert [w.value for w in at.warning] == [
        r"These runs do not share the phase warm\_up that the link names.",
        "The link names a view that is not here: Nowhere",
    ]
    assert at.selectbox(key="phase").value == "decode"
    assert "Wall per token" in [m.label for m in at.metric]


def test_a_button_shows_its_view_and_goes_into_the_address(pair: Path, page: Page) -> None:
    at = page()
    at.button(key="view Waterfall").click().run()
    assert at.query_params["view"] == "Waterfall"
    assert not at.metric


def test_swapping_makes_b_the_baseline(pair: Path, page: Page) -> None:
    at = page()
    at.button[0].click().run()
    assert (at.selectbox(key="run_a").value, at.query_params["b"]) == (B, A)


@pytest.mark.parametrize("view", VIEWS)
def test_a_cpu_run_is_marked_in_every_view(shelf: Path, page: Page, view: str) -> None:
    cpu = {"type": "cpu", "name": "Some CPU"}
    for each in (baseline(device=cpu), candidate(device=cpu)):
        store.write(each, shelf / store.file_name(each.meta))
    at = page(view=view)
    assert not at.exception
    assert view == "Library" or "CPU, not a GPU latency" in at.warning[0].value
    assert "GPU busy" not in [m.label for m in at.metric]


def test_runs_that_are_not_alike_are_marked(shelf: Path, page: Page) -> None:
    for each in (baseline(), candidate(model="larger")):
        store.write(each, shelf / store.file_name(each.meta))
    assert "model differs" in page().warning[0].value


def test_a_run_whose_pages_are_damaged_is_a_sentence_not_a_crash(pair: Path, page: Page) -> None:
    path = pair / f"{A}.parquet"
    whole = path.read_bytes()
    path.write_bytes(whole[:200] + bytes(400) + whole[600:])
    at = page(a=A, b=B)
    assert not at.exception
    assert "damaged" in at.error[0].value
    assert not page(a=B, b=B).error


@pytest.mark.parametrize("view", VIEWS)
def test_runs_without_steps_are_compared_whole(shelf: Path, page: Page, view: str) -> None:
    for each in (baseline(steps=[]), candidate(steps=[])):
        store.write(each, shelf / store.file_name(each.meta))
    at = page(view=view)
    assert not at.exception
    assert not at.error
    assert at.selectbox(key="phase").value == "whole run"


@pytest.mark.parametrize("view", VIEWS)
def test_hostile_names_are_text_in_every_view(shelf: Path, page: Page, view: str) -> None:
    evil = made("cuda", [(name, "gemm", 10 + i) for i, name in enumerate(HOSTILE)], 1_000)
    odd = candidate(model=HOSTILE[0], mode=HOSTILE[1], tool=HOSTILE[3])
    store.write(evil, shelf / "<img src=x onerror=alert(1)> __x__.parquet")
    store.write(odd, shelf / "odd.parquet")
    (shelf / "**broken** <b>.parquet").write_bytes(b"?")
    at = page(view=view, by="kernel name")
    assert not at.exception
    shown = texts(at)
    assert "<img" not in shown
    assert "**bold**" not in shown
    assert "\u202e" not in shown + str([c.value for c in at.code])


def test_an_empty_run_is_a_sentence(pair: Path, page: Page) -> None:
    run = baseline()
    store.write(store.Run(run.table.slice(0, 0), run.meta), pair / "none.parquet")
    at = page(a="none", b=B)
    assert not at.exception
    assert "empty run" in at.error[0].value


def test_the_dashboard_never_imports_torch() -> None:
    code = "import sys, dashboard.pair, dashboard.views.timeline; sys.exit('torch' in sys.modules)"
    root = Path(__file__).parents[2]
    assert subprocess.run([sys.executable, "-W", "ignore", "-c", code], cwd=root, check=False).returncode == 0
