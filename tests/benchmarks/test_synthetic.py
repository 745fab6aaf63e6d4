from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING

import pytest

from benchmarks import synthetic
from traces.readers import kineto

if TYPE_CHECKING:
    from pathlib import Path


def test_the_same_seed_gives_the_same_bytes(tmp_path: Path) -> None:
    for name, seed in (("a.json", 1), ("b.json", 1), ("c.json", 2), ("d.json.gz", 1)):
        synthetic.write(tmp_path / name, 0.2, steps=2, seed=seed)
    a, b, c = ((tmp_path / f"{n}.json").read_bytes() for n in "abc")
    assert a == b != c
    assert gzip.decompress((tmp_path / "d.json.gz").read_bytes()) == a


@pytest.mark.parametrize("minified", [False, True])
@pytest.mark.parametrize("python_share", [0.0, 0.8])
def test_it_is_json_that_ingests(python_share: float, minified: bool, tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    synthetic.write(path, 0.5, steps=5, python_share=python_share, minified=minified)
    events = json.loads(path.read_bytes())["traceEvents"]
    assert minified or abs(path.stat().st_size / 0.5e6 - 1) < 0.2
    functions = sum(e.get("cat") == "python_function" for e in events)
    assert functions / len(events) == pytest.approx(python_share, abs=0.03)
    read = kineto.read_file(path)
    assert read.events == len(events)
    assert read.ranges.num_rows == 5
    assert read.gpu.num_rows == read.host.num_rows == read.ops.num_rows > 50
    assert (read.notes.dropped, read.notes.repaired) == ({}, {})
