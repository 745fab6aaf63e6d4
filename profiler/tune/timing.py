"""One shape's GEMM timed on the GPU as a model would run it: in a CUDA graph, weights cold in L2.

A graph walks distinct copies of the weight, more than twice the L2 together, as a model walks its layers.
(A flush between calls would leave the L2 dirty, whose write-back taxes a kernel of 10 us.) Data are random
normal: zeros make a GPU draw less power and clock higher.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import torch
from triton.compiler.errors import CompilationError
from triton.runtime.errors import OutOfResources, PTXASError

from profiler.ops.triton import splitk
from profiler.ops.triton.common import cdiv
from profiler.tune.search import CannotRun

if TYPE_CHECKING:
    from collections.abc import Callable

    from profiler.ops.triton.splitk import Config, Shape

LEAST_US: Final = 400.0  # of one replay, by a rough guess: events resolve about half a microsecond
_BYTES_PER_US: Final = 4e6  # the guess: 4 TB/s
_FLOPS_PER_US: Final = 6e8  # and 600 TFLOP/s


class GpuBench:
    """`search.Bench` for one shape and dtype on the current GPU."""

    def __init__(self, shape: Shape, dtype: torch.dtype, *, seed: int = 0) -> None:
        m, n, k = shape
        l2 = torch.cuda.get_device_properties(torch.cuda.current_device()).L2_cache_size
        generator = torch.Generator("cuda").manual_seed(seed)
        copies = copies_of(n * k * dtype.itemsize, l2)

        def normal(rows: int, scale: float) -> torch.Tensor:
            fresh = torch.empty(rows, k, device="cuda", dtype=dtype)
            return fresh.normal_(0.0, scale, generator=generator)

        self._x = normal(m, 1.0)
        self._weights = [normal(n, k**-0.5) for _ in range(copies)]
        self._out = torch.empty(m, n, device="cuda", dtype=dtype)
        self._expected = splitk.splitk_linear_reference(self._x.float(), self._weights[0].float())
        self._calls = calls_of(shape, dtype.itemsize, copies)
        self._stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        self._begin, self._end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]

    def sampler(self, config: Config) -> Callable[[], float]:
        """A function that replays a graph of `config` once and returns microseconds a call.

        Raises CannotRun where the GPU has too little shared memory or refuses the launch.
        """
        try:
            self._run(config, 0)  # loads the binary, which a capture cannot
            torch.cuda.synchronize()
            graph = self._captured(config)
        except OutOfResources as error:
            raise CannotRun("out of resources") from error
        except (CompilationError, PTXASError) as error:
            raise CannotRun("does not compile") from error

        def sample() -> float:
            self._begin.record()
            graph.replay()
            self._end.record()
            self._end.synchronize()
            return float(self._begin.elapsed_time(self._end)) * 1000 / self._calls

        sample()  # uploads the graph
        return sample

    def right(self, config: Config) -> bool:
        """Whether a call gives the reference's result, within the rounding of the dtype and of each split."""
        self._out.fill_(float("nan"))
        self._run(config, 0)
        worst = float((self._out.float() - self._expected).abs().max())
        scale = float(self._expected.abs().max())
        return worst <= tolerance(self._x.dtype, config.split_k, self._x.shape[1]) * scale

    def _run(self, config: Config, call: int) -> None:
        splitk.launch(self._x, self._weights[call % len(self._weights)], self._out, config)

    def _captured(self, config: Config) -> torch.cuda.CUDAGraph:
        """`calls` calls in one graph; by hand, since `torch.cuda.graph` collects garbage every time."""
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.stream(self._stream):
            graph.capture_begin(capture_error_mode="thread_local")
            try:
                for call in range(self._calls):
                    self._run(config, call)
            finally:
                graph.capture_end()
        return graph


def copies_of(weight_bytes: int, l2_bytes: int) -> int:
    """Distinct weights to walk: together more than twice the L2, two at least."""
    return max(2, 2 * l2_bytes // weight_bytes + 1)


def calls_of(shape: Shape, itemsize: int, copies: int) -> int:
    """Calls in a graph: whole walks over the copies, long enough to time."""
    m, n, k = shape
    guess = max((m * k + n * k + m * n) * itemsize / _BYTES_PER_US, 2 * m * n * k / _FLOPS_PER_US)
    return copies * cdiv(int(LEAST_US / guess) + 1, copies)


def tolerance(dtype: torch.dtype, splits: int, k: int) -> float:
    """Largest error, relative to the largest result: a rounding, two more a split, and fp32 sums over K."""
    return float(torch.finfo(dtype).eps) * (1 + 2 * splits) + math.sqrt(k) * 4 * 2.0**-23
