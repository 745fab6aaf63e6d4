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
    from collections.abc import Sequence

    from profiler.model.config import Config, Workload

DEVICES: Final = ("cuda", "cpu")
GIB: Final = 2**30
_RUNTIME_BYTES: Final = 2 * GIB  # CUDA context, workspaces of cuBLAS and cuDNN, the profiler's buffers
_TRITON_CAPABILITY: Final = (8, 0)  # Triton 3.6's README, "Compatibility"


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


def memory_parts(config: Config, workload: Workload) -> dict[str, int]:
    """Bytes of device memory that a capture needs, by what for; activations and runtime are estimates.

    Activations peak in the MLP of a prefill: residual stream, norm, gate and up, their product. They exist
    twice, in the allocator and in the CUDA graphs' own pool. Tuning copies the largest weight.
    """
    size, tokens = DTYPE_BYTES[workload.dtype], workload.batch * workload.prompt
    cache = 2 * config.layers * workload.batch * config.kv_heads * workload.length * config.head_dim
    one_pass = tokens * max(3 * config.intermediate + 2 * config.dim, config.dim + 3 * config.qkv_dim)
    return {
        "weights": size * config.parameters,
        "KV cache": size * cache,
        "activations": size * 2 * one_pass,
        "logits": (size + 4) * 2 * workload.batch * config.vocab,
        "tuning": size * config.vocab * config.dim,
    }


def needed_bytes(config: Config, workload: Workload) -> int:
    """The sum of `memory_parts`."""
    return sum(memory_parts(config, workload).values())


def check_memory(config: Config, workload: Workload, device: str) -> None:
    """Raise MissingToolError before anything is allocated if the GPU has too little free memory."""
    if device != "cuda":
        return
    free, _ = torch.cuda.mem_get_info()
    if needed_bytes(config, workload) + _RUNTIME_BYTES > free:
        raise MissingToolError(
            f"{_needs(config, workload)}, {free / GIB:.1f} GiB are free ({_parts(config, workload)}): "
            "use a smaller batch, prompt or model, or free the GPU"
        )


def out_of_memory(config: Config, workload: Workload) -> MissingToolError:
    """What to raise where the device ran out of memory although `check_memory` let it start."""
    return MissingToolError(
        f"the GPU ran out of memory: {_needs(config, workload)} by estimate ({_parts(config, workload)}), "
        "and this took more, or another process took some: use a smaller batch, prompt or model"
    )


def check_gpu(variant: str, mode: str, device: str) -> None:
    """Raise MissingToolError for a GPU that PyTorch, or Triton where it is needed, has no code for."""
    if device != "cuda" or torch.version.hip:
        return
    major, minor = torch.cuda.get_device_capability()
    here = f"this GPU, {torch.cuda.get_device_name()}, has compute capability {major}.{minor}"
    built = torch.cuda.get_arch_list()
    if built and not runs_on(built, major, minor):
        raise MissingToolError(f"{here}; PyTorch {torch.__version__} is built for {', '.join(built)}")
    if (major, minor) < _TRITON_CAPABILITY and (variant != "cuda" or mode != "eager"):
        raise MissingToolError(f"{here}; Triton needs 8.0 (Ampere) or newer: use --variant cuda --mode eager")


def runs_on(built: Sequence[str], major: int, minor: int) -> bool:
    """Whether code built for such architectures runs on a GPU of compute capability `major`.`minor`.

    Binaries (sm_86) run on later minor versions of the same major one, PTX (compute_80) on all later ones
    (CUDA programming guide, "binary compatibility" and "PTX compatibility").
    """
    for name in built:
        kind, _, digits = name.rstrip("af").rpartition("_")
        if kind not in ("sm", "compute") or not digits.isdecimal():
            continue
        of = divmod(int(digits), 10)
        if of <= (major, minor) and (kind == "compute" or of[0] == major):
            return True
    return False


def _needs(config: Config, workload: Workload) -> str:
    needed = needed_bytes(config, workload) + _RUNTIME_BYTES
    return (
        f"{config.name} with batch {workload.batch}, prompt {workload.prompt} and {workload.new_tokens} new "
        f"tokens needs {needed / GIB:.1f} GiB of GPU memory"
    )


def _parts(config: Config, workload: Workload) -> str:
    parts = memory_parts(config, workload) | {"libraries": _RUNTIME_BYTES}
    return ", ".join(f"{name} {size / GIB:.1f}" for name, size in parts.items() if size >= 0.05 * GIB)


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
