from __future__ import annotations

from typing import Any

import pytest

from tests.traces.builders import run, step
from traces.analysis.shares import main_phases, shares
from traces.errors import UsageError


def decode(**known: Any) -> Any:
    """Two steps of 100 ns: 40 ns of GEMM, 10 of a norm each; the second is incomplete."""
    rows = []
    for n in range(2):
        at = {"phase": "decode", "step": n}
        rows += [
            {"start_ns": 100 * n, "dur_ns": 40, **at},
            {"start_ns": 100 * n + 50, "dur_ns": 10, "group": "small_op", "category": "norm", **at},
        ]
    rows.append({"start_ns": 70, "dur_ns": 5, "group": "memory", "category": "memset"})
    steps = [step("decode", 0, 0, 100), step("decode", 1, 100, 160, complete=False)]
    return run(rows, steps=steps, **known)


def test_shares_of_a_profiled_step_sum_to_one() -> None:
    found = shares(decode(), "decode")
    assert found is not None
    assert (found.wall_ns, found.basis) == (100, "profiled")
    assert found.parts == pytest.approx({"gemm": 0.4, "small_op": 0.1, "other phases": 0.05, "idle": 0.45})
    assert sum(found.parts.values()) == pytest.approx(1)


def test_the_unprofiled_wall_time_counts_where_it_is_known() -> None:
    timing = {"decode": {"n": 9, "median_ns": 50, "iqr_ns": 1}}
    found = shares(decode(unprofiled=timing), "decode")
    assert found is not None
    assert (found.wall_ns, found.basis) == (50, "unprofiled")
    assert found.parts["gemm"] == pytest.approx(0.8)
    assert found.parts["idle"] == pytest.approx(-0.1)  # kernels took longer under the profiler


def test_two_devices_have_two_walls() -> None:
    rows = [{"start_ns": 0, "dur_ns": 80, "device": d, "phase": "p", "step": 0} for d in (0, 1)]
    found = shares(run(rows, steps=[step("p", 0, 0, 100)]), "p")
    assert found is not None
    assert found.parts == pytest.approx({"gemm": 0.8, "idle": 0.2})


def test_a_phase_without_time_has_no_shares_and_an_unknown_one_is_refused() -> None:
    made = run([{"start_ns": 0, "dur_ns": 0, "phase": "p", "step": 0}], steps=[step("p", 0, 0, 0)])
    assert shares(made, "p") is None
    with pytest.raises(UsageError, match="its phases: p"):
        shares(made, "q")


def test_the_longest_phases_come_in_their_order() -> None:
    steps = [step("a", 0, 0, 50), step("b", 0, 50, 60), step("c", 0, 60, 160)]
    made = run([{"start_ns": 0, "dur_ns": 160}], steps=steps)
    assert main_phases(made, 2) == ["a", "c"]
