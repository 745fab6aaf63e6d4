"""The state of a trace in plain words, whatever its metadata holds."""

from __future__ import annotations

import pytest

from dashboard import health
from tests.dashboard.builders import baseline
from tests.traces.builders import run


def test_rows_whose_op_and_name_disagree_and_rules_of_the_user_are_told() -> None:
    told = health.lines(baseline(health={"disagreed": 3, "rules": {"file": "mine.toml"}, "layers": {"x": 1}}))
    assert (False, "The op and the name of 3 rows disagree on what they are.") in told
    assert (True, "Rules of mine.toml decided before the shipped ones.") in told
    assert told[-1] == (True, "layers: x 1")


def test_a_clean_trace_is_all_fine() -> None:
    assert all(fine for fine, _ in health.lines(baseline()))
    assert health.line(baseline()) == (True, "nothing lost, repaired, doubtful or unknown.")


def test_health_tells_what_was_lost_in_words() -> None:
    notes = {
        "events": 1200, "rows": {}, "dropped": {"truncated": {"count": 2, "first_offset": 1810}},
        "repaired": {"raw_control": 1}, "orphans": 1,
    }  # fmt: skip
    rows = [
        {"start_ns": 0, "dur_ns": 5, "link": "orphan", "category": "unknown", "group": "other"},
        {"start_ns": 5, "dur_ns": 15, "flag": "overlap_clipped"},
    ]
    doubts = [text for fine, text in health.lines(run(rows, health=notes)) if not fine]
    assert doubts == [
        "2 events were dropped: truncated 2 (first at byte 1,810).",
        "1 events were repaired: raw_control 1.",
        "1 rows have no launch in the trace (orphans).",
        "1 rows are doubtful (flagged): overlap_clipped 1.",
        "25.0 % of the busy time has no known category.",
    ]
    assert health.line(run(rows, health=notes)) == (False, " ".join(doubts[:3]) + " And 2 more.")


def test_what_capture_checked_is_told() -> None:
    notes = {
        "kernels": {"expected_per_decode_step": 3, "seen": [2, 3]},
        "notes": ["decode step 1: 2 kernels seen"],
        "launch_log": {"replays": 2, "matched": 2, "mismatched": 0}, "later": 5,
    }  # fmt: skip
    told = health.lines(baseline(health=notes))
    assert (False, "Kernels per decode step: 3 expected, [2, 3] seen.") in told
    assert (True, "2 of 2 CUDA-graph replays match the launch log.") in told
    assert told[-2:] == [(False, "decode step 1: 2 kernels seen."), (True, "later: 5")]


def test_kernels_are_counted_by_phase_and_steps_matched_like_replays() -> None:
    seen = {"decode": {"expected": 3, "seen": [2, 3]}, "prefill": {"expected": 4, "seen": [4]}}
    log = {"replays": 0, "steps": 5, "matched": 4, "mismatched": 1}
    told = health.lines(baseline(health={"kernels_seen": seen, "launch_log": log}))
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
    assert len(health.lines(baseline(health=odd))) >= 6
