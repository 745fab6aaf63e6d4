"""The runs that the dashboard is measured with: exact ledgers, steps that tile, the same by seed."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from benchmarks import dashboard, timelines
from traces import ledger, store
from traces.analysis import canvas
from traces.analysis.breakdown import breakdown

if TYPE_CHECKING:
    from pathlib import Path


def test_a_run_of_so_many_kernels_that_can_be_written_read_and_analysed(tmp_path: Path) -> None:
    made = timelines.made(3_000, seed=7)
    back = store.read(store.write(made, tmp_path / "r.parquet"))
    assert back.table.equals(made.table)
    _, _, totals = ledger.close(back.table)
    assert sum(back.table["exclusive_ns"].to_pylist()) == totals[0].busy_ns
    assert breakdown(back, ("group",), "decode").rows
    assert {t.lane for t in canvas.lay_out(back).tracks} >= {0, 1}
    assert back.table.equals(timelines.made(3_000, seed=7).table)


def test_the_steps_of_a_phase_tile_it() -> None:
    steps = [s for s in timelines.made(2_000, seed=1).meta["steps"] if s["phase"] == "decode"]
    assert [s["step"] for s in steps] == list(range(len(steps)))
    assert all(a["end_ns"] == b["start_ns"] for a, b in itertools.pairwise(steps))
    assert [s["complete"] for s in steps] == [True] * (len(steps) - 1) + [False]


def test_quantiles_are_values_that_occurred() -> None:
    values = [float(i) for i in range(1, 101)]
    assert (dashboard.quantile(values, 0.95), dashboard.quantile(values, 0.5)) == (95.0, 50.0)
    assert dashboard.quantile([3.0], 0.95) == 3.0


def test_the_table_shows_medians_and_spread() -> None:
    rounds = [{key: float(n) for _, _, key in dashboard.ROWS} for n in (1, 5, 3)]
    text = dashboard.table([{"kernels": 1_000, "rounds": rounds, "load_average": 0.5}])
    assert "| cold, s | 3.00 (1.00–5.00) |" in text
    assert "2 × 1,000 kernels" in text
