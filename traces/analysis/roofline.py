"""The device's roofline: how fast a row's work could go, and what share of that it reached.

The roofline model (Williams, Waterman and Patterson, CACM 52(4), 2009): work of F FLOPs and B bytes takes at
least max(F / peak rate, B / bandwidth). Peaks are the vendor's dense ones (`gpus.toml`) unless the run
carries ceilings measured on its own machine.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

TABLE: Final = Path(__file__).with_name("gpus.toml")
# Short dtype names of shapes -> PyTorch's, which measured ceilings are named by.
_TORCH: Final = {
    "f16": ("float16",), "bf16": ("bfloat16",), "f32": ("float32",), "tf32": ("tfloat32",),
    "f64": ("float64",), "f8": ("float8_e4m3fn", "float8_e4m3fnuz"), "i8": ("int8",),
}  # fmt: skip
DTYPES: Final = tuple(_TORCH)
# Kernels of fp32 products that surely run on plain units: everything else may use TF32 tensor cores.
_PLAIN_FP32: Final = re.compile(r"sgemm|simt|ffma", re.IGNORECASE)


@dataclass(frozen=True)
class Peaks:
    """Ceilings of one device for one dtype: FLOP/s (None where not known), bytes/s, and who says so."""

    flops_per_s: float | None
    bytes_per_s: float | None
    source: str

    def floor_ns(self, flops: int | None, min_bytes: int | None) -> float | None:
        """The least time of that work in ns; None where a ceiling that it needs is not known."""
        parts = []
        for amount, rate in ((flops, self.flops_per_s), (min_bytes, self.bytes_per_s)):
            if amount is not None:
                if not rate:
                    return None
                parts.append(amount / rate * 1e9)
        return max(parts, default=None)


@dataclass(frozen=True)
class Gpu:
    """One entry of the table: dense TFLOP/s by dtype, GB/s (10^9), and the vendor's document."""

    name: str
    pattern: re.Pattern[str]
    tflops: Mapping[str, float]
    gb_per_s: float
    source: str


def peaks(
    device_name: object, dtype: str | None = None, measured: Mapping[str, Any] | None = None
) -> Peaks | None:
    """Ceilings of a device by the name that its driver gives; None for one that nothing is known of.

    `dtype` is a short name as in a shape (`f16`, `f8e4m3`; `tf32` for fp32 on tensor cores), None for the
    bandwidth alone. `measured` is `device.measured` of a run: `{"read_bytes_per_s": n, "flops": {"float16":
    n}}`; each ceiling that it has wins over the table's.
    """
    gpu = find(device_name)
    dtype = short(dtype) or ""
    if gpu and dtype == "tf32" and dtype not in gpu.tflops:
        dtype = "f32"
    known = measured or {}
    flops = _first(known.get("flops"), _TORCH.get(dtype, ()))
    bandwidth = _positive(known.get("read_bytes_per_s"))
    if gpu is None and flops is None and bandwidth is None:
        return None
    said = ["measured"] if flops or bandwidth else []
    if gpu and not (flops and bandwidth):
        said.append(gpu.source)
    if gpu and flops is None and dtype in gpu.tflops:
        flops = gpu.tflops[dtype] * 1e12
    if gpu and bandwidth is None:
        bandwidth = gpu.gb_per_s * 1e9
    return Peaks(flops, bandwidth, "; ".join(said))


def find(device_name: object) -> Gpu | None:
    """The table's entry for a device name such as `NVIDIA H100 80GB HBM3`."""
    if not isinstance(device_name, str):  # a run's metadata may hold anything there
        return None
    name = device_name.strip()
    return next((gpu for gpu in gpus() if gpu.pattern.fullmatch(name)), None)


@cache
def gpus() -> tuple[Gpu, ...]:
    """The table."""
    entries = tomllib.loads(TABLE.read_text(encoding="utf-8"))["gpu"]
    return tuple(
        Gpu(e["name"], re.compile(e["pattern"], re.IGNORECASE), e["tflops"], e["gb_per_s"], e["source"])
        for e in entries
    )


def dtype_of(shape: str | None, name: str) -> str | None:
    """The dtype a kernel's FLOPs count against: the last word of its shape.

    fp32 products run on tensor cores as TF32 where the program allows it, and neither the shape nor most
    kernel names tell. They count against TF32, which is the higher roof, unless the name says plain fp32.
    """
    dtype = short(shape.rpartition(" ")[2] if shape else None)
    if dtype == "f32" and not _PLAIN_FP32.search(name):
        return "tf32"
    return dtype


def short(dtype: str | None) -> str | None:
    """`f8e4m3` and `f8e5m2` run at one rate, `f8`."""
    return "f8" if dtype and dtype.startswith("f8") else dtype


def _first(values: object, names: tuple[str, ...]) -> float | None:
    """The first positive number under one of `names`."""
    if not isinstance(values, dict):
        return None
    return next((v for n in names if (v := _positive(values.get(n)))), None)


def _positive(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < float("inf"):
        return None
    return float(value)
