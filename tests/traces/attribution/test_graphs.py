"""CUDA-graph replays: what belongs together, and in which order."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa

from traces.attribution import graphs
from traces.columns import NONE

INTEGERS = ("start", "process", "device", "launch_start", "graph_id", "graph_node")


def rows(*given: dict[str, Any]) -> pa.Table:
    base = {"link": "graph", "name": "k", "kind": "kernel", "process": 1, "device": 0}
    full = [base | row for row in given]
    columns = {n: pa.array([r.get(n) for r in full], pa.int64()) for n in INTEGERS}
    return pa.table(columns | {n: [r[n] for r in full] for n in ("link", "name", "kind")})


def replay(launch: int, names: str, starts: list[int] | None = None, **more: Any) -> list[dict[str, Any]]:
    """One replay of one-letter kernels; they start in order unless told otherwise."""
    starts = starts or list(range(len(names)))
    return [
        {"launch_start": launch, "name": name, "start": launch + 10 + start} | more
        for name, start in zip(names, starts, strict=True)
    ]


def with_nodes(replay: list[dict[str, Any]], first: int = 1) -> list[dict[str, Any]]:
    return [row | {"graph_node": first + i} for i, row in enumerate(replay)]


def test_kernels_of_one_launch_are_ordered_by_start() -> None:
    found = graphs.number(rows(*replay(0, "abc", [2, 0, 1]), {"link": "launch", "start": 5}))
    assert found.launch.tolist() == [0, 0, 0, NONE]
    assert found.ordinal.tolist() == [2, 0, 1, NONE]
    assert found.replay.tolist() == [0, 0, 0, NONE]


def test_without_ids_graphs_of_the_same_names_count_as_one() -> None:
    found = graphs.number(rows(*replay(0, "ab"), *replay(100, "cd"), *replay(200, "ab")))
    assert found.replay.tolist() == [0, 0, 0, 0, 1, 1]


def test_a_graph_id_counts_more_than_names() -> None:
    found = graphs.number(rows(*replay(0, "ab", graph_id=5), *replay(100, "ab", graph_id=6)))
    assert found.replay.tolist() == [0, 0, 0, 0]
    assert found.launch.tolist() == [0, 0, 1, 1]


def test_nodes_give_the_position_however_streams_overlap() -> None:
    given = [*with_nodes(replay(0, "abc")), *with_nodes(replay(100, "abc", [1, 0, 2]))]
    found = graphs.number(rows(*given))
    assert found.ordinal.tolist() == [0, 1, 2, 0, 1, 2]
    assert found.replay.tolist() == [0, 0, 0, 1, 1, 1]


def test_the_same_names_at_other_nodes_are_another_graph() -> None:
    found = graphs.number(rows(*with_nodes(replay(0, "ab"), 1), *with_nodes(replay(100, "ab"), 7)))
    assert found.replay.tolist() == [0, 0, 0, 0]


def test_nodes_that_repeat_or_lack_are_no_positions() -> None:
    """A node inside a loop runs several times; a tool may know the nodes of kernels alone."""
    twice = [row | {"graph_node": 3} for row in replay(0, "ab", [1, 0])]
    lacking = with_nodes(replay(100, "abc", [1, 0, 2]))
    lacking[2]["graph_node"] = None
    assert graphs.number(rows(*twice)).ordinal.tolist() == [1, 0]
    assert graphs.number(rows(*lacking)).ordinal.tolist() == [1, 0, 2]


def test_the_order_of_rows_does_not_matter() -> None:
    given = [*with_nodes(replay(0, "abcd", [3, 1, 2, 0])), *replay(50, "xyz"), *replay(90, "xyz", [2, 1, 0])]
    expected = graphs.number(rows(*given))
    order = random.Random(0).sample(range(len(given)), len(given))
    found = graphs.number(rows(*(given[i] for i in order)))
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.tolist() == [theirs[i] for i in order]


def test_no_replays_are_no_replays() -> None:
    assert graphs.number(rows({"link": "launch", "start": 1})).launch.tolist() == [NONE]
