"""Key figures, the sentence above the waterfall, and trace health, against numbers worked out by hand."""

from __future__ import annotations

import pytest

from dashboard import summary
from tests.dashboard.builders import WORK, baseline, candidate
from tests.traces.builders import run
from traces.analysis.compare import compare

UNPROFILED = {"decode": {"n": 20, "median_ns": 9_500, "iqr_ns": 100}}


def test_figures_from_profiled_tiles() -> None:
    a = summary.figures(compare(baseline(), candidate()), "a")
    assert (a.wall_ns, a.busy_ns, a.idle_ns, a.kernels) == (10_000, 9_000, 1_000, 3)
    assert (a.n, a.iqr_ns, a.basis, a.tokens) == (2, 0, "profiled", 2)
    assert a.tokens_per_s == pytest.approx(2 / 10e-6)


def test_wall_comes_from_unprofiled_steps_where_both_runs_have_them() -> None:
    result = compare(baseline(unprofiled=UNPROFILED), candidate(unprofiled=UNPROFILED))
    a = summary.figures(result, "a")
    assert (a.wall_ns, a.busy_ns, a.idle_ns, a.n, a.iqr_ns) == (9_500, 9_000, 500, 20, 100)


def test_prefill_takes_in_the_whole_prompt_and_other_phases_have_no_tokens() -> None:
    known = baseline()
    assert summary.tokens(known, "decode") == WORK["batch"]
    assert summary.tokens(known, "prefill") == 16
    assert summary.tokens(known, "warmup") is None
    assert summary.tokens(baseline(workload=None), "decode") is None


def test_equal_runs_differ_by_nothing() -> None:
    assert "within" in summary.noise(compare(baseline(), baseline()))


def test_one_step_has_no_spread() -> None:
    one = run([{"start_ns": 0, "dur_ns": 5}])
    assert "no spread" in summary.noise(compare(one, one))


def test_a_clean_trace_is_all_fine() -> None:
    assert all(fine for fine, _ in summary.health(baseline()))


def test_health_tells_what_was_lost_in_words() -> None:
    notes = {
        "events": 1200, "rows": {}, "dropped": {"truncated": {"count": 2, "first_offset": 1810}},
        "repaired": {"raw_control": 1}, "orphans": 1,
    }  # fmt: skip
    rows = [
        {"start_ns": 0, "dur_ns": 5, "link": "orphan", "category": "unknown", "group": "other"},
        {"start_ns": 5, "dur_ns": 15, "flag": "overlap_clipped"},
    ]
    doubts = [text for fine, text in summary.health(run(rows, health=notes)) if not fine]
    assert doubts == [
        "2 events were dropped: truncated 2 (first at byte 1,810).",
        "1 events were repaired: raw_control 1.",
        "1 rows have no launch in the trace (orphans).",
        "1 rows are doubtful (flagged): overlap_clipped 1.",
        "25.0 % of the busy time has no known category.",
    ]


def test_what_capture_checked_is_told() -> None:
    notes = {
        "kernels": {"expected_per_decode_step": 3, "seen": [2, 3]},
        "notes": ["decode step 1: 2 kernels seen"],
        "launch_log": {"replays": 2, "matched": 2, "mismatched": 0}, "later": 5,
    }  # fmt: skip
    told = summary.health(baseline(health=notes))
    assert (False, "Kernels per decode step: 3 expected, [2, 3] seen.") in told
    assert (True, "2 of 2 CUDA-graph replays match the launch log.") in told
    assert told[-2:] == [(False, "decode step 1: 2 kernels seen"), (True, "later: 5")]


def test_kernels_are_counted_by_phase_and_steps_matched_like_replays() -> None:
    seen = {"decode": {"expected": 3, "seen": [2, 3]}, "prefill": {"expected": 4, "seen": [4]}}
    log = {"replays": 0, "steps": 5, "matched": 4, "mismatched": 1}
    told = summary.health(baseline(health={"kernels_seen": seen, "launch_log": log}))
    assert told[-3:] == [
        (False, "Kernels per decode step: 3 expected, [2, 3] seen."),
        (True, "Kernels per prefill step: 4 expected, [4] seen."),
        (False, "4 of 5 steps match the launch log."),
    ]


@pytest.mark.parametrize(
    "odd",
    [
        {"dropped": "many"},
        {"events": "x", "repaired": [1]},
        {"kernels": 1, "launch_log": []},
        {"kernels_seen": [1]},
        {"kernels_seen": {"decode": 3}},
        {},
    ],
)
def test_health_of_any_shape_makes_sentences(odd: dict[str, object]) -> None:
    assert len(summary.health(baseline(health=odd))) >= 6
