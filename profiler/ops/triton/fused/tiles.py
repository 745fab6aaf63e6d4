"""The tile of each fused product: measured on an H200 for the shapes of 8B models, and fixed.

Decode: a PDL chain of one layer's kernels over eight layers' weights in one CUDA graph, batch 2, each tile
tried in its place (docs/results.md). Prefill: a chain of one kernel, 1024 rows.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from profiler.ops.triton.fused.launch import Tile
from profiler.ops.triton.fused.tiled import Tiling

if TYPE_CHECKING:
    import torch

DECODE_ROWS: Final = 16  # up to here weights are the traffic; above, rows are worth tiles of their own
_DECODE: Final = {
    "qkv": Tile(16, 256, stages=4),
    "short": Tile(16, 512, stages=3),  # K below 8192: the attention's output projection
    "long": Tile(32, 256, stages=6),  # the MLP's down projection
    "gate_up": Tile(16, 512, stages=4),
    "head": Tile(64, 256, stages=3),
}
_PREFILL: Final = {
    "qkv": Tiling(128, 64, 64, warps=4, stages=5),
    "add": Tiling(128, 256, 64),
    "gate_up": Tiling(128, 128, 64),
}


def decode_tile(what: str, x: torch.Tensor, most: int) -> Tile:
    """The tile of one of `_DECODE` for x[M, K], of at most `most` weight rows, a power of 2."""
    if x.element_size() == 4:  # twice the bytes, and no wide tensor-core tile
        return Tile(min(16, most), 128, stages=3)
    tile = _DECODE[what]
    return replace(tile, block_n=min(tile.block_n, most))


def prefill_tiling(what: str, x: torch.Tensor, most: int) -> Tiling:
    """The tiling of one of `_PREFILL` for x[M, K], at most `most` columns wide, a power of 2."""
    if x.element_size() == 4:
        return Tiling(64, min(32, most), 32, warps=4, stages=2)
    tiling = _PREFILL[what]
    return replace(tiling, block_n=min(tiling.block_n, most))
