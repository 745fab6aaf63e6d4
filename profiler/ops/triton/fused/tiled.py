"""The product of many rows, for prefill: tiles moved by the tensor memory accelerator (TMA).

Weights are [N, K] as in decode. `product_pair` keeps two tiles of weight rows apart that an epilogue combines
element by element (the halves of a head for RoPE; gate and up).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from profiler.ops.triton.common import cdiv, jit

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Tiling:
    """What one program works on: `block_m` rows by `block_n` weight rows (of each of a pair)."""

    block_m: int
    block_n: int
    block_k: int
    warps: int = 8
    stages: int = 4
    group_m: int = 8  # row tiles that share weight tiles in L2 at a time

    def descriptors(self, x: torch.Tensor, weight: torch.Tensor) -> tuple[TensorDescriptor, TensorDescriptor]:
        """How TMA reads x[M, K] and weight[N, K]."""
        return (
            TensorDescriptor.from_tensor(x, [self.block_m, self.block_k]),
            TensorDescriptor.from_tensor(weight, [self.block_n, self.block_k]),
        )

    def constants(self) -> dict[str, Any]:
        """The compile-time arguments that all prefill products share."""
        return {
            "BLOCK_M": self.block_m,
            "BLOCK_N": self.block_n,
            "BLOCK_K": self.block_k,
            "STAGES": self.stages,
            "GROUP_M": self.group_m,
            "num_warps": self.warps,
        }

    def programs(self, m: int, columns: int) -> int:
        """One program a tile of [m, columns]."""
        return cdiv(m, self.block_m) * cdiv(columns, self.block_n)


@jit
def place(tiles_m: tl.tensor, tiles_n: tl.tensor, GROUP_M: tl.constexpr) -> tl.tensor:
    """Row and column tile of this program: GROUP_M row tiles walk the columns together."""
    program = tl.program_id(0)
    first = program // (GROUP_M * tiles_n) * GROUP_M
    group = tl.minimum(tiles_m - first, GROUP_M)
    in_group = program % (GROUP_M * tiles_n)
    return first + in_group % group, in_group // group


@jit
def product(
    x_desc: tl.tensor, w_desc: tl.tensor, row: tl.tensor, column: tl.tensor, K: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, STAGES: tl.constexpr,
) -> tl.tensor:  # fmt: skip
    """fp32 [BLOCK_M, BLOCK_N]: x from `row` times the weight rows from `column`."""
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in tl.range(0, K, BLOCK_K, num_stages=STAGES):
        x = x_desc.load([row, k])
        acc = tl.dot(x, w_desc.load([column, k]).T, acc, input_precision="ieee")
    return acc


@jit
def product_pair(
    x_desc: tl.tensor, w_desc: tl.tensor, row: tl.tensor, first: tl.tensor, second: tl.tensor,
    K: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    STAGES: tl.constexpr,
) -> tl.tensor:  # fmt: skip
    """Two of `product`, of the weight rows from `first` and from `second`."""
    a = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    b = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in tl.range(0, K, BLOCK_K, num_stages=STAGES):
        x = x_desc.load([row, k])
        a = tl.dot(x, w_desc.load([first, k]).T, a, input_precision="ieee")
        b = tl.dot(x, w_desc.load([second, k]).T, b, input_precision="ieee")
    return a, b
