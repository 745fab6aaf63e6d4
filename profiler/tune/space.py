"""The configurations worth trying for a shape: every one that fits and makes sense, default first.

Up to 16 rows (decode): tiles 16 x {16, 32, 64, 128} x {64, 128, 256, 512}, split 1, 2, 4, 8, warps 4, 8,
stages 3 to 6. Above: tiles {64, 128, 256} x {64, 128, 256} x {64, 128}, split 1, 2, warps 4, 8, stages 3, 4,
groups of 8 row tiles. Left out, because they cannot run or cannot win:

- more shared memory than a block has (sm_90: 227 KiB);
- decode: fewer than 16 KiB of weights in flight per program, when an SM needs 20 to 40 KiB (Little's law at
  4.8 TB/s and 0.6 to 1 us); 8 warps for fewer than 64 columns, whose tensor-core tiles they cannot share;
- prefill: fewer than 32 or more than 128 accumulators a thread (idle warps, or spills);
- a split that leaves a program fewer than 4 K blocks, whose pipeline never fills, or that makes more programs
  than 16 per SM (prefill: than 2 per SM).

fp32 has no tensor cores here: only K blocks of 64 (prefill: of 64 and tiles up to 64x64).
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Final

from profiler.ops.triton.common import SM_COUNT, cdiv
from profiler.ops.triton.splitk import DECODE_ROWS, Config, default_config

if TYPE_CHECKING:
    from collections.abc import Iterator

    from profiler.ops.triton.splitk import Shape

SHARED_LIMIT: Final = 232448  # bytes a block can use (CUDA programming guide, compute capability 9.0)
MIN_IN_FLIGHT: Final = 16 << 10
MIN_BLOCKS: Final = 4


def space(shape: Shape, itemsize: int, *, sms: int = SM_COUNT, shared: int = SHARED_LIMIT) -> list[Config]:
    """All candidates for `shape`; the default comes first, whether or not the rules would keep it."""
    tiles = _decode(itemsize, shared) if shape.m <= DECODE_ROWS else _prefill(itemsize, shared)
    default = default_config(shape.m, itemsize)
    found = [c for c in tiles if _split_makes_sense(shape, c, sms)]
    return [default, *(c for c in found if c != default)]


def _decode(itemsize: int, shared: int) -> Iterator[Config]:
    depths = (64, 128, 256, 512) if itemsize == 2 else (64,)
    for n, k, split, warps, stages in product((16, 32, 64, 128), depths, (1, 2, 4, 8), (4, 8), (3, 4, 5, 6)):
        buffers = stages - 1  # mma.sync reads a tile into registers, which frees its buffer
        fits = (DECODE_ROWS + n) * k * itemsize * buffers <= shared
        if fits and n * k * itemsize * buffers >= MIN_IN_FLIGHT and (warps == 4 or n >= 64):
            yield Config(DECODE_ROWS, n, k, split, warps, stages, group_m=1)


def _prefill(itemsize: int, shared: int) -> Iterator[Config]:
    sides, depths = ((64, 128, 256), (64, 128)) if itemsize == 2 else ((64,), (32, 64))
    for m, n, k, split, warps, stages in product(sides, sides, depths, (1, 2), (4, 8), (3, 4)):
        accumulators = m * n // (warps * 32)
        if (m + n) * k * itemsize * stages <= shared and 32 <= accumulators <= 128:
            yield Config(m, n, k, split, warps, stages, group_m=8)


def _split_makes_sense(shape: Shape, config: Config, sms: int) -> bool:
    if config.split_k == 1:
        return True
    tiles = cdiv(shape.m, config.block_m) * cdiv(shape.n, config.block_n)
    most = 16 * sms if shape.m <= DECODE_ROWS else 2 * sms
    enough_work = cdiv(shape.k, config.block_k) >= MIN_BLOCKS * config.split_k
    return enough_work and tiles * config.split_k <= most
