"""CSV: the schema's columns, whole numbers whole, unknown empty."""

from __future__ import annotations

import csv
import io

from tests.traces.builders import run
from traces.export.csv import export
from traces.schema import SCHEMA


def test_rows_come_back_as_they_are() -> None:
    name = 'a,"b"\n<c>'
    made = run([{"start_ns": 2**53 + 1, "dur_ns": 7, "name": name}, {"start_ns": 2**53 + 9, "dur_ns": 7}])
    lines = list(csv.DictReader(io.StringIO(b"".join(export(made)).decode(), newline="")))
    assert tuple(lines[0]) == tuple(SCHEMA.names)
    assert (lines[0]["start_ns"], lines[0]["name"], lines[0]["layer"]) == (str(2**53 + 1), name, "")


def test_an_empty_run_is_a_header() -> None:
    made = run([{"start_ns": 0, "dur_ns": 1}])
    (header,) = b"".join(export(type(made)(made.table.slice(0, 0), made.meta))).decode().splitlines()
    assert header.startswith('"start_ns","dur_ns"')
