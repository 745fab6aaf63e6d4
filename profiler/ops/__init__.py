"""The seam between variants: every computation of the model is one method of `Ops`.

`cuda.py` answers with vendor libraries, `triton/variant.py` with Triton kernels. Inputs may be strided views
(a slice of the fused QKV output, the last position of a prompt); the last dimension has stride 1.
Sizes: B batch, T new positions, H query heads, Hkv KV heads, D head size, L keys.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from traces.errors import MissingToolError, UsageError

if TYPE_CHECKING:
    from torch import Tensor

    from profiler.model.config import Config, Workload
    from profiler.ops.triton.fused.stream import Stream

VARIANTS: Final = {
    "cuda": "profiler.ops.cuda:CudaOps",
    "triton": "profiler.ops.triton.fused.variant:FusedOps",
    "triton-blog": "profiler.ops.triton.blog:BlogOps",
    # the ladder from separate ops to the fused step (docs/results.md)
    "triton-unfused": "profiler.ops.triton.variant:TritonOps",
    "triton-fused": "profiler.ops.triton.fused.variant:FusedKernels",
    "triton-one-attention": "profiler.ops.triton.fused.variant:OneAttention",
    "triton-overlap": "profiler.ops.triton.fused.variant:Overlapped",
}


class Ops(Protocol):
    """What a decoder needs. Only `prepare` may wait for the device: a CUDA graph captures the rest."""

    fused: bool
    """Whether these are `FusedOps`: then nothing is left for torch.compile, and the model calls those."""

    def prepare(self, config: Config, workload: Workload, *, device: str) -> dict[str, Any]:
        """Measure and fix what the variant leaves to measurement, before a model is built.

        Returns what was chosen and on which numbers, as JSON, for the run's metadata.
        """

    def embedding(self, tokens: Tensor, table: Tensor) -> Tensor:
        """Rows of `table` [N, E] by `tokens` int64 [...]: [..., E]. Also looks up the RoPE table."""

    def rms_norm(self, x: Tensor, weight: Tensor, eps: float) -> Tensor:
        """x [..., E] * rsqrt(mean(x^2) + eps) * weight [E], mean in fp32 (arXiv 1910.07467)."""

    def linear(self, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        """x [..., K] by weight [N, K] transposed, plus bias [N]: [..., N], accumulated in fp32."""

    def rope(self, q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
        """Rotate q [B, H, T, D] and k [B, Hkv, T, D] by cos, sin [T, D/2].

        Half-rotation layout: element i pairs with i + D/2 (arXiv 2104.09864, as laid out by GPT-NeoX).
        """

    def write_kv(self, k_cache: Tensor, v_cache: Tensor, k: Tensor, v: Tensor, positions: Tensor) -> None:
        """In place: caches [B, Hkv, L, D] at `positions` int64 [T] become k, v [B, Hkv, T, D]."""

    def visible(self, positions: Tensor, cache: Tensor) -> Tensor | None:
        """What `attention` wants to know of the visible keys of a cache [B, Hkv, L, D], made once a step.

        For example a mask [T, L], or lengths; None if `attention` works from the positions alone.
        """

    def attention(
        self, q: Tensor, k: Tensor, v: Tensor, positions: Tensor, visible: Tensor | None, *, causal: bool
    ) -> Tensor:
        """softmax(q k^T / sqrt(D)) v: q [B, H, T, D], k and v [B, Hkv, L, D] -> [B, H, T, D].

        Query i sits at positions[i] (int64 [T], on the device) and sees key j iff j <= positions[i].
        `causal` (static): a prompt from position 0, so L == T, k and v are the fresh ones, visible is None.
        Otherwise k and v are whole caches and `visible` is what `Ops.visible` gave.
        """

    def silu_mul(self, gate_up: Tensor) -> Tensor:
        """silu(gate) * up of gate_up [..., 2F] = gate | up: [..., F] (SwiGLU, arXiv 2002.05202)."""

    def add(self, x: Tensor, y: Tensor) -> Tensor:
        """x + y, same shapes."""

    def argmax(self, logits: Tensor) -> Tensor:
        """Index int64 [B, 1] of the first largest of logits [B, 1, V]."""

    def advance(self, token: Tensor, position: Tensor, chosen: Tensor) -> None:
        """In place: token [B, 1] = chosen [B, 1]; position [1] += 1 (all int64)."""


class FusedOps(Ops, Protocol):
    """Operators that also run a layer in five calls, for any number of rows B * T.

    Norms never run alone: who writes the residual prepares the next one (`gamma` is its weight), who reads it
    finishes it.
    """

    def embed_stream(self, tokens: Tensor, table: Tensor, gamma: Tensor) -> Stream:
        """Rows of `table` [N, E] by `tokens` int64 [B * T]."""

    def norm_qkv_rope(
        self, stream: Stream, eps: float, weight: Tensor, bias: Tensor | None, rope: Tensor,
        positions: Tensor, k_cache: Tensor, v_cache: Tensor, heads: int,
    ) -> Tensor:  # fmt: skip
        """q [B * T, H, D], turned by rope [L, D] = cos | sin at `positions` [T]; fills the caches, too."""

    def attend(self, q: Tensor, k_cache: Tensor, v_cache: Tensor, positions: Tensor) -> Tensor:
        """See `Ops.attention`: q [B, H, T, D] over whole caches [B, Hkv, L, D]."""

    def linear_add(
        self, x: Tensor, weight: Tensor, bias: Tensor | None, residual: Tensor, gamma: Tensor,
        ahead: Tensor | None = None, second: int = 0,
    ) -> Stream:  # fmt: skip
        """residual + x W^T + bias; `ahead` is the weight read next (`second`: `fused.launch.Ahead`)."""

    def norm_gate_up_silu(self, stream: Stream, eps: float, weight: Tensor, bias: Tensor | None) -> Tensor:
        """silu(gate) * up [B * T, F] of the normed rows by weight [2F, E] = gate | up."""

    def norm_lm_head(self, x: Tensor, squares: Tensor, weight: Tensor, eps: float) -> Tensor:
        """Logits [B, V] of one row a sequence: `scaled` [B, E] and `squares` [parts, B] of a stream."""


def load(variant: str, device: str | None = None) -> Ops:
    """The operators of one variant for `device` ("cuda" or "cpu"; by default cuda where there is one).

    On the CPU Triton kernels run in Triton's interpreter, which has to be chosen before a kernel is defined.
    Raises UsageError for an unknown variant, MissingToolError where Triton is not installed.
    """
    check_variant(variant)
    if _device(device) == "cpu":  # for any variant: once imported without it, Triton cannot change its mind
        os.environ["TRITON_INTERPRET"] = "1"
    module, name = VARIANTS[variant].split(":")
    try:
        return cast("Ops", getattr(import_module(module), name)())
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] != "triton":
            raise
        raise MissingToolError(f"variant {variant!r} needs Triton: pip install 'kernelgap[gpu]'") from error


def check_variant(variant: str) -> None:
    """Raise UsageError, which lists the known ones, for an unknown variant."""
    if variant not in VARIANTS:
        raise UsageError(f"unknown variant {variant!r}: choose one of {', '.join(VARIANTS)}")


def _device(device: str | None) -> str:
    if device is not None:
        return device.split(":")[0]
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"
