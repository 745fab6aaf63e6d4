"""The vendor-library variant: cuBLAS for GEMMs, cuDNN or flash for attention, ATen for the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch.nn import functional as F  # noqa: N812

if TYPE_CHECKING:
    from torch import Tensor


class CudaOps:
    """`profiler.ops.Ops` in plain PyTorch; it runs on the CPU as well."""

    def embedding(self, tokens: Tensor, table: Tensor) -> Tensor:
        """See `Ops.embedding`."""
        return F.embedding(tokens, table)

    def rms_norm(self, x: Tensor, weight: Tensor, eps: float) -> Tensor:
        """See `Ops.rms_norm`."""
        return F.rms_norm(x, weight.shape, weight, eps)

    def linear(self, x: Tensor, weight: Tensor) -> Tensor:
        """See `Ops.linear`."""
        return F.linear(x, weight)

    def rope(self, q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
        """See `Ops.rope`."""
        return _rotate(q, cos, sin), _rotate(k, cos, sin)

    def write_kv(self, k_cache: Tensor, v_cache: Tensor, k: Tensor, v: Tensor, positions: Tensor) -> None:
        """See `Ops.write_kv`."""
        k_cache.index_copy_(2, positions, k)
        v_cache.index_copy_(2, positions, v)

    def visible(self, positions: Tensor, length: int) -> Tensor | None:
        """See `Ops.visible`: SDPA takes no lengths, so decode has to mask the unused slots of the cache."""
        return torch.arange(length, device=positions.device) <= positions[:, None]

    def attention(
        self, q: Tensor, k: Tensor, v: Tensor, positions: Tensor, mask: Tensor | None, *, causal: bool
    ) -> Tensor:
        """See `Ops.attention`."""
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal, enable_gqa=True)

    def silu_mul(self, gate_up: Tensor) -> Tensor:
        """See `Ops.silu_mul`."""
        gate, up = gate_up.chunk(2, dim=-1)
        return F.silu(gate) * up

    def add(self, x: Tensor, y: Tensor) -> Tensor:
        """See `Ops.add`."""
        return x + y

    def argmax(self, logits: Tensor) -> Tensor:
        """See `Ops.argmax`."""
        return logits.argmax(dim=-1)

    def advance(self, token: Tensor, position: Tensor, chosen: Tensor) -> None:
        """See `Ops.advance`."""
        token.copy_(chosen)
        position.add_(1)


def _rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    a, b = x.chunk(2, dim=-1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1)
