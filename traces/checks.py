"""What a run from a file must hold before anything is computed from it: files are mailed, edited and foreign.

Every function raises InputError with one line that says what is wrong; a file that passes cannot make sums
overflow, shares negative or a report fail half-way.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, TypedDict

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from traces import ledger
from traces.errors import InputError
from traces.flags import DAY_NS
from traces.readers.times import INT64_MAX
from traces.schema import GAP_CAUSES, KINDS, LINKS, SCHEMA, SCHEMA_VERSION, Device, Metadata, Natural

if TYPE_CHECKING:
    from pathlib import Path

_AGAIN: Final = "ingest the trace again"
_KNOWN: Final = ("start_ns", "used_ns", "exclusive_ns", "gap_ns", "kind", "name")  # never null
_FROM_ZERO: Final = ("used_ns", "exclusive_ns", "gap_ns", "layer", "flops", "min_bytes", "occupancy")
_CHOICES: Final = {"kind": KINDS, "link": LINKS, "gap_cause": GAP_CAUSES}


class _Source(TypedDict):
    file: str
    sha256: str


class _Noted(TypedDict):
    count: Natural
    first_offset: Natural


class _Unknown(TypedDict):
    rows: Natural
    exclusive_ns: Natural


class _Rules(TypedDict):
    file: str
    sha256: str


class _Health(TypedDict, total=False):
    events: Natural
    rows: dict[str, Natural]
    dropped: dict[str, _Noted]
    repaired: dict[str, _Noted]
    flagged: dict[str, Natural]
    orphans: Natural
    disagreed: Natural
    unknown: _Unknown
    notes: list[str]
    rules: _Rules
    layers: dict[str, Any]
    launch_log: dict[str, Natural]
    kernels: dict[str, Any]
    kernels_seen: dict[str, Any]
    provenance: dict[str, Any]


def metadata(path: Path, raw: bytes) -> Metadata:
    """The metadata of a run from its JSON."""
    try:
        meta: Any = json.loads(raw)
        json.dumps(meta, allow_nan=False, ensure_ascii=False).encode()  # no NaN, no half characters
        version = meta["schema_version"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise InputError(f"{path}: its kernel_timeline metadata is damaged; {_AGAIN}") from error
    if isinstance(version, int) and version > SCHEMA_VERSION:
        raise InputError(
            f"{path}: written by a newer kernelgap (schema {version}, we read {SCHEMA_VERSION}); upgrade"
        )
    if type(version) is not int or version != SCHEMA_VERSION:
        raise InputError(f"{path}: schema {str(version)[:20]} is none that we read; {_AGAIN}")
    try:
        known = msgspec.convert(meta, Metadata)
        for part, kind in (("device", Device), ("source", _Source), ("health", _Health)):
            _part(meta[part], part, kind)
    except msgspec.ValidationError as error:
        raise InputError(f"{path}: its metadata is incomplete or wrong ({error}); {_AGAIN}") from error
    if any(step["end_ns"] < step["start_ns"] for step in known["steps"]):
        raise InputError(f"{path}: a step ends before it starts; {_AGAIN}")
    return known


def _part(value: object, name: str, kind: Any) -> None:
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise msgspec.ValidationError(f"{name}: {error}") from error


def columns(path: Path, schema: pa.Schema) -> None:
    """Every column once, and of a type that holds the same kind of value."""
    missing = [n for n in SCHEMA.names if n not in schema.names]
    if missing:
        raise InputError(f"{path}: columns missing ({', '.join(missing[:5])}); {_AGAIN}")
    for field in SCHEMA:
        found = schema.get_all_field_indices(field.name)
        if len(found) > 1:
            raise InputError(f"{path}: column {field.name} comes {len(found)} times; {_AGAIN}")
        if _sort(kind := schema.field(found[0]).type) not in (_sort(field.type), "null"):
            raise InputError(f"{path}: column {field.name} is {str(kind)[:40]}, not {field.type}; {_AGAIN}")


def _sort(kind: pa.DataType) -> str:
    """What a column holds, in whatever width or encoding other programs write it."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return "text"
    for sort in ("integer", "floating", "null"):
        if getattr(pa.types, f"is_{sort}")(kind):
            return sort
    return "other"


def table(path: Path, rows: pa.Table) -> None:
    """Rows (`schema.SCHEMA`) whose times lie in the run, share it without overlap, and can be added up."""
    for name in _KNOWN:
        if lost := rows[name].null_count:
            raise InputError(f"{path}: {lost:,} rows without {name}; {_AGAIN}")
    for name, known in _CHOICES.items():
        if other := [v for v in pc.unique(rows[name]).to_pylist() if v is not None and v not in known]:
            raise InputError(f"{path}: {name} {other[0][:40]!r} is none of {', '.join(known)}; {_AGAIN}")
    for name in _FROM_ZERO:
        low = pc.min(rows[name]).as_py()
        if low is not None and low < 0:
            raise InputError(f"{path}: {name} is negative ({low}); {_AGAIN}")
    if not pc.all(pc.less_equal(rows["occupancy"], 1.0)).as_py() and rows["occupancy"].null_count < len(rows):
        raise InputError(f"{path}: occupancy is no share of 1; {_AGAIN}")
    _times(path, rows)


def _times(path: Path, rows: pa.Table) -> None:
    start, used = rows["start_ns"].to_numpy(), rows["used_ns"].to_numpy()
    if (used >= DAY_NS).any():
        raise InputError(f"{path}: used_ns of a day or more; {_AGAIN}")
    good = ledger.usable(rows)
    if ((start < 0) | (start > INT64_MAX - DAY_NS))[good].any():
        raise InputError(f"{path}: start_ns outside the run; {_AGAIN}")
    if float(used.sum(dtype=np.float64)) > INT64_MAX // 2:
        raise InputError(f"{path}: its used_ns add up to more than int64 holds; {_AGAIN}")
    if (rows["exclusive_ns"].to_numpy() > used).any():
        raise InputError(f"{path}: exclusive_ns is more than used_ns; {_AGAIN}")
    exclusive, gap, _ = ledger.close(rows)
    for name, right, what in (("exclusive_ns", exclusive, "busy"), ("gap_ns", gap, "idle")):
        if rows[name].to_numpy().sum() != right.sum():
            raise InputError(f"{path}: {name} does not add up to the {what} time of its rows; {_AGAIN}")
