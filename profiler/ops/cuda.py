"""The vendor-library variant: cuBLAS for GEMMs, PyTorch's fastest attention kernels, ATen for the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import torch
from torch.nn import functional as F  # noqa: N812

from profiler.ops import sdpa

if TYPE_CHECKING:
    from torch import Tensor

    from profiler.model.config import Config, Workload

ARGMAX_PARTS: Final = 64  # both vocabularies divide by it


class CudaOps:
    """`profiler.ops.Ops` in plain PyTorch; it runs on the CPU as well.

    Until `prepare` has measured, attention is left to PyTorch's own choice of backend.
    """

    fused = False

    def __init__(self) -> None:
        self._prefill: sdpa.Backend = sdpa.PREFILL[sdpa.DEFAULT]
        self._decode: sdpa.Backend = sdpa.DECODE[sdpa.DEFAULT]

    def prepare(self, config: Config, workload: Workload, *, device: str) -> dict[str, Any]:
        """See `Ops.prepare`: on a GPU, the attention backend of each phase, the fastest one measured."""
        if device != "cuda":
            return {}
        measured = sdpa.measure(config, workload)
        self._prefill = sdpa.PREFILL[measured["prefill"]["chosen"]]
        self._decode = sdpa.DECODE[measured["decode"]["chosen"]]
        return {"attention": measured}

    def embedding(self, tokens: Tensor, table: Tensor) -> Tensor:
        """See `Ops.embedding`."""
        return F.embedding(tokens, table)

    def rms_norm(self, x: Tensor, weight: Tensor, eps: float) -> Tensor:
        """See `Ops.rms_norm`."""
        return F.rms_norm(x, weight.shape, weight, eps)

    def linear(self, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        """See `Ops.linear`."""
        return F.linear(x, weight, bias)

    def rope(self, q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
        """See `Ops.rope`."""
        return _rotate(q, cos, sin), _rotate(k, cos, sin)

    def write_kv(self, k_cache: Tensor, v_cache: Tensor, k: Tensor, v: Tensor, positions: Tensor) -> None:
        """See `Ops.write_kv`."""
        k_cache.index_copy_(2, positions, k)
        v_cache.index_copy_(2, positions, v)

    def visible(self, positions: Tensor, cache: Tensor) -> Tensor | None:
        """See `Ops.visible`: a mask, or the lengths, whichever the backend of decode takes."""
        return self._decode.visible(positions, cache)

    def attention(
        self, q: Tensor, k: Tensor, v: Tensor, positions: Tensor, visible: Tensor | None, *, causal: bool
    ) -> Tensor:
        """See `Ops.attention`."""
        return (self._prefill if causal else self._decode).run(q, k, v, visible)

    def silu_mul(self, gate_up: Tensor) -> Tensor:
        """See `Ops.silu_mul`."""
        gate, up = gate_up.chunk(2, dim=-1)
        return F.silu(gate) * up

    def add(self, x: Tensor, y: Tensor) -> Tensor:
        """See `Ops.add`."""
        return x + y

    def argmax(self, logits: Tensor) -> Tensor:
        """See `Ops.argmax`, in two steps: a row alone would keep a single block of threads busy."""
        parts = ARGMAX_PARTS if logits.shape[-1] % ARGMAX_PARTS == 0 else 1
        values, index = logits.view(*logits.shape[:-1], parts, -1).max(dim=-1)
        best = values.argmax(dim=-1, keepdim=True)
        return (best * (logits.shape[-1] // parts) + index.gather(-1, best)).squeeze(-1)

    def advance(self, token: Tensor, position: Tensor, chosen: Tensor) -> None:
        """See `Ops.advance`."""
        token.copy_(chosen)
        position.add_(1)


def _rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Token by token in memory, as x came from its projection and as attention returns it: no copies."""
    a, b = x.transpose(1, 2).chunk(2, dim=-1)
    cos, sin = cos[:, None], sin[:, None]
    return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1).transpose(1, 2)
