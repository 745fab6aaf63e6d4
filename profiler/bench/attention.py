"""Attention of one decode step over a KV cache, and of a prompt, against every SDPA backend that takes it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from profiler.bench.case import Case, Contender, Setting
from profiler.bench.table import Work
from profiler.ops import sdpa
from profiler.ops.triton import attention, flash
from profiler.ops.triton.fused import decode_attention

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from torch import Tensor

    Attend = Callable[[Tensor, Tensor, Tensor], Tensor]


def cases(setting: Setting) -> Iterator[Case]:
    """Decode at each cache length, every slot visible; then the prompt."""
    for length in setting.lengths:
        yield decode(setting, slots=length, position=length - 1)
    yield prefill(setting)


def decode(setting: Setting, *, slots: int, position: int, every: bool = True) -> Case:
    """One query a sequence, that sees the keys up to `position` of a cache of `slots`.

    SDPA reads the whole cache under a mask, made once a step and not timed; the bytes are those of the
    visible keys.
    """
    c, batch = setting.config, setting.workload.batch
    seen = position + 1
    work = Work(
        2 * batch * (seen * c.kv_heads + c.heads) * c.head_dim * setting.dtype.itemsize,
        4 * batch * c.heads * seen * c.head_dim,
    )
    copies = setting.copies(work.bytes)
    made = [
        (
            setting.normal(batch, c.heads, 1, c.head_dim),
            setting.normal(batch, c.kv_heads, slots, c.head_dim),
            setting.normal(batch, c.kv_heads, slots, c.head_dim),
        )
        for _ in range(copies)
    ]
    at = torch.tensor([position], device=setting.device)
    pairs, group = batch * c.kv_heads, c.heads // c.kv_heads
    splits = decode_attention.splits_for(pairs, slots)
    memory = decode_attention.scratch(pairs, group, c.head_dim, splits, setting.device)
    triton: dict[str, Attend] = {
        "decode_attention": lambda q, k, v: decode_attention.decode_attention(q, k, v, at, memory, True),
        "attention, 2 launches": lambda q, k, v: attention.attention(q, k, v, at),
    }
    shape = f"B{batch} H{c.heads}/{c.kv_heads} D{c.head_dim} keys {seen}"
    shape += f" of {slots}" if slots != seen else ""
    contenders = _contenders(made, at, _backends(sdpa.DECODE, at, made[0][1]), triton)
    return Case("decode attention", shape, work, copies, contenders, every=every, calls=c.layers)


def prefill(setting: Setting) -> Case:
    """Causal attention of the prompt; q, k and v lie token by token, as a projection leaves them."""
    c, batch, tokens = setting.config, setting.workload.batch, setting.workload.prompt
    work = Work(
        2 * batch * tokens * (c.heads + c.kv_heads) * c.head_dim * setting.dtype.itemsize,
        2 * batch * c.heads * c.head_dim * tokens * (tokens + 1),
    )
    copies = setting.copies(work.bytes)

    def heads(count: int) -> Tensor:
        return setting.normal(batch, tokens, count, c.head_dim).transpose(1, 2)

    made = [(heads(c.heads), heads(c.kv_heads), heads(c.kv_heads)) for _ in range(copies)]
    at = torch.arange(tokens, device=setting.device)
    triton: dict[str, Attend] = {
        "attention": lambda q, k, v: attention.attention(q, k, v, at),
        "flash_attention": lambda q, k, v: flash.flash_attention(q, k, v, at),
    }
    shape = f"B{batch} H{c.heads}/{c.kv_heads} D{c.head_dim} T{tokens}"
    contenders = _contenders(made, at, _backends(sdpa.PREFILL, at, None), triton)
    return Case("prefill attention", shape, work, copies, contenders, every=True)


def _backends(table: dict[str, sdpa.Backend], at: Tensor, cache: Tensor | None) -> dict[str, Attend]:
    """SDPA's backends; the mask of decode is made here, as it is once a step."""

    def attend(backend: sdpa.Backend) -> Attend:
        visible = None if cache is None else backend.visible(at, cache)
        return lambda q, k, v: backend.run(q, k, v, visible)

    return {f"SDPA {name}": attend(b) for name, b in table.items() if name != sdpa.DEFAULT}


def _contenders(
    made: Sequence[tuple[Tensor, Tensor, Tensor]],
    at: Tensor,
    vendor: dict[str, Attend],
    triton: dict[str, Attend],
) -> list[Contender]:
    """Each with its output as the next projection takes it: [B, T, H * D]."""

    def expected() -> Tensor:
        q, k, v = (t.float() for t in made[0])
        return _flat(sdpa.reference(q, k, v, at))

    def contender(name: str, attend: Attend) -> Contender:
        return Contender(name, name in triton, lambda i: _flat(attend(*made[i])), expected)

    return [contender(name, attend) for name, attend in (vendor | triton).items()]


def _flat(out: Tensor) -> Tensor:
    batch, _, tokens, _ = out.shape
    return out.transpose(1, 2).reshape(batch, tokens, -1)
