from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.traces.builders import metadata, run
from traces import store
from traces.errors import InputError, OutputError
from traces.schema import COMPACT, METADATA_KEY, SCHEMA
from traces.store import Run

ROOT = Path(__file__).parents[2]


def test_round_trip_keeps_values_types_and_metadata(tmp_path: Path) -> None:
    made = run(
        [{"start_ns": 2**62, "dur_ns": 1, "layer": 3, "occupancy": 0.5}, {"start_ns": 2**62 + 1, "dur_ns": 1}]
    )
    back = store.read(store.write(made, tmp_path / "a.parquet"))
    assert back.table.equals(made.table)
    assert back.table.schema == SCHEMA
    assert back.meta == made.meta
    assert [p.name for p in tmp_path.iterdir()] == ["a.parquet"]


def test_the_file_is_as_the_format_says(tmp_path: Path) -> None:
    path = store.write(run([{"start_ns": 0, "dur_ns": 1}]), tmp_path / "a.parquet")
    file = pq.ParquetFile(path)
    assert file.metadata.row_group(0).column(0).compression == "ZSTD"
    assert json.loads(file.schema_arrow.metadata[METADATA_KEY.encode()])["schema_version"] == 1
    frame = pq.read_table(path).to_pandas(types_mapper=__import__("pandas").ArrowDtype)
    assert str(frame["launch_start_ns"].dtype) == "int64[pyarrow]"


def test_existing_output_is_kept_without_force(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    path.write_bytes(b"precious")
    with pytest.raises(OutputError, match="--force"):
        store.write(run([{"start_ns": 0, "dur_ns": 1}]), path)
    assert path.read_bytes() == b"precious"
    store.write(run([{"start_ns": 0, "dur_ns": 1}]), path, force=True)
    assert store.read(path).table.num_rows == 1
    with pytest.raises(OutputError, match="folder"):
        store.write(run([]), tmp_path, force=True)


def test_a_failed_write_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = store.write(run([{"start_ns": 0, "dur_ns": 1}]), tmp_path / "a.parquet")
    before = path.read_bytes()

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pq.ParquetWriter, "write_table", full)
    with pytest.raises(OutputError, match="No space left"):
        store.write(run([{"start_ns": 0, "dur_ns": 2}]), path, force=True)
    assert path.read_bytes() == before
    assert len(list(tmp_path.iterdir())) == 1


def test_bad_files_are_one_clear_sentence(tmp_path: Path) -> None:
    def problem(path: Path) -> str:
        with pytest.raises(InputError) as caught:
            store.read(path)
        assert "\n" not in str(caught.value)
        return str(caught.value)

    assert "no such file" in problem(tmp_path / "absent.parquet")
    assert "folder" in problem(tmp_path)
    (tmp_path / "text.parquet").write_text("hello")
    assert "not a readable Parquet" in problem(tmp_path / "text.parquet")
    pq.write_table(pa.table({"x": [1]}), tmp_path / "foreign.parquet")
    assert "not a kernelgap run" in problem(tmp_path / "foreign.parquet")
    new = {METADATA_KEY: json.dumps(metadata() | {"schema_version": 99})}
    pq.write_table(SCHEMA.empty_table().replace_schema_metadata(new), tmp_path / "new.parquet")
    assert "newer kernelgap" in problem(tmp_path / "new.parquet")
    old = {METADATA_KEY: json.dumps(metadata())}
    pq.write_table(pa.table({"start_ns": [1]}).replace_schema_metadata(old), tmp_path / "old.parquet")
    assert "columns missing" in problem(tmp_path / "old.parquet")
    partial = {METADATA_KEY: json.dumps({"schema_version": 1, "run_id": 5})}
    pq.write_table(SCHEMA.empty_table().replace_schema_metadata(partial), tmp_path / "partial.parquet")
    assert "metadata is incomplete or wrong" in problem(tmp_path / "partial.parquet")
    good = store.write(run([{"start_ns": i, "dur_ns": 1} for i in range(5000)]), tmp_path / "good.parquet")
    data = bytearray(good.read_bytes())
    data[200:400] = bytes(200)
    (tmp_path / "damaged.parquet").write_bytes(data)
    assert "damaged" in problem(tmp_path / "damaged.parquet")


def test_names_are_canonical_and_safe() -> None:
    captured = metadata(model="llama3-8b", variant="triton", mode="graph", device={"name": "NVIDIA H200"})
    assert store.file_name(captured) == "llama3-8b_triton_graph_kineto_NVIDIA-H200_0123abcd.parquet"
    foreign = metadata(source={"file": "../my trace_1.pt.trace.json.gz", "sha256": "deadbeef" * 8})
    assert store.file_name(foreign) == "my-trace_1_deadbeef.parquet"


def test_find_lists_newest_first_and_ignores_what_is_missing(tmp_path: Path) -> None:
    for age, name in enumerate(("new", "sub/old")):
        path = store.write(run([{"start_ns": 0, "dur_ns": 1}]), tmp_path / f"{name}.parquet")
        os.utime(path, (1000 - age, 1000 - age))
    assert [p.stem for p in store.find([tmp_path, tmp_path / "absent"])] == ["new", "old"]


@pytest.mark.parametrize("texts", [3, 5000])
def test_dictionary_columns_are_plain_text_to_readers(tmp_path: Path, texts: int) -> None:
    """Few texts go to the file as a dictionary, many as they are: nobody can tell."""
    names = [f"kernel {i % texts}" for i in range(6000)]
    plain = run([{"start_ns": i, "dur_ns": 1, "name": n, "op": None} for i, n in enumerate(names)])
    compact = Run(plain.table.cast(COMPACT), plain.meta)
    stored = [pq.read_table(store.write(r, tmp_path / "a.parquet", force=True)) for r in (plain, compact)]
    assert stored[0].equals(stored[1])
    assert stored[1].replace_schema_metadata(None).equals(plain.table)
    assert store.read(tmp_path / "a.parquet").table["name"].to_pylist() == names


KILLS = 50
WRITE_UNTIL_KILLED = """
import os, random, shutil, signal, sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from tests.traces.builders import run
from traces import store
path, kept, kills = Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4])
made = run([{"start_ns": i, "dur_ns": 1} for i in range(20000)])
moments = random.Random(7)
for kill in range(kills):
    child = os.fork()
    if not child:
        while True:
            store.write(made, path, force=True)
    time.sleep(moments.uniform(0, 0.06))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    if path.exists():
        shutil.copy(path, kept / f"{kill}.parquet")
        if kill % 2:
            path.unlink()  # so that a first write is interrupted as well as an overwrite
"""


def test_killed_at_any_moment_the_file_is_old_new_or_absent(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    command = [
        sys.executable,
        "-c",
        WRITE_UNTIL_KILLED,
        str(ROOT),
        str(tmp_path / "a.parquet"),
        str(kept),
        str(KILLS),
    ]
    subprocess.run(command, check=True, timeout=120)
    survivors = list(kept.iterdir())
    assert survivors
    assert all(store.read(p).table.num_rows == 20000 for p in survivors)
