"""The one definition of a run: its columns, their types and units, and its metadata.

One row is one GPU activity. Unknown values are null, never a sentinel. Times are integer
nanoseconds relative to `time_base_unix_ns`, which is chosen so that the first usable row starts at 0.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, NotRequired, TypedDict

import pyarrow as pa
from msgspec import Meta

from traces.columns import TEXT
from traces.readers.times import INT64_MAX, INT64_MIN

SCHEMA_VERSION: Final = 1
METADATA_KEY: Final = "kernel_timeline"

KINDS: Final = ("kernel", "memcpy", "memset", "graph", "cpu_op")
LINKS: Final = ("launch", "graph", "orphan")
GAP_CAUSES: Final = ("host", "launch", "sync", "memcpy", "step_end")

_TYPES: Final[dict[str, pa.DataType]] = {
    # time of the activity, ns
    "start_ns": pa.int64(),
    "dur_ns": pa.int64(),  # as the tool recorded it
    "used_ns": pa.int64(),  # what the ledger uses
    "exclusive_ns": pa.int64(),  # share of wall time where rows overlap
    "gap_ns": pa.int64(),  # device idle directly before this row
    "gap_cause": pa.string(),
    # what ran
    "kind": pa.string(),
    "name": pa.string(),
    "group": pa.string(),
    "category": pa.string(),
    "backend": pa.string(),
    "rule": pa.string(),  # the evidence that decided
    # where in the model
    "phase": pa.string(),
    "step": pa.int32(),
    "layer": pa.int16(),
    "module": pa.string(),
    "op": pa.string(),  # innermost launching op
    # where on the machine
    "rank": pa.int32(),
    "device": pa.int32(),
    "stream": pa.int64(),
    "process": pa.int64(),
    # how it was launched
    "correlation": pa.int64(),
    "graph_id": pa.int64(),
    "graph_ordinal": pa.int32(),  # position within a replay
    "graph_replay": pa.int32(),  # n-th launch of that graph
    "graph_node": pa.int64(),
    "link": pa.string(),
    "launch_start_ns": pa.int64(),
    "launch_dur_ns": pa.int64(),
    "launch_api": pa.string(),
    "thread": pa.int64(),
    # its shape on the device
    "grid_x": pa.int32(),
    "grid_y": pa.int32(),
    "grid_z": pa.int32(),
    "block_x": pa.int32(),
    "block_y": pa.int32(),
    "block_z": pa.int32(),
    "registers": pa.int32(),
    "shared_bytes": pa.int32(),
    "occupancy": pa.float32(),  # 0..1
    # the work it did
    "bytes": pa.int64(),  # memcpy and memset
    "flops": pa.int64(),
    "min_bytes": pa.int64(),
    "shape": pa.string(),
    "flag": pa.string(),  # why the row is doubtful: sorted, comma-joined
}

SCHEMA: Final = pa.schema(list(_TYPES.items()))
COLUMNS: Final = tuple(SCHEMA.names)
# In memory, while a run is made: millions of rows share a few hundred texts.
COMPACT: Final = pa.schema([(f.name, TEXT if f.type == pa.string() else f.type) for f in SCHEMA])


Natural = Annotated[int, Meta(ge=0, le=INT64_MAX)]
Positive = Annotated[int, Meta(ge=1, le=INT64_MAX)]
Int32 = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, Meta(ge=INT64_MIN, le=INT64_MAX)]


class Step(TypedDict):
    """One tile: from the first kernel of a step to the first kernel of the next, ns."""

    phase: str
    step: Int32
    start_ns: Natural
    end_ns: Natural
    complete: bool
    inferred: bool


class Unprofiled(TypedDict):
    """Wall time of one step without a profiler, ns."""

    n: Positive
    median_ns: Positive
    iqr_ns: Natural


class Workload(TypedDict):
    """What one run was asked to do."""

    batch: Positive
    prompt: Positive
    new_tokens: Natural
    dtype: str


class Device(TypedDict, total=False):
    """What every reader may ask of a device; it may say more."""

    name: str | None
    type: str | None


class Metadata(TypedDict):
    """The JSON under the Parquet key `kernel_timeline`."""

    schema_version: int
    run_id: str
    model: str | None
    variant: str | None
    mode: str | None
    tool: str
    workload: Workload | None
    # Later additions to version 1: older runs lack them.
    choices: NotRequired[dict[str, Any] | None]  # what a variant left to measurement, and what it chose
    weights: NotRequired[dict[str, Any] | None]  # random with a seed, or of a checkpoint with a name
    device: dict[str, Any]  # with the fields of `Device`
    versions: dict[str, Any]
    source: dict[str, Any]  # file name, sha256
    time_base_unix_ns: Int64
    steps: list[Step]
    unprofiled: dict[str, Unprofiled] | None
    health: dict[str, Any]


class Captured(TypedDict, total=False):
    """What our own capture writes into a trace under the key `kernelgap`."""

    model: str | None
    variant: str | None
    mode: str | None
    tool: str
    workload: Workload | None
    choices: dict[str, Any] | None
    weights: dict[str, Any] | None
    device: dict[str, Any]
    versions: dict[str, Any]
    unprofiled: dict[str, Unprofiled] | None
