"""Reads what `traces.analysis.packing` writes, as the browser does."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import numpy as np

from traces.analysis.packing import KIND_BITS, LONG, MAGIC


class Kernels(NamedTuple):
    start: list[int]
    used: list[int]
    kind: list[int]
    track: list[int]
    place: list[int]


def unframe(message: bytes) -> tuple[dict[str, Any], list[tuple[dict[str, Any], dict[str, Any]]]]:
    """The page, and (JSON, columns) of each part."""
    assert message[:4] == MAGIC
    chunks, at = [], 8
    for _ in range(int.from_bytes(message[4:8], "little")):
        assert at % 8 == 0
        size = int.from_bytes(message[at : at + 8], "little")
        chunks.append(message[at + 8 : at + 8 + size])
        at += 8 + size + -size % 8
    assert at == len(message)
    parts = [(json.loads(a), b) for a, b in zip(chunks[1::2], chunks[2::2], strict=True)]
    return json.loads(chunks[0]), [(about, columns(about, blob)) for about, blob in parts]


def columns(about: dict[str, Any], blob: bytes) -> dict[str, Any]:
    """The columns of a part."""
    return {
        name: np.frombuffer(blob, dtype, count, at) for name, (dtype, at, count) in about["columns"].items()
    }


def kernels(found: dict[str, Any]) -> Kernels:
    """The kernels of a part, ns in whole numbers."""
    start, used = [], []
    edges = [*found["epoch_at"].tolist(), len(found["start"])]
    for i, base in enumerate(found["epoch_ns"].tolist()):
        start += [int(base) + o for o in found["start"][edges[i] : edges[i + 1]].tolist()]
    long = dict(zip(found["long_at"].tolist(), found["long_ns"].tolist(), strict=True))
    for i, ns in enumerate(found["used"].tolist()):
        used.append(int(long[i]) if ns == LONG else ns)
    what = found["what"]
    place = found["place"].tolist() if "place" in found else list(range(len(start)))
    return Kernels(start, used, (what & (1 << KIND_BITS) - 1).tolist(), (what >> KIND_BITS).tolist(), place)
