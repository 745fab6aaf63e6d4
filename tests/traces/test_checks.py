"""Files that are no run, or one that cannot be: one clear line and code 4, never nonsense."""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from profiler.__main__ import main
from tests.traces.builders import metadata, run, step
from traces import store
from traces.errors import InputError
from traces.schema import METADATA_KEY, SCHEMA

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from traces.store import Run

BIG = 2**63 - 1


def good(**known: Any) -> Run:
    """Two decode steps of two kernels; every part of the metadata is there."""
    rows = [
        {"start_ns": 100 * i, "dur_ns": 50, "phase": "decode", "step": i // 2, "layer": 0, "category": "gemm",
         "module": "layers.0.mlp", "op": "aten::mm", "flops": 1000, "min_bytes": 10, "occupancy": 0.5,
         "link": "launch", "gap_cause": "host", "shape": "M2 N8 K4 f16"}
        for i in range(4)
    ]  # fmt: skip
    facts: dict[str, Any] = {
        "model": "m", "variant": "cuda", "mode": "eager",
        "workload": {"batch": 2, "prompt": 8, "new_tokens": 2, "dtype": "float16"},
        "choices": {"gemm": {"tuned": 1}}, "weights": {"source": "random", "seed": 1},
        "device": {"name": "NVIDIA H200", "type": "gpu", "count": 1, "measured": {"bytes_per_s": 4e12}},
        "versions": {"torch": "2.13", "cuda": 13000},
        "steps": [step("decode", 0, 0, 200), step("decode", 1, 200, 350, complete=False)],
        "unprofiled": {"decode": {"n": 9, "median_ns": 150, "iqr_ns": 3}},
        "health": {
            "events": 9, "rows": {"kernel": 4}, "dropped": {"truncated": {"count": 1, "first_offset": 7}},
            "repaired": {"no_name": {"count": 1, "first_offset": 7}}, "flagged": {"zero_time": 1},
            "orphans": 1, "disagreed": 1, "unknown": {"rows": 1, "exclusive_ns": 1}, "notes": ["a note"],
            "rules": {"file": "mine.toml", "sha256": "0" * 12}, "layers": {"inferred": 1},
            "launch_log": {"replays": 1, "matched": 0, "mismatched": 1},
            "kernels": {"expected_per_decode_step": 2, "seen": [2]},
            "kernels_seen": {"decode": {"expected": 2, "seen": [2]}}, "provenance": {"agree": 1},
        },
    }  # fmt: skip
    return run(rows, **(facts | known))


def put(path: Path, table: pa.Table, meta: Any) -> Path:
    """A Parquet file, whatever is in it."""
    raw = meta if isinstance(meta, bytes) else json.dumps(meta)
    pq.write_table(table.replace_schema_metadata({METADATA_KEY: raw}), path)
    return path


def refused(path: Path) -> str:
    with pytest.raises(InputError) as caught:
        store.read(path)
    message = str(caught.value)
    assert "\n" not in message
    assert str(path) in message
    return message


def column(name: str, values: list[Any], kind: pa.DataType | None = None) -> Callable[[pa.Table], pa.Table]:
    """The table with other values in one column."""

    def change(table: pa.Table) -> pa.Table:
        wanted = kind or SCHEMA.field(name).type
        return table.set_column(table.schema.get_field_index(name), name, pa.array(values, wanted))

    return change


def test_the_example_is_good_to_every_reader(tmp_path: Path) -> None:
    path = store.write(good(), tmp_path / "a.parquet")
    assert main(["show", str(path)]) == main(["compare", str(path), str(path)]) == 0


@pytest.mark.parametrize(
    ("name", "values", "complaint"),
    [
        ("start_ns", [0, 100, None, 300], "1 rows without start_ns"),
        ("used_ns", [50, 50, 50, None], "1 rows without used_ns"),
        ("exclusive_ns", [None, None, 50, 50], "2 rows without exclusive_ns"),
        ("gap_ns", [0, None, 50, 50], "1 rows without gap_ns"),
        ("kind", [None, "kernel", "kernel", "kernel"], "1 rows without kind"),
        ("name", ["k", "k", None, "k"], "1 rows without name"),
        ("kind", ["kernel", "kernel", "kernal", "kernel"], "kind 'kernal' is none of"),
        ("link", ["launch", None, "x" * 500, None], "link 'xxxxxxxxxxxxxxxxxxxx"),
        ("gap_cause", ["host", None, "hots", None], "gap_cause 'hots' is none of"),
        ("used_ns", [50, -1, 50, 50], "used_ns is negative"),
        ("exclusive_ns", [50, -50, 50, 50], "exclusive_ns is negative"),
        ("gap_ns", [0, 50, -50, 50], "gap_ns is negative"),
        ("layer", [0, 0, -3, 0], "layer is negative"),
        ("flops", [0, 0, -3, 0], "flops is negative"),
        ("min_bytes", [0, 0, -3, 0], "min_bytes is negative"),
        ("occupancy", [0, 0.5, 1.5, None], "occupancy is no share"),
        ("occupancy", [0, 0.5, float("nan"), None], "occupancy is no share"),
        ("start_ns", [0, 100, 200, BIG], "start_ns outside the run"),
        ("start_ns", [-5, 100, 200, 300], "start_ns outside the run"),
        ("used_ns", [50, 50, 50, 86_400_000_000_000], "used_ns of a day or more"),
        ("used_ns", [50, 50, 50, BIG], "used_ns of a day or more"),
        ("exclusive_ns", [51, 50, 50, 49], "exclusive_ns is more than used_ns"),
        ("exclusive_ns", [50, 50, 50, 49], "exclusive_ns does not add up to the busy time"),
        ("gap_ns", [0, 50, 50, 51], "gap_ns does not add up to the idle time"),
        ("gap_ns", [0, 50, 50, BIG], "gap_ns does not add up to the idle time"),
    ],
)
def test_lying_columns(tmp_path: Path, name: str, values: list[Any], complaint: str) -> None:
    made = good()
    message = refused(put(tmp_path / "a.parquet", column(name, values)(made.table), made.meta))
    assert complaint in message
    assert len(message) < 300 + len(str(tmp_path))


def test_sums_beyond_int64(tmp_path: Path) -> None:
    rows, day = 120_000, 86_400_000_000_000 - 1
    made = run([{"start_ns": 0, "dur_ns": 1}])
    table = pa.concat_tables([made.table] * rows).combine_chunks()
    for name, values in (("used_ns", np.full(rows, day)), ("dur_ns", np.full(rows, day))):
        table = column(name, values)(table)  # type: ignore[arg-type]
    assert "add up to more than int64" in refused(put(tmp_path / "a.parquet", table, made.meta))


def test_a_disqualified_row_may_start_anywhere(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"start_ns": -(2**62), "dur_ns": 0, "flag": "negative_start"},
        {"start_ns": 0, "dur_ns": 5},
        {"start_ns": BIG, "dur_ns": BIG, "used_ns": 0, "flag": "beyond_int64,too_long"},
    ]
    made = run(rows)
    assert store.read(store.write(made, tmp_path / "a.parquet")).table.num_rows == 3


@pytest.mark.parametrize(
    ("name", "kind", "values"),
    [
        ("start_ns", pa.string(), ["0", "100", "200", "300"]),
        ("start_ns", pa.float64(), [0.0, 100.0, 200.0, 300.0]),
        ("start_ns", pa.timestamp("ns"), [0, 100, 200, 300]),
        ("used_ns", pa.duration("ns"), [50] * 4),
        ("layer", pa.bool_(), [True] * 4),
        ("name", pa.int64(), [1] * 4),
        ("name", pa.binary(), [b"\xff"] * 4),
        ("name", pa.list_(pa.string()), [["k"]] * 4),
        ("occupancy", pa.string(), ["0.5"] * 4),
    ],
)
def test_columns_of_another_kind(tmp_path: Path, name: str, kind: pa.DataType, values: list[Any]) -> None:
    made = good()
    message = refused(put(tmp_path / "a.parquet", column(name, values, kind)(made.table), made.meta))
    assert f"column {name} is {str(kind)[:4]}" in message


def test_columns_of_the_same_kind_in_other_clothes(tmp_path: Path) -> None:
    """As pandas, DuckDB and Polars write them back: wider, dictionary-encoded, without any value."""
    made = good()
    table = made.table
    for name, kind in (
        ("layer", pa.int64()), ("stream", pa.int32()), ("occupancy", pa.float64()),
        ("name", pa.large_string()),
        ("kind", pa.dictionary(pa.int8(), pa.string())), ("thread", pa.null()), ("flag", pa.null()),
    ):  # fmt: skip
        other = pa.nulls(4) if pa.types.is_null(kind) else table[name].cast(kind)
        table = table.set_column(table.schema.get_field_index(name), name, other)
    table = table.append_column("further", pa.array([None] * 4)).select(
        [*reversed(table.column_names), "further"]
    )
    back = store.read(put(tmp_path / "a.parquet", table, made.meta))
    assert back.table.equals(made.table)
    assert back.table.schema == SCHEMA


def test_numbers_that_do_not_fit_a_column(tmp_path: Path) -> None:
    made = good()
    table = column("step", [0, 0, 2**40, 1], pa.int64())(made.table)
    assert "columns are not those of a run" in refused(put(tmp_path / "a.parquet", table, made.meta))


def test_missing_and_repeated_columns(tmp_path: Path) -> None:
    made = good()
    assert "columns missing (flag)" in refused(
        put(tmp_path / "a.parquet", made.table.drop_columns(["flag"]), made.meta)
    )
    twice = made.table.append_column("name", made.table["name"])
    assert "column name comes 2 times" in refused(put(tmp_path / "b.parquet", twice, made.meta))


def test_a_run_without_rows_is_read(tmp_path: Path) -> None:
    assert store.read(put(tmp_path / "a.parquet", SCHEMA.empty_table(), metadata())).table.num_rows == 0


CASES: list[tuple[tuple[Any, ...], Any, str]] = [
    (("schema_version",), 0, "schema 0 is none that we read"),
    (("schema_version",), -1, "schema -1 is none that we read"),
    (("schema_version",), 2, "newer kernelgap (schema 2"),
    (("schema_version",), 10**30, "newer kernelgap"),
    (("schema_version",), 1.0, "schema 1.0 is none"),
    (("schema_version",), True, "schema True is none"),
    (("schema_version",), "1", "schema 1 is none"),
    (("schema_version",), None, "schema None is none"),
    (("run_id",), 5, "$.run_id"),
    (("model",), ["m"], "$.model"),
    (("tool",), None, "$.tool"),
    (("workload", "batch"), 0, "$.workload.batch"),
    (("workload", "batch"), -2, "$.workload.batch"),
    (("workload", "prompt"), "8", "$.workload.prompt"),
    (("workload", "new_tokens"), 2**63, "$.workload.new_tokens"),
    (("workload", "dtype"), 16, "$.workload.dtype"),
    (("device",), None, "$.device"),
    (("device", "name"), 200, "device: Expected `str | null`"),
    (("device", "type"), {}, "device: Expected `str | null`"),
    (("versions",), [], "$.versions"),
    (("source",), "t.json", "$.source"),
    (("source", "file"), None, "source: Expected `str`"),
    (("time_base_unix_ns",), 2**63, "$.time_base_unix_ns"),
    (("time_base_unix_ns",), 0.5, "$.time_base_unix_ns"),
    (("steps",), {}, "$.steps"),
    (("steps", 0, "step"), 2**63, "$.steps[0].step"),
    (("steps", 0, "step"), 2**31, "$.steps[0].step"),
    (("steps", 0, "start_ns"), -1, "$.steps[0].start_ns"),
    (("steps", 0, "end_ns"), 2**63, "$.steps[0].end_ns"),
    (("steps", 1, "start_ns"), 351, "a step ends before it starts"),
    (("steps", 0, "phase"), None, "$.steps[0].phase"),
    (("steps", 0, "complete"), "yes", "$.steps[0].complete"),
    (("unprofiled",), [], "$.unprofiled"),
    (("unprofiled", "decode"), None, "$.unprofiled[...]"),
    (("unprofiled", "decode", "median_ns"), 0, "$.unprofiled[...].median_ns"),
    (("unprofiled", "decode", "median_ns"), -150, "$.unprofiled[...].median_ns"),
    (("unprofiled", "decode", "median_ns"), float("nan"), "metadata is damaged"),
    (("unprofiled", "decode", "median_ns"), 150.5, "$.unprofiled[...].median_ns"),
    (("unprofiled", "decode", "n"), 0, "$.unprofiled[...].n"),
    (("unprofiled", "decode", "iqr_ns"), -1, "$.unprofiled[...].iqr_ns"),
    (("health",), None, "$.health"),
    (("health", "events"), "9", "health: Expected `int`"),
    (("health", "dropped"), [], "health: Expected `object`"),
    (("health", "dropped"), {"truncated": 3}, "health: Expected `object`"),
    (("health", "dropped"), {"truncated": {"count": "3", "first_offset": 0}}, "health: Expected `int`"),
    (("health", "dropped"), {"truncated": {"count": 3}}, "health: Object missing required field"),
    (("health", "repaired"), {"x": {"count": -3, "first_offset": 0}}, "health: Expected `int` >= 0"),
    (("health", "flagged"), {"x": None}, "health: Expected `int`"),
    (("health", "unknown"), {"rows": 1}, "health: Object missing required field"),
    (("health", "notes"), "a note", "health: Expected `array`"),
    (("health", "rules"), {"file": "x"}, "health: Object missing required field"),
    (("health", "launch_log"), {"mismatched": "1"}, "health: Expected `int`"),
    (("versions", "torch"), "\ud800", "metadata is damaged"),
    (("versions", "torch"), float("inf"), "metadata is damaged"),
]


def changed(meta: Any, path: tuple[Any, ...], value: Any) -> Any:
    out = copy.deepcopy(meta)
    place = out
    for part in path[:-1]:
        place = place[part]
    place[path[-1]] = value
    return out


@pytest.mark.parametrize(("path", "value", "complaint"), CASES)
def test_metadata_that_cannot_be_right(
    tmp_path: Path, path: tuple[Any, ...], value: Any, complaint: str
) -> None:
    made = good()
    assert complaint in refused(put(tmp_path / "a.parquet", made.table, changed(made.meta, path, value)))


@pytest.mark.parametrize(
    "raw",
    [b"", b"{", b"null", b"7", b"[]", b"{}", b'"x"', b"\xff\xfe", b"[" * 100_000,
     b'{"schema_version": 1e999}',
     b'{"schema_version": ' + b"9" * 5000 + b"}"],
)  # fmt: skip
def test_metadata_that_is_none(tmp_path: Path, raw: bytes) -> None:
    refused(put(tmp_path / "a.parquet", good().table, raw))


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path] if path else []
    keys = value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        found += places(value[key], (*path, key))
    return found


META = good().meta
JUNK = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 3),
    st.sampled_from([2**31, 2**63 - 1, 2**63, -(2**63), 10**400]),
    st.floats(), st.text(max_size=5), st.lists(st.integers(0, 2), max_size=2),
    st.dictionaries(st.sampled_from(["count", "rows", "decode", "name"]), st.integers(-1, 2), max_size=2),
)  # fmt: skip


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    changes=st.lists(st.tuples(st.sampled_from(places(META)), JUNK), min_size=1, max_size=2),
    gone=st.booleans(),
)
def test_whatever_the_metadata_holds_a_report_is_made_or_the_run_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: list[tuple[tuple[Any, ...], Any]], gone: bool
) -> None:
    monkeypatch.setenv("KERNELGAP_DEBUG", "1")  # an internal error is raised, not turned into code 1
    meta: Any = META
    for path, value in changes:
        try:
            meta = changed(meta, path, value)
        except (TypeError, KeyError, IndexError):  # the place went with the change before
            continue
    if gone and len(changes[0][0]) == 1:
        meta = {k: v for k, v in meta.items() if k != changes[0][0][0]}
    made = good()
    path = put(tmp_path / "a.parquet", made.table, meta)
    other = put(tmp_path / "b.parquet", made.table, made.meta)
    reports = (["show", str(path)], ["show", str(path), "--json"], ["compare", str(path), str(path)])
    codes = {main(report) for report in reports}
    assert codes in ({0}, {4}, {0, 2})  # 2: no phase to compare is left
    assert main(["compare", str(path), str(other)]) in (0, 2, 4)
    assert main(["compare", str(other), str(path), "--json"]) in (0, 2, 4)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    flips=st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), min_size=1, max_size=4)
)
def test_flipped_bytes_are_seen_or_harmless(tmp_path: Path, flips: list[tuple[float, int]]) -> None:
    path = tmp_path / "a.parquet"
    data = bytearray(store.write(good(), path, force=True).read_bytes())
    for place, value in flips:
        data[int(place * len(data))] = value
    path.write_bytes(data)
    problem = ""
    try:
        rows = store.read(path).table.num_rows
    except InputError as error:
        problem = str(error)
    assert problem or rows == 4
    assert "\n" not in problem


def test_a_column_name_that_is_no_text(tmp_path: Path) -> None:
    path = store.write(good(), tmp_path / "a.parquet")
    path.write_bytes(path.read_bytes().replace(b"min_bytes", b"min\xda\xdates"))
    assert "not a readable Parquet file" in refused(path)
