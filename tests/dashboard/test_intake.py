"""What comes from elsewhere becomes a run in the store or a sentence; no name leads anywhere else."""

from __future__ import annotations

import gzip
import io
import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dashboard import intake, intake_worker, remote
from tests.dashboard.builders import baseline, made
from tests.traces.traces import two_steps
from traces import store
from traces.errors import MissingToolError, UsageError

if TYPE_CHECKING:
    from pathlib import Path

HOSTILE = (
    "../../etc/x", "..\\..\\x", "/etc/passwd", "a\0b", "CON", "NUL", "aux.con", "x" * 300, "é" * 200,
    "\u202egnp", "", ".", "..", "-rf", "~root", "$(touch x)", "a\nb", "<img src=x>", "\ud800", "%2e%2e%2f",
    ".hidden", "a/../../b", "run.parquet", "COM1", "name.", " lead", "🙂" * 90, "a:b", "*?", "|",
)  # fmt: skip


def parquet(run: store.Run, path: Path) -> bytes:
    return store.write(run, path).read_bytes()


@pytest.fixture
def inbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty store in a folder of its own, so that escapes would be seen beside it."""
    shelf = tmp_path / "outer" / "store"
    monkeypatch.setenv("KERNELGAP_STORE", str(shelf))
    return shelf


def test_an_uploaded_run_is_copied_and_known_the_second_time(inbox: Path, tmp_path: Path) -> None:
    data = parquet(baseline(), tmp_path / "x.parquet")
    first, second = (intake.upload("mine.parquet", io.BytesIO(data))[0] for _ in range(2))
    assert first.fine
    assert "became the run small_cuda_graph_kineto_NVIDIA-H200_cuda-1.parquet, 9 rows" in first.told
    assert "is already in the library as" in second.told
    assert [p.read_bytes() for p in inbox.iterdir()] == [data]


def test_another_run_of_the_same_name_is_kept_beside_it(inbox: Path, tmp_path: Path) -> None:
    other = made("cuda", [("mm", "gemm", 1)], 10)
    for number, run in enumerate((baseline(), other)):
        intake.upload("x.parquet", io.BytesIO(parquet(run, tmp_path / f"{number}.parquet")))
    assert sorted(p.stem[-2:] for p in inbox.iterdir()) == ["-1", "-2"]


@pytest.mark.parametrize("ending", [".json", ".json.gz"])
def test_an_uploaded_trace_is_ingested_once(inbox: Path, ending: str) -> None:
    data = json.dumps(two_steps()).encode()
    data = gzip.compress(data) if ending.endswith("gz") else data
    told = [intake.upload(f"my trace{ending}", io.BytesIO(data))[0].told for _ in range(2)]
    (run,) = inbox.iterdir()
    assert run.name.startswith("my-trace_")
    assert told[0].startswith(f"became the run {run.name}, 6 rows")
    assert told[1].startswith(f"is already in the library as the run {run.name}")
    assert store.read_metadata(run)["source"]["file"] == f"my-trace{ending}"


def test_what_is_no_run_is_a_sentence_without_paths_of_this_machine(inbox: Path, tmp_path: Path) -> None:
    foreign = tmp_path / "f.parquet"
    pq.write_table(pa.table({"x": [1]}), foreign)
    cases = {
        "a.parquet": b"?", "b.parquet": foreign.read_bytes(), "c.json": b"{}", "d.json.gz": b"\x1f\x8b",
        "e.exe": b"", "f.sqlite": b"SQLite format 3\0", "g.parquet": b"",
    }  # fmt: skip
    for name, data in cases.items():
        (outcome,) = intake.upload(name, io.BytesIO(data))
        assert not outcome.fine, name
        assert "kernelgap-" not in outcome.told
    assert not inbox.exists() or not list(inbox.iterdir())


@pytest.mark.parametrize("number", range(len(HOSTILE)))
def test_names_of_uploads_lead_nowhere(inbox: Path, tmp_path: Path, number: int) -> None:
    run = baseline(model=None, source={"file": HOSTILE[number], "sha256": "../../../x"})
    path = tmp_path / "upload.parquet"
    parquet(run, path)
    name = f"{HOSTILE[number]}.parquet"
    inbox.mkdir(parents=True)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    outcome = intake_worker._one(path, name, inbox, scratch)
    if HOSTILE[number] == "\ud800":  # no text that a file may hold
        assert "damaged" in outcome["problem"]
        return
    assert "problem" not in outcome
    (kept,) = inbox.iterdir()
    assert kept.name.isascii()
    assert len(kept.name) < 255
    assert [p.name for p in inbox.parent.iterdir()] == ["store"]
    assert {p.parent for p in scratch.rglob("*")} == {scratch}


def test_a_hostile_name_reaches_the_worker_whole(inbox: Path, tmp_path: Path) -> None:
    data = parquet(baseline(), tmp_path / "x.parquet")
    for name in ("a\0b/../c.parquet", "\ud800.parquet", "x" * 200_000 + ".parquet", "-h.parquet"):
        assert intake.upload(name, io.BytesIO(data))[0].fine


def test_metadata_without_a_source_is_a_sentence(inbox: Path, tmp_path: Path) -> None:
    data = parquet(baseline(model=None, source={}), tmp_path / "x.parquet")
    (outcome,) = intake.upload("x.parquet", io.BytesIO(data))
    assert "source: Object missing required field" in outcome.told


def test_a_path_and_a_file_uri_are_taken_in(inbox: Path, tmp_path: Path) -> None:
    folder = tmp_path / "there"
    store.write(baseline(), folder / "a.parquet")
    store.write(baseline(run_id="b"), folder / "b.parquet")
    (folder / "notes.txt").write_text("x")
    assert [o.fine for o in intake.take(str(folder / "a.parquet"))] == [True]
    both = intake.take(folder.as_uri())
    assert [o.name for o in both] == ["a.parquet", "b.parquet"]
    assert len(list(inbox.iterdir())) == 2
    for gone in (str(folder / "gone.json"), (folder / "gone.json").as_uri(), "a\0b", "ftp://x/y"):
        assert not intake.take(gone)[0].fine


def test_a_folder_of_many_files_is_taken_in_part_and_says_so(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(remote, "MOST_FILES", 2)
    for number in range(5):
        (tmp_path / f"{number}.parquet").touch()
    found, more = remote.find(tmp_path.as_uri())
    assert ([f.name for f in found], more) == (["0.parquet", "1.parquet"], 3)


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "fsspec", None)
    with pytest.raises(MissingToolError, match="pip install huggingface_hub"):
        remote.find("hf://datasets/a/b")
    with pytest.raises(UsageError, match="not offered"):
        remote.find("https://example.org/x.parquet")
