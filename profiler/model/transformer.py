"""A Llama-style decoder in plain PyTorch; every computation is a call on an `Ops` object."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from collections.abc import Callable

    from profiler.model.config import Config, RopeScaling
    from profiler.ops import Ops


class Weight(nn.Module):
    """A module that owns one weight and the operators to use it with."""

    def __init__(self, ops: Ops, *shape: int) -> None:
        super().__init__()
        self.ops = ops
        self.weight = nn.Parameter(torch.empty(shape), requires_grad=False)


class Embedding(Weight):
    """tokens [B, T] -> [B, T, dim]."""

    def forward(self, tokens: Tensor) -> Tensor:
        """Look the tokens up."""
        return self.ops.embedding(tokens, self.weight)


class Linear(Weight):
    """[..., in] -> [..., out]; weight [out, in], bias [out] or None."""

    def __init__(self, ops: Ops, out: int, inner: int, *, bias: bool = False) -> None:
        super().__init__(ops, out, inner)
        self.bias = nn.Parameter(torch.empty(out), requires_grad=False) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        """Multiply by the weight and add the bias."""
        return self.ops.linear(x, self.weight, self.bias)


class Sample(nn.Module):
    """Greedy choice of the next token."""

    def __init__(self, ops: Ops) -> None:
        super().__init__()
        self.ops = ops

    def forward(self, logits: Tensor, token: Tensor, position: Tensor) -> None:
        """In place: `token` [B, 1] becomes the largest of logits [B, 1, V], and `position` [1] moves on."""
        self.ops.advance(token, position, self.ops.argmax(logits))


class RMSNorm(Weight):
    """Root mean square norm over the last dimension."""

    def __init__(self, ops: Ops, dim: int, eps: float) -> None:
        super().__init__(ops, dim)
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        """Normalise."""
        return self.ops.rms_norm(x, self.weight, self.eps)


class Attention(nn.Module):
    """Grouped-query attention over a static KV cache [B, Hkv, L, D]."""

    k_cache: Tensor
    v_cache: Tensor
    linear = Linear

    def __init__(self, ops: Ops, config: Config) -> None:
        super().__init__()
        self.ops, self.config = ops, config
        self.qkv = self.linear(ops, config.qkv_dim, config.dim, bias=config.attention_bias)
        self.o = self.linear(ops, config.dim, config.heads * config.head_dim, bias=config.attention_bias)

    def forward(
        self, x: Tensor, cos: Tensor, sin: Tensor, positions: Tensor, visible: Tensor | None, causal: bool
    ) -> Tensor:
        """x [B, T, dim] -> [B, T, dim]; the cache gains the T new keys and values."""
        batch, tokens, _ = x.shape
        c = self.config
        heads = self.qkv(x).view(batch, tokens, -1, c.head_dim).transpose(1, 2)
        q, k, v = heads.split((c.heads, c.kv_heads, c.kv_heads), dim=1)
        q, k = self.ops.rope(q, k, cos, sin)
        self.ops.write_kv(self.k_cache, self.v_cache, k, v, positions)
        if not causal:
            k, v = self.k_cache, self.v_cache
        y = self.ops.attention(q, k, v, positions, visible, causal=causal)
        out: Tensor = self.o(y.transpose(1, 2).reshape(batch, tokens, -1))
        return out


class MLP(nn.Module):
    """SwiGLU feed-forward with gate and up in one weight."""

    linear = Linear

    def __init__(self, ops: Ops, config: Config) -> None:
        super().__init__()
        self.ops = ops
        self.gate_up = self.linear(ops, 2 * config.intermediate, config.dim, bias=config.mlp_bias)
        self.down = self.linear(ops, config.dim, config.intermediate, bias=config.mlp_bias)

    def forward(self, x: Tensor) -> Tensor:
        """x [B, T, dim] -> [B, T, dim]."""
        out: Tensor = self.down(self.ops.silu_mul(self.gate_up(x)))
        return out


class Block(nn.Module):
    """One pre-norm decoder layer."""

    def __init__(self, ops: Ops, config: Config) -> None:
        super().__init__()
        self.ops = ops
        self.attn_norm = RMSNorm(ops, config.dim, config.norm_eps)
        self.attn = Attention(ops, config)
        self.mlp_norm = RMSNorm(ops, config.dim, config.norm_eps)
        self.mlp = MLP(ops, config)

    def forward(
        self, x: Tensor, cos: Tensor, sin: Tensor, positions: Tensor, visible: Tensor | None, causal: bool
    ) -> Tensor:
        """x [B, T, dim] -> [B, T, dim]."""
        x = self.ops.add(x, self.attn(self.attn_norm(x), cos, sin, positions, visible, causal))
        return self.ops.add(x, self.mlp(self.mlp_norm(x)))


class Transformer(nn.Module):
    """The decoder. Build it with `build` or `empty`; weights are not trained."""

    rope_table: Tensor
    embedding: Callable[..., Weight] = Embedding
    block: Callable[..., nn.Module] = Block
    linear = Linear

    def __init__(self, config: Config, ops: Ops) -> None:
        super().__init__()
        self.config, self.ops = config, ops
        self.embed = self.embedding(ops, config.vocab, config.dim)
        self.layers = nn.ModuleList(self.block(ops, config) for _ in range(config.layers))
        self.norm = RMSNorm(ops, config.dim, config.norm_eps)
        self.lm_head = self.linear(ops, config.vocab, config.dim)
        self.sample = Sample(ops)
        self.tie()

    def tie(self) -> None:
        """Make lm_head the embedding table where the model says so; again after the table was replaced."""
        if self.config.tied:
            self.lm_head.weight = self.embed.weight

    def allocate(self, batch: int, length: int) -> None:
        """Make the KV caches [batch, Hkv, length, D] and the RoPE table [length, D], cos | sin per row."""
        c, like = self.config, self.embed.weight
        for attn in (m for m in self.modules() if isinstance(m, Attention)):
            for name in ("k_cache", "v_cache"):
                cache = like.new_zeros(batch, c.kv_heads, length, c.head_dim)
                attn.register_buffer(name, cache, persistent=False)
        angles = rope_angles(c.head_dim, c.rope_theta, c.rope_scaling, length)
        self.register_buffer(
            "rope_table", torch.cat((angles.cos(), angles.sin()), dim=-1).to(like), persistent=False
        )

    @property
    def cache(self) -> Tensor:
        """The first layer's key cache, for its shape and dtype."""
        first: Attention = self.layers[0].attn  # type: ignore[assignment]
        return first.k_cache

    def forward(self, tokens: Tensor, positions: Tensor, causal: bool) -> Tensor:
        """tokens int64 [B, T] at positions int64 [T] -> logits [B, 1, vocab] of the last position.

        `causal` (static): the tokens are a whole prompt from position 0.
        """
        x = self.embed(tokens)
        cos, sin = self.ops.embedding(positions, self.rope_table).chunk(2, dim=-1)
        visible = None if causal else self.ops.visible(positions, self.cache)
        for layer in self.layers:
            x = layer(x, cos, sin, positions, visible, causal)
        logits: Tensor = self.lm_head(self.norm(x[:, -1:]))
        return logits


def empty(config: Config, ops: Ops) -> Transformer:
    """A model on the meta device, of the class that the operators need."""
    from profiler.model.fused import FusedTransformer  # which builds on this file

    with torch.device("meta"):
        return FusedTransformer(config, ops) if ops.fused else Transformer(config, ops)


def build(config: Config, ops: Ops, *, device: str, dtype: torch.dtype, seed: int) -> Transformer:
    """A model with random weights, made directly on `device` in `dtype`; equal seeds give equal weights.

    Scaled so that the residual stream stays near unit variance, far inside fp16: N(0, 1/fan_in), and the two
    projections that add to the stream divided by sqrt(2 * layers) (GPT-2, section 2.3). Norms are 1, biases
    N(0, 0.02^2). A table that also serves as lm_head is scaled as an lm_head.
    """
    model = empty(config, ops).to(dtype).to_empty(device=device)
    model.tie()
    generator = torch.Generator(device).manual_seed(seed)
    for name, weight in model.named_parameters():
        if weight.dim() == 1:
            _fill_vector(name, weight, generator)
            continue
        fan_in = 1 if name == "embed.weight" and not config.tied else weight.shape[1]
        scale = 1 / math.sqrt(fan_in)
        if name.endswith(("attn.o.weight", "mlp.down.weight")):
            scale /= math.sqrt(2 * config.layers)
        weight.data.normal_(0.0, scale, generator=generator)
    return model.eval()


def _fill_vector(name: str, vector: Tensor, generator: torch.Generator) -> None:
    if name.endswith("bias"):
        vector.data.normal_(0.0, 0.02, generator=generator)
    else:
        vector.data.fill_(1.0)


def rope_angles(head_dim: int, theta: float, scaling: RopeScaling | None, length: int) -> Tensor:
    """Angles fp32 [length, head_dim / 2] on the CPU: position * theta^(-2i / head_dim), maybe scaled."""
    frequency = theta ** -(torch.arange(0, head_dim, 2, dtype=torch.int64).float() / head_dim)
    if scaling is not None:
        frequency = _scale(frequency, scaling)
    return torch.outer(torch.arange(length, dtype=torch.float32), frequency)


def _scale(frequency: Tensor, s: RopeScaling) -> Tensor:
    """Divide low frequencies by `factor`, keep high ones, and blend linearly in between."""
    turns = s.original_max_position * frequency / (2 * math.pi)  # over the original context
    keep = ((turns - s.low_freq_factor) / (s.high_freq_factor - s.low_freq_factor)).clamp(0, 1)
    return frequency * keep + frequency / s.factor * (1 - keep)
