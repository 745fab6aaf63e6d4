"""Write a Kineto-like trace of any size: the same seed and options give the same bytes.

    python -m benchmarks.synthetic OUT.json[.gz] --mb 500 [--steps 20] [--python-share 0.4] [--minified]

A decoder of transformer layers launches its kernels one after another, with the layout, the fields and
about the mix of rows that torch.profiler (2.6 and later) writes with `record_shapes`. It is for measuring
time and memory; its durations are drawn from uniform distributions and mean nothing.
"""

from __future__ import annotations

import argparse
import random
import re
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

PID: Final = 41234
BASE_US: Final = 4512345678901.123
LAYERS: Final = 32


class Call(NamedTuple):
    """One op of a layer and the kernel that it launches; `low`..`high` is its duration in us."""

    op: str
    kernel: str
    low: float
    high: float
    api: str
    dims: str
    types: str


_HALF2 = '["c10::BFloat16", "c10::BFloat16"]'
_FLASH = (
    "void pytorch_flash::flash_fwd_splitkv_kernel<pytorch_flash::Flash_fwd_kernel_traits<128, 64, 128, 4, "
    "false, false, cutlass::bfloat16_t>, false, false, false, false, true, false, true, false>"
    "(pytorch_flash::Flash_fwd_params)"
)
_ADD = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<c10::BFloat16>, "
    "std::array<char*, 3ul> >(int, at::native::CUDAFunctor_add<c10::BFloat16>, std::array<char*, 3ul>)"
)
_GEMM = "nvjet_tst_64x8_64x16_4x1_v_bz_TNN"
_SPLIT_K = "nvjet_tst_128x8_64x12_2x1_v_bz_splitK_TNT"


def _linear(columns: int, inner: int, kernel: str, low: float, high: float) -> Call:
    dims = f"[[8, {inner}], [{inner}, {columns}]]"
    return Call("aten::mm", kernel, low, high, "cudaLaunchKernelExC", dims, _HALF2)


def _small(op: str, kernel: str, dims: str) -> Call:
    api = "cuLaunchKernelEx" if kernel.startswith("triton") else "cudaLaunchKernel"
    return Call(op, kernel, 1.2, 5.0, api, dims, _HALF2)


LAYER: Final = (
    _small("aten::mul", "triton_red_fused__to_copy_add_mean_mul_pow_rsqrt_0", "[[8, 4096], [4096]]"),
    _linear(6144, 4096, _GEMM, 9, 14),
    _small("aten::cat", "triton_poi_fused_cat_cos_mul_neg_sin_1", "[[8, 32, 64], [8, 32, 64]]"),
    _small("aten::index_put_", "void index_elementwise_kernel<128, 4>(long, Caches)", "[[8, 8, 128], []]"),
    Call("aten::_flash_attention_forward", _FLASH, 7, 11, "cudaLaunchKernel", "[[8, 1, 32, 128]]", _HALF2),
    _linear(4096, 4096, _SPLIT_K, 7, 10),
    _small("aten::add", _ADD, "[[8, 4096], [8, 4096], []]"),
    _linear(28672, 4096, _GEMM, 40, 60),
    _small("aten::silu", "triton_poi_fused_mul_silu_2", "[[8, 14336], [8, 14336]]"),
    _linear(4096, 14336, _SPLIT_K, 25, 32),
    _small("aten::add", _ADD, "[[8, 4096], [8, 4096], []]"),
)
_CBID: Final = {"cudaLaunchKernel": 211, "cudaLaunchKernelExC": 430, "cuLaunchKernelEx": 652}
_ROWS_PER_CALL: Final = 5  # op, launch, flow start, kernel, flow end

HEAD: Final = """{
  "schemaVersion": 1,
  "deviceProperties": [
    {
      "id": 0, "name": "NVIDIA H200", "totalGlobalMem": 150121545728,
      "computeMajor": 9, "computeMinor": 0, "warpSize": 32, "numSms": 132
    }
  ],
  "cuda_runtime_version": 13000, "cuda_driver_version": 13000, "cupti_version": 28,
  "record_shapes": 1, "with_stack": %d,
  "displayTimeUnit": "ms", "baseTimeNanoseconds": 1735689600000000000,
  "traceEvents": ["""

_PYTHON = """
  {
    "ph": "X", "cat": "python_function", "name": "%s", "pid": %d, "tid": %d,
    "ts": %.3f, "dur": %.3f,
    "args": {
      "Python parent id": %d, "Python id": %d, "Ev Idx": %d
    }
  },"""
_OP = """
  {
    "ph": "X", "cat": "cpu_op", "name": "%s", "pid": %d, "tid": %d,
    "ts": %.3f, "dur": %.3f,
    "args": {
      "External id": %d,"Record function id": %d, "Concrete Inputs": ["", ""], "Input type": %s, \
"Input Strides": [[4096, 1], [1, 4096]], "Input Dims": %s, "Ev Idx": %d
    }
  },"""
_LAUNCH = """
  {
    "ph": "X", "cat": "%s", "name": "%s", "pid": %d, "tid": %d,
    "ts": %.3f, "dur": %.3f,
    "args": {
      "External id": %d,
      "cbid": %d, "correlation": %d
    }
  },
  {
    "ph": "s", "id": %d, "pid": %d, "tid": %d, "ts": %.3f,
    "cat": "ac2g", "name": "ac2g"
  },"""
_KERNEL = """
  {
    "ph": "X", "cat": "kernel", "name": "%s", "pid": 0, "tid": 7,
    "ts": %.3f, "dur": %.3f,
    "args": {
      "External id": %d,
      "queued": 0, "device": 0, "context": 1,
      "stream": 7, "correlation": %d,
      "registers per thread": 168,
      "shared memory": 212992,
      "blocks per SM": 1.939394,
      "warps per SM": 23.272728,
      "grid": [%d, 1, 1],
      "block": [384, 1, 1],
      "est. achieved occupancy %%": 18
    }
  },
  {
    "ph": "f", "id": %d, "pid": 0, "tid": 7, "ts": %.3f,
    "cat": "ac2g", "name": "ac2g", "bp": "e"
  },"""
_STEP = """
  {
    "ph": "X", "cat": "user_annotation", "name": "ProfilerStep#%d", "pid": %d, "tid": %d,
    "ts": %.3f, "dur": %.3f,
    "args": {
      "External id": %d,"Record function id": 0, "Ev Idx": %d
    }
  },"""
TAIL: Final = """
  {
    "name": "Record Window End", "ph": "i", "s": "g",
    "pid": "", "tid": "", "ts": %.3f
  }
  ],
  "traceName": "synthetic.json"
}
"""


class Clock:
    """Where the host and the device stand, in us, and the counters that rows carry."""

    def __init__(self, seed: int, python_share: float) -> None:
        self.random = random.Random(seed)
        self.python_per_call = _ROWS_PER_CALL * python_share / (1 - python_share)
        self.host, self.device = BASE_US, BASE_US + 500
        self.external, self.correlation, self.python, self.owed = 1, 1000, 0, 0.0

    def layer(self, number: int) -> str:
        """The events of one transformer layer."""
        return "".join(part for call in LAYER for part in self._call(call, number))

    def _call(self, call: Call, layer: int) -> Iterator[str]:
        uniform = self.random.uniform
        begin, lasts = self.host, uniform(9, 16)
        self.owed += self.python_per_call
        while self.owed >= 1:
            self.owed -= 1
            self.python += 1
            name = f"torch/nn/modules/module.py(1775): _call_impl_{self.python % 97}_{layer}"
            parent = max(0, self.python - 3)
            yield _PYTHON % (name, PID, PID, begin, lasts, parent, self.python, self.python)
        self.external += 1
        self.correlation += self.random.randint(1, 9)
        e, c = self.external, self.correlation
        yield _OP % (call.op, PID, PID, begin, lasts, e, e - 1, call.types, call.dims, e - 1)
        level = "cuda_driver" if call.api.startswith("cuL") else "cuda_runtime"
        at, takes = begin + uniform(2, 3), uniform(3, 5)
        yield _LAUNCH % (level, call.api, PID, PID, at, takes, e, _CBID[call.api], c, c, PID, PID, at)
        starts = max(self.device + uniform(0.3, 1.2), at + takes + 1.5)
        runs = uniform(call.low, call.high)
        yield _KERNEL % (call.kernel, starts, runs, e, c, 32 + layer, c, starts)
        self.device, self.host = starts + runs, begin + lasts + uniform(0.5, 2)


def events(megabytes: float, steps: int, python_share: float, seed: int) -> Iterator[str]:
    """Texts that together make one trace of about `megabytes` (10^6 bytes), in `steps` ProfilerSteps."""
    clock, written, step, layer = Clock(seed, python_share), 0, 0, 0
    target, begin = megabytes * 1e6, clock.host
    yield HEAD % (python_share > 0)
    while written < target:
        text = clock.layer(layer % LAYERS)
        layer += 1
        written += len(text)
        if written >= target * (step + 1) / steps or written >= target:
            clock.host = max(clock.host, clock.device) + 6
            text += _STEP % (step, PID, PID, begin - 0.5, clock.host - begin, clock.external, clock.external)
            clock.host += 20
            step, begin = step + 1, clock.host
        yield text
    yield TAIL % clock.host


def write(path: Path, megabytes: float, *, steps: int = 20, python_share: float = 0.0, seed: int = 7,
          minified: bool = False) -> None:  # fmt: skip
    """Write one trace to `path`, gzip if it is named so."""
    blank = re.compile(r"\s*\n\s*|(?<=[,:]) ")
    with _open(path) as file:
        for text in events(megabytes, steps, python_share, seed):
            file.write((blank.sub("", text) if minified else text).encode())


def _open(path: Path) -> BinaryIO:
    if path.suffix == ".gz":
        from isal import igzip

        return igzip.open(path, "wb", compresslevel=2)  # type: ignore[no-any-return,no-untyped-call]
    return path.open("wb", buffering=1 << 20)


def main() -> None:
    """Write a trace from the command line."""
    parser = argparse.ArgumentParser(description="write a synthetic Kineto trace")
    parser.add_argument("out", type=Path)
    parser.add_argument("--mb", type=float, default=50)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--python-share", type=float, default=0.0, help="of python_function rows, 0..0.95")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--minified", action="store_true")
    asked = parser.parse_args()
    write(asked.out, asked.mb, steps=asked.steps, python_share=asked.python_share, seed=asked.seed,
          minified=asked.minified)  # fmt: skip


if __name__ == "__main__":
    main()
