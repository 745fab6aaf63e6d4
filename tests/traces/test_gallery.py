"""The real captures that ship in the repository."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow.compute as pc
import pytest

from traces import ledger, store
from traces.analysis.breakdown import breakdown
from traces.analysis.compare import compare
from traces.analysis.outside import kernels_outside

if TYPE_CHECKING:
    from pathlib import Path

RUNS = store.find([store.gallery()])


def only(*words: str) -> store.Run:
    (path,) = (p for p in RUNS if all(w in p.name for w in words))
    return store.read(path)


def test_each_model_is_there_in_both_builds_in_eager_and_graph_mode() -> None:
    found = {(m["model"], m["variant"], m["mode"]) for m in map(store.read_metadata, RUNS)}
    builds = [("llama3-8b", v) for v in ("cuda", "triton-blog", "triton")]
    builds += [("granite-8b", v) for v in ("cuda", "triton-blog")]
    assert found == {(*build, mode) for build in builds for mode in ("eager", "graph")}


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


@pytest.mark.parametrize(("model", "layers"), [("llama3-8b", 32), ("granite-8b", 36)])
@pytest.mark.parametrize("variant", ["cuda", "triton-blog"])
def test_every_row_of_a_replay_has_its_group_and_module(variant: str, model: str, layers: int) -> None:
    run = only(f"{model}_{variant}_graph")
    health = run.meta["health"]
    assert health["launch_log"] == {"replays": 11, "matched": 11, "mismatched": 0}
    assert all(phase["seen"] == [phase["expected"]] for phase in health["kernels_seen"].values())
    assert health["notes"] == []
    assert run.table["module"].null_count == run.table["group"].null_count == 0
    for phase in ("prefill", "decode"):
        rows = run.table.filter(pc.equal(run.table["phase"], phase))
        assert set(rows["layer"].drop_null().to_pylist()) == set(range(layers))


def test_an_older_replay_has_its_modules_in_the_decode_step() -> None:
    run = only("llama3-8b_triton_graph")
    assert run.meta["health"]["launch_log"] == {"replays": 8, "matched": 8, "mismatched": 0}
    decode = run.table.filter(pc.equal(run.table["phase"], "decode"))
    with_module = pc.sum(decode.filter(pc.is_valid(decode["module"]))["exclusive_ns"]).as_py()
    assert with_module / pc.sum(decode["exclusive_ns"]).as_py() > 0.98


@pytest.mark.parametrize("mode", ["eager", "graph"])
@pytest.mark.parametrize("model", ["llama3-8b", "granite-8b"])
def test_no_kernel_of_the_studys_build_lies_outside_triton(model: str, mode: str) -> None:
    assert kernels_outside(only(f"{model}_triton-blog_{mode}")) == {}


def test_the_triton_step_runs_no_vendor_kernel() -> None:
    decode = breakdown(only("_triton_graph"), ["backend"], "decode")
    assert {r["backend"] for r in decode.rows} == {"triton", "inductor"}


@pytest.mark.parametrize("mode", ["eager", "graph"])
@pytest.mark.parametrize(
    ("model", "variant"),
    [("llama3-8b", "triton"), ("llama3-8b", "triton-blog"), ("granite-8b", "triton-blog")],
)
def test_the_gap_is_explained_exactly(model: str, variant: str, mode: str) -> None:
    for by in (["category"], ["module", "category"]):
        got = compare(only(f"{model}_cuda_{mode}"), only(f"{model}_{variant}_{mode}"), by)
        assert got.basis == "unprofiled"
        assert got.not_comparable == []
        for side in ("a", "b", "delta"):
            assert sum(r[side] for r in got.rows) + got.idle[side] == got.total[side]
