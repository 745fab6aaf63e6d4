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
    assert made.gpu["dur"].to_pylist() == [2000, None]
    assert made.notes.dropped["no_timestamp"]["count"] == 1
    assert made.notes.repaired["no_duration"]["count"] == 1


@pytest.mark.parametrize(
    ("info", "rank"),
    [
        ({"rank": 3, "world_size": 8}, 3),
        ({"rank": "2"}, 2),
        ({"rank": 1, "pg_config": [{"ranks": "[0, 1]"}, {"ranks": [0, 1]}]}, 1),
        ([{"rank": 4}, {"rank": "4"}], 4),
        ({}, None),
        ("?", None),
        ([], None),
        ({"rank": -1}, None),
        ({"rank": 2**40}, None),
    ],
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


def test_ranks_merged_into_one_file_are_told(tmp_path: Path) -> None:
    made = read(
        tmp_path,
        trace(
            host("l", 1, 1, 5, pid=100),
            host("l", 2, 1, 5, pid=200),
            host("l", 3, 1, 6, pid=200),
            kernel("k", 3, 1, 5),
            distributedInfo=[{"rank": 0}, {"rank": 1}],
        ),
    )
    assert made.gpu["rank"].to_pylist() == [None]
    assert made.notes.dropped["ranks_merged_into_one_file"]["count"] == 2
    assert made.notes.repaired["correlation_of_several_processes"]["count"] == 1


def test_ids_that_do_not_fit_are_null_and_counted(tmp_path: Path) -> None:
    handles = [140_000_000_000_000, "0x7f5544332211", 2**64 - 1, "default"]
    made = read(tmp_path, trace(*(kernel("k", 1, 2, 2**65, stream=h) for h in handles)))
    assert made.gpu["stream"].to_pylist() == [140_000_000_000_000, 0x7F5544332211, None, None]
    assert made.gpu["correlation"].to_pylist() == [None] * 4
    assert made.notes.repaired["unusable_number"]["count"] == 6


def test_only_complete_events_are_rows(tmp_path: Path) -> None:
    odd = [event("kernel") | {"ph": ph} for ph in ("B", "E", "i", "C", "s", "f", "")]
    unknown = {"ph": "M", "name": "tool_specific", "pid": 0, "args": {"x": 1}}
    window = {"ph": "i", "s": "g", "name": "Record Window End", "pid": "", "tid": "", "ts": 2**62}
    unnamed = {k: v for k, v in event("kernel").items() if k != "name"}
    made = read(tmp_path, trace(*odd, unknown, window, unnamed))
    assert made.gpu["name"].to_pylist() == [""]
    assert made.notes.repaired["no_name"]["count"] == 1
    assert made.events == len(odd) + 3


def test_ranges_that_the_profiler_closed_are_marked(tmp_path: Path) -> None:
    ends = event("user_annotation", "decode") | {"args": {"finished": "false"}}
    made = read(tmp_path, trace(ends, event("user_annotation", "prefill")))
    assert made.ranges["unclosed"].to_pylist() == [True, False]


def test_of_python_functions_only_calls_of_modules_are_kept(tmp_path: Path) -> None:
    names = ["nn.Module: LlamaMLP_3", "modeling_llama.py(240): forward", "nn.Module.", "<built-in method>"]
    rows = [event("python_function", n, args={"Python id": i}) for i, n in enumerate(names)]
    rows.append(event("python_function", "nn.Module: Net_0", args={"finished": "false"}))
    made = read(tmp_path, trace(*rows, event("kernel", "nn.Module: no_0")))
    assert made.ranges["name"].to_pylist() == ["nn.Module: LlamaMLP_3", "nn.Module: Net_0"]
    assert made.ranges["unclosed"].to_pylist() == [False, True]
    assert made.events == len(rows) + 1


def test_shapes_are_kept_only_of_ops_whose_work_follows_from_them(tmp_path: Path) -> None:
    shapes = {"Input Dims": [[2, 3], [3, 4]], "Input type": ["float", "float"]}
    rest = {"Input Strides": [[3, 1], [4, 1]], "Concrete Inputs": ["", ""]}
    known, unknown = op("aten::mm", 1, 2, **shapes, **rest), op("aten::view", 1, 2, **shapes)
    made = read(tmp_path, trace(known, unknown, op("aten::mm", 4, 2)))
    assert made.ops["dims"].to_pylist() == ["[[2, 3], [3, 4]]", None, None]
    assert made.ops["types"].to_pylist() == ['["float", "float"]', None, None]
    assert made.ops["strides"].to_pylist() == ["[[3, 1], [4, 1]]", None, None]
    assert made.ops["concrete"].to_pylist() == ['["", ""]', None, None]


def test_epoch_times_keep_their_nanoseconds(tmp_path: Path) -> None:
    text = b'[{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":1712195495505582.988,"dur":1.001}]'
    made = read(tmp_path, text)
    assert made.gpu["start"].to_pylist() == [1_712_195_495_505_582_988]
    assert made.gpu["dur"].to_pylist() == [1001]


def test_no_events_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no trace events"):
        read(tmp_path, {"a": 1})
