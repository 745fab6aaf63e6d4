"""The launch log, zipped with replays and with steps."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from tests.traces.attribution.test_graphs import replay, rows, with_nodes
from tests.traces.traces import host, kernel, op, trace, user_range, write
from traces.attribution import graphs
from traces.attribution.launch_log import Line, Zipped, read, zip_with
from traces.columns import NONE
from traces.ingest import ingest
from traces.phases import Phases

if TYPE_CHECKING:
    from pathlib import Path


def lines(names: str, graph: int = 0, **facts: Any) -> list[Line]:
    return [Line(graph, i, name, module=f"{graph}.{name}{i}", **facts) for i, name in enumerate(names)]


def zipped(log: list[list[Line]], given: list[dict[str, Any]], phase: list[str] | None = None) -> Zipped:
    table = rows(*given)
    found = None
    if phase is not None:
        steps = pa.array([row.get("step", 0) for row in given], pa.int32())
        found = Phases(pa.array(phase).dictionary_encode(), steps)
    return zip_with(log, table, graphs.number(table), found)


def places(found: Zipped) -> list[str | None]:
    return [None if i == NONE else found.lines[i].module for i in found.placed]


def test_every_replay_takes_the_lines_of_its_graph() -> None:
    log = [lines("ab"), lines("xyz", 1)]
    found = zipped(log, [*replay(0, "xyz"), *replay(50, "ab"), *replay(90, "xyz", [2, 1, 0])])
    assert places(found) == ["1.x0", "1.y1", "1.z2", "0.a0", "0.b1", None, None, None]
    assert found.health == {"replays": 3, "matched": 2, "mismatched": 1}


@pytest.mark.parametrize("names", ["a", "abc", "ba", "ac", "aba"])
def test_other_names_or_counts_match_nothing(names: str) -> None:
    found = zipped([lines("ab")], replay(0, names))
    assert places(found) == [None] * len(names)
    assert found.health == {"replays": 1, "matched": 0, "mismatched": 1}


def test_a_memset_lies_where_the_kernel_behind_it_does() -> None:
    given = replay(0, "maMbm")
    for i in (0, 2, 4):
        given[i]["kind"] = "memset" if i else "memcpy"
    found = zipped([lines("ab")], given)
    assert places(found) == ["0.a0", "0.a0", "0.b1", "0.b1", "0.b1"]
    assert (found.at != NONE).tolist() == [False, True, False, True, False]


def test_nodes_match_replays_whose_streams_overlap_otherwise() -> None:
    """Nodes in the order of capture, starts in another: each replay is the log's all the same."""
    given = [*with_nodes(replay(0, "abab", [2, 0, 1, 3])), *with_nodes(replay(100, "abab", [1, 3, 2, 0]))]
    found = zipped([lines("abab")], given)
    assert places(found) == ["0.a0", "0.b1", "0.a2", "0.b3"] * 2
    assert found.health["mismatched"] == 0


def test_one_replay_in_logged_order_explains_the_nodes_of_the_others() -> None:
    """Node ids that are not in the order of capture are identities all the same."""
    nodes = [{"graph_node": n} for n in (7, 3, 9)]
    inorder = [row | node for row, node in zip(replay(0, "abc"), nodes, strict=True)]
    overlapped = [row | node for row, node in zip(replay(100, "abc", [2, 1, 0]), nodes, strict=True)]
    for given in ([*inorder, *overlapped], [*overlapped, *(row | {"launch_start": 200} for row in inorder)]):
        found = zipped([lines("abc")], given)
        assert places(found) == ["0.a0", "0.b1", "0.c2"] * 2
    assert zipped([lines("abc")], overlapped).health["mismatched"] == 1


def test_known_nodes_with_other_names_stay_unmatched() -> None:
    given = [*with_nodes(replay(0, "ab")), *with_nodes(replay(100, "ax"))]
    assert places(zipped([lines("ab")], given)) == ["0.a0", "0.b1", None, None]


def test_graphs_of_the_same_kernels_are_told_apart_by_phase() -> None:
    log = [lines("ab", 0, phase="decode"), lines("ab", 1, phase="prefill")]
    given = [*replay(0, "ab"), *replay(50, "ab")]
    assert places(zipped(log, given, ["prefill"] * 2 + ["decode"] * 2)) == ["1.a0", "1.b1", "0.a0", "0.b1"]
    for unknown in (None, ["warmup"] * 4):
        assert places(zipped(log, given, unknown)) == [None] * 4


def test_graphs_that_differ_in_nothing_need_no_phase() -> None:
    twice = [lines("ab"), [Line(1, x.ordinal, x.name, x.module) for x in lines("ab")]]
    assert places(zipped(twice, replay(0, "ab"))) == ["0.a0", "0.b1"]
    unlike = [lines("ab", 0, phase="decode"), lines("ab", 1, phase="decode")]
    assert places(zipped(unlike, replay(0, "ab"), ["decode"] * 2)) == [None, None]


def launched(step: int, names: str) -> list[dict[str, Any]]:
    """Kernels of a step launched one by one; the device starts them in the opposite order."""
    return [
        {
            "link": "launch",
            "name": n,
            "step": step,
            "launch_start": 100 * step + i,
            "start": 100 * step + 50 - i,
        }
        for i, n in enumerate(names)
    ]


def test_without_replays_steps_are_matched_in_launch_order() -> None:
    given = [*launched(0, "ab"), *launched(1, "ab"), *launched(2, "ax")]
    found = zipped([lines("ab")], given, ["decode"] * 6)
    assert places(found) == ["0.a0", "0.b1", "0.a0", "0.b1", None, None]
    assert found.health == {"replays": 0, "steps": 3, "matched": 2, "mismatched": 1}
    assert (found.at == NONE).all()  # the trace knows their ops


def test_steps_beside_replays_are_none_of_the_logs_business() -> None:
    found = zipped([lines("ab")], [*launched(0, "ab"), *replay(500, "ab")], ["prefill"] * 2 + ["decode"] * 2)
    assert places(found) == [None, None, "0.a0", "0.b1"]
    assert found.health == {"replays": 1, "matched": 1, "mismatched": 0}


def test_lines_are_read_by_graph_in_their_order(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    written = [{"graph": 1, "ordinal": 0, "name": "x"}, {"graph": 0, "ordinal": 1, "name": "b"},
               {"graph": 0, "ordinal": 0, "name": "a", "phase": "decode", "later": 1}]  # fmt: skip
    path.write_text("".join(json.dumps(line) + "\n" for line in written))
    assert [[x.name for x in graph] for graph in read(path)] == [["x"], ["a", "b"]]


def compiled_trace() -> dict[str, Any]:
    events = []
    for step in range(2):
        at = 100.0 * step
        events.append(user_range(f"kernelgap.decode#{step}", at, 60))
        for i, (name, op_name) in enumerate(
            (("triton_red_norm_0", "triton_red_norm_0"), ("nvjet", "aten::mm"))
        ):
            correlation = 10 * step + i + 1
            events += [
                op(op_name, at + 5 + 20 * i, 10, correlation),
                host("cudaLaunchKernel", at + 7 + 20 * i, 3, correlation),
                kernel(name, at + 12 + 20 * i, 5, correlation),
            ]
        clear = host("cudaMemsetAsync", at + 25.5, 1, 10 * step + 9)
        fill = kernel("Memset (Device)", at + 29, 1, 10 * step + 9) | {"cat": "gpu_memset"}
        events += [clear, fill]
    return trace(*events)


def test_compiled_steps_get_modules_and_keep_their_ops(tmp_path: Path) -> None:
    source = write(tmp_path / "trace.json", compiled_trace())
    log = tmp_path / "log.jsonl"
    names = [("triton_red_norm_0", "norm"), ("nvjet", "layers.1.mlp.down")]
    log.write_text("".join(
        json.dumps({"graph": 0, "ordinal": i, "name": n, "module": m, "op": "other::op", "flops": 1}) + "\n"
        for i, (n, m) in enumerate(names)
    ))  # fmt: skip
    run = ingest(source, log)
    assert run.meta["health"]["launch_log"] == {"replays": 0, "steps": 2, "matched": 2, "mismatched": 0}
    found = run.table.select(["name", "module", "layer", "op", "flops", "rule"]).to_pylist()
    assert [(r["name"], r["module"], r["layer"]) for r in found[:3]] == [
        ("triton_red_norm_0", "norm", None),
        ("Memset (Device)", "layers.1.mlp.down", 1),
        ("nvjet", "layers.1.mlp.down", 1),
    ]
    assert [r["op"] for r in found[:3:2]] == ["triton_red_norm_0", "aten::mm"]
    assert found[0]["flops"] is None
    assert not any(r["rule"].startswith("graph:") for r in found)


def test_a_log_for_a_trace_without_replays_and_steps_is_said_to_be_unused(tmp_path: Path) -> None:
    events = [e for e in compiled_trace()["traceEvents"] if e["cat"] != "user_annotation"]
    source = write(tmp_path / "trace.json", trace(*events))
    log = tmp_path / "log.jsonl"
    log.write_text('{"graph": 0, "ordinal": 0, "name": "nvjet"}')
    notes = ingest(source, log).meta["health"]["notes"]
    assert any(note.startswith("launch log: not used") for note in notes)
