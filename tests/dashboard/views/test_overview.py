"""The overview's numbers against the comparison."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dashboard.views import overview
from tests.dashboard.builders import baseline, candidate, texts
from traces import store

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from streamlit.testing.v1 import AppTest


def test_the_cards_show_b_its_difference_and_a(pair: Path, page: Callable[..., AppTest]) -> None:
    cards = {m.label: (m.value, m.delta) for m in page().metric}
    assert cards == {
        "Step wall": ("12.00 µs", "+2.00 µs"),
        "Tokens/s": ("166,666.7", "−33,333.3"),
        "GPU busy": ("11.00 µs (91.7 %)", "+2.00 µs"),
        "GPU idle": ("1.00 µs (8.3 %)", "±0 ns"),
        "Kernels per step": ("3", "+0"),
    }


def test_where_the_wall_comes_from_is_said_with_n_and_iqr(shelf: Path, page: Callable[..., AppTest]) -> None:
    known = {"decode": {"n": 20, "median_ns": 9_500, "iqr_ns": 100}}
    for each in (baseline(unprofiled=known), candidate(unprofiled=known)):
        store.write(each, shelf / store.file_name(each.meta))
    at = page()
    assert "without a profiler" in texts(at)
    assert "A: n = 20, IQR 100 ns; B: n = 20, IQR 100 ns." in texts(at)
    assert "Gaps of B are negative" in texts(at)  # the kernels of B take 11 µs


def test_one_sequence_per_step_makes_the_wall_a_time_per_token(
    shelf: Path, page: Callable[..., AppTest]
) -> None:
    work = {"batch": 1, "prompt": 8, "new_tokens": 2, "dtype": "float16"}
    for each in (baseline(workload=work), candidate(workload=work)):
        store.write(each, shelf / store.file_name(each.meta))
    assert page().metric[0].label == "Step wall, per token"


def test_an_unknown_workload_has_no_tokens_per_second(shelf: Path, page: Callable[..., AppTest]) -> None:
    for each in (baseline(workload=None), candidate(workload=None)):
        store.write(each, shelf / store.file_name(each.meta))
    assert page().metric[1].value == "–"


def test_facts_of_both_runs_stand_side_by_side() -> None:
    rows = {
        r["fact"]: (r["A (baseline)"], r["B"]) for r in overview.facts(baseline(), candidate()).to_pylist()
    }
    assert rows["variant"] == ("cuda", "triton")
    assert rows["workload"][0] == "batch 2, prompt 8, new tokens 2, dtype float16"
    assert rows["steps"] == ("decode 3", "decode 3")
    assert rows["device name"] == ("NVIDIA H200", "NVIDIA H200")


def test_the_command_line_is_shown(pair: Path, page: Callable[..., AppTest]) -> None:
    shown = page().code[-1].value
    assert shown.startswith("python -m profiler compare ")
    assert shown.endswith("--phase decode --by category")
