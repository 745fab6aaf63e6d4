from __future__ import annotations

import shutil
import sqlite3
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.traces.readers.nsys_exports import FORMS, Made
from traces.errors import InputError
from traces.readers import nsys_sources
from traces.readers.nsys_sources import ParquetTables, SqliteTables
from traces.readers.nsys_tables import Export
from traces.readers.salvage import Notes

if TYPE_CHECKING:
    from pathlib import Path


def export(path: Path) -> Export:
    return Export(ParquetTables(path) if path.is_dir() else SqliteTables(path), Notes())


def database(path: Path, *statements: str) -> Path:
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT)")
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()
    return path


@pytest.mark.parametrize("form", FORMS)
def test_columns_come_typed_and_what_is_lacking_is_null(tmp_path: Path, form: str) -> None:
    made = Made().add("T", a=1, text="x").add("T", a=None, text=None)
    table = export(made.write(tmp_path, form)).read("T", ("a", "b"), ("text", "value"))
    assert table.to_pylist() == [
        {"a": 1, "b": None, "text": "x", "value": None}, {"a": None, "b": None, "text": None, "value": None},
    ]  # fmt: skip
    assert table.schema.types == [pa.int64(), pa.int64(), pa.string(), pa.string()]
    assert export(tmp_path / ("r.sqlite" if form == "sqlite" else "r_pqtdir")).read("U", ["a"]).num_rows == 0


@pytest.mark.parametrize("form", FORMS)
def test_a_table_without_a_needed_column_is_an_error(tmp_path: Path, form: str) -> None:
    path = Made().add("T", a=1).write(tmp_path, form)
    with pytest.raises(InputError, match=r"table T has no column start"):
        export(path).read("T", ["a"], needs=["start"])


def test_a_column_of_texts_may_begin_with_more_nulls_than_a_batch(tmp_path: Path) -> None:
    path = database(
        tmp_path / "r.sqlite",
        "CREATE TABLE T (a INTEGER, text TEXT)",
        "INSERT INTO T WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 70000) "
        "SELECT NULL, NULL FROM n",
        "INSERT INTO T VALUES (5, 'late')",
    )
    table = export(path).read("T", ["a"], ["text"])
    assert table.slice(70_000).to_pylist() == [{"a": 5, "text": "late"}]
    assert table["text"].null_count == 70_000


def test_a_large_table_is_read_in_parts_that_miss_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nsys_sources, "_PARALLEL_ROWS", 10)
    monkeypatch.setattr(nsys_sources.os, "cpu_count", lambda: 4)
    path = database(
        tmp_path / "r.sqlite",
        "CREATE TABLE T (a INTEGER)",
        "INSERT INTO T (rowid, a) WITH RECURSIVE n(i) AS (SELECT -3 UNION ALL SELECT i + 1 FROM n LIMIT 100) "
        "SELECT i, i FROM n",
    )
    assert export(path).read("T", ["a"])["a"].to_pylist() == list(range(-3, 97))


def test_integers_that_are_none_are_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = database(tmp_path / "r.sqlite", "CREATE TABLE T (a)", "INSERT INTO T VALUES ('x')")
    with pytest.raises(InputError, match=r"column a of T holds no integers"):
        export(path).read("T", ["a"])
    monkeypatch.setattr(nsys_sources, "_BATCH_ROWS", 1)
    mixed = database(tmp_path / "m.sqlite", "CREATE TABLE T (a)", "INSERT INTO T VALUES (1), ('x')")
    with pytest.raises(InputError, match=r"m.sqlite: damaged"):
        export(mixed).read("T", ["a"])


def test_strings_by_id_more_than_one_query_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nsys_sources, "_IDS_PER_QUERY", 2)
    made = Made()
    ids = [made.string(t) for t in ("a", "b", "", "d", "e\0f")]
    for form in FORMS:
        found = export(made.write(tmp_path, form)).strings(pa.array([*ids[::-1], 999]))
        assert found.to_pylist() == ["e\0f", "d", None, "b", "a", None]


def test_bad_utf8_is_mended_and_counted(tmp_path: Path) -> None:
    path = database(
        tmp_path / "r.sqlite", "INSERT INTO StringIds VALUES (1, CAST(x'ff6b' AS TEXT)), (2, 'ok')"
    )
    made = export(path)
    assert made.strings(pa.array([1, 2])).to_pylist() == ["�k", "ok"]
    assert made.notes.repaired["bad_utf8"]["count"] == 1


def test_names_that_sql_must_quote(tmp_path: Path) -> None:
    path = database(
        tmp_path / "a b?%20#';.sqlite",
        """CREATE TABLE "T""x'" ("se""lect" INTEGER)""",
        """INSERT INTO "T""x'" VALUES (3)""",
    )
    assert export(path).read("T\"x'", ['se"lect'])['se"lect'].to_pylist() == [3]


def test_views_are_no_tables(tmp_path: Path) -> None:
    path = database(tmp_path / "r.sqlite", "CREATE VIEW NVTX_EVENTS AS SELECT 1 AS start")
    assert export(path).find("NVTX_EVENTS") is None


def test_a_sqlite_file_of_something_else(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "other.sqlite")
    connection.execute("CREATE TABLE cookies (a)")
    connection.close()
    with pytest.raises(InputError, match=r"other.sqlite: no nsys export"):
        export(tmp_path / "other.sqlite")


@pytest.mark.parametrize("suffix", ["-journal", "-wal"])
def test_a_file_that_is_still_being_written(tmp_path: Path, suffix: str) -> None:
    path = Made().kernel().write(tmp_path)
    path.with_name(path.name + suffix).write_bytes(b"pages")
    with pytest.raises(InputError, match="not finished"):
        export(path)


def test_a_locked_file_is_read_all_the_same(tmp_path: Path) -> None:
    path = Made().kernel().write(tmp_path)
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("BEGIN EXCLUSIVE")
    assert export(path).read("CUPTI_ACTIVITY_KIND_KERNEL", ["start"]).num_rows == 1
    connection.close()


def test_a_damaged_parquet_file_is_named(tmp_path: Path) -> None:
    path = Made().kernel().write(tmp_path, "parquetdir")
    table = path / "CUPTI_ACTIVITY_KIND_KERNEL.parquet"
    table.write_bytes(table.read_bytes()[:-20])
    with pytest.raises(InputError, match=r"KERNEL\.parquet is damaged"):
        export(path).read("CUPTI_ACTIVITY_KIND_KERNEL", ["start"])
    shutil.rmtree(path)
    path.mkdir()
    pq.write_table(pa.table({"start": [1.5], "end": [2.0]}), path / "CUPTI_ACTIVITY_KIND_KERNEL.parquet")
    with pytest.raises(InputError, match="column start of CUPTI_ACTIVITY_KIND_KERNEL holds no integers"):
        export(path).read("CUPTI_ACTIVITY_KIND_KERNEL", ["start"])
