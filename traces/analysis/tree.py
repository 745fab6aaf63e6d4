"""A step as a tree: phase > layer > module > category > kernel, ns per step, closed with the idle time.

Sizes are those of `compare --by layer,module,category,name`: a leaf is a row of the comparison, a parent is
the sum of its children, and idle is a child of the root, so that the root is the step's wall time to the ns.
"""

from __future__ import annotations

import hashlib
import json
from bisect import bisect_left
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from traces.analysis.compare import of_other_phases
from traces.analysis.units import within
from traces.attribution.taxonomy import GROUP_OF

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from traces.analysis.compare import Comparison

BY: Final = ("layer", "module", "category", "name")
OUTSIDE: Final = "outside the layers"
OTHERS: Final = "other phases"
IDLE: Final = "idle"
NO_MODULE: Final = "(no module)"
NO_NAME: Final = "(no name)"
Path = tuple[str, ...]


@dataclass(frozen=True)
class Node:
    """One part of a step. `ns` is per step; `group` is None above the categories; `folded` are in it."""

    path: Path
    kind: str  # phase, layer, module, category, kernel, idle, others, more
    ns: int
    group: str | None = None
    folded: int = 0

    @cached_property
    def id(self) -> str:
        """A short name that is the same in every run and phase: it goes into links."""
        return identity(self.path[1:])

    @property
    def label(self) -> str:
        """Its own name, the last of its path."""
        return self.path[-1]


@dataclass(frozen=True)
class Tree:
    """The nodes, parents before their children and siblings largest first, idle last.

    `idle_ns` may be negative, where the kernels outlast the unprofiled step; it has no node then, and
    `total_ns` is less than the root by that much.
    """

    nodes: list[Node]
    total_ns: int
    idle_ns: int

    @property
    def root(self) -> Node:
        """The step."""
        return self.nodes[0]

    @cached_property
    def sizes(self) -> dict[Path, int]:
        """ns per step by path."""
        return {node.path: node.ns for node in self.nodes}

    def matched(self, words: str) -> tuple[set[Path], int]:
        """The nodes that the words are found in, all below them, and their time, each ns once.

        A node matches if every word is in its own label, whatever the case.
        """
        wanted = words.lower().split()
        found: set[Path] = set()
        ns = 0
        for node in self.nodes if wanted else ():
            inherits = node.path[:-1] in found
            label = node.label.lower()
            if inherits or all(word in label for word in wanted):
                found.add(node.path)
                ns += 0 if inherits else node.ns
        return found, ns


def identity(path: Path) -> str:
    """Twelve hex digits of a path's SHA-256."""
    return hashlib.sha256(json.dumps(path).encode()).hexdigest()[:12]


def tree(result: Comparison, side: str, *, fold_layers: bool = False) -> Tree:
    """The tree of side `a` or `b` of a comparison by `BY`.

    Levels that neither run knows (no layers, no modules) are left out. `fold_layers`: layers that have the
    same modules and categories, in A and also in B, become one: `layers.* ×32` in both trees.
    """
    parts = [r for r in result.rows if not of_other_phases(r) and _has(result, side, r)]
    has = {c: any(r["key"][c] is not None for r in result.rows) for c in ("layer", "module")}
    alike = _alike(result) if fold_layers else {}
    root: Path = (f"{result.phase} step" if result.phase else "whole run",)
    sums: dict[Path, int] = {root: 0}
    kinds: dict[Path, tuple[str, str | None]] = {root: ("phase", None)}
    for row in parts:
        path = root
        for kind, label, group in _levels(row["key"], has, alike):
            path = (*path, label)
            kinds.setdefault(path, (kind, group))
            sums[path] = sums.get(path, 0) + row[side]
        sums[root] += row[side]
    for row in result.rows:
        if of_other_phases(row) and row[side]:
            _leaf(sums, kinds, root, OTHERS, "others", row[side])
    if result.idle[side] > 0:
        _leaf(sums, kinds, root, IDLE, "idle", result.idle[side])
    nodes = [Node(path, kinds[path][0], ns, kinds[path][1]) for path, ns in sums.items()]
    return Tree(_ordered(nodes), result.total[side], result.idle[side])


def pruned(whole: Tree, most: int) -> Tree:
    """At most `most` (> 2) nodes: the smallest children of a parent become one, `12 more`, of equal size."""
    if len(whole.nodes) <= most:
        return whole
    sizes = sorted({n.ns for n in whole.nodes})
    # The smallest size to keep for which the tree is small enough; a larger one never gives a larger tree.
    at = bisect_left(sizes, True, key=lambda size: len(_cut(whole.nodes, size)) <= most)
    least = sizes[at] if at < len(sizes) else sizes[-1] + 1
    return Tree(_ordered(_cut(whole.nodes, least)), whole.total_ns, whole.idle_ns)


def _cut(nodes: Sequence[Node], least: int) -> list[Node]:
    """Without the nodes below `least` ns, whose time goes to a node of their parent's."""
    root, *rest = nodes
    kept, dropped = [root], dict[Path, list[Node]]()
    inside = {root.path}
    for node in rest:
        if node.path[:-1] not in inside:
            continue
        if node.ns >= least or node.kind == IDLE:
            kept.append(node)
            inside.add(node.path)
        else:
            dropped.setdefault(node.path[:-1], []).append(node)
    for parent, few in dropped.items():
        path = (*parent, f"{len(few)} more")
        groups = {n.group for n in few}
        group = groups.pop() if len(groups) == 1 else None
        kept.append(Node(path, "more", sum(n.ns for n in few), group, len(few)))
    return kept


def _has(result: Comparison, side: str, row: dict[str, Any]) -> bool:
    """Whether the side has rows of this very key (a matched unit may have kernels of other names)."""
    return tuple(row["key"].values()) in getattr(result, side).rows


def _levels(
    key: dict[str, Any], has: dict[str, bool], alike: dict[int, str]
) -> Iterable[tuple[str, str, str | None]]:
    """(kind, label, group) of each level below the root of one row."""
    layer, module = key["layer"], key["module"]
    if has["layer"]:
        label = OUTSIDE if layer is None else alike.get(layer, f"layers.{layer}")
        yield "layer", label, None
    if has["module"]:
        yield "module", _module(module, layer, has["layer"]), None
    category = key["category"] or "unknown"
    group = GROUP_OF.get(category, "other")
    yield "category", category, group
    yield "kernel", key["name"] or NO_NAME, group


def _module(module: str | None, layer: int | None, below_layer: bool) -> str:
    """The module's path, below its layer only the part inside it."""
    if module is None:
        return NO_MODULE
    if layer is None or not below_layer:
        return module
    return within(module) or "(layer itself)"


def _alike(result: Comparison) -> dict[int, str]:
    """A common name for layers with the same modules and categories; single layers keep their own."""
    made: dict[int, set[tuple[str, str, str | None]]] = {}
    for row in result.rows:
        layer, module = row["key"]["layer"], row["key"]["module"]
        if layer is not None:
            part = _module(module, layer, True), row["key"]["category"]
            made.setdefault(layer, set()).update((s, *part) for s in ("a", "b") if _has(result, s, row))
    groups: dict[frozenset[tuple[str, str, str | None]], list[int]] = {}
    for layer, has in sorted(made.items()):
        groups.setdefault(frozenset(has), []).append(layer)
    return {
        layer: f"layers.{spans(layers) if len(groups) > 1 else '*'} ×{len(layers)}"
        for layers in groups.values()
        if len(layers) > 1
        for layer in layers
    }


def spans(numbers: Sequence[int]) -> str:
    """Ascending numbers as ranges: `1-3,5`."""
    out: list[list[int]] = []
    for number in numbers:
        if out and number == out[-1][1] + 1:
            out[-1][1] = number
        else:
            out.append([number, number])
    return ",".join(f"{a}-{b}" if a < b else f"{a}" for a, b in out)


def _leaf(
    sums: dict[Path, int],
    kinds: dict[Path, tuple[str, str | None]],
    root: Path,
    label: str,
    kind: str,
    ns: int,
) -> None:
    path = (*root, label)
    sums[path] = sums.get(path, 0) + ns
    sums[root] += ns
    kinds[path] = (kind, "idle" if kind == "idle" else "other")


def _ordered(nodes: Iterable[Node]) -> list[Node]:
    """Parents before children, siblings largest first, idle last."""
    children: dict[Path, list[Node]] = {}
    for node in nodes:
        children.setdefault(node.path[:-1], []).append(node)
    out: list[Node] = []
    stack = list(children[()])
    while stack:
        node = stack.pop()
        out.append(node)
        stack += sorted(children.get(node.path, ()), key=lambda n: (n.kind != IDLE, n.ns, n.path))
    return out
