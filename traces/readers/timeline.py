"""What every reader hands on: GPU rows, the host's launches, its ops, and the ranges around them.

Times are the tool's own clock in ns; `base_unix_ns` added to one gives unix time. Tables are pyarrow;
a column that the tool does not know is null.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from traces.columns import TEXT
from traces.schema import Captured

if TYPE_CHECKING:
    from traces.readers.salvage import Notes

_TIME: Final = [("start", pa.int64()), ("dur", pa.int64())]
_THREAD: Final = [("process", pa.int64()), ("thread", pa.int64())]

GPU: Final = pa.schema(
    [
        *_TIME,
        ("kind", TEXT), ("name", TEXT), ("rank", pa.int32()), ("device", pa.int32()),
        *((n, pa.int64()) for n in ("stream", "process", "correlation", "external")),
        *((n, pa.int64()) for n in ("graph_id", "graph_node", "bytes")),
        *((f"{what}_{axis}", pa.int32()) for what in ("grid", "block") for axis in "xyz"),
        ("registers", pa.int32()), ("shared_bytes", pa.int32()), ("occupancy", pa.float32()),
    ]
)  # fmt: skip
HOST: Final = pa.schema([*_TIME, ("name", TEXT), *_THREAD, ("correlation", pa.int64())])
OPS: Final = pa.schema(
    [
        *_TIME, ("name", TEXT), *_THREAD, ("external", pa.int64()),
        *((n, TEXT) for n in ("dims", "types", "strides", "concrete")),  # JSON, of ops in work.KNOWN
    ]
)  # fmt: skip
RANGES: Final = pa.schema([*_TIME, ("name", TEXT), *_THREAD])
# Names of ranges that are calls of a torch.nn.Module, by class and instance: `nn.Module: LlamaMLP_3`.
MODULE_CALL: Final = "nn.Module: "
# A further column of ranges, where the tool can tell: never closed, so the end is only the last known time.
UNCLOSED: Final = pa.field("unclosed", pa.bool_())


@dataclass
class Timeline:
    """One trace, decoded. Tables follow `GPU`, `HOST`, `OPS` and `RANGES` of this module."""

    gpu: pa.Table
    host: pa.Table
    ops: pa.Table
    ranges: pa.Table
    base_unix_ns: int
    events: int
    notes: Notes
    device: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, Any] = field(default_factory=dict)
    captured: Captured = field(default_factory=Captured)  # what our own capture wrote into the trace
    hint: str = ""  # without GPU rows: what the trace holds instead, and what to try
