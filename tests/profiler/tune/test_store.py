from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from profiler.ops.triton import tiles
from profiler.ops.triton.splitk import Config, Shape
from profiler.tune import store
from traces.errors import InputError, OutputError

if TYPE_CHECKING:
    from pathlib import Path

ENTRY = tiles.Entry("GPU", "float16", Shape(2, 3, 4), "f", config=Config(16, 16, 64, 1, 4, 3, 1), us=1.0)


def test_adds_and_replaces_entries(tmp_path: Path) -> None:
    path = tmp_path / "new" / "tiles.json"
    other = tiles.Entry("GPU", "float16", Shape(2, 3, 5), "f")
    for entry in (tiles.Entry("GPU", "float16", Shape(2, 3, 4), "f", trials={"x": 1.0}), other, ENTRY):
        store.put(path, entry)
    assert tiles.read(path) == [ENTRY, other]
    assert [p.name for p in path.parent.iterdir()] == ["tiles.json"]


def test_a_damaged_cache_is_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "tiles.json"
    path.write_text("{")
    with pytest.raises(InputError):
        store.put(path, ENTRY)
    assert path.read_text() == "{"


def test_what_cannot_be_written_is_an_output_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="cannot write the tile cache"):
        store.put(tmp_path / "file" / "tiles.json", ENTRY)


def test_a_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "tiles.json"
    store.put(path, ENTRY)

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(store.os, "fsync", full)
    with pytest.raises(OutputError, match="No space left"):
        store.put(path, tiles.Entry("GPU", "float16", Shape(9, 9, 9), "f"))
    assert tiles.read(path) == [ENTRY]
    assert [p.name for p in tmp_path.iterdir()] == ["tiles.json"]
