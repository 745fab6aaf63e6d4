"""Key figures and the sentence above the waterfall, against numbers worked out by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from dashboard import summary
from tests.dashboard.builders import WORK, baseline, candidate
from tests.traces.builders import run
from traces.analysis.compare import compare

if TYPE_CHECKING:
    from traces.store import Run

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


def cards(a: Run, b: Run, phase: str | None = None) -> dict[str, summary.Card]:
    return {c.name: c for c in summary.cards(compare(a, b, ("category",), phase))}


def test_cards_hold_every_difference_against_its_noise_and_say_n() -> None:
    known = cards(baseline(unprofiled=timed(9_500, 100)), candidate(unprofiled=timed(11_500, 60)))
    wall, rate, busy = known["Wall per token"], known["Tokens/s"], known["GPU busy"]
    assert (wall.value, wall.delta, wall.base) == ("11.50 µs", "+2.00 µs", "A 9.50 µs")
    assert (wall.noise, wall.worse) == ("noise 100 ns, n 20 and 20", 2_000)
    assert rate.noise == f"noise {2e9 / 9_500 * 100 / 9_500:,.1f}, n 20 and 20"
    assert rate.worse > 0
    assert busy.noise == "noise 0 ns, n 2 and 2"  # both complete steps take the same
    assert (known["Kernels per token"].value, known["Kernels per token"].delta) == ("3", "±0")


def test_a_difference_within_the_noise_is_neither_better_nor_worse() -> None:
    known = cards(baseline(unprofiled=timed(9_500, 300)), candidate(unprofiled=timed(9_700, 60)))
    assert (known["Wall per token"].noise, known["Wall per token"].worse) == (
        "within noise 300 ns, n 20 and 20",
        0,
    )
    assert known["Tokens/s"].worse == 0
    assert known["Tokens/s"].noise.startswith("within noise")


def test_busy_time_that_varies_from_step_to_step_has_a_spread() -> None:
    kernels = baseline().table
    spread = summary.busy_spread(kernels, 1)
    assert (spread["n"], spread["median_ns"], spread["iqr_ns"]) == (3, 9_000, 0)
    assert summary.busy_spread(kernels.slice(0, 0), 1)["n"] == 1


def test_other_phases_and_whole_runs_are_named_as_what_they_are() -> None:
    one = run([{"start_ns": 0, "dur_ns": 5}])
    assert next(iter(cards(one, one))) == "Wall per run"
    cpu = baseline(device={"type": "cpu"})
    assert {"CPU busy", "CPU idle", "Ops per token"} <= set(cards(cpu, cpu))
    assert {"Device busy", "Kernels per token"} <= set(cards(cpu, baseline()))


def timed(median: int, iqr: int) -> dict[str, dict[str, int]]:
    return {"decode": {"n": 20, "median_ns": median, "iqr_ns": iqr}}
