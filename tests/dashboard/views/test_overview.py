"""The overview's numbers against the comparison."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dashboard.facts import facts
from tests.dashboard.builders import baseline, candidate, texts
from traces import store

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from streamlit.testing.v1 import AppTest


def test_the_cards_show_b_its_difference_and_a(pair: Path, page: Callable[..., AppTest]) -> None:
    at = page()
    cards = {m.label: (m.value, m.delta, m.proto.delta_description) for m in at.metric}
    assert cards == {
        "Wall per token": ("12.00 µs", "+2.00 µs", "A 10.00 µs"),
        "Tokens/s": ("166,666.7", "−33,333.3", "A 200,000.0"),
        "GPU busy": ("11.00 µs (91.7 %)", "+2.00 µs", "A 9.00 µs (90.0 %)"),
        "GPU idle": ("1.00 µs (8.3 %)", "±0 ns", "A 1.00 µs (10.0 %)"),
        "Kernels per token": ("3", "±0", "A 3"),
    }
    assert "noise 0 ns, n 2 and 2" in texts(at)


def test_where_the_wall_comes_from_is_said_with_n_and_iqr(shelf: Path, page: Callable[..., AppTest]) -> None:
    known = {"decode": {"n": 20, "median_ns": 9_500, "iqr_ns": 100}}
    for each in (baseline(unprofiled=known), candidate(unprofiled=known)):
        store.write(each, shelf / store.file_name(each.meta))
    at = page()
    assert "without a profiler" in texts(at)
    assert "A: n = 20, IQR 100 ns; B: n = 20, IQR 100 ns." in texts(at)
    assert "Gaps of B are negative" in texts(at)  # the kernels of B take 11 µs


def test_an_unknown_workload_has_no_tokens_per_second(shelf: Path, page: Callable[..., AppTest]) -> None:
    for each in (baseline(workload=None), candidate(workload=None)):
        store.write(each, shelf / store.file_name(each.meta))
    assert page().metric[1].value == "–"


def test_facts_of_both_runs_stand_side_by_side_and_differences_are_marked(
    pair: Path, page: Callable[..., AppTest]
) -> None:
    rows = {r["fact"]: tuple(r.values())[1:] for r in facts(baseline(), candidate()).to_pylist()}
    assert rows["variant"] == ("cuda", "triton", "≠")
    assert rows["workload"] == ("batch 2, prompt 8, new tokens 2, dtype float16",) * 2 + ("",)
    assert rows["steps"] == ("decode 3", "decode 3", "")
    assert rows["device name"] == ("NVIDIA H200", "NVIDIA H200", "")
    assert rows["run"] == ("cuda-1", "triton-1", "")  # any two runs differ in that
    assert "They differ in variant" in texts(page())


def test_the_state_of_both_traces_is_always_in_sight(shelf: Path, page: Callable[..., AppTest]) -> None:
    lost = {"dropped": {"truncated": {"count": 2, "first_offset": 1810}}}
    for each in (baseline(), candidate(health=lost)):
        store.write(each, shelf / store.file_name(each.meta))
    shown = texts(page())
    assert "Trace health of **A**: nothing lost" in shown
    assert "⚠ Trace health of **B**: 2 events were dropped\\: truncated 2" in shown
    assert "Nothing was repaired" in shown  # in full, behind a click


def test_files_to_take_away_are_made_when_asked_for(pair: Path, page: Callable[..., AppTest]) -> None:
    labels = [b.proto.label for b in page().get("download_button")]
    assert labels == ["A for Perfetto", "B for Perfetto", "This comparison as HTML"]


def test_the_command_line_is_shown(pair: Path, page: Callable[..., AppTest]) -> None:
    shown = page().code[-1].value
    assert shown.startswith("python -m profiler compare ")
    assert shown.endswith("--phase decode --by category")
