"""The tables of an nsys export, whatever its version calls them.

An export holds every process' environment and command line too. So only columns that are asked for are
read, and of `StringIds` only the strings whose ids a timeline row carries.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from traces.errors import InputError
from traces.readers.nsys_sources import int64

if TYPE_CHECKING:
    from collections.abc import Iterable

    from traces.readers.nsys_sources import Tables
    from traces.readers.salvage import Notes

_STRINGS: Final = "StringIds"
_KNOWN: Final = {_STRINGS, "NVTX_EVENTS", "META_DATA_EXPORT", "EXPORT_META_DATA", "ANALYSIS_DETAILS"}
_ACTIVITY: Final = "CUPTI_ACTIVITY_KIND_"


class Export:
    """One export as its readers see it: named columns of named tables, integers and texts alike.

    A column that this version lacks is null, a table that it lacks is empty. Raises InputError if the
    tables are not those of an nsys export.
    """

    def __init__(self, tables: Tables, notes: Notes) -> None:
        self.tables, self.notes = tables, notes
        self.names = tables.names()
        self._found: dict[str, str | None] = {}
        if not any(n.startswith(_ACTIVITY) or n in _KNOWN for n in self.names):
            raise InputError(
                f"{tables.shown}: no nsys export (no table of {', '.join(sorted(_KNOWN)[:3])}, {_ACTIVITY}* "
                "in it); make one with nsys export --type sqlite"
            )

    def find(self, table: str) -> str | None:
        """What this version calls the table: its own name, else the newest `TABLE_V<n>`; None if absent."""
        if table not in self._found:
            renamed = re.compile(re.escape(table) + r"_V(\d+)")
            versions = [(int(m[1]), n) for n in self.names if (m := renamed.fullmatch(n))]
            candidates = [table] if table in self.names else []
            candidates += [n for _, n in sorted(versions, reverse=True)]
            filled = [n for n in candidates if self.tables.filled(n)] if len(candidates) > 1 else candidates
            if filled and filled[0] != table:
                self.notes.repair("renamed_table", 0)
            if filled[1:]:
                self.notes.drop("table_of_other_version", 0, len(filled) - 1)
            self._found[table] = next(iter([*filled, *candidates]), None)
        return self._found[table]

    def read(
        self, table: str, integers: Iterable[str] = (), texts: Iterable[str] = (), needs: Iterable[str] = ()
    ) -> pa.Table:
        """Columns of one table: int64 (bit patterns, as SQLite stores uint64) and strings, empty ones null.

        A table that has none of the columns counts as empty.
        Raises InputError if the table is there but lacks a column of `needs`.
        """
        integers, texts = list(integers), list(texts)
        actual = self.find(table)
        there = set(self.tables.columns(actual)) if actual else set()
        if actual and (lost := [c for c in needs if c not in there]):
            raise InputError(
                f"{self.tables.shown}: table {actual} has no column {lost[0]}, so its rows have no meaning; "
                "this version of nsys is not known: export with another one"
            )
        mine, known = [c for c in integers if c in there], [c for c in texts if c in there]
        loaded = self.tables.load(actual, mine, known) if actual and (mine or known) else None
        rows = loaded.num_rows if loaded is not None else 0
        columns = {c: pa.nulls(rows, pa.int64()) for c in integers}
        columns |= {c: pa.nulls(rows, pa.string()) for c in texts}
        if loaded is not None:
            columns |= {c: self._integers(loaded[c], actual, c) for c in mine}
            columns |= {c: self._texts(loaded[c]) for c in known}
        return pa.table(columns)

    def strings(self, ids: pa.Array) -> pa.Array:
        """The string of each id (int64, no nulls); null where `StringIds` has none or it is empty."""
        table = self.find(_STRINGS)
        if table is None or not len(ids) or not {"id", "value"} <= set(self.tables.columns(table)):
            return pa.nulls(len(ids), pa.string())
        found = self.tables.strings(table, ids.to_pylist())
        values, keys = self._texts(found["value"]), self._integers(found["id"], table, "id")
        return values.take(pc.index_in(ids, keys)).combine_chunks()

    def _integers(self, column: pa.ChunkedArray, table: str | None, name: str) -> pa.ChunkedArray:
        try:
            return int64(column)
        except pa.ArrowException as error:
            raise InputError(
                f"{self.tables.shown}: column {name} of {table} holds no integers ({column.type}); "
                "export it again"
            ) from error

    def _texts(self, column: pa.ChunkedArray) -> pa.ChunkedArray:
        try:
            texts = column.cast(pa.string())
            texts.validate(full=True)
        except pa.ArrowInvalid:
            raw = column.cast(pa.binary()).to_pylist()
            mended = [b.decode(errors="replace") if b is not None else None for b in raw]
            bad = sum(
                b is not None and m is not None and m.encode() != b for b, m in zip(raw, mended, strict=True)
            )
            self.notes.repair("bad_utf8", 0, bad)
            texts = pa.chunked_array([pa.array(mended, pa.string())])
        return pc.if_else(pc.equal(texts, ""), None, texts)
