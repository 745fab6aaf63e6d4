from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tests.traces.traces import host, kernel, op, trace, write
from traces import linking
from traces.readers import kineto
from traces.readers.files import Source

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa


def linked(tmp_path: Path, *events: dict[str, Any]) -> pa.Table:
    with Source(write(tmp_path / "t.json", trace(*events))) as source:
        return linking.link(kineto.read(source))


def test_kernel_to_launch_to_innermost_op(tmp_path: Path) -> None:
    rows = linked(
        tmp_path,
        op("aten::linear", 0, 20, 1), op("aten::mm", 2, 10, 2), op("aten::mm", 3, 8, 9, tid=5),
        host("cudaLaunchKernelExC", 5, 3, 11), kernel("k", 30, 4, 11),
    )  # fmt: skip
    assert rows["op"].to_pylist() == ["aten::mm"]
    assert rows["link"].to_pylist() == ["launch"]
    assert rows["launch_api"].to_pylist() == ["cudaLaunchKernelExC"]
    assert (rows["launch_start"].to_pylist(), rows["launch_dur"].to_pylist()) == ([5000], [3000])
    assert (rows["process"].to_pylist(), rows["thread"].to_pylist()) == ([100], [100])


def test_many_kernels_on_one_graph_launch(tmp_path: Path) -> None:
    rows = linked(
        tmp_path, host("cudaGraphLaunch", 5, 3, 11), *(kernel(f"k{i}", 10 + i, 1, 11) for i in range(3))
    )
    assert rows["link"].to_pylist() == ["graph"] * 3
    assert linked(tmp_path, host("hipGraphLaunch", 5, 3, 1), kernel("k", 9, 1, 1))["link"].to_pylist() == [
        "graph"
    ]


def test_without_a_launch_row_it_is_an_orphan_and_zero_is_no_correlation(tmp_path: Path) -> None:
    rows = linked(tmp_path, host("cudaLaunchKernel", 1, 1, 0), kernel("a", 3, 1, 0), kernel("b", 5, 1, 77))
    assert rows["link"].to_pylist() == ["orphan", "orphan"]
    assert rows["op"].to_pylist() == [None, None]
    assert rows["launch_start"].to_pylist() == [None, None]


def test_one_id_on_two_launches_takes_the_latest_before_the_kernel(tmp_path: Path) -> None:
    rows = linked(
        tmp_path,
        host("cudaLaunchKernel", 1, 1, 7, pid=1), host("cudaLaunchKernel", 20, 1, 7, pid=2),
        host("cudaLaunchKernel", 90, 1, 7, pid=3), kernel("k", 25, 1, 7), kernel("early", 0, 1, 7),
    )  # fmt: skip
    assert rows["process"].to_pylist() == [2, 1]


def test_old_external_ids_that_repeat_the_correlation_are_not_trusted(tmp_path: Path) -> None:
    rows = linked(
        tmp_path,
        op("aten::detach", 0, 5, 17), op("aten::copy_", 10, 20, 18),
        host("cudaLaunchKernel", 12, 4, 17), kernel("copy_kernel", 30, 5, 17, **{"External id": 17}),
        host("cudaLaunchKernel", 50, 4, 18), kernel("lost", 60, 5, 18, **{"External id": 18}),
    )  # fmt: skip
    assert rows["op"].to_pylist() == ["aten::copy_", None]


def test_external_id_helps_where_time_does_not(tmp_path: Path) -> None:
    rows = linked(
        tmp_path,
        op("aten::mm", 0, 5, 4), host("cudaLaunchKernel", 12, 4, 17),
        kernel("k", 30, 5, 17, **{"External id": 4}), kernel("orphan", 40, 5, 99, **{"External id": 4}),
    )  # fmt: skip
    assert rows["op"].to_pylist() == ["aten::mm", "aten::mm"]


def test_a_launch_that_bleeds_out_of_its_op_by_less_than_a_microsecond(tmp_path: Path) -> None:
    rows = linked(tmp_path, op("aten::mm", 10, 5), host("cudaLaunchKernel", 9.2, 3, 1), kernel("k", 30, 5, 1))
    assert rows["op"].to_pylist() == ["aten::mm"]


@pytest.mark.parametrize("far", [9, 2**31, 2**63 - 1])
def test_ids_of_several_processes_pair_with_their_own(far: int) -> None:
    process = np.array([0, 1, 0, 1, 1], np.int32)
    ids = linking._paired(process, np.array([5, 5, far, far, 0]))
    assert ids[4] == 0
    assert len(set(ids.tolist())) == 5
    again = linking._paired(process, np.array([5, 5, 5, 5, 0]))
    assert again.tolist() == [again[0], again[1], again[0], again[1], 0]
