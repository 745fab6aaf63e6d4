"""What capture adds to a run's health."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from profiler.capture.health import judged, kernels_seen
from profiler.capture.log import Log
from profiler.capture.run import CapturedTrace
from profiler.cli.render import health_lines
from tests.traces.builders import run

if TYPE_CHECKING:
    from traces.store import Run


def made(**steps: list[int]) -> Run:
    """A run with that many kernels in each step of a phase."""
    rows = [
        {"phase": phase, "step": step, "dur_ns": 1}
        for phase, counts in steps.items()
        for step, count in enumerate(counts)
        for _ in range(count)
    ]
    rows.append({"phase": "decode", "step": 0, "dur_ns": 1, "kind": "memset"})
    return run([{"start_ns": 2 * i} | row for i, row in enumerate(rows)])


def test_steps_are_held_against_the_log_by_phase() -> None:
    counts, notes = kernels_seen(made(prefill=[4, 4], decode=[3, 2]), {"prefill": 4, "decode": 3})
    assert counts == {
        "decode": {"expected": 3, "seen": [2, 3]},
        "prefill": {"expected": 4, "seen": [4]},
    }
    assert notes == ["decode step 1: 2 kernels seen, 3 expected"]


def test_a_phase_without_any_kernel_is_said() -> None:
    counts, notes = kernels_seen(made(decode=[3]), {"prefill": 4, "decode": 3})
    assert counts["prefill"] == {"expected": 4, "seen": []}
    assert notes == ["prefill: no kernels seen, 4 a step expected"]


def test_without_a_log_steps_are_held_against_each_other() -> None:
    counts, notes = kernels_seen(made(prefill=[4], decode=[3, 3, 2]), {})
    assert counts["decode"] == {"expected": None, "seen": [2, 3]}
    assert notes == ["decode steps ran 2 to 3 kernels: the trace may lack some"]
    assert kernels_seen(made(), {}) == ({}, [])


def test_notes_of_run_and_log_stay() -> None:
    run = made(decode=[1])
    run.meta["health"]["notes"] = ["from the trace"]
    log = Log(provenance=Counter(agree=2, differ=0, missing=1), notes=["from the log"])
    assert judged(run, CapturedTrace(Path("x.json"), {}, None, log)) == {
        "notes": ["from the trace", "from the log"],
        "kernels_seen": {"decode": {"expected": None, "seen": [1]}},
        "provenance": {"agree": 2, "differ": 0, "missing": 1},
    }


def test_differences_from_the_log_are_said_of_what_was_matched() -> None:
    log = {"replays": 4, "matched": 3, "mismatched": 1}
    assert list(health_lines({"launch_log": log})) == ["launch log: 1 of 4 replays differ from it"]
    log = {"replays": 0, "steps": 5, "matched": 3, "mismatched": 2}
    assert list(health_lines({"launch_log": log})) == ["launch log: 2 of 5 steps differ from it"]
