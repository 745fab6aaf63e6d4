"""The same decoder for operators that fuse across modules: the same weights by the same names.

A fused operator runs inside the module whose weight it multiplies, so that its kernel is found there: the
norm before a projection is part of it, and so are RoPE, the cache write, SwiGLU and the residual sum.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from torch import Tensor, nn

from profiler.model.transformer import MLP, Attention, Linear, RMSNorm, Transformer, Weight

if TYPE_CHECKING:
    from collections.abc import Callable

    from profiler.model.config import Config
    from profiler.ops import FusedOps
    from profiler.ops.triton.fused.stream import Stream


class After(NamedTuple):
    """What follows a layer: the next norm's weight, and the first weight to be read then."""

    gamma: Tensor
    weight: Tensor


class FusedEmbedding(Weight):
    """tokens [B * T] -> the first `Stream`."""

    ops: FusedOps

    def forward(self, tokens: Tensor, gamma: Tensor) -> Stream:
        """Look the tokens up, for the norm with weight `gamma`."""
        return self.ops.embed_stream(tokens, self.weight, gamma)


class FusedLinear(Linear):
    """A projection whose operator its caller chooses."""

    def forward(self, run: Callable[[Tensor, Tensor | None], Any]) -> Any:  # type: ignore[override]
        """`run` on the weight and the bias."""
        return run(self.weight, self.bias)


class FusedAttention(Attention):
    """Grouped-query attention over a static KV cache, with the norm before and the sum after it."""

    ops: FusedOps
    linear = FusedLinear

    def forward(  # type: ignore[override]
        self, stream: Stream, norm: RMSNorm, rope: Tensor, positions: Tensor, after: After, second: int
    ) -> Stream:
        """The stream [B * T, dim] of one norm -> that of the next; the cache gains the T new positions."""
        ops, c, tokens = self.ops, self.config, positions.shape[0]
        q = self.qkv(
            lambda w, b: ops.norm_qkv_rope(
                stream, norm.eps, w, b, rope, positions, self.k_cache, self.v_cache, c.heads
            )
        )
        q = q.view(-1, tokens, c.heads, c.head_dim).transpose(1, 2)
        seen = tokens if tokens > 1 else self.k_cache.shape[2]  # several tokens are a prompt from position 0
        y = (
            ops.attend(q, self.k_cache[:, :, :seen], self.v_cache[:, :, :seen], positions)
            .transpose(1, 2)
            .reshape(stream.x.shape[0], -1)
        )
        out: Stream = self.o(
            lambda w, b: ops.linear_add(y, w, b, stream.x, after.gamma, after.weight, second)
        )
        return out


class FusedMLP(MLP):
    """SwiGLU feed-forward, with the norm before and the sum after it."""

    ops: FusedOps
    linear = FusedLinear

    def forward(self, stream: Stream, norm: RMSNorm, after: After) -> Stream:  # type: ignore[override]
        """The stream [B * T, dim] of one norm -> that of the next."""
        ops = self.ops
        y = self.gate_up(lambda w, b: ops.norm_gate_up_silu(stream, norm.eps, w, b))
        out: Stream = self.down(lambda w, b: ops.linear_add(y, w, b, stream.x, after.gamma, after.weight))
        return out


class FusedBlock(nn.Module):
    """One pre-norm decoder layer. Its norms are not called: the kernels around them take their weights."""

    def __init__(self, ops: FusedOps, config: Config) -> None:
        super().__init__()
        self.attn_norm = RMSNorm(ops, config.dim, config.norm_eps)
        self.attn = FusedAttention(ops, config)
        self.mlp_norm = RMSNorm(ops, config.dim, config.norm_eps)
        self.mlp = FusedMLP(ops, config)

    def forward(self, stream: Stream, rope: Tensor, positions: Tensor, after: After) -> Stream:
        """The stream [B * T, dim] of this layer's norm -> that of the next one's."""
        gate_up = self.mlp.gate_up.weight
        between = After(self.mlp_norm.weight, gate_up)
        stream = self.attn(stream, self.attn_norm, rope, positions, between, gate_up.shape[0] // 2)
        out: Stream = self.mlp(stream, self.mlp_norm, after)
        return out


class FusedTransformer(Transformer):
    """`Transformer` on `FusedOps`."""

    ops: FusedOps
    embedding = FusedEmbedding
    block = FusedBlock
    linear = FusedLinear

    def forward(self, tokens: Tensor, positions: Tensor, causal: bool) -> Tensor:
        """See `Transformer.forward`; `causal` follows from the positions."""
        batch, count = tokens.shape
        layers: list[Any] = list(self.layers)
        after = [After(b.attn_norm.weight, b.attn.qkv.weight) for b in layers[1:]]
        after.append(After(self.norm.weight, self.lm_head.weight))
        stream = self.embed(tokens.reshape(-1), layers[0].attn_norm.weight)
        for layer, following in zip(layers, after, strict=True):
            stream = layer(stream, self.rope_table, positions, following)
        x = stream.scaled.view(batch, count, -1)[:, -1]
        squares = stream.squares.view(-1, batch, count)[:, :, -1]
        logits: Tensor = self.lm_head(lambda w, _: self.ops.norm_lm_head(x, squares, w, self.norm.eps))
        return logits.view(batch, 1, -1)
