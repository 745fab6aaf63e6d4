"""Where the launching op and the kernel's name say different groups, the row says so and health counts it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from profiler.cli.render import health_lines
from tests.traces.traces import host, kernel, op, trace, write
from traces.ingest import ingest

if TYPE_CHECKING:
    from pathlib import Path

GEMM = "nvjet_sm90_hsh_64x8_64x16_4x1_v_bz_TNN"


def test_disagreements_are_counted_and_told(tmp_path: Path) -> None:
    events = []
    for i, name in enumerate(("aten::conv2d", "aten::mm", "aten::conv2d")):
        at = 100.0 * i
        events += [
            op(name, at, 20),
            host("cudaLaunchKernel", at + 5, 5, i + 1),
            kernel(GEMM, at + 30, 10, i + 1),
        ]
    run = ingest(write(tmp_path / "t.json", trace(*events)))
    assert run.table["rule"].to_pylist() == ["op:aten::conv2d!", "nvjet", "op:aten::conv2d!"]
    assert run.meta["health"]["disagreed"] == 2
    assert "attribution: 2 rows whose op and kernel name disagree (their rule ends with !)" in list(
        health_lines(run.meta["health"])
    )


def test_no_disagreement_is_told_when_there_is_none(tmp_path: Path) -> None:
    events = [op("aten::mm", 0, 20), host("cudaLaunchKernel", 5, 5, 1), kernel(GEMM, 30, 10, 1)]
    health = ingest(write(tmp_path / "t.json", trace(*events))).meta["health"]
    assert health["disagreed"] == 0
    assert not [line for line in health_lines(health) if "disagree" in line]
