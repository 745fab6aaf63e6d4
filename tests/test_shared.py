"""Optional: more traces than the repository may carry, looked for in `../shared` beside the checkout."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest

from tests.traces.attribution.limits import faster_than_possible
from traces import ledger
from traces.analysis.compare import compare
from traces.errors import InputError
from traces.ingest import ingest

SHARED = Path(__file__).parents[1].parent / "shared"
CASES = sorted((SHARED / "cases" / "kineto").glob("[0-9]*.json*"))
TRACES = sorted((SHARED / "traces").glob("*/*.json.gz"))

pytestmark = pytest.mark.skipif(not TRACES, reason="no shared traces beside this checkout")


def sums(table: Any, column: str, **where: str) -> int:
    for name, value in where.items():
        table = table.filter(pc.equal(table[name], value))
    return pc.sum(table[column]).as_py() or 0


@pytest.mark.parametrize("path", CASES + TRACES, ids=lambda p: p.name.split(".")[0])
def test_every_readable_trace_closes_and_is_known(path: Path) -> None:
    try:
        run = ingest(path)
    except InputError as error:
        assert "no GPU rows" in str(error)  # noqa: PT017
        return
    exclusive, gap, totals = ledger.close(run.table)
    assert exclusive.sum() == sum(t.busy_ns for t in totals)
    assert exclusive.sum() + gap.sum() + sum(t.tail_ns for t in totals) == sum(t.span_ns for t in totals)
    if path in TRACES:
        assert run.meta["health"]["unknown"]["exclusive_ns"] <= 0.01 * exclusive.sum()
    assert faster_than_possible(run) == []


@pytest.mark.parametrize("path", CASES, ids=lambda p: p.name.split(".")[0])
def test_cases_with_right_answers(path: Path) -> None:
    expected = json.loads((path.parent / "EXPECT.json").read_text())[path.name.split(".")[0]]
    run = ingest(path)
    table = run.table
    totals = ledger.close(table)[2]
    start = table["start_ns"].to_pylist()
    used = table["used_ns"].to_pylist()
    found = {
        "n_gpu": table.num_rows,
        "kernel_ns": sums(table, "used_ns", kind="kernel"),
        "busy_ns": sum(t.busy_ns for t in totals),
        "span_ns": sum(t.span_ns for t in totals),
        "flagged": table.num_rows - table["flag"].null_count,
        "linked_to_graph": table.filter(pc.equal(table["link"], "graph")).num_rows,
        "comm_ns": sums(table, "used_ns", group="communication"),
        "op": table["op"].to_pylist()[-1],
        "op_of_copy_kernel": table["op"].to_pylist()[-1],
        "steps": len(run.meta["steps"]),
        "kernel0_start_ns": run.meta["time_base_unix_ns"],
        "gap_ns": start[1] - start[0] - used[0] if len(start) > 1 else None,
        "no_negative": min(used) >= 0,
        "recoverable": table.num_rows > 0,
    }
    assert {k: found[k] for k in expected} == expected


LAYERS = {  # name: layers in all, and whether nothing in the trace says them
    "llama3_8b_cuda_eager": (32, True),
    "llama3_8b_cuda_compile": (32, True),
    "llama3_8b_cuda_graphs": (32, True),
    "tl_b200_vllm_eager": (36, False),
    "tl_h100_gaunernst_bert-small-uncased__1016001": (4, False),
    "tl_mi300x_vllm_decode_hipgraph_full": (24, True),
}


@pytest.mark.parametrize("name", LAYERS)
def test_layers_are_named_or_inferred(name: str) -> None:
    (path,) = (p for p in TRACES if p.name.startswith(f"{name}."))
    run = ingest(path)
    count, inferred = LAYERS[name]
    assert set(run.table["layer"].drop_null().to_pylist()) == set(range(count))
    assert ("layers" in run.meta["health"]) == inferred


def test_eager_compiled_and_graph_runs_of_one_model_align() -> None:
    eager, compiled, graphs = (
        ingest(SHARED / "traces" / "h200" / f"llama3_8b_cuda_{m}.json.gz")
        for m in ("eager", "compile", "graphs")
    )
    for a, b in ((eager, compiled), (compiled, graphs), (eager, graphs)):
        got = compare(a, b, ("module", "category"))
        assert got.aligned_by == "order in the layer"
        assert got.aligned_share >= 0.99
        for side in ("a", "b", "delta"):
            assert sum(r[side] for r in got.rows) + got.idle[side] == got.total[side]
