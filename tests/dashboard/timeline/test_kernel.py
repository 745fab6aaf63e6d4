"""A kernel's row in words: what is known is said, what is not is left out."""

from __future__ import annotations

from typing import Any

from dashboard.timeline.kernel import lines
from tests.traces.builders import run


def said(**known: Any) -> dict[str, str]:
    row = run([{"start_ns": 9_000, "dur_ns": 2_000, **known}]).table.to_pylist()[0]
    return dict(lines(row))


def test_what_is_unknown_is_left_out() -> None:
    found = said(stream=None, device=None)
    assert found == {"Idle before": "0 ns on its device", "Where": "unknown"}


def test_what_is_known_is_said_with_its_unit() -> None:
    found = said(
        grid_x=132, grid_y=2, block_x=128, registers=168, shared_bytes=1024, flops=4_000_000_000,
        min_bytes=6_000_000, launch_start_ns=4_000, launch_api="cudaLaunchKernel", phase="decode", step=3,
        rank=1, shape="M2 N6144 K4096 f16", flag="overlap_clipped", used_ns=1_000,
    )  # fmt: skip
    assert found["Where"] == "rank 1, device 0, stream 7"
    assert found["Grid, block"] == "grid 132 × 2 × 1; block 128 × 1 × 1; 168 registers; 1024 B shared"
    assert found["Rate"] == "4,000.0 TFLOP/s, 6,000 GB/s"
    assert found["Launched"] == "5.00 µs (5,000 ns) before its start by cudaLaunchKernel"
    assert found["Recorded"] == "2.00 µs (2,000 ns) by the tool"
    assert (found["Step"], found["Doubtful"]) == ("decode 3", "overlap_clipped")


def test_a_name_too_long_for_the_picture_is_shown_here() -> None:
    assert said(name="x" * 5_000)["Full name"] == "x" * 5_000
    assert "Full name" not in said(name="short")
