"""Build candidates' binaries in worker processes, into Triton's cache on disk, ahead of the timing.

A worker never touches the GPU: it is told which one to compile for. Nothing heavy may be imported before
`start` has run in the worker, since Triton decides on import whether it interprets or compiles.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor
from typing import TYPE_CHECKING, Any, NamedTuple, Self

if TYPE_CHECKING:
    from types import TracebackType

    from profiler.ops.triton.splitk import Config, Shape


class Job(NamedTuple):
    """One launch to compile for."""

    dtype: str
    shape: Shape
    config: Config


class Target(NamedTuple):
    """A GPU as Triton names it, such as ("cuda", 90, 32)."""

    backend: str
    arch: int
    warp_size: int


class _Machine:
    """What Triton's launcher asks the driver for, answered without one."""

    def __init__(self, target: Target) -> None:
        from triton.backends.compiler import GPUTarget

        self._target = GPUTarget(*target)

    def get_current_target(self) -> Any:
        return self._target

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int) -> int:
        return 0


def start(target: Target) -> None:
    """Make this process one that compiles for `target`, with or without a GPU of its own."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides when to stop
    os.environ["TRITON_INTERPRET"] = "0"
    import triton

    triton.runtime.driver.set_active(_Machine(target))


def build(job: Job) -> str | None:
    """Compile for one launch; None, or why it cannot be compiled."""
    import torch

    from profiler.ops.triton import splitk

    (m, n, k), dtype = job.shape, getattr(torch, job.dtype)
    try:
        splitk.splitk_gemm_kernel.warmup(
            dtype, dtype, None, dtype, m, n, k, job.config.group_m,
            **splitk.constants(m, k, job.config), grid=(1,),
        )  # fmt: skip
    except Exception as error:  # whatever a compiler pass or ptxas raises: this candidate is out
        return f"{type(error).__name__}"
    return None


def same_binary(job: Job) -> tuple[Any, ...]:
    """Equal for launches that Triton compiles once: it looks at sizes only for 1 and divisibility by 16."""
    from profiler.ops.triton import splitk

    m, _, k = job.shape
    sizes = (*job.shape, job.config.group_m)
    kinds = tuple("1" if size == 1 else size % 16 == 0 for size in sizes)
    return job.dtype, kinds, *splitk.constants(m, k, job.config).items()


class Builder:
    """A pool of compiling processes; each binary is built once, in the order asked for."""

    def __init__(self, target: Target, workers: int) -> None:
        context = multiprocessing.get_context("spawn")  # a fork would inherit this process's CUDA state
        self._pool = ProcessPoolExecutor(workers, mp_context=context, initializer=start, initargs=(target,))
        self.broken = False
        self._futures: dict[tuple[Any, ...], Future[str | None]] = {}

    def ask(self, job: Job) -> None:
        """Have the job's binary built some time soon."""
        key = same_binary(job)
        if key not in self._futures:
            self._futures[key] = self._pool.submit(build, job)

    def wait(self, job: Job, timeout: float) -> str | None:
        """None once the binary is there, else why it cannot be built. Raises TimeoutError.

        If the workers have died (`broken`), None at once: the caller's own process then compiles.
        """
        try:
            self.ask(job)
            return self._futures[same_binary(job)].result(max(timeout, 0.0))
        except BrokenExecutor:
            self.broken = True
            return None

    @property
    def count(self) -> int:
        """Binaries asked for."""
        return len(self._futures)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Drop what has not begun and wait for the rest, seconds at most."""
        self._pool.shutdown(wait=True, cancel_futures=True)
