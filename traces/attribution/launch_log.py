"""The launch log gives CUDA-graph replays their modules: one line per kernel of an uncaptured run.

Kernels do not run during capture, so the log is made by profiling one uncaptured run of exactly the
function that is then captured. A replay takes the log's module, op and work only if all its kernel names
agree, in order; otherwise it stays attributed by name and the mismatch is counted.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec
import numpy as np
import pyarrow.compute as pc

from traces.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa

    from traces.attribution.graphs import Replays

FACTS: Final = ("module", "op", "shape", "flops", "min_bytes")


class Line(msgspec.Struct):
    """One kernel of a captured graph, in launch order."""

    graph: int
    ordinal: int
    name: str
    module: str | None = None
    op: str | None = None
    shape: str | None = None
    flops: int | None = None
    min_bytes: int | None = None


class Zipped(NamedTuple):
    """The line of the log for each row (None without one), and what to report about it."""

    lines: list[Line | None]
    health: dict[str, Any]


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


def zip_with(log: list[list[Line]], rows: pa.Table, replays: Replays) -> Zipped:
    """Match the log with every replay of `rows` (columns kind, name, start)."""
    lines: list[Line | None] = [None] * rows.num_rows
    known = {tuple(x.name for x in graph): graph for graph in log}
    members = np.flatnonzero(
        (replays.ordinal >= 0) & pc.equal(rows["kind"], "kernel").to_numpy(zero_copy_only=False)
    )
    names = rows["name"].take(members).to_pylist()
    by_replay: dict[int, list[int]] = defaultdict(list)
    for at in np.lexsort((replays.ordinal[members], replays.launch[members])):
        by_replay[int(replays.launch[members[at]])].append(int(at))
    mismatched = 0
    for kernels in by_replay.values():
        graph = known.get(tuple(names[i] for i in kernels))
        if graph is None:
            mismatched += 1
            continue
        for i, line in zip(kernels, graph, strict=True):
            lines[members[i]] = line
    matched = len(by_replay) - mismatched
    health = {"replays": len(by_replay), "matched": matched, "mismatched": mismatched}
    return Zipped(lines, health)
