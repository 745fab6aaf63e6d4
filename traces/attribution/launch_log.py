"""The launch log gives kernels of CUDA-graph replays, and of compiled steps, their modules.

It has one line per kernel. Kernels do not run during capture, so it is made by profiling one uncaptured run
of exactly the function that is then captured. A replay takes the log's module, op and work only if all its
kernel names agree, in order; otherwise it stays attributed by name and the mismatch is counted. Compiled code
outside a graph knows its ops but no modules: a trace without replays is matched step by step in the same
way, in launch order.

Memsets and memcpys are not in the log. Inside a match each prepares the kernel behind it (a split-K workspace
is cleared right before its product), so it takes that kernel's module.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple

import msgspec
import numpy as np
import pyarrow.compute as pc

from traces.attribution.graphs import identified
from traces.columns import NONE, combine, encode, number
from traces.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa
    from numpy.typing import NDArray

    from traces.attribution.graphs import Replays
    from traces.phases import Phases

    Int32s = NDArray[np.int32]
    Int64s = NDArray[np.int64]

Signatures = dict[bytes, dict[str | None, int]]
Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
FACTS: Final = ("module", "op", "shape", "flops", "min_bytes")


class Line(msgspec.Struct):
    """One kernel of a captured graph, in launch order."""

    graph: int
    ordinal: int
    name: str
    module: str | None = None
    op: str | None = None
    shape: str | None = None
    flops: Count | None = None
    min_bytes: Count | None = None
    phase: str | None = None  # of the logged step; decides between graphs that run the same kernels

    def facts(self) -> tuple[object, ...]:
        """What a kernel takes from its line."""
        return tuple(getattr(self, fact) for fact in FACTS)


class Zipped(NamedTuple):
    """For each row the line of the log that says what it is, and where in the model (NONE without one).

    They differ for a memset or memcpy, which is not in the log and lies where the kernel that it prepares
    does, and for the rows of a step, whose ops the trace knows itself. `health` is what to report.
    """

    at: Int32s
    placed: Int32s
    lines: list[Line]
    health: dict[str, int]


class Sequence(NamedTuple):
    """Rows that one line after the other may explain: a replay or a step."""

    rows: Int64s  # in order: memsets and memcpys too
    kernels: Int64s
    phase: str | None


def read(path: Path) -> list[list[Line]]:
    """The kernels of each graph in the log. Raises InputError if it is missing or damaged."""
    graphs: dict[int, list[Line]] = defaultdict(list)
    try:
        for line in msgspec.json.Decoder(Line).decode_lines(path.read_bytes()):
            graphs[line.graph].append(line)
    except OSError as error:
        raise InputError(f"{path}: cannot read the launch log ({error.strerror or error})") from error
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: not a launch log, one JSON object a line ({error})") from error
    return [sorted(lines, key=lambda x: x.ordinal) for lines in graphs.values()]


def zip_with(log: list[list[Line]], rows: pa.Table, replays: Replays, found: Phases | None = None) -> Zipped:
    """Match the log with every replay of `rows`; where there is none, with every step of `found`.

    `rows` has the columns kind, name, start, process, device, launch_start and graph_node. `found` holds
    their phases and steps, None where no range told them. `health` counts replays (and steps, where they were
    matched instead), and how many of them matched.
    """
    lines = [line for graph in log for line in graph]
    at = np.full(rows.num_rows, NONE, np.int32)
    placed = at.copy()
    sequences = _replayed(rows, replays, found)
    replayed = bool(sequences)
    health = {"replays": len(sequences)}
    if not replayed and found is not None:
        sequences = _launched(rows, found)
        health["steps"] = len(sequences)
    matches = _match(log, rows, sequences)
    for sequence, match in zip(sequences, matches, strict=True):
        if match is not None:
            placed[sequence.kernels] = match
            placed[sequence.rows] = _filled_from_behind(placed[sequence.rows])
            if replayed:
                at[sequence.kernels] = match
    matched = sum(match is not None for match in matches)
    return Zipped(at, placed, lines, health | {"matched": matched, "mismatched": len(matches) - matched})


def _replayed(rows: pa.Table, replays: Replays, found: Phases | None) -> list[Sequence]:
    members = np.flatnonzero(replays.launch != NONE)
    members = members[np.lexsort((replays.ordinal[members], replays.launch[members]))]
    return _sequences(rows, members, replays.launch[members], found)


def _launched(rows: pa.Table, found: Phases) -> list[Sequence]:
    """The rows of each step and device, in launch order."""
    phase, _ = encode(found.phase)
    step = pc.fill_null(found.step, NONE).to_numpy()
    launched = pc.fill_null(rows["launch_start"], NONE).to_numpy()
    known = (phase != NONE) & (step != NONE) & pc.is_valid(rows["launch_start"]).to_numpy()
    members = np.flatnonzero(known)
    keys, _, _ = combine(phase, step, number(rows["process"]), number(rows["device"]))
    members = members[np.lexsort((rows["start"].to_numpy()[members], launched[members], keys[members]))]
    return _sequences(rows, members, keys[members], found)


def _sequences(rows: pa.Table, members: Int64s, keys: Int64s, found: Phases | None) -> list[Sequence]:
    """`members` cut where their key changes; those with kernels."""
    is_kernel = pc.equal(rows["kind"], "kernel").to_numpy(zero_copy_only=False)
    codes, texts = encode(found.phase) if found is not None else (np.full(rows.num_rows, NONE), [])
    out = []
    for part in np.split(members, np.flatnonzero(np.diff(keys)) + 1):
        kernels = part[is_kernel[part]]
        if len(kernels):
            code = codes[kernels[0]]
            out.append(Sequence(part, kernels, texts[code] if code != NONE else None))
    return out


def _match(log: list[list[Line]], rows: pa.Table, sequences: list[Sequence]) -> list[Int64s | None]:
    """For each sequence the line of each of its kernels; None if the log does not explain it.

    A replay with graph nodes may start in another order than was logged, where streams overlap. Once one
    replay of a graph has matched, by position, start or node, its nodes are known in all others.
    """
    codes, texts = encode(rows["name"])
    code = {text: i for i, text in enumerate(texts)}
    coded = np.array([code.get(line.name, NONE) for graph in log for line in graph], np.int32)
    known = _signatures(log, coded)
    start = rows["start"].to_numpy()
    node = pc.fill_null(rows["graph_node"], NONE).to_numpy()
    by_nodes: dict[bytes, Int64s] = {}  # the lines of a graph's kernels, sorted by node
    matches: list[Int64s | None] = []
    for _, kernels, phase in sequences:
        by_node = np.argsort(node[kernels], kind="stable")
        orders = [np.arange(len(kernels))]
        if identified(node[kernels]):
            orders += [np.argsort(start[kernels], kind="stable"), by_node]
        match = None
        for order in orders:
            first = _first_line(known, codes[kernels[order]], phase)
            if first is not None:
                match = first + np.argsort(order)
                by_nodes.setdefault(node[kernels[by_node]].tobytes(), match[by_node])
                break
        matches.append(match)
    for i, (_, kernels, _) in enumerate(sequences):
        if matches[i] is None and identified(node[kernels]):
            by_node = np.argsort(node[kernels])
            lines = by_nodes.get(node[kernels[by_node]].tobytes())
            if lines is not None and (coded[lines] == codes[kernels[by_node]]).all():
                matches[i] = lines[np.argsort(by_node)]
    return matches


def _first_line(known: Signatures, names: Int32s, phase: str | None) -> int | None:
    places = known.get(names.tobytes(), {})
    return places.get(phase, places.get(None))


def _signatures(log: list[list[Line]], coded: Int32s) -> Signatures:
    """Where the log has a graph of these kernel names, in order: its first line, by phase, None for any.

    Two graphs may run the same kernels for different work. Then only the phase decides, and where it cannot,
    neither is taken.
    """
    out: Signatures = defaultdict(dict)
    contested = set()
    first = 0
    for graph in log:
        names = coded[first : first + len(graph)].tobytes()
        for phase in {graph[0].phase, None}:
            other = out[names].setdefault(phase, first)
            if [x.facts() for x in graph] != [x.facts() for x in _graph_at(log, other)]:
                contested.add((names, phase))
        first += len(graph)
    for names, phase in contested:
        del out[names][phase]
    return out


def _graph_at(log: list[list[Line]], first: int) -> list[Line]:
    for graph in log:
        if first == 0:
            return graph
        first -= len(graph)
    raise IndexError(first)


def _filled_from_behind(lines: Int32s) -> Int32s:
    """Each NONE replaced by the next line, at the end by the last one."""
    known = np.flatnonzero(lines != NONE)
    behind = np.searchsorted(known, np.arange(len(lines)))
    filled: Int32s = lines[known[np.minimum(behind, len(known) - 1)]]
    return filled
