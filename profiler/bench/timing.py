"""Contenders of a case timed in turns: on the GPU in CUDA graphs with a cold L2, on the CPU call by call.

A graph holds many launches, which walk distinct copies of the inputs (and of the outputs, which are kept):
together more than twice the L2. Where so many copies would be too many, each is used once a replay. Before a
replay the L2 is filled with something else, by reading it: nothing dirty is left whose write-back would tax
the kernel under test, and the read hides the launch of the graph. Contenders take turns, in rotating order.
"""

from __future__ import annotations

import time
import warnings
from typing import TYPE_CHECKING, Final, Protocol

import torch

from profiler.bench.case import Case, Contender, right
from profiler.bench.table import Measured, Timed, Work

if TYPE_CHECKING:
    from collections.abc import Callable

ROUNDS: Final = 11
WARM_UP: Final = 2
CPU_ROUNDS: Final = 3
LEAST_US: Final = 1000.0  # of one replay, by a rough guess: what a graph's start takes does not count then
_BYTES_PER_US: Final = 4e6  # the guess: 4 TB/s
_FLOPS_PER_US: Final = 6e8  # and 600 TFLOP/s
# How SDPA says that the only backend it may use does not take the inputs.
_NO_BACKEND: Final = ("No available kernel", "No viable backend")
_FLUSH_L2S: Final = 8  # about 0.1 ms: the graph's launch reaches the GPU meanwhile


class Sampler(Protocol):
    """How one contender of a case is made ready and timed."""

    def __call__(self, case: Case, contender: Contender) -> Callable[[], float]:
        """A function that takes one sample, microseconds a call; raises what a refused call raises."""


def measure(case: Case, sampler: Sampler, rounds: int, warm_up: int) -> Measured:
    """Check and time all contenders of a case; one that fails or computes something else has no times."""
    samplers: dict[str, Callable[[], float]] = {}
    why: dict[str, str] = {}
    for contender in case.contenders:
        try:
            with warnings.catch_warnings():  # SDPA warns of every backend that refuses
                warnings.simplefilter("ignore")
                if not _right(contender):
                    why[contender.name] = "wrong result"
                    continue
                samplers[contender.name] = sampler(case, contender)
        except torch.cuda.OutOfMemoryError:
            raise
        except Exception as error:
            if not _refusal(error):
                raise
            why[contender.name] = _reason(error)
    samples = in_turns(samplers, rounds, warm_up)
    timed = [
        Timed(c.name, c.triton, tuple(samples.get(c.name, ())), why.get(c.name), c.does)
        for c in case.contenders
    ]
    return Measured(case.op, case.shape, case.work, timed, case.every, case.calls)


def in_turns(samplers: dict[str, Callable[[], float]], rounds: int, warm_up: int) -> dict[str, list[float]]:
    """Samples of each, a round after the other: every round begins with the next one of them."""
    names = list(samplers)
    samples: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(warm_up + rounds):
        first = turn % max(len(names), 1)
        for name in names[first:] + names[:first]:
            sample = samplers[name]()
            if turn >= warm_up:
                samples[name].append(sample)
    return samples


def _right(contender: Contender) -> bool:
    """Run it once, which also compiles it, and compare."""
    found = contender.run(0)
    return contender.expected is None or right(found, contender.expected())


def _refusal(error: Exception) -> bool:
    """Whether a library says that it does not take these inputs, or a kernel that it does not fit the GPU."""
    from triton.compiler.errors import CompilationError
    from triton.runtime.errors import TritonError

    from traces.errors import KernelgapError

    expected = (RuntimeError, NotImplementedError, CompilationError, TritonError, KernelgapError)
    return isinstance(error, expected)


def _reason(error: Exception) -> str:
    first = next(iter(str(error).strip().splitlines()), "")
    if any(words in first for words in _NO_BACKEND):
        return "not supported"
    return f"{type(error).__name__}: {first}"[:160].rstrip(": ")


def calls_of(work: Work, copies: int, cold_bytes: int) -> int:
    """Launches in a graph: whole walks over the copies, long enough to time, if the walks stay cold.

    `cold_bytes`: what the copies must hold together for a second walk to find nothing in the L2.
    """
    if copies * work.bytes <= cold_bytes:
        return copies
    guess = max(work.bytes / _BYTES_PER_US, (work.flops or 0) / _FLOPS_PER_US)
    walks = int(LEAST_US / (guess * copies)) + 1
    return copies * walks


class GpuSampler:
    """`Sampler` on the current GPU."""

    def __init__(self, l2_bytes: int) -> None:
        self._l2 = l2_bytes
        self._flush = torch.ones(max(_FLUSH_L2S * l2_bytes // 4, 1), device="cuda", dtype=torch.float32)
        self._stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        self._begin, self._end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]

    def __call__(self, case: Case, contender: Contender) -> Callable[[], float]:
        """A function that replays the contender's graph once on a cold L2."""
        calls = calls_of(case.work, case.copies, 2 * self._l2)
        self._stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._stream):  # workspaces and binaries of this stream, before the capture
            contender.run(0)
        torch.cuda.synchronize()
        graph = self._captured(contender, calls, case.copies)

        def sample() -> float:
            self._flush.sum()
            self._begin.record()
            graph.replay()
            self._end.record()
            self._end.synchronize()
            return float(self._begin.elapsed_time(self._end)) * 1000 / calls

        return sample

    def _captured(self, contender: Contender, calls: int, copies: int) -> torch.cuda.CUDAGraph:
        """`calls` calls in one graph; by hand, since `torch.cuda.graph` collects garbage every time."""
        graph = torch.cuda.CUDAGraph()
        outputs: list[torch.Tensor | None] = [None] * copies  # kept, so that each copy has its own
        with torch.cuda.stream(self._stream):
            graph.capture_begin(capture_error_mode="thread_local")
            try:
                for call in range(calls):
                    outputs[call % copies] = contender.run(call % copies)
            finally:
                graph.capture_end()
        return graph


def cpu_sampler(case: Case, contender: Contender) -> Callable[[], float]:
    """`Sampler` on the CPU, by the host's clock: it only shows that everything runs."""
    copies = iter(range(10**9))

    def sample() -> float:
        copy = next(copies) % case.copies
        begin = time.perf_counter_ns()
        contender.run(copy)
        return (time.perf_counter_ns() - begin) / 1e3

    return sample
