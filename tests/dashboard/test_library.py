"""The library: runs are found and read; every other file is a sentence beside its name."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dashboard import library
from tests.dashboard.builders import baseline, candidate
from tests.traces.builders import step
from traces import store
from traces.errors import InputError
from traces.schema import METADATA_KEY

if TYPE_CHECKING:
    from pathlib import Path


def entry(path: Path) -> library.Entry:
    return next(e for e in library.entries() if e.path.name == path.name)


def rewritten(path: Path, table: pa.Table | None = None, **meta: Any) -> Path:
    """A run's file with some of its metadata or its columns replaced, whatever they are."""
    run = baseline()
    known = {METADATA_KEY: json.dumps(dict(run.meta) | meta)}
    pq.write_table((table or run.table).replace_schema_metadata(known), path)
    return path


def test_an_empty_or_missing_store_is_an_empty_library(shelf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert library.entries() == []
    monkeypatch.setenv("KERNELGAP_STORE", str(shelf / "nowhere"))
    assert library.entries() == []


def test_runs_are_read_as_they_were_written(pair: Path) -> None:
    found = library.entries()
    assert sorted(e.path.stem for e in found) == sorted(e.label for e in found)
    assert library.load(entry(pair / store.file_name(baseline().meta))).table.equals(baseline().table)


def test_foreign_newer_and_broken_files_each_say_why(shelf: Path) -> None:
    (shelf / "broken.parquet").write_bytes(b"PAR1 but not really")
    (shelf / "empty.parquet").touch()
    pq.write_table(pa.table({"x": [1]}), shelf / "foreign.parquet")
    rewritten(shelf / "newer.parquet", schema_version=99)
    rewritten(shelf / "older.parquet", baseline().table.drop_columns(["used_ns", "rule"]), schema_version=0)
    says = {e.path.stem: e.problem or "" for e in library.entries()}
    assert "not a readable Parquet file" in says["broken"]
    assert "not a readable Parquet file" in says["empty"]
    assert "not a kernelgap run" in says["foreign"]
    assert "newer kernelgap" in says["newer"]
    assert "schema 0 is none that we read; ingest the trace again" in says["older"]
    assert not any(str(shelf) in text for text in says.values())


@pytest.mark.parametrize(
    ("meta", "why"),
    [
        ({"steps": [{"phase": "decode"}]}, "incomplete"),
        ({"workload": 3}, "incomplete"),
        ({"health": None}, "incomplete"),
        ({"model": ["x"]}, "incomplete"),
        ({"steps": [step("decode", 0, 9, 1)]}, "ends before it starts"),
    ],
)  # fmt: skip
def test_metadata_of_another_shape_is_refused(shelf: Path, meta: dict[str, Any], why: str) -> None:
    assert why in (entry(rewritten(shelf / "odd.parquet", **meta)).problem or "")


def test_columns_of_another_type_are_refused(shelf: Path) -> None:
    table = baseline().table
    odd = table.set_column(0, "start_ns", pa.array(["soon"] * table.num_rows))
    with pytest.raises(InputError, match="column start_ns is string, not int64"):
        library.load(entry(rewritten(shelf / "odd.parquet", odd)))


def test_rows_without_a_time_are_refused(shelf: Path) -> None:
    table = baseline().table
    odd = table.set_column(0, "start_ns", pa.nulls(table.num_rows, pa.int64()))
    with pytest.raises(InputError, match="rows without start_ns"):
        library.load(entry(rewritten(shelf / "odd.parquet", odd)))


def test_text_that_is_not_utf8_is_refused(shelf: Path) -> None:
    table = baseline().table
    bad = pa.array([b"\xff\xfe"] * table.num_rows).view(pa.string())
    at = table.schema.get_field_index("name")
    with pytest.raises(InputError, match="not those of a run"):
        library.load(entry(rewritten(shelf / "odd.parquet", table.set_column(at, "name", bad))))


def test_no_flipped_byte_escapes_as_anything_but_an_input_error(pair: Path) -> None:
    path = pair / store.file_name(baseline().meta)
    whole = path.read_bytes()
    for at in range(4, len(whole), max(len(whole) // 60, 1)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :])
        found = entry(path)
        if found.problem is None:
            try:
                library.load(found)
            except InputError:
                continue


def test_a_changed_file_is_read_again(pair: Path) -> None:
    path = pair / store.file_name(baseline().meta)
    assert library.load(entry(path)).table.num_rows == 9
    short = baseline()
    store.write(store.Run(short.table.slice(0, 6), short.meta), path, force=True)
    assert library.load(entry(path)).table.num_rows == 6


def test_equal_names_in_two_folders_stay_two_runs(shelf: Path) -> None:
    for folder in ("x", "y"):
        store.write(baseline(), shelf / folder / "same.parquet")
    assert sorted(e.label for e in library.entries()) == ["same (x)", "same (y)"]


def test_the_default_pair_is_alike_but_for_the_variant(shelf: Path) -> None:
    runs = [baseline(), candidate(), candidate(model="other", run_id="o"), baseline(mode="eager", run_id="e")]
    for each in runs:
        store.write(each, shelf / store.file_name(each.meta))
    a, b = library.default_pair(library.entries())
    assert a.path.name == store.file_name(runs[0].meta)
    assert b.path.name == store.file_name(runs[1].meta)


def test_a_single_run_is_compared_with_itself(shelf: Path) -> None:
    store.write(baseline(), shelf / "one.parquet")
    a, b = library.default_pair(library.entries())
    assert a == b
