"""Write a synthetic nsys export, as a parquetdir folder or SQLite: the same options give the same rows.

    python -m benchmarks.nsys OUT [--kernels 1000000] [--ranges 2000] [--sqlite]

A program of one thread launches kernels of a few names one after another, in NVTX push/pop ranges
`prefill` and `decode_<n>`. It is for measuring time and memory; its durations mean nothing.
"""

from __future__ import annotations

import argparse
import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

_THREAD = 0x0041_0000_0000_0000 | 4242 << 24
_NAMES = (
    "nvjet_tst_64x8_64x16_4x1_v_bz_TNN", "_rms_norm_kernel", "_rope_kernel", "_silu_mul_kernel",
    "void at::native::vectorized_elementwise_kernel<4>", "_flash_decode_kernel",
    "_flash_decode_reduce_kernel",
    "void cublasLt::splitKreduce_kernel<32, 16>",
)  # fmt: skip
_TEXT = {"value", "name", "text"}


def tables(kernels: int, ranges: int, seed: int = 7) -> dict[str, dict[str, NDArray[np.int64] | list[str]]]:
    """The tables, column by column."""
    random = np.random.default_rng(seed)
    dur, gap = random.integers(1_000, 20_000, kernels), random.integers(200, 2_000, kernels)
    start = 10_000 + np.concatenate([[0], np.cumsum(dur + gap)[:-1]])
    launched = start - random.integers(3_000, 5_000, kernels)
    launched = np.maximum.accumulate(launched) + np.arange(kernels)
    name = random.integers(0, len(_NAMES), kernels)
    ids = np.arange(1, kernels + 1)
    one = np.ones(kernels, np.int64)
    edges = np.linspace(0, kernels, ranges + 1).astype(np.int64)[:-1]
    begin = launched[edges] - 1
    texts = ["prefill", *(f"decode_{i}" for i in range(ranges - 1))]
    return {
        "CUPTI_ACTIVITY_KIND_KERNEL": {
            "start": start, "end": start + dur, "deviceId": 0 * one, "contextId": one, "streamId": 7 * one,
            "correlationId": ids, "globalPid": _THREAD * one, "demangledName": name, "shortName": name,
            "gridX": random.integers(1, 999, kernels), "gridY": one, "gridZ": one, "blockX": 128 * one,
            "blockY": one, "blockZ": one, "registersPerThread": 64 * one, "staticSharedMemory": 0 * one,
            "dynamicSharedMemory": 4096 * one, "graphNodeId": 0 * one,
        },
        "CUPTI_ACTIVITY_KIND_RUNTIME": {
            "start": launched, "end": launched + 2_000, "globalTid": (_THREAD + 4242) * one,
            "correlationId": ids, "nameId": len(_NAMES) * one,
        },
        "NVTX_EVENTS": {
            "start": begin, "end": np.append(begin[1:], launched[-1] + 9_000) - 1, "text": texts,
            "globalTid": np.full(ranges, _THREAD + 4242), "domainId": np.zeros(ranges, np.int64),
            "eventType": np.full(ranges, 59),
        },
        "StringIds": {"id": np.arange(len(_NAMES) + 1), "value": [*_NAMES, "cudaLaunchKernel_v7000"]},
        "META_DATA_EXPORT": {"name": ["EXPORT_TIME"], "value": ["0 sec"]},
    }  # fmt: skip


def write(path: Path, kernels: int, ranges: int, *, sqlite: bool) -> None:
    """Write one export; `path` must not exist."""
    made = tables(kernels, ranges)
    if not sqlite:
        path.mkdir()
        for name, columns in made.items():
            pq.write_table(pa.table(dict(columns)), path / f"{name}.parquet")
        return
    with sqlite3.connect(path) as database:
        for name, columns in made.items():
            _fill(database, name, columns)
    database.close()


def _fill(
    database: sqlite3.Connection, name: str, columns: Mapping[str, NDArray[np.int64] | list[str]]
) -> None:
    kinds = ", ".join(f"{c} {'TEXT' if c in _TEXT else 'INTEGER'}" for c in columns)
    database.execute(f"CREATE TABLE {name} ({kinds})")
    values = [v if isinstance(v, list) else v.tolist() for v in columns.values()]
    database.executemany(
        f"INSERT INTO {name} VALUES ({', '.join('?' * len(columns))})", zip(*values, strict=True)
    )


def main() -> None:
    """Write what the command line asks for."""
    parser = argparse.ArgumentParser(description="write a synthetic nsys export")
    parser.add_argument("out", type=Path)
    parser.add_argument("--kernels", type=int, default=1_000_000)
    parser.add_argument("--ranges", type=int, default=2_000)
    parser.add_argument("--sqlite", action="store_true")
    asked = parser.parse_args()
    write(asked.out, asked.kernels, asked.ranges, sqlite=asked.sqlite)


if __name__ == "__main__":
    main()
