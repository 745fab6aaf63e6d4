"""The launch log gives CUDA-graph replays their modules: one line per kernel of an uncaptured run.

Kernels do not run during capture, so the log is made by profiling one uncaptured run of exactly the
function that is then captured. A replay takes the log's module, op and work only if all its kernel names
agree, in order; otherwise it stays attributed by name and the mismatch is counted.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple

import msgspec
import numpy as np
import pyarrow.compute as pc

from traces.columns import NONE, encode
from traces.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa
    from numpy.typing import NDArray

    from traces.attribution.graphs import Replays

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


class Zipped(NamedTuple):
    """For each row its line of the log (NONE without one), the lines, and what to report about them."""

    at: NDArray[np.int32]
    lines: list[Line]
    health: dict[str, int]


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
    lines = [line for graph in log for line in graph]
    at = np.full(rows.num_rows, NONE, np.int32)
    is_kernel = pc.equal(rows["kind"], "kernel").to_numpy(zero_copy_only=False)
    members = np.flatnonzero((replays.launch != NONE) & is_kernel)
    members = members[np.lexsort((replays.ordinal[members], replays.launch[members]))]
    names, texts = encode(rows["name"].take(members))
    known = _signatures(log, texts)
    edges = np.flatnonzero(np.diff(replays.launch[members])) + 1
    parts = np.split(np.arange(len(members)), edges) if len(members) else []
    matched = 0
    for part in parts:
        first = known.get(names[part].tobytes())
        if first is not None:
            at[members[part]] = first + np.arange(len(part))
            matched += 1
    return Zipped(at, lines, {"replays": len(parts), "matched": matched, "mismatched": len(parts) - matched})


def _signatures(log: list[list[Line]], texts: list[str]) -> dict[bytes, int]:
    """The kernel names of each graph, coded as in `texts`, and the place of its first line."""
    code = {t: i for i, t in enumerate(texts)}
    out, first = {}, 0
    for graph in log:
        out[np.array([code.get(line.name, NONE) for line in graph], np.int32).tobytes()] = first
        first += len(graph)
    return out
