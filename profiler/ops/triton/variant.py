"""The Triton variant of the model's operators."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from profiler.ops.cuda import CudaOps
from profiler.ops.triton import (
    add,
    argmax,
    attention,
    embedding,
    gemm,
    rms_norm,
    rope,
    silu_mul,
    write_kv,
)

if TYPE_CHECKING:
    from torch import Tensor

    from profiler.model.config import Config, Workload


class TritonOps:
    """`profiler.ops.Ops` where every GPU kernel is written in Triton, one op at a time.

    GEMM, attention, RMSNorm and SwiGLU are our own kernels in every mode. Embedding, RoPE, the cache write,
    add, argmax and advance are our own in eager mode; under torch.compile they are plain ATen, which
    Inductor turns into Triton kernels of its own and can fuse with each other, as it cannot with a custom op.
    """

    fused = False

    def __init__(self) -> None:
        self._aten = CudaOps()

    def prepare(self, config: Config, workload: Workload, *, device: str) -> dict[str, Any]:
        """See `Ops.prepare`: nothing is left to measurement, every configuration is fixed.

        Raises UsageError for a model that the kernels cannot run.
        """
        attention.check_heads(config.heads, config.kv_heads, config.head_dim)
        return {}

    def embedding(self, tokens: Tensor, table: Tensor) -> Tensor:
        """See `Ops.embedding`."""
        run = self._aten.embedding if torch.compiler.is_compiling() else embedding.embedding
        return run(tokens, table)

    def rms_norm(self, x: Tensor, weight: Tensor, eps: float) -> Tensor:
        """See `Ops.rms_norm`."""
        return rms_norm.rms_norm(x, weight, eps)

    def linear(self, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        """See `Ops.linear`."""
        return gemm.linear(x, weight, bias)

    def rope(self, q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
        """See `Ops.rope`."""
        run = self._aten.rope if torch.compiler.is_compiling() else rope.rope
        return run(q, k, cos, sin)

    def write_kv(self, k_cache: Tensor, v_cache: Tensor, k: Tensor, v: Tensor, positions: Tensor) -> None:
        """See `Ops.write_kv`."""
        run = self._aten.write_kv if torch.compiler.is_compiling() else write_kv.write_kv
        run(k_cache, v_cache, k, v, positions)

    def visible(self, positions: Tensor, cache: Tensor) -> Tensor | None:
        """See `Ops.visible`: None, the attention kernels read the positions themselves."""
        return None

    def attention(
        self, q: Tensor, k: Tensor, v: Tensor, positions: Tensor, visible: Tensor | None, *, causal: bool
    ) -> Tensor:
        """See `Ops.attention`; positions say all that `visible` and `causal` do."""
        return attention.attention(q, k, v, positions)

    def silu_mul(self, gate_up: Tensor) -> Tensor:
        """See `Ops.silu_mul`."""
        return silu_mul.silu_mul(gate_up)

    def add(self, x: Tensor, y: Tensor) -> Tensor:
        """See `Ops.add`."""
        run = self._aten.add if torch.compiler.is_compiling() else add.add
        return run(x, y)

    def argmax(self, logits: Tensor) -> Tensor:
        """See `Ops.argmax`."""
        run = self._aten.argmax if torch.compiler.is_compiling() else argmax.argmax
        return run(logits)

    def advance(self, token: Tensor, position: Tensor, chosen: Tensor) -> None:
        """See `Ops.advance`."""
        run = self._aten.advance if torch.compiler.is_compiling() else argmax.advance
        run(token, position, chosen)
