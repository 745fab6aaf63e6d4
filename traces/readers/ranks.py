"""Several ranks in one trace: which process and rank each GPU row belongs to.

GPU rows of Kineto carry no process, and the correlation ids of two processes collide. A trace tells the
process of its GPU rows by the document it stands in (several written one behind the other), by a label
before the pids, or by the pid itself (`pids`).
Where that is not so for all GPU rows, the process of all stays null.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from traces.columns import NONE, combine, encode
from traces.readers.events import integer
from traces.readers.pids import LABEL
from traces.readers.times import INT64_MAX, INT64_MIN

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from traces.readers.salvage import Notes

    Int64s = NDArray[np.int64]

_HOST: Final = ("host", "op", "range")
_APART: Final = 1 << 32  # process ids of the system are below 2^22


class Document(NamedTuple):
    """Tables in the schemas of `columns.SCHEMAS`, the facts around the events, and where those began."""

    tables: dict[str, pa.Table]
    metadata: dict[str, Any]
    begin: int


def join(documents: list[Document], notes: Notes) -> dict[str, pa.Table]:
    """The rows of all documents on the clock of the first, in the schemas of `timeline`.

    GPU rows get their rank, and their process where the trace tells it for all of them. Process ids that
    come in several groups of rows (containers number theirs alike) are set apart, and counted.
    """
    tables = {route: _together(documents, route) for route in documents[0].tables}
    groups, labels = _grouped(tables)
    owners = _processes(tables, groups, len(labels), notes)
    gpu = tables["gpu"]
    process = _owned(gpu, groups["gpu"], owners)
    ranks = _ranks([d.metadata.get("distributedInfo") for d in documents], labels, notes)
    rank = pa.array(ranks, pa.int32()).take(pa.array(groups["gpu"]))
    tables["gpu"] = _with(_with(gpu, "process", process), "rank", rank)
    if process.null_count:
        _count_shared(tables["host"], notes)
    return {route: table.drop_columns([LABEL.name, "document"]) for route, table in tables.items()}


def _with(table: pa.Table, name: str, column: pa.Array) -> pa.Table:
    return table.set_column(table.schema.get_field_index(name), table.schema.field(name), column)


def _together(documents: list[Document], route: str) -> pa.Table:
    """The rows of all documents, with the number of their document, their starts on the first one's clock."""
    bases = [integer(d.metadata.get("baseTimeNanoseconds")) or 0 for d in documents]
    parts = []
    for number, (document, base) in enumerate(zip(documents, bases, strict=True)):
        table = document.tables[route]
        if later := base - bases[0]:
            start = table["start"].to_numpy()
            low, high = INT64_MIN - min(later, 0), INT64_MAX - max(later, 0)
            table = _with(table, "start", pa.array(np.clip(start, low, high) + later))
        parts.append(table.append_column("document", pa.array(np.full(table.num_rows, number, np.int32))))
    return parts[0] if len(parts) == 1 else pa.concat_tables(parts).unify_dictionaries().combine_chunks()


def _grouped(tables: dict[str, pa.Table]) -> tuple[dict[str, Int64s], list[tuple[int, str | None]]]:
    """The group of each row, and the (document, label) of each group."""
    known: dict[tuple[int, str | None], int] = {}
    groups = {}
    for route, table in tables.items():
        codes, texts = encode(table[LABEL.name])
        document = table["document"].to_numpy()
        numbers, first, _ = combine(document, codes)
        keys = [(int(document[i]), texts[codes[i]] if codes[i] != NONE else None) for i in first]
        to = np.array([known.setdefault(k, len(known)) for k in keys] or [0], np.int64)
        groups[route] = to[numbers]
    return groups, list(known) or [(0, None)]


def _processes(
    tables: dict[str, pa.Table], groups: dict[str, Int64s], count: int, notes: Notes
) -> list[set[int]]:
    """The processes of the host rows of each group; those of several groups are set apart in `tables`."""
    owners: list[set[int]] = [set() for _ in range(count)]
    for route in _HOST:
        values = tables[route]["process"]
        for group in range(count) if len(values) else ():
            mine = values if count == 1 else values.filter(pa.array(groups[route] == group))
            owners[group] |= set(pc.unique(mine).to_pylist()) - {None}
    seen: set[int] = set()
    for group, owned in enumerate(owners):
        if shared := owned & seen:
            notes.repair("process_id_of_several_ranks", 0, len(shared))
            for route in _HOST:
                tables[route] = _apart(tables[route], groups[route] == group, shared, group)
            owners[group] = {p + group * _APART if p in shared else p for p in owned}
        seen |= owned
    return owners


def _apart(table: pa.Table, mine: NDArray[np.bool_], shared: set[int], group: int) -> pa.Table:
    process = table["process"]
    moved = pc.and_(pc.is_in(process, pa.array(sorted(shared), pa.int64())), pa.array(mine))
    process = pc.if_else(moved, pc.add(process, group * _APART), process)
    return _with(table, "process", process)


def _owned(gpu: pa.Table, group: Int64s, owners: list[set[int]]) -> pa.Array:
    """The process of each GPU row; null for all of them where the trace does not tell that of each."""
    unknown = pa.nulls(gpu.num_rows, pa.int64())
    if len(set().union(*owners)) < 2:  # no launch can be mistaken for that of another process
        return unknown
    own = pc.fill_null(gpu["process"], NONE).to_numpy()
    process = np.full(gpu.num_rows, NONE, np.int64)
    for number, owned in enumerate(owners):
        mine = group == number
        told = mine & np.isin(own, list(owned))
        process[told] = own[told]
        if len(owned) == 1:
            process[mine] = next(iter(owned))
    return unknown if (process == NONE).any() else pa.array(process)


def _ranks(infos: list[object], labels: list[tuple[int, str | None]], notes: Notes) -> list[int | None]:
    """The rank of each group: that of its document if nothing else stands there, else that of its label."""
    ofs = [_told(info) for info in infos]
    alone = [sum(document == d for document, _ in labels) == 1 for d in range(len(infos))]
    named = _of_labels([label for _, label in labels])
    ranks = [
        next(iter(ofs[document]), None) if alone[document] and len(ofs[document]) == 1
        else named[group] if label is not None else None
        for group, (document, label) in enumerate(labels)
    ]  # fmt: skip
    ranks = [rank if rank is not None and 0 <= rank < 2**31 else None for rank in ranks]
    merged = max(len(set().union(*ofs)), len(labels) if len(labels) > len(infos) else 0)
    if merged > 1 and None in ranks:
        notes.drop("ranks_merged_into_one_file", 0, merged)
    return ranks


def _told(info: object) -> set[int]:
    """The ranks that one document's `distributedInfo` names."""
    infos = info if isinstance(info, list) else [info]
    found = {integer(i.get("rank")) for i in infos if isinstance(i, dict)}
    return {rank for rank in found if rank is not None}


def _of_labels(labels: list[str | None]) -> list[int | None]:
    """In labels such as `[TP01-DP00]`: the first number that differs between all of them."""
    numbers = [[int(n) for n in re.findall(r"[0-9]{1,9}", label or "")] for label in labels]
    for column in zip(*numbers, strict=False):
        if len(set(column)) == len(labels):
            return list(column)
    return [None] * len(labels)


def _count_shared(host: pa.Table, notes: Notes) -> None:
    """Count the correlation ids that name no one launch."""
    if pc.count_distinct(host["process"]).as_py() < 2:
        return
    asked = host.select(["process", "correlation"]).filter(pc.not_equal(host["correlation"], 0))
    owners = asked.group_by("correlation").aggregate([("process", "count_distinct")])
    shared = pc.sum(pc.greater(owners["process_count_distinct"], 1)).as_py() or 0
    if shared:
        notes.repair("correlation_of_several_processes", 0, shared)
