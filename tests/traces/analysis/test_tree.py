"""The tree of a step: sums that close, folded layers, cut trees, and what a search finds."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.traces.builders import run, step
from traces.analysis.compare import compare
from traces.analysis.tree import BY, Node, Tree, identity, pruned, spans, tree
from traces.store import Run

WALL = 1_000


def model(layers: int = 3, **known: Any) -> Run:
    """One decode step: an embedding, `layers` layers of a GEMM (100 ns) and a norm (10 ns), a head."""
    rows, at = [], 0
    first = {"name": "emb", "category": "embedding", "group": "small_op", "module": "embed", "dur_ns": 7}
    parts = [first]
    for n in range(layers):
        parts.append({"name": "mm", "module": f"layers.{n}.mlp.up", "layer": n, "dur_ns": 100})
        parts.append(
            {"name": "ln", "category": "norm", "group": "small_op", "module": f"layers.{n}.norm", "layer": n,
             "dur_ns": 10}
        )  # fmt: skip
    for part in [*parts, {"name": "mm", "module": "lm_head", "dur_ns": 50}]:
        rows.append({**part, "start_ns": at, "phase": "decode", "step": 0})
        at += int(str(part["dur_ns"]))
    return run(rows, steps=[step("decode", 0, 0, WALL)], **known)


def made(a: Run, b: Run | None = None, side: str = "a", **how: bool) -> Tree:
    return tree(compare(a, b or a, BY, "decode"), side, **how)


def closes(found: Tree) -> None:
    sums: dict[tuple[str, ...], int] = {}
    for node in found.nodes[1:]:
        sums[node.path[:-1]] = sums.get(node.path[:-1], 0) + node.ns
    sizes = {node.path: node.ns for node in found.nodes}
    assert sums == {path: sizes[path] for path in sums}
    assert len(sizes) == len(found.nodes)


def test_every_parent_is_the_sum_of_its_children_and_the_root_is_the_wall() -> None:
    found = made(model())
    closes(found)
    assert (found.root.path, found.root.ns, found.total_ns) == (("decode step",), WALL, WALL)
    sizes = {n.path[1:]: n.ns for n in found.nodes}
    assert sizes["idle",] == found.idle_ns == WALL - 7 - 3 * 110 - 50
    assert sizes["layers.1",] == 110
    assert sizes["layers.1", "mlp.up", "gemm", "mm"] == 100
    assert sizes["outside the layers", "lm_head"] == 50


def test_siblings_are_sorted_and_parents_come_first() -> None:
    found = made(model())
    seen: set[tuple[str, ...]] = {()}
    last: dict[tuple[str, ...], int] = {}
    for node in found.nodes:
        parent = node.path[:-1]
        assert parent in seen
        assert node.kind == "idle" or node.ns <= last.get(parent, node.ns)
        seen.add(node.path)
        last[parent] = node.ns


def test_layers_that_are_alike_become_one() -> None:
    found = made(model(4), fold_layers=True)
    closes(found)
    sizes = {n.path[1:]: n.ns for n in found.nodes}
    assert sizes["layers.* ×4",] == 440
    assert sizes["layers.* ×4", "mlp.up", "gemm", "mm"] == 400


def test_a_layer_unlike_the_others_stays_apart() -> None:
    rows = model(4).table.to_pylist()
    rows[1] |= {"category": "activation", "group": "small_op"}
    odd = run([{k: v for k, v in r.items() if v is not None} for r in rows],
              steps=[step("decode", 0, 0, WALL)])  # fmt: skip
    labels = [n.label for n in made(odd, fold_layers=True).nodes if n.kind == "layer"]
    assert labels == ["layers.1-3 ×3", "layers.0", "outside the layers"]


def test_levels_that_no_run_knows_are_left_out() -> None:
    rows = [{"start_ns": 0, "dur_ns": 5, "name": "mm", "phase": "decode", "step": 0}]
    bare = run(rows, steps=[step("decode", 0, 0, 10)])
    assert [n.path[1:] for n in made(bare).nodes] == [(), ("gemm",), ("gemm", "mm"), ("idle",)]


def test_a_side_shows_only_its_own_kernels() -> None:
    other = model()
    names = other.table["name"].to_pylist()
    at = other.table.schema.get_field_index("name")
    other = Run(other.table.set_column(at, "name", [[f"b_{n}" for n in names]]), other.meta)
    for side, prefix in (("a", False), ("b", True)):
        kernels = {n.label for n in made(model(), other, side).nodes if n.kind == "kernel"}
        assert all(k.startswith("b_") == prefix for k in kernels)
        closes(made(model(), other, side))


def test_negative_idle_has_no_node_and_is_told() -> None:
    fast = model(unprofiled={"decode": {"n": 3, "median_ns": 200, "iqr_ns": 0}})
    found = made(fast)
    assert found.idle_ns == 200 - (7 + 330 + 50)
    assert (found.total_ns, found.root.ns) == (200, 387)
    assert "idle" not in {n.kind for n in found.nodes}


def test_other_phases_inside_the_tiles_are_a_part_of_their_own() -> None:
    rows = [
        {"start_ns": 0, "dur_ns": 5, "phase": "decode", "step": 0},
        {"start_ns": 10, "dur_ns": 20, "phase": "copying", "step": 0},
    ]
    mixed = run(rows, steps=[step("decode", 0, 0, 50), step("copying", 0, 10, 30)])
    sizes = {n.label: n.ns for n in made(mixed).nodes}
    assert (sizes["other phases"], sizes["idle"], sizes["decode step"]) == (20, 25, 50)


@given(st.lists(st.integers(0, 99), min_size=1, max_size=60), st.integers(3, 40))
def test_a_cut_tree_is_small_enough_and_loses_no_time(sizes: list[int], most: int) -> None:
    paths = [("r", f"{i % 5}", f"{i}") for i in range(len(sizes))]
    groups: dict[str, int] = {}
    for (_, group, _), ns in zip(paths, sizes, strict=True):
        groups[group] = groups.get(group, 0) + ns
    nodes = [
        Node(("r",), "phase", sum(sizes)),
        *(Node(("r", g), "module", ns) for g, ns in groups.items()),
        *(Node(p, "kernel", ns, "gemm") for p, ns in zip(paths, sizes, strict=True)),
    ]
    cut = pruned(Tree(nodes, sum(sizes), 0), most)
    assert len(cut.nodes) <= most or len(cut.nodes) == len(nodes) <= most
    sums: dict[tuple[str, ...], int] = {}
    for node in cut.nodes[1:]:
        sums[node.path[:-1]] = sums.get(node.path[:-1], 0) + node.ns
    have = {node.path: node.ns for node in cut.nodes}
    assert all(have[path] == ns for path, ns in sums.items())
    # What was folded is said: each original leaf is either there or counted in a node "n more".
    assert all(n.label == f"{n.folded} more" for n in cut.nodes if n.kind == "more")


def test_the_smallest_are_cut_first_and_idle_stays() -> None:
    whole = made(model(40))
    cut = pruned(whole, 30)
    closes(cut)
    assert len(cut.nodes) <= 30
    assert {n.kind for n in cut.nodes} >= {"more"}
    assert cut.root == whole.root
    assert pruned(whole, 10_000) is whole


def test_a_search_counts_each_ns_once_and_takes_what_lies_below() -> None:
    found = made(model())
    paths, ns = found.matched("MM")
    assert ns == 300 + 50
    assert {p[-1] for p in paths} == {"gemm", "mm"}
    below, ns = found.matched("layers.1")
    assert ns == 110
    assert ("decode step", "layers.1", "mlp.up", "gemm", "mm") in below
    assert found.matched("decode")[1] == WALL
    assert found.matched("  ") == (set(), 0)
    assert found.matched("nothing") == (set(), 0)


@pytest.mark.parametrize(
    ("numbers", "text"), [([0, 1, 2], "0-2"), ([3], "3"), ([0, 2, 3, 9], "0,2-3,9"), ([], "")]
)
def test_ranges_of_numbers(numbers: list[int], text: str) -> None:
    assert spans(numbers) == text


def test_a_node_is_named_alike_in_every_run_and_for_hostile_names() -> None:
    assert identity(("a", "b")) == identity(("a", "b")) != identity(("ab",))
    assert len(identity(("\ud800\x00" * 5_000,))) == 12


def test_layers_fold_alike_in_both_runs_though_only_one_has_an_odd_layer() -> None:
    rows = model(4).table.to_pylist()
    rows[1] |= {"category": "activation", "group": "small_op"}
    odd = run([{k: v for k, v in r.items() if v is not None} for r in rows],
              steps=[step("decode", 0, 0, WALL)])  # fmt: skip
    for side in ("a", "b"):
        found = made(odd, model(4), side, fold_layers=True)
        assert [n.label for n in found.nodes if n.kind == "layer"] == [
            "layers.1-3 ×3", "layers.0", "outside the layers",
        ]  # fmt: skip
