"""Where the tables of an nsys export lie: one SQLite file, or a folder of Parquet files."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import TYPE_CHECKING, Final, Protocol
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc

from traces.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

# Rows of one Arrow batch.
_BATCH_ROWS: Final = 65_536
_PARALLEL_ROWS: Final = 200_000
_IDS_PER_QUERY: Final = 10_000  # keeps the statement under SQLite's limit of 1 MB


class Tables(Protocol):
    """A place that holds the tables of one export. Methods raise InputError where it is damaged."""

    shown: Path  # what the user named, for messages

    def names(self) -> list[str]:
        """The tables there are."""

    def columns(self, table: str) -> list[str]:
        """The columns of one."""

    def filled(self, table: str) -> bool:
        """Whether it has a row."""

    def load(self, table: str, integers: Sequence[str], texts: Sequence[str]) -> pa.Table:
        """Columns that exist, all rows, types as stored; a text that is null may come as empty."""

    def strings(self, table: str, ids: Sequence[int]) -> pa.Table:
        """The rows of a table (id, value) with these ids."""


class SqliteTables:
    """A SQLite export, read through ADBC straight into Arrow, never locked and never written.

    Raises InputError if another program has not finished writing it.
    """

    def __init__(self, path: Path, shown: Path | None = None) -> None:
        self.path, self.shown = path, shown or path
        for suffix in ("-wal", "-journal"):
            beside = path.with_name(path.name + suffix)
            if beside.is_file() and beside.stat().st_size:
                raise InputError(
                    f"{self.shown}: not finished ({beside.name} lies beside it); wait for the export to end "
                    "or export again"
                )
        # immutable: no locks, which fail on network file systems.
        self._uri = f"file:{quote(os.fsencode(path.absolute()))}?mode=ro&immutable=1"

    def names(self) -> list[str]:
        """The tables there are (views and virtual tables are not nsys')."""
        return self._texts("SELECT name FROM sqlite_master WHERE type = 'table' AND rootpage > 0")

    def columns(self, table: str) -> list[str]:
        """The columns of one table."""
        return self._texts(f"SELECT name FROM pragma_table_info({_quoted(table, chr(39))})")

    def filled(self, table: str) -> bool:
        """Whether the table has a row."""
        return bool(self._query(f"SELECT 1 FROM {_quoted(table)} LIMIT 1").num_rows)

    def load(self, table: str, integers: Sequence[str], texts: Sequence[str]) -> pa.Table:
        """All rows of columns that exist. Large tables are read in parallel, by ranges of row ids."""
        # A text column that begins with nulls would be taken for one of integers.
        fields = [_quoted(c) for c in integers]
        fields += [f"coalesce(CAST({q} AS TEXT), '') AS {q}" for q in map(_quoted, texts)]
        sql = f"SELECT {', '.join(fields)} FROM {_quoted(table)}"
        parts = self._parts(table)
        with ThreadPoolExecutor(len(parts)) as pool:
            loaded = list(pool.map(self._query, [f"{sql} WHERE {p}" if p else sql for p in parts]))
        return pa.concat_tables(loaded, promote_options="permissive")

    def strings(self, table: str, ids: Sequence[int]) -> pa.Table:
        """The rows (id, value) with these ids."""
        sql = f"SELECT id, coalesce(CAST(value AS TEXT), '') AS value FROM {_quoted(table)} WHERE id IN "
        chunks = [ids[i : i + _IDS_PER_QUERY] for i in range(0, len(ids), _IDS_PER_QUERY)] or [()]
        return pa.concat_tables([self._query(f"{sql}({','.join(map(str, chunk))})") for chunk in chunks])

    def _parts(self, table: str) -> list[str]:
        """Conditions that split the table for several threads; one empty condition where it is small."""
        last = self._query(f"SELECT max(rowid) AS last FROM {_quoted(table)}")["last"][0].as_py() or 0
        threads = min(8, os.cpu_count() or 1) if last > _PARALLEL_ROWS else 1
        if threads == 1:
            return [""]
        cuts = [last * i // threads for i in range(1, threads)]
        middle = [f"rowid > {a} AND rowid <= {b}" for a, b in pairwise(cuts)]
        return [f"rowid <= {cuts[0]}", *middle, f"rowid > {cuts[-1]}"]

    def _texts(self, sql: str) -> list[str]:
        try:
            found: list[str] = self._query(sql)["name"].to_pylist()
        except UnicodeDecodeError as error:
            raise InputError(f"{self.shown}: damaged (a name in it is no text); export it again") from error
        return [name for name in found if isinstance(name, str)]

    def _query(self, sql: str) -> pa.Table:
        # Imported here: most runs of the program never read SQLite.
        import adbc_driver_manager as adbc
        import adbc_driver_sqlite as driver

        try:
            with (
                driver.connect(self._uri) as database,
                adbc.AdbcConnection(database) as connection,
                adbc.AdbcStatement(connection) as statement,
            ):
                statement.set_options(**{driver.StatementOptions.BATCH_ROWS.value: str(_BATCH_ROWS)})
                statement.set_sql_query(sql)
                stream, _ = statement.execute_query()
                with pa.RecordBatchReader.from_stream(stream) as reader:
                    return reader.read_all()
        except (adbc.Error, pa.ArrowException, OSError, UnicodeDecodeError) as error:
            reason = _first_line(error).rpartition(": ")[2]
            raise InputError(
                f"{self.shown}: damaged, or no nsys export ({reason}); export it again with "
                "nsys export --type sqlite"
            ) from error


class ParquetTables:
    """A parquetdir export: one `TABLE.parquet` for each table with rows."""

    def __init__(self, path: Path, shown: Path | None = None) -> None:
        self.path, self.shown = path, shown or path

    def names(self) -> list[str]:
        """The tables there are."""
        return sorted(p.stem for p in self.path.glob("*.parquet") if p.is_file())

    def columns(self, table: str) -> list[str]:
        """The columns of one table."""
        return list(self._read(table, None).schema.names)

    def filled(self, table: str) -> bool:
        """Whether the table has a row."""
        return bool(self._read(table, []).num_rows)

    def load(self, table: str, integers: Sequence[str], texts: Sequence[str]) -> pa.Table:
        """All rows of columns that exist."""
        return self._read(table, [*integers, *texts])

    def strings(self, table: str, ids: Sequence[int]) -> pa.Table:
        """The rows (id, value) with these ids."""
        found = self._read(table, ["id", "value"])
        return found.filter(pc.is_in(int64(found["id"]), pa.array(ids, pa.int64())))

    def _read(self, table: str, columns: Sequence[str] | None) -> pa.Table:
        """The given columns of all rows; with None no row, but every column's name."""
        import pyarrow.parquet as pq

        try:
            with pq.ParquetFile(self.path / f"{table}.parquet") as file:
                if columns is None:
                    return file.schema_arrow.empty_table()
                if not columns:
                    return pa.table({"rows": pa.nulls(file.metadata.num_rows)})
                return file.read(columns=list(columns))
        except (pa.ArrowException, OSError) as error:
            raise InputError(
                f"{self.shown}: {table}.parquet is damaged ({_first_line(error)}); export it again "
                "with nsys export --type parquetdir"
            ) from error


def int64(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """As int64; uint64 keeps its bits. Raises ArrowInvalid where that is not possible exactly."""
    if pa.types.is_uint64(column.type):
        return pa.chunked_array([c.view(pa.int64()) for c in column.chunks], pa.int64())
    return column.cast(pa.int64())


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]


def _quoted(name: str, mark: str = '"') -> str:
    return mark + name.replace(mark, mark * 2) + mark
