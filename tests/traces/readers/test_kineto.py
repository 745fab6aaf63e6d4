from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.traces.traces import host, kernel, op, trace, write
from traces.errors import InputError
from traces.readers import kineto
from traces.readers.files import Source

if TYPE_CHECKING:
    from pathlib import Path

    from traces.readers.timeline import Timeline


def read(tmp_path: Path, content: Any) -> Timeline:
    with Source(write(tmp_path / "t.json.gz", content)) as source:
        return kineto.read(source)


def event(cat: str, name: str = "k", **more: Any) -> dict[str, Any]:
    return {"ph": "X", "cat": cat, "name": name, "pid": 0, "tid": 7, "ts": 1, "dur": 2, "args": {}} | more


def test_gpu_rows_are_told_by_category_modern_and_legacy(tmp_path: Path) -> None:
    cats = ["kernel", "Kernel", "gpu_memcpy", "Memcpy", "gpu_memset", "Memset"]
    others = ["gpu_user_annotation", "overhead", "cuda_sync", "python_function", "Trace", "ac2g"]
    stray = op("triton_poi_fused_0", 1, 2, stream=7)  # a host row that carries a stream
    made = read(tmp_path, trace(*(event(c) for c in cats + others), stray))
    assert made.gpu["kind"].to_pylist() == ["kernel", "kernel", "memcpy", "memcpy", "memset", "memset"]
    assert made.ops.num_rows == 1
    assert made.events == len(cats) + len(others) + 1


def test_numbers_may_be_strings_floats_and_beyond_int64(tmp_path: Path) -> None:
    made = read(
        tmp_path,
        trace(
            kernel(
                "k",
                1,
                2,
                correlation=5,
                stream="0x10",
                device="1",
                **{"External id": 2**70, "graph id": 2**63},
            ),
            event("Kernel", tid="stream 7", pid="0"),
            event(
                "kernel", args={"grid": "[1,2,3]", "block": [1.0, 2, None], "est. achieved occupancy %": 18}
            ),
        ),
    )
    assert made.gpu["stream"].to_pylist() == [16, 7, 7]
    assert made.gpu["device"].to_pylist() == [1, 0, 0]
    assert made.gpu["external"].to_pylist() == [None, None, None]
    assert made.gpu["graph_id"].to_pylist() == [None, None, None]
    assert made.gpu["grid_x"].to_pylist() == [2, None, None]
    assert made.gpu["block_y"].to_pylist() == [1, None, 2]
    assert made.gpu["occupancy"].to_pylist()[2] == pytest.approx(0.18)


def test_what_has_no_time_is_counted(tmp_path: Path) -> None:
    made = read(tmp_path, trace(kernel("k", 1, 2), event("kernel", ts=None), event("kernel", dur="N/A")))
    assert made.gpu["dur"].to_pylist() == [2000, 0]
    assert made.notes.dropped["no_timestamp"]["count"] == 1
    assert made.notes.repaired["no_duration"]["count"] == 1


@pytest.mark.parametrize(
    ("info", "rank"),
    [({"rank": 3, "world_size": 8}, 3), ({"rank": "2"}, 2), ({}, None), ("?", None), ({"rank": -1}, None)],
)
def test_rank(tmp_path: Path, info: Any, rank: int | None) -> None:
    assert read(tmp_path, trace(kernel("k", 1, 2), distributedInfo=info)).gpu["rank"].to_pylist() == [rank]


def test_device_and_versions_come_from_the_metadata_and_nothing_else(tmp_path: Path) -> None:
    made = read(
        tmp_path,
        trace(
            kernel("k", 1, 2),
            deviceProperties=[
                {"id": 0, "name": "NVIDIA H200", "numSms": 132, "computeMajor": 9, "computeMinor": 0}
            ],
            cuda_runtime_version=13000,
            host_name="secret-host",
            env={"TOKEN": "secret"},
        ),
    )
    assert made.device == {
        "type": "gpu",
        "name": "NVIDIA H200",
        "count": 1,
        "multiprocessors": 132,
        "compute_capability": "9.0",
    }
    assert made.versions == {"cuda_runtime_version": 13000, "schemaVersion": 1}
    assert "secret" not in repr(made)


def test_outermost_ops_are_the_rows_of_the_cpu_device(tmp_path: Path) -> None:
    made = read(
        tmp_path,
        trace(
            op("aten::linear", 0, 10),
            op("aten::mm", 1, 8),
            op("aten::add", 10, 2),
            op("aten::mul", 1, 2, tid=5),
        ),
    )
    rows = kineto.outermost_ops(made)
    assert sorted(rows["name"].to_pylist()) == ["aten::add", "aten::linear", "aten::mul"]
    assert set(rows["kind"].to_pylist()) == {"cpu_op"}


def test_host_rows_of_every_maker(tmp_path: Path) -> None:
    cats = ["cuda_runtime", "cuda_driver", "Runtime", "xpu_runtime", "privateuse1_driver"]
    made = read(tmp_path, trace(*(host("l", 1, 1, i) | {"cat": c} for i, c in enumerate(cats))))
    assert made.host["correlation"].to_pylist() == [0, 1, 2, 3, 4]


def test_no_events_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no trace events"):
        read(tmp_path, {"a": 1})
