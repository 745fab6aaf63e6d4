"""What a run says about the machine: device and versions. Nothing from environments or command lines."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import torch

from profiler.model.config import DTYPE_BYTES
from traces import __version__
from traces.errors import MissingToolError, UsageError

if TYPE_CHECKING:
    from profiler.model.config import Config, Workload

DEVICES: Final = ("cuda", "cpu")
GIB: Final = 2**30
_SLACK_BYTES: Final = 2 * GIB  # CUDA context, cuBLAS workspaces, the graph's pool


def choose_device(device: str | None) -> str:
    """`device`, or by default "cuda" where there is one, else "cpu".

    Raises UsageError for another name, MissingToolError for "cuda" without a GPU.
    """
    if device is None:
        return "cuda" if torch.cuda.is_available() else "cpu"
    if device not in DEVICES:
        raise UsageError(f"unknown device {device!r}: choose one of {', '.join(DEVICES)}")
    if device == "cuda" and not torch.cuda.is_available():
        raise MissingToolError("no CUDA GPU is usable by PyTorch here: use --device cpu, or a GPU machine")
    return device


def device_facts(device: str) -> dict[str, Any]:
    """Type, name and count of the device; on a GPU also its SMs, memory in bytes and compute capability."""
    if device == "cpu":
        return {"type": "cpu", "name": _cpu_name(), "count": 1, "threads": torch.get_num_threads()}
    properties = torch.cuda.get_device_properties(torch.cuda.current_device())
    return {
        "type": "cuda",
        "name": properties.name,
        "count": 1,
        "sms": properties.multi_processor_count,
        "memory_bytes": properties.total_memory,
        "compute_capability": f"{properties.major}.{properties.minor}",
    }


def versions() -> dict[str, str | None]:
    """Versions of what produced the numbers; None for what is not there."""
    return {
        "torch": torch.__version__,
        "triton": _installed("triton"),
        "cuda": torch.version.cuda,
        "driver": _driver(),
        "python": platform.python_version(),
        "kernelgap": __version__,
    }


def needed_bytes(config: Config, workload: Workload) -> int:
    """Device memory, without slack: weights (the largest twice: tuning copies it), KV cache, activations."""
    size = DTYPE_BYTES[workload.dtype]
    cache = 2 * config.layers * workload.batch * config.kv_heads * workload.length * config.head_dim
    widest = max(2 * config.intermediate, config.qkv_dim) + 4 * config.dim
    activations = 2 * workload.batch * workload.prompt * widest
    largest = config.vocab * config.dim
    return size * (config.parameters + largest + cache + activations)


def check_memory(config: Config, workload: Workload, device: str) -> None:
    """Raise MissingToolError before anything is allocated if the GPU has too little free memory."""
    if device != "cuda":
        return
    free, _ = torch.cuda.mem_get_info()
    needed = needed_bytes(config, workload) + _SLACK_BYTES
    if needed > free:
        raise MissingToolError(
            f"{config.name} with batch {workload.batch} needs {needed / GIB:.1f} GiB of GPU memory, "
            f"{free / GIB:.1f} GiB are free: use a smaller batch or model, or free the GPU"
        )


def _installed(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _driver() -> str | None:
    """The NVIDIA driver's version, as its kernel module states it."""
    try:
        words = Path("/proc/driver/nvidia/version").read_text().splitlines()[0].split()
    except (OSError, IndexError):
        return None
    return next((word for word in words if word[0].isdigit() and "." in word), None)


def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())
