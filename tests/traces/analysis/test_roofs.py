from __future__ import annotations

from typing import Any

from tests.traces.builders import run
from traces.analysis.roofs import Roof, roofs


def of(device: dict[str, Any], *dtypes: str | None) -> list[Roof]:
    return roofs(run([], device=device), dtypes)


def test_stated_roofs_of_the_dtypes_that_occur() -> None:
    found = of({"name": "NVIDIA H200"}, "f16", None, "f32")
    assert [r.said for r in found] == ["4.80 TB/s", "f16 989 TFLOP/s", "f32 66.9 TFLOP/s"]
    assert not any(r.measured for r in found)
    assert all("NVIDIA H200" in r.source for r in found)


def test_measured_roofs_stand_beside_the_stated() -> None:
    device = {"name": "NVIDIA H200", "measured": {"read_bytes_per_s": 4.7e12, "flops": {"float16": 790e12}}}
    assert [r.said for r in of(device, "f16")] == [
        "4.80 TB/s", "4.70 TB/s measured", "f16 989 TFLOP/s", "f16 790 TFLOP/s measured",
    ]  # fmt: skip


def test_measured_roofs_alone_of_a_gpu_that_is_not_in_the_table() -> None:
    found = of({"name": "some GPU", "measured": {"read_bytes_per_s": 1e12}}, "f16")
    assert [r.said for r in found] == ["1.00 TB/s measured"]


def test_nothing_is_known_of_other_devices() -> None:
    assert of({"type": "cpu", "name": "Some CPU"}, "f32") == []
    assert of({}, "f32") == []
    assert of({"name": 5, "measured": "fast"}, "f32") == []


def test_a_dtype_without_a_peak_has_no_roof() -> None:
    assert [r.dtype for r in of({"name": "Tesla V100-SXM2-16GB"}, "bf16", "f7", "tf32")] == [None, "tf32"]
