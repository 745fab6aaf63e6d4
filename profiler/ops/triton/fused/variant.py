"""The hand-fused Triton variant, and the steps of the ladder that lead to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import torch

from profiler.ops.triton import attention
from profiler.ops.triton.fused import (
    decode_attention,
    embed,
    linear_add,
    norm_gate_up,
    norm_head,
    norm_qkv_rope,
)
from profiler.ops.triton.fused.stream import Stream
from profiler.ops.triton.variant import TritonOps
from traces.errors import MissingToolError

if TYPE_CHECKING:
    from torch import Tensor

    from profiler.model.config import Config, Workload


# Of a longer cache, a launch of its own merges more parts faster: 10.7 against 12.2 us at 2,048 slots, 22.2
# against 28.6 at 8,192, but 6.1 against 4.9 at 512 (H200, `bench attention`, docs/results.md).
ONE_LAUNCH_SLOTS: Final = 1024


class FusedOps(TritonOps):
    """`profiler.ops.FusedOps`: five kernels a layer, every one of them Triton, in every mode.

    A step of the ladder is a subclass that turns off what the later steps added.
    """

    fused = True
    one_launch = True  # decode attention merges its parts itself
    pdl = True  # kernels overlap their neighbours' ends (`stream`)
    prefetch = True  # and ask for the next kernel's first weights

    def __init__(self) -> None:
        super().__init__()
        self._memory: dict[tuple[object, ...], Tensor] = {}

    def prepare(self, config: Config, workload: Workload, *, device: str) -> dict[str, Any]:
        """See `Ops.prepare`: tiles are fixed.

        Raises UsageError for a model that the kernels cannot run, MissingToolError for a GPU without the
        tensor memory accelerator.
        """
        super().prepare(config, workload, device=device)
        if device == "cuda" and torch.cuda.get_device_capability() < (9, 0):
            raise MissingToolError(
                "the fused Triton kernels need compute capability 9.0 (Hopper) or later; "
                "use --variant triton-unfused"
            )
        return {}

    def embed_stream(self, tokens: Tensor, table: Tensor, gamma: Tensor) -> Stream:
        """See `profiler.ops.FusedOps`."""
        return Stream(*embed.embed(tokens, table, gamma, self.pdl))

    def norm_qkv_rope(
        self, stream: Stream, eps: float, weight: Tensor, bias: Tensor | None, rope: Tensor,
        positions: Tensor, k_cache: Tensor, v_cache: Tensor, heads: int,
    ) -> Tensor:  # fmt: skip
        """See `profiler.ops.FusedOps`."""
        return norm_qkv_rope.norm_qkv_rope(
            stream.scaled, stream.squares, weight, bias, rope, positions, k_cache, v_cache, heads, eps,
            self.pdl,
        )  # fmt: skip

    def attend(self, q: Tensor, k_cache: Tensor, v_cache: Tensor, positions: Tensor) -> Tensor:
        """See `profiler.ops.FusedOps`."""
        if q.shape[2] > 1 or not self.one_launch or k_cache.shape[2] > ONE_LAUNCH_SLOTS:
            return attention.attention(q, k_cache, v_cache, positions)
        memory = self._scratch(q, k_cache)
        return decode_attention.decode_attention(q, k_cache, v_cache, positions, memory, self.pdl)

    def linear_add(
        self, x: Tensor, weight: Tensor, bias: Tensor | None, residual: Tensor, gamma: Tensor,
        ahead: Tensor | None = None, second: int = 0,
    ) -> Stream:  # fmt: skip
        """See `profiler.ops.FusedOps`."""
        ahead = ahead if self.prefetch else None
        return Stream(*linear_add.linear_add(x, weight, bias, residual, gamma, ahead, second, self.pdl))

    def norm_gate_up_silu(self, stream: Stream, eps: float, weight: Tensor, bias: Tensor | None) -> Tensor:
        """See `profiler.ops.FusedOps`."""
        return norm_gate_up.norm_gate_up_silu(stream.scaled, stream.squares, weight, bias, eps, self.pdl)

    def norm_lm_head(self, x: Tensor, squares: Tensor, weight: Tensor, eps: float) -> Tensor:
        """See `profiler.ops.FusedOps`."""
        return norm_head.norm_lm_head(x, squares, weight, eps, self.pdl)

    def _scratch(self, q: Tensor, k_cache: Tensor) -> Tensor:
        """Memory for the parts of attention, one for all layers: made in a step before any capture."""
        (batch, kv_heads, length, d), heads = k_cache.shape, q.shape[1]
        pairs = batch * kv_heads
        key = (pairs, heads, d, length, q.device)
        if key not in self._memory:
            splits = decode_attention.splits_for(pairs, length)
            self._memory[key] = decode_attention.scratch(pairs, heads // kv_heads, d, splits, q.device)
        return self._memory[key]


class FusedKernels(FusedOps):
    """Ladder: five fused kernels, but attention merges its parts in a launch of its own, nothing overlaps."""

    one_launch = pdl = prefetch = False


class OneAttention(FusedOps):
    """Ladder: and attention in one launch."""

    pdl = prefetch = False


class Overlapped(FusedOps):
    """Ladder: and kernels overlap by programmatic dependent launch."""

    prefetch = False
