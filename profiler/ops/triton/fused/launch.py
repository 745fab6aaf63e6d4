"""How the decode kernels are launched: tiles, and how kernels follow each other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import triton

from profiler.ops.triton.common import next_power_of_2

if TYPE_CHECKING:
    import torch

COLUMNS: Final = 8  # the narrowest tile of the tensor core


@dataclass(frozen=True)
class Tile:
    """What one program of a decode product works on: `block_n` weight rows, `block_k` columns at a time."""

    block_n: int
    block_k: int
    warps: int = 4
    stages: int = 5

    def constants(self, x: torch.Tensor) -> dict[str, Any]:
        """The compile-time arguments for x[M, K] that all decode products share."""
        pad_m = next_power_of_2(x.shape[0])
        return {
            "PAD_M": pad_m,
            "PARTS_K": max(1, COLUMNS // pad_m),
            "BLOCK_N": self.block_n,
            "BLOCK_K": self.block_k,
            "STAGES": self.stages,
            "num_warps": self.warps,
        }


@dataclass(frozen=True)
class Ahead:
    """The next kernel's weight [N, K], of which the first `columns` of its first `rows` are asked for.

    `second`: the next kernel's tiles alternate rows of two halves, the second one that far on; else 0.
    """

    weight: torch.Tensor
    rows: int
    columns: int
    second: int = 0


def follow(x: torch.Tensor, programs: int, ahead: Ahead | None = None, *, pdl: bool = True) -> dict[str, Any]:
    """The arguments of `stream.leave`, and the launch attribute; on the CPU kernels just follow in order."""
    pdl = pdl and x.is_cuda and not triton.knobs.runtime.interpret
    line = 128 // x.element_size()
    lines = 0
    if ahead is not None and pdl:
        wanted = ahead.rows * ahead.columns // line // programs
        lines = 1 << (wanted.bit_length() - 1) if wanted else 0
    return {
        "ahead_ptr": ahead.weight if ahead is not None else None,
        "LINES": lines,
        "ROW": ahead.weight.shape[1] if ahead is not None else 0,
        "COLUMNS": ahead.columns if ahead is not None else line,
        "SECOND": ahead.second if ahead is not None else 0,
        "LINE": line,
        "PDL": pdl,
        **({"launch_pdl": True} if pdl else {}),
    }
