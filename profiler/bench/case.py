"""What a benchmark is made of: the model and machine it is about, and its contenders."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import Tensor

    from profiler.bench.table import Work
    from profiler.model.config import Config, Workload

MAX_COPIES: Final = 256  # of small inputs: more would only lengthen the graph
CPU_COPIES: Final = 2
# Largest error relative to the largest result: some roundings of the dtype (split sums round at every split).
TOLERANCE: Final = {torch.float16: 1e-2, torch.bfloat16: 8e-2, torch.float32: 1e-3}


@dataclass(frozen=True)
class Contender:
    """One way to run the operation of a case: `run(copy)` works on the inputs with that number.

    `expected()` is what `run(0)` should return, fp32 or the inputs' dtype; None where nothing can be said.
    """

    name: str
    triton: bool
    run: Callable[[int], Tensor]
    expected: Callable[[], Tensor] | None = None
    does: str = ""


@dataclass(frozen=True)
class Case:
    """One operation at one shape."""

    op: str
    shape: str
    work: Work
    copies: int
    contenders: Sequence[Contender]
    every: bool = False
    calls: int = 1  # in one decode step


@dataclass(frozen=True)
class Setting:
    """The model, its workload, the device and its L2 in bytes (0 on the CPU)."""

    config: Config
    workload: Workload
    device: str
    lengths: Sequence[int]
    l2_bytes: int = 0

    @property
    def dtype(self) -> torch.dtype:
        """Of weights and activations."""
        found: torch.dtype = getattr(torch, self.workload.dtype)
        return found

    @property
    def prompt_rows(self) -> int:
        """Rows of a prefill."""
        return self.workload.batch * self.workload.prompt

    def copies(self, call_bytes: int) -> int:
        """Distinct inputs to walk, together more than twice the L2, two at least, MAX_COPIES at most.

        Where MAX_COPIES are not enough, `timing` uses each once a replay and empties the L2 between.
        """
        if self.device == "cpu":
            return CPU_COPIES
        return min(max(2, 2 * self.l2_bytes // call_bytes + 1), MAX_COPIES)

    def normal(self, *shape: int, scale: float = 1.0) -> Tensor:
        """Random numbers: zeros would make a GPU draw less power and clock higher."""
        fresh = torch.empty(shape, device=self.device, dtype=self.dtype)
        return fresh.normal_(0.0, scale)

    def weight(self, n: int, k: int) -> Tensor:
        """[n, k], scaled so that products are of the size of their inputs."""
        return self.normal(n, k, scale=k**-0.5)


def size_of(*tensors: Tensor | None) -> int:
    """Bytes of the tensors together."""
    return sum(t.numel() * t.element_size() for t in tensors if t is not None)


def right(found: Tensor, expected: Tensor) -> bool:
    """Whether a result is the expected one, to rounding."""
    worst = (found.float() - expected.float()).abs().max()
    return bool(worst <= TOLERANCE[found.dtype] * expected.float().abs().max())
