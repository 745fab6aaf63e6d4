"""The real captures that ship in the repository."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow.compute as pc
import pytest

from traces import ledger, store
from traces.analysis.breakdown import breakdown
from traces.analysis.compare import compare

if TYPE_CHECKING:
    from pathlib import Path

RUNS = store.find([store.gallery()])


def only(*words: str) -> store.Run:
    (path,) = (p for p in RUNS if all(w in p.name for w in words))
    return store.read(path)


def test_both_variants_are_there_in_eager_and_graph_mode() -> None:
    found = {(m["model"], m["variant"], m["mode"]) for m in map(store.read_metadata, RUNS)}
    assert found == {("llama3-8b", v, m) for v in ("cuda", "triton") for m in ("eager", "graph")}


@pytest.mark.parametrize("path", RUNS, ids=lambda p: p.stem[:24])
def test_ledgers_close_to_the_nanosecond(path: Path) -> None:
    run = store.read(path)
    exclusive, gap, totals = ledger.close(run.table)
    assert run.table["exclusive_ns"].to_pylist() == exclusive.tolist()
    assert run.table["gap_ns"].to_pylist() == gap.tolist()
    (total,) = totals
    assert exclusive.sum() == total.busy_ns
    assert exclusive.sum() + gap.sum() + total.tail_ns == total.span_ns
    for phase in ("prefill", "decode"):
        part = breakdown(run, ["category"], phase)
        assert part.idle_ns + sum(r["exclusive_ns"] for r in part.rows) == part.span_ns


@pytest.mark.parametrize("path", RUNS, ids=lambda p: p.stem[:24])
def test_nothing_is_lost_unknown_or_without_a_phase(path: Path) -> None:
    run = store.read(path)
    health = run.meta["health"]
    assert (health["dropped"], health["repaired"], health["flagged"], health["orphans"]) == ({}, {}, {}, 0)
    assert health["unknown"]["rows"] == 0
    assert run.table["phase"].null_count == 0
    assert run.meta["unprofiled"] is not None
    assert run.meta["unprofiled"].keys() == {"prefill", "decode"}


@pytest.mark.parametrize("variant", ["cuda", "triton"])
def test_graph_replays_have_their_modules_from_the_launch_log(variant: str) -> None:
    run = only(f"_{variant}_graph")
    assert run.meta["health"]["launch_log"] == {"replays": 8, "matched": 8, "mismatched": 0}
    kernels = run.meta["health"]["kernels"]
    assert kernels["seen"] == [kernels["expected_per_decode_step"]]
    decode = run.table.filter(pc.equal(run.table["phase"], "decode"))
    layered = decode.filter(pc.is_valid(decode["layer"]))
    assert set(layered["layer"].to_pylist()) == set(range(32))
    with_module = pc.sum(decode.filter(pc.is_valid(decode["module"]))["exclusive_ns"]).as_py()
    assert with_module / pc.sum(decode["exclusive_ns"]).as_py() > 0.98


def test_the_triton_step_runs_no_vendor_kernel() -> None:
    decode = breakdown(only("_triton_graph"), ["backend"], "decode")
    assert {r["backend"] for r in decode.rows} == {"triton", "inductor"}


@pytest.mark.parametrize("mode", ["eager", "graph"])
def test_the_gap_is_explained_exactly(mode: str) -> None:
    for by in (["category"], ["module", "category"]):
        got = compare(only(f"_cuda_{mode}"), only(f"_triton_{mode}"), by)
        assert got.basis == "unprofiled"
        assert got.not_comparable == []
        for side in ("a", "b", "delta"):
            assert sum(r[side] for r in got.rows) + got.idle[side] == got.total[side]
