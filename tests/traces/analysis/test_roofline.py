from __future__ import annotations

import pytest

from traces.analysis.roofline import DTYPES, Peaks, dtype_of, find, gpus, peaks


@pytest.mark.parametrize(
    ("device", "name"),
    [
        ("NVIDIA H200", "H200 SXM"),
        ("NVIDIA H200 NVL", "H200 NVL"),
        ("NVIDIA H100 80GB HBM3", "H100 SXM"),
        ("NVIDIA H100 PCIe", "H100 PCIe"),
        ("NVIDIA H100 NVL", "H100 NVL"),
        ("NVIDIA A100-SXM4-40GB", "A100 40GB SXM"),
        ("A100-SXM4-80GB", "A100 80GB SXM"),
        ("NVIDIA A100-PCIE-40GB", "A100 40GB PCIe"),
        ("NVIDIA A100 80GB PCIe", "A100 80GB PCIe"),
        ("Tesla V100-SXM2-16GB", "V100 SXM2"),
        ("Tesla V100-PCIE-32GB", "V100 PCIe"),
        ("NVIDIA B200", "B200"),
        ("NVIDIA GB200", "GB200"),
        ("NVIDIA L4", "L4"),
        ("NVIDIA L40S", "L40S"),
        ("NVIDIA A10", "A10"),
        ("NVIDIA GeForce RTX 4090", "RTX 4090"),
        ("NVIDIA GeForce RTX 5090", "RTX 5090"),
        ("AMD Instinct MI250X", "MI250X, one of its two GCDs"),
        ("AMD Instinct MI300X", "MI300X"),
        ("AMD Instinct MI325X", "MI325X"),
        ("AMD Instinct MI355X", "MI355X"),
    ],
)
def test_device_names(device: str, name: str) -> None:
    found = find(device)
    assert found is not None
    assert found.name == name


@pytest.mark.parametrize(
    "device",
    [
        None, "", "NVIDIA A10G", "NVIDIA L40", "NVIDIA H100", "NVIDIA A100-PG509-200",
        "NVIDIA H200 MIG 1g.18gb", "NVIDIA GeForce RTX 4090 Laptop GPU", "NVIDIA GeForce RTX 4090 D",
        "AMD Radeon Graphics", "AMD EPYC 9654", 5, ["NVIDIA H200"],
    ],
)  # fmt: skip
def test_nothing_is_guessed_of_other_devices(device: object) -> None:
    assert find(device) is None
    assert peaks(device, "f16") is None


def test_the_table_is_sound() -> None:
    names = [gpu.name for gpu in gpus()]
    assert len(names) == len(set(names)) >= 22
    for gpu in gpus():
        assert gpu.source
        assert set(gpu.tflops) <= set(DTYPES)
        assert 200 < gpu.gb_per_s < 10_000
        # dense rates: FP8 and INT8 are at most twice, TF32 about half of FP16 (INT8 of GeForce four times)
        half = gpu.tflops["f16"]
        assert gpu.tflops.get("bf16", half) == half
        assert gpu.tflops.get("f8", 2 * half) == pytest.approx(2 * half, rel=0.02)
        assert gpu.tflops.get("tf32", half / 2) == pytest.approx(half / 2, rel=0.03)
        assert gpu.tflops["f32"] < half


def test_rates_are_dense() -> None:
    h100 = peaks("NVIDIA H100 80GB HBM3", "bf16")
    assert h100 is not None
    assert h100.flops_per_s == pytest.approx(989.4e12)  # with sparsity NVIDIA prints 1979
    assert h100.bytes_per_s == pytest.approx(3.35e12)
    assert "NVIDIA" in h100.source


def test_measured_ceilings_win_one_by_one() -> None:
    measured = {"read_bytes_per_s": 4.7e12, "flops": {"float16": 790e12}}
    found = peaks("NVIDIA H200", "f16", measured)
    assert found == Peaks(790e12, 4.7e12, "measured")
    other = peaks("NVIDIA H200", "bf16", measured)
    assert other is not None
    assert (other.flops_per_s, other.bytes_per_s) == (989.4e12, 4.7e12)
    assert other.source.startswith("measured; NVIDIA H200")
    assert peaks("some new GPU", "f16", measured) == found
    assert peaks("some new GPU", "f32", {"flops": {"float16": 1.0}}) is None


@pytest.mark.parametrize(
    "bad", [{"read_bytes_per_s": "x"}, {"flops": 3}, {"read_bytes_per_s": -1}, {"x": None}]
)
def test_measurements_that_make_no_sense_do_not_count(bad: dict[str, object]) -> None:
    assert peaks("NVIDIA H200", "f16", bad) == peaks("NVIDIA H200", "f16")


def test_the_roof_is_the_higher_of_both_least_times() -> None:
    roof = Peaks(1e12, 1e9, "made")
    assert roof.floor_ns(1000, 10) == pytest.approx(10)
    assert roof.floor_ns(1_000_000, 10) == pytest.approx(1000)
    assert roof.floor_ns(None, 10) == pytest.approx(10)
    assert roof.floor_ns(None, None) is None
    assert Peaks(None, 1e9, "made").floor_ns(1000, 10) is None  # half a roof is none


@pytest.mark.parametrize(
    ("shape", "name", "dtype"),
    [
        ("M2 N6144 K4096 f16", "nvjet", "f16"),
        ("M2 N6144 K4096 f8e4m3", "nvjet", "f8"),
        ("M2 N6144 K4096 f32", "volta_sgemm_128x64_tn", "f32"),
        ("M2 N6144 K4096 f32", "cutlass_80_simt_sgemm", "f32"),
        ("M2 N6144 K4096 f32", "cutlass_80_tensorop_s1688gemm", "tf32"),
        (None, "k", None),
    ],
)
def test_dtype_of_a_row(shape: str | None, name: str, dtype: str | None) -> None:
    assert dtype_of(shape, name) == dtype


def test_fp32_on_gpus_without_tf32_counts_against_fp32() -> None:
    found = peaks("Tesla V100-SXM2-16GB", "tf32")
    assert found is not None
    assert found.flops_per_s == pytest.approx(15.7e12)
