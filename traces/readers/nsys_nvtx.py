"""NVTX ranges of an nsys export: the user's ranges, and the ops that PyTorch's emit_nvtx wrote among them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from traces.columns import NONE, decode, encode
from traces.readers.nsys_rows import durations, named, process, thread, timed
from traces.readers.timeline import OPS, RANGES, UNCLOSED

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from traces.readers.nsys_tables import Export

    Int64s = NDArray[np.int64]
    Mask = NDArray[np.bool_]

# Event types: push/pop and start/end ranges (59, 60) and their imported twins (70, 71); 75 names a domain.
_ON_THREAD: Final = (59, 70)
_ANYWHERE: Final = (60, 71)
_DOMAIN: Final = 75
# Libraries mark their own calls in domains of their own: never a phase of the user's program.
_LIBRARY: Final = re.compile(
    r"(lib)?(cublas(lt|xt|mp|dx)?|cudnn|cusparse(lt)?|cusolver(dn|mp|rf|sp)?|cufft(mp|xt)?|curand|cutensor|cudss"
    r"|nccl|nvshmem|tensorrt|nvinfer|nvjpeg|nvcomp|npp|cccl|thrust|cub|cudf|kvikio|rmm|raft|cuvs|cuml|ucx|mpi"
    r"|nvtx_mpi|openacc|openmp|dali|nixl|cuda|cudart|cupti|cutlass)([\W_].*)?",
    re.DOTALL,
)
# emit_nvtx: `aten::mm, seq = 3, op_id = 5, sizes = [[2, 3]], input_op_ids = []`.
_TAIL: Final = r"(?:, (?:seq|op_id) = -?\d+|, (?:sizes|input_op_ids) = \[.*\])+$"
_SEQUENCE: Final = r", seq = -?\d+"
_NAMESPACE: Final = r"^(?:aten|prim|torch|autograd|c10d|quantized)::"
_DAY_NS: Final = 86_400_000_000_000


class Nvtx(NamedTuple):
    """Ranges (`timeline.RANGES` and `UNCLOSED`), ops (`timeline.OPS`), and how many rows were read."""

    ranges: pa.Table
    ops: pa.Table
    events: int


def last_time(*tables: pa.Table) -> int:
    """The latest plausible end in tables with start and dur, ns; 0 where there is none."""
    ends = [0]
    for table in tables:
        start, dur = table["start"].to_numpy(), table["dur"].to_numpy()
        good = (dur >= 0) & (dur < _DAY_NS) & (start < 2**62)
        if good.all():
            ends.append(int((start + dur).max(initial=0)))
        else:
            ends.append(int((start[good] + dur[good]).max(initial=0)))
    return max(ends)


def read(export: Export, last: int, session_ends: Iterable[int]) -> Nvtx:
    """Ranges and ops. `last` is the latest time of other rows, `session_ends` what ends the session, ns.

    A range that was never closed ends at the last known time and is marked. Ranges without a start or a
    name, or that end before they begin, are dropped and counted.
    """
    integers = ("start", "end", "eventType", "globalTid", "textId", "domainId")
    table = export.read("NVTX_EVENTS", integers, ("text",), needs=("start", "eventType"))
    events = table.num_rows
    table = table.set_column(table.column_names.index("text"), "text", _texts(export, table))
    kind = pc.fill_null(table["eventType"], NONE).to_numpy()
    domains = _domains(table.filter(pa.array(kind == _DOMAIN)))
    table = timed(export, table.filter(pa.array(np.isin(kind, _ON_THREAD + _ANYWHERE))))
    table = _with_names(export, table, domains)
    start, end, unclosed = _ends(table, last, session_ends)
    forward = end >= start
    if lost := int((~forward).sum()):
        export.notes.drop("reversed_range", 0, lost)
    name, is_op = _plain(table["text"])
    own_thread = pa.array(np.isin(table["eventType"].to_numpy(), _ON_THREAD))
    made = pa.table(
        {
            "start": start,
            "dur": durations(start, end),
            "name": name,
            "process": process(table["globalTid"]),
            "thread": pc.if_else(own_thread, thread(table["globalTid"]), None),
            UNCLOSED.name: unclosed,
        }
    )
    schema = RANGES.append(UNCLOSED)
    ranges = made.filter(pa.array(forward & ~is_op)).select(schema.names).cast(schema)
    if left_open := int(pc.sum(ranges[UNCLOSED.name]).as_py() or 0):
        export.notes.repair("unclosed_range", 0, left_open)
    return Nvtx(ranges, _ops(made.filter(pa.array(forward & is_op))), events)


def _ops(rows: pa.Table) -> pa.Table:
    known = {f.name: rows[f.name] for f in OPS if f.name in rows.column_names}
    columns = {f.name: known.get(f.name, pa.nulls(rows.num_rows, f.type)) for f in OPS}
    return pa.table(columns, schema=OPS)


def _texts(export: Export, table: pa.Table) -> pa.ChunkedArray:
    """The text of each row: its own, else the registered string."""
    codes, texts = named(export, table["textId"])
    registered = pa.array(texts, pa.string()).take(pa.array(codes, mask=codes == NONE))
    return pc.coalesce(table["text"], registered) if table.num_rows else table["text"]


def _domains(rows: pa.Table) -> dict[tuple[int | None, int | None], str | None]:
    """Names of domains by (process, domain id)."""
    owners, ids, names = process(rows["globalTid"]), rows["domainId"], rows["text"]
    return dict(zip(zip(owners.to_pylist(), ids.to_pylist(), strict=True), names.to_pylist(), strict=True))


def _with_names(
    export: Export, table: pa.Table, domains: dict[tuple[int | None, int | None], str | None]
) -> pa.Table:
    """User ranges with a name: plain in the default domain, `domain:name` in others, libraries left out.

    A domain that nothing names may be a library's: its ranges are dropped and counted.
    """
    owner = pc.fill_null(process(table["globalTid"]), NONE).to_numpy()
    domain = pc.fill_null(table["domainId"], 0).to_numpy()
    keep = pc.is_valid(table["text"]).to_numpy(zero_copy_only=False)
    if lost := int((~keep).sum()):
        export.notes.drop("unnamed_range", 0, lost)
    prefix = np.full(table.num_rows, "", object)
    special = domain != 0
    for who, which in np.unique(np.stack([owner[special], domain[special]], 1), axis=0).tolist():
        here = (owner == who) & (domain == which)
        name = domains.get((who if who != NONE else None, which))
        if name is None and (unknown := int((here & keep).sum())):
            export.notes.drop("range_of_unnamed_domain", 0, unknown)
        keep[here] &= name is not None and not _LIBRARY.fullmatch(name.casefold())
        prefix[here] = f"{name}:"
    text = pc.binary_join_element_wise(pa.array(prefix, pa.string()), table["text"].combine_chunks(), "")
    return table.set_column(table.column_names.index("text"), "text", text).filter(pa.array(keep))


def _ends(table: pa.Table, last: int, session_ends: Iterable[int]) -> tuple[Int64s, Int64s, Mask]:
    """Start and end of each range, ns, and which were never closed.

    nsys gives those no end, or the end of the session. Where it does not tell when that was, several
    ranges of one thread that end at the same last instant are such: pops take time.
    """
    start = table["start"].to_numpy()
    unclosed = pc.is_null(table["end"]).to_numpy(zero_copy_only=False).copy()
    end = pc.fill_null(table["end"], 0).to_numpy().copy()
    closed = end[~unclosed & (end - start < _DAY_NS)]
    last = max([last, *([int(closed.max())] if len(closed) else [])])
    unclosed |= np.isin(end, list(session_ends))
    at_last = np.flatnonzero(end == last)
    threads = pc.fill_null(table["globalTid"], NONE).to_numpy()[at_last]
    _, which, count = np.unique(threads, return_inverse=True, return_counts=True)
    unclosed[at_last[count[which.reshape(-1)] > 1]] = True
    return start, np.where(unclosed, np.maximum(last, start), end), unclosed


def _plain(texts: pa.ChunkedArray) -> tuple[pa.DictionaryArray, Mask]:
    """Names without the numbers that emit_nvtx appends, and which of them are ops."""
    codes, distinct = encode(texts)
    raw = pa.array(distinct, pa.string())
    plain = pc.replace_substring_regex(raw, _TAIL, "")
    # A record_function range has an op_id too, but neither a namespace nor a sequence number.
    of_torch = pc.or_(pc.match_substring(plain, "::"), pc.match_substring_regex(raw, _SEQUENCE))
    emitted = pc.and_(pc.not_equal(raw, plain), of_torch)
    is_op = pc.or_(emitted, pc.match_substring_regex(plain, _NAMESPACE)).to_numpy(zero_copy_only=False)
    return decode(codes, plain.to_pylist()), np.append(is_op, False)[codes]
