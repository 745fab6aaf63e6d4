"""CUDA-graph replays: which kernels belong to one launch of a graph, and their position in it.

Where the tool recorded graph nodes (Kineto of torch 2.12 and later, nsys with `--cuda-graph-trace=node`) the
node is the position: capture numbers nodes in the order of the calls it records, and a node is the same in
every replay, even where streams inside the graph overlap differently each time. Else the order of starts is,
which is the order of capture for a graph captured from one stream. Where the trace has no graph ids either,
graphs that replay the same nodes, or without nodes the same names, count as one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow.compute as pc

from traces.columns import NONE, encode

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    Int64s = NDArray[np.int64]


class Replays(NamedTuple):
    """Per row, -1 where it is not part of a replay."""

    launch: NDArray[np.int64]  # which launch in the trace, counted over all graphs
    ordinal: NDArray[np.int32]  # position within the replay
    replay: NDArray[np.int32]  # n-th launch of the same graph


def number(rows: pa.Table) -> Replays:
    """Number the replays of `rows`.

    Columns: link, start, name, process, device, launch_start, graph_id, graph_node.
    """
    count = rows.num_rows
    out = Replays(*(np.full(count, NONE, t) for t in (np.int64, np.int32, np.int32)))
    members = np.flatnonzero(
        pc.fill_null(pc.equal(rows["link"], "graph"), False).to_numpy(zero_copy_only=False)
    )
    if not len(members):
        return out
    names, _ = encode(rows["name"].take(members))
    process, device, launched, graph, node = (
        pc.fill_null(rows[n], NONE).to_numpy()[members]
        for n in ("process", "device", "launch_start", "graph_id", "graph_node")
    )
    start = rows["start"].to_numpy()[members]
    order = np.lexsort((start, device, process, launched))
    keys = np.stack([launched, process, device], axis=1)[order]
    edges = np.flatnonzero((keys[1:] != keys[:-1]).any(axis=1)) + 1
    seen: dict[object, int] = {}
    for launch, part in enumerate(np.split(order, edges)):
        if identified(node[part]):
            part = part[np.argsort(node[part])]
            identity: object = node[part].tobytes()
        else:
            identity = names[part].tobytes()
        head = part[0]
        if graph[head] != NONE:
            identity = int(graph[head])
        which = (int(process[head]), int(device[head]), identity)
        rows_of = members[part]
        out.launch[rows_of] = launch
        out.ordinal[rows_of] = np.arange(len(part))
        out.replay[rows_of] = seen.get(which, 0)
        seen[which] = seen.get(which, 0) + 1
    return out


def identified(nodes: Int64s) -> bool:
    """Whether the node ids of one replay tell all its rows apart; 0 is what Kineto writes for none."""
    return bool((nodes > 0).all()) and len(np.unique(nodes)) == len(nodes)
