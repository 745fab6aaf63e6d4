"""Several ranks in one trace: which process and rank each GPU row belongs to.

GPU rows of Kineto carry no process, and the correlation ids of two processes collide. A trace tells the
process of its GPU rows by the document it stands in (several written one behind the other), by a label
before the pids, or by the pid itself (`pids`). Rows of one document with one label form a group.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from traces.columns import NONE, combine, encode, nulls, number
from traces.readers.events import integer
from traces.readers.pids import LABEL
from traces.readers.times import INT64_MAX, INT64_MIN

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from traces.columns import Codes
    from traces.readers.salvage import Notes

_HOST: Final = ("host", "op", "range")
_APART: Final = 1 << 32  # process ids of the system are below 2^22
_DOCUMENT: Final = "document"


class Document(NamedTuple):
    """Tables in the schemas of `columns.SCHEMAS`, the facts around the events, and where those began."""

    tables: dict[str, pa.Table]
    metadata: dict[str, Any]
    begin: int

    @property
    def base(self) -> int:
        """Unix time of the clock's zero, ns; 0 where the trace does not say."""
        base = integer(self.metadata.get("baseTimeNanoseconds"))
        return base if base is not None and 0 <= base <= INT64_MAX else 0

    @property
    def ranks(self) -> set[int]:
        """The ranks that `distributedInfo` names: one object, or a list of them."""
        info = self.metadata.get("distributedInfo")
        infos = info if isinstance(info, list) else [info]
        found = {integer(i.get("rank")) for i in infos if isinstance(i, dict)}
        return {rank for rank in found if rank is not None and 0 <= rank < 2**31}


class Group(NamedTuple):
    """Which rows belong together: those of one document (its number) with one label."""

    document: int
    label: str | None


def join(documents: list[Document], notes: Notes) -> dict[str, pa.Table]:
    """The rows of all documents on the clock of the first, in the schemas of `timeline`.

    GPU rows get their rank where the trace tells it, and their process where it tells that of all of them.
    A process id that comes in several groups (containers number theirs alike) is set apart: 2^32 times the
    group's number is added. Counted: what told ranks and processes apart, those ids, ranks that could not be
    told, and, where the process is not known, correlation ids that name no one launch.
    """
    tables = {route: _together(documents, route) for route in documents[0].tables}
    members, groups = _grouped(tables)
    owners = _processes(tables, members, len(groups), notes)
    gpu = tables["gpu"]
    process = _owned(gpu, members["gpu"], owners, notes)
    if process.null_count:
        _count_shared(tables["host"], notes)
    if labels := sum(group.label is not None for group in groups):
        notes.repair("ranks_split_by_label", 0, labels)
    ranks = _ranks([d.ranks for d in documents], groups, owners)
    parties = max(len(set().union(*(d.ranks for d in documents))), sum(max(1, len(o)) for o in owners))
    if parties > 1 and None in [ranks[g] for g in np.unique(members["gpu"])]:
        notes.drop("ranks_merged_into_one_file", 0, parties)
    rank = pa.array(ranks, pa.int32())
    rank = (
        rank.take(pa.array(members["gpu"])) if rank.null_count < len(rank) else nulls(gpu.num_rows, rank.type)
    )
    tables["gpu"] = _with(_with(gpu, "process", process), "rank", rank)
    return {route: table.drop_columns([LABEL.name, _DOCUMENT]) for route, table in tables.items()}


def _with(table: pa.Table, name: str, column: pa.Array) -> pa.Table:
    return table.set_column(table.schema.get_field_index(name), table.schema.field(name), column)


def _together(documents: list[Document], route: str) -> pa.Table:
    """The rows of all documents, with the number of their document, their starts on the first one's clock."""
    parts = []
    for place, document in enumerate(documents):
        table = document.tables[route]
        if later := document.base - documents[0].base:
            low, high = INT64_MIN - min(later, 0), INT64_MAX - max(later, 0)
            table = _with(table, "start", pa.array(np.clip(table["start"].to_numpy(), low, high) + later))
        number_of = np.zeros(table.num_rows, np.int32)
        if place:  # else its pages are never written and take no memory
            number_of += place
        parts.append(table.append_column(_DOCUMENT, pa.array(number_of)))
    return parts[0] if len(parts) == 1 else pa.concat_tables(parts).unify_dictionaries().combine_chunks()


def _grouped(tables: dict[str, pa.Table]) -> tuple[dict[str, Codes], list[Group]]:
    """The number of each row's group, by table, and the groups."""
    alone = Group(0, None)
    if not any(t[LABEL.name].null_count < t.num_rows or _last(t) for t in tables.values()):
        return {route: np.zeros(t.num_rows, np.int32) for route, t in tables.items()}, [alone]
    known: dict[Group, int] = {}
    members = {}
    for route, table in tables.items():
        codes, texts = encode(table[LABEL.name])
        document = table[_DOCUMENT].to_numpy()
        numbers, first, _ = combine(document, codes)
        keys = [Group(int(document[i]), texts[codes[i]] if codes[i] != NONE else None) for i in first]
        to = np.array([known.setdefault(k, len(known)) for k in keys] or [0], np.int32)
        members[route] = to[numbers]
    return members, list(known) or [alone]


def _last(table: pa.Table) -> int:
    """The number of the last document."""
    return int(table[_DOCUMENT][-1].as_py()) if table.num_rows else 0


def _processes(
    tables: dict[str, pa.Table], members: dict[str, Codes], count: int, notes: Notes
) -> list[set[int]]:
    """The processes of the host rows of each group; those of several groups are set apart in `tables`."""
    owners: list[set[int]] = [set() for _ in range(count)]
    for route in _HOST:
        process = tables[route]["process"]
        if count == 1:
            owners[0] |= set(pc.unique(process).to_pylist()) - {None}
            continue
        _, first, _ = combine(members[route], number(process))
        pairs = zip(members[route][first].tolist(), process.take(pa.array(first)).to_pylist(), strict=True)
        for group, own in pairs:
            owners[group] |= {own} - {None}
    seen: set[int] = set()
    for group, owned in enumerate(owners):
        if shared := {p for p in owned & seen if 0 <= p < _APART}:
            notes.repair("process_id_of_several_ranks", 0, len(shared))
            for route in _HOST:
                tables[route] = _apart(tables[route], members[route] == group, shared, group * _APART)
            owners[group] = {p + group * _APART if p in shared else p for p in owned}
        seen |= owned
    return owners


def _apart(table: pa.Table, mine: NDArray[np.bool_], shared: set[int], by: int) -> pa.Table:
    """Add `by` to the process ids `shared` of the rows `mine`."""
    moved = pc.and_(pc.is_in(table["process"], pa.array(sorted(shared), pa.int64())), pa.array(mine))
    return _with(table, "process", pc.if_else(moved, pc.add(table["process"], by), table["process"]))


def _owned(gpu: pa.Table, member: Codes, owners: list[set[int]], notes: Notes) -> pa.Array:
    """The process of each GPU row; null for all of them where the trace does not tell that of each."""
    unknown = nulls(gpu.num_rows, pa.int64())
    if len(set().union(*owners)) < 2:  # no launch can be mistaken for that of another process
        return unknown
    own = pc.fill_null(gpu["process"], NONE).to_numpy()
    process, by_pid = np.full(gpu.num_rows, NONE, np.int64), 0
    for group, owned in enumerate(owners):
        mine = member == group
        if len(owned) == 1:
            process[mine] = next(iter(owned))
        else:
            told = mine & np.isin(own, np.array(sorted(owned), np.int64))
            process[told] = own[told]
            by_pid += int(told.sum())
    if (process == NONE).any():
        return unknown
    if by_pid:
        notes.repair("process_from_gpu_pid", 0, by_pid)
    return pa.array(process)


def _ranks(told: list[set[int]], groups: list[Group], owners: list[set[int]]) -> list[int | None]:
    """The rank of each group; None where it holds several processes.

    That which its document tells, if nothing else stands there, else that of its label.
    """
    alone = [sum(g.document == d for g in groups) == 1 for d in range(len(told))]
    ranks = _of_labels([g.label for g in groups])
    for place, group in enumerate(groups):
        if alone[group.document] and (named := told[group.document]):
            ranks[place] = next(iter(named)) if len(named) == 1 else None
        if len(owners[place]) > 1:
            ranks[place] = None
    return ranks


def _of_labels(labels: list[str | None]) -> list[int | None]:
    """Ranks from labels such as `[TP01-DP00]`: the number in the one place that tells them all apart."""
    numbers = [[int(n) for n in re.findall(r"[0-9]{1,9}", label or "")] for label in labels]
    columns: Iterable[tuple[int, ...]] = zip(*numbers, strict=False)
    apart = {column for column in columns if len(set(column)) == len(labels)}
    return list(apart.pop()) if len(apart) == 1 else [None] * len(labels)


def _count_shared(host: pa.Table, notes: Notes) -> None:
    """Count the correlation ids that name no one launch."""
    if pc.count_distinct(host["process"]).as_py() < 2:
        return
    asked = host.select(["process", "correlation"]).filter(pc.not_equal(host["correlation"], 0))
    owners = asked.group_by("correlation").aggregate([("process", "count_distinct")])
    shared = pc.sum(pc.greater(owners["process_count_distinct"], 1)).as_py() or 0
    if shared:
        notes.repair("correlation_of_several_processes", 0, shared)
