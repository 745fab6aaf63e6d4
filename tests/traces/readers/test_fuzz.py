"""Thousands of seeded mutations of small traces: a typed error or a result, never a traceback or a hang."""

from __future__ import annotations

import gzip
import json
import random
import resource
import time
from typing import TYPE_CHECKING

import pytest

from tests.traces.traces import host, kernel, op, trace, user_range
from traces.errors import InputError
from traces.readers import kineto

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

MUTATIONS = 2000
EVENTS = 24


def seeds() -> list[bytes]:
    events = []
    for i in range(EVENTS // 4):
        events += [
            user_range(f"kernelgap.decode#{i}", i, 1),
            op("aten::mm", i, 1, i, **{"Input Dims": [[2, 3], [3, 4]], "Input type": ["float", "float"]}),
            host("cudaLaunchKernel", i + 0.25, 0.5, i),
            kernel('void f<int>("a\\b")', i + 0.5, 0.123, i, **{"est. achieved occupancy %": 18}),
        ]
    made = trace(*events, deviceProperties=[{"id": 0, "name": "NVIDIA H200"}], distributedInfo={"rank": 0})
    minified = json.dumps(made, separators=(",", ":")).encode()
    return [
        minified,
        json.dumps(made, indent=2).encode(),
        json.dumps(events).encode(),
        gzip.compress(minified),
    ]


def flip(text: bytearray, rng: random.Random) -> bytearray:
    for _ in range(rng.randint(1, 8)):
        text[rng.randrange(len(text))] ^= 1 << rng.randrange(8)
    return text


def truncate(text: bytearray, rng: random.Random) -> bytearray:
    return text[: rng.randrange(len(text))]


def splice(text: bytearray, rng: random.Random) -> bytearray:
    a, b, to = (rng.randrange(len(text)) for _ in range(3))
    return text[:to] + text[min(a, b) : max(a, b)] + text[to:]


def delete(text: bytearray, rng: random.Random) -> bytearray:
    a = rng.randrange(len(text))
    return text[:a] + text[a + rng.randint(1, 40) :]


def insert(text: bytearray, rng: random.Random) -> bytearray:
    a = rng.randrange(len(text))
    tokens = (
        b'"',
        b"\\",
        b"{",
        b"}",
        b"[",
        b"]",
        b",",
        b"\0",
        b"\xff",
        b"NaN",
        b"1e999",
        b"[" * 3000,
        b"9" * 400,
    )
    return text[:a] + rng.choice(tokens) * rng.randint(1, 3) + text[a:]


@pytest.mark.parametrize("mutate", [flip, truncate, splice, delete, insert])
def test_mutated_traces(mutate: Callable[[bytearray, random.Random], bytearray], tmp_path: Path) -> None:
    rng, path = random.Random(mutate.__name__), tmp_path / "t.json"
    texts = seeds()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for i in range(MUTATIONS // 5):
        path.write_bytes(mutate(bytearray(texts[i % len(texts)]), rng))
        began = time.process_time()
        try:
            read = kineto.read_file(path, jobs=1)
        except InputError as refused:
            message = str(refused)
        else:
            message = ""
            assert 0 < read.events <= 3 * EVENTS
            for table in (read.gpu, read.host, read.ops, read.ranges):
                table.validate(full=True)
        assert "\n" not in message
        assert time.process_time() - began < 2
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200 << 10  # KiB on Linux
