from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from profiler.model.config import Workload, preset
from profiler.ops.triton import splitk, tiles
from profiler.ops.triton.splitk import Config, Shape
from profiler.ops.triton.tiles import Entry
from traces.errors import InputError

TILE = Config(16, 64, 128, 2, 4, 3, 1)


def entry(m: int, n: int = 64, k: int = 32, **changes: object) -> Entry:
    made = Entry("GPU", "float16", Shape(m, n, k), tiles.fingerprint(), config=TILE, us=3.25, tried=7)
    return replace(made, **changes)  # type: ignore[arg-type]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KERNELGAP_CACHE", str(tmp_path / "user"))
    monkeypatch.setattr(tiles, "SHIPPED", tmp_path / "shipped")
    for folder in ("user", "shipped"):
        (tmp_path / folder).mkdir()
    return tmp_path


def test_round_trip(tmp_path: Path) -> None:
    written = [
        entry(2, default_us=4.0, spread=0.01, failed={"wrong result": 1}),
        entry(1, config=None, us=None, trials={str(TILE): 3.5, "other": None}),
    ]
    path = tmp_path / "a.json"
    path.write_text(tiles.dump(written))
    assert tiles.read(path) == sorted(written, key=lambda e: e.key)
    assert tiles.read(tmp_path / "none.json") == []


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        '{"schema_version": 2, "entries": []}',
        '{"schema_version": 1}',
        '{"schema_version": 1, "entries": [{}]}',
        '{"schema_version": 1, "entries": [{"gpu": "a", "dtype": "b", "shape": [1], "fingerprint": "c"}]}',
        '{"schema_version": 1, "entries": [{"gpu": "a", "dtype": "b", "shape": [0, 2, 3], "fingerprint": ""}'
        "]}",
    ],
)
def test_a_damaged_cache_is_refused_in_one_line(tmp_path: Path, text: str) -> None:
    path = tmp_path / "tiles.json"
    path.write_text(text)
    with pytest.raises(InputError, match=r"tiles\.json: not a tile cache \(.*\): repair it, or move it away"):
        tiles.read(path)


def test_an_unreadable_cache_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot read the tile cache"):
        tiles.read(tmp_path)


@given(st.binary(max_size=60))
def test_any_bytes_are_a_cache_or_an_input_error(data: bytes) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t.json"
        path.write_bytes(data)
        with pytest.raises(InputError):
            tiles.read(path)


def test_the_users_entries_go_before_the_shipped_ones(cache: Path) -> None:
    mine, theirs = entry(2, us=1.0), entry(2, us=2.0)
    (cache / "shipped" / "a.json").write_text(tiles.dump([theirs, entry(4)]))
    (cache / "user" / "tiles.json").write_text(tiles.dump([mine]))
    found, stale = tiles.known("GPU", "float16")
    assert found == {mine.shape: mine, Shape(4, 64, 32): entry(4)}
    assert stale == 0
    only, _ = tiles.known("GPU", "float16", cache / "shipped" / "a.json")
    assert only[mine.shape] == theirs


def test_an_unfinished_search_hides_no_finished_one(cache: Path) -> None:
    (cache / "shipped" / "a.json").write_text(tiles.dump([entry(2)]))
    (cache / "user" / "tiles.json").write_text(tiles.dump([entry(2, config=None)]))
    assert tiles.known("GPU", "float16")[0][Shape(2, 64, 32)].config == TILE


def test_other_gpus_dtypes_and_kernels_do_not_count(cache: Path) -> None:
    others = [entry(2, gpu="B"), entry(2, dtype="bfloat16"), entry(2, fingerprint="old"), entry(3)]
    (cache / "user" / "tiles.json").write_text(tiles.dump(others))
    found, stale = tiles.known("GPU", "float16")
    assert (list(found), stale) == ([Shape(3, 64, 32)], 1)


@pytest.mark.parametrize(
    ("m", "source"),
    [(2, "tuned"), (1, "tuned for M2"), (3, "tuned for M2"), (5, "tuned for M8"), (16, "tuned for M8"),
     (17, "default"), (511, "default"), (512, "tuned for M1024"), (2048, "tuned for M1024"),
     (2049, "default")],
)  # fmt: skip
def test_which_entry_serves_a_shape(m: int, source: str) -> None:
    found = {e.shape: e for e in (entry(2), entry(8), entry(1024), entry(512, n=65))}
    assert tiles.choose(Shape(m, 64, 32), found, 2).source == source
    assert tiles.choose(Shape(m, 66, 32), found, 2) == tiles.Choice(splitk.default_config(m, 2), "default")


def test_the_products_of_llama3_8b() -> None:
    layer = [(6144, 4096), (4096, 4096), (28672, 4096), (4096, 14336)]
    assert tiles.linear_shapes(preset("llama3-8b"), Workload(2, 512, 256)) == [
        *(Shape(2, *w) for w in layer), Shape(2, 128256, 4096), *(Shape(1024, *w) for w in layer)
    ]  # fmt: skip
    assert len(tiles.linear_shapes(preset("llama3-8b"), Workload(1, 1, 256))) == 5


def test_the_fingerprint_is_of_code_and_version(monkeypatch: pytest.MonkeyPatch) -> None:
    def first(a: int) -> int:
        """One."""
        return a + 1  # a comment

    def second(a: int) -> int:
        return a + 1

    assert tiles.code(first).replace("first", "second") == tiles.code(second)
    before = tiles.fingerprint()
    tiles.fingerprint.cache_clear()
    monkeypatch.setattr(tiles.triton, "__version__", "9.9")
    assert tiles.fingerprint() != before
    tiles.fingerprint.cache_clear()


def test_what_ships_is_valid_and_of_this_kernel() -> None:
    for path in tiles.SHIPPED.glob("*.json"):
        found = tiles.read(path)
        assert found
        assert all(e.config and not e.trials for e in found)
        assert json.loads(path.read_text())["schema_version"] == 1
