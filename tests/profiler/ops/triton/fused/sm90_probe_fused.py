"""Compile the fused kernels for sm_90 as the 8B models launch them, without a GPU; print facts as JSON.

Runs in a process of its own, as `sm90_probe.py`. The launchers themselves run, on CPU tensors that nobody
fills, with a driver that only says which GPU to compile for.
"""

from __future__ import annotations

import json
import re
from typing import Any

import torch
from triton.runtime.jit import JITFunction

from profiler.ops.triton.fused import (
    decode_attention,
    embed,
    launch,
    linear_add,
    norm_gate_up,
    norm_head,
    norm_qkv_rope,
    prefill_gate_up,
    prefill_linear_add,
    prefill_qkv_rope,
)
from profiler.ops.triton.fused.tiles import decode_tile, prefill_tiling
from profiler.tune.precompile import Target, start
from tests.profiler.ops.triton.sm90_probe import PATTERNS, resources

E, F, H, KV, D, L, V = 4096, 14336, 32, 8, 128, 768, 128256
FOUND: dict[str, dict[str, Any]] = {}
NAME = ""


class OnGpu:
    """A tensor that says it lies on a GPU, so that kernels are launched to overlap."""

    is_cuda = True

    def __init__(self, x: torch.Tensor) -> None:
        self.element_size = x.element_size


def half(*shape: int) -> torch.Tensor:
    return torch.empty(shape, dtype=torch.float16)


def compile_only(run: Any) -> Any:
    def compiled(self: Any, *args: Any, **kwargs: Any) -> Any:
        built = run(self, *args, **kwargs | {"warmup": True})
        ptx = built.asm["ptx"]
        facts = {name: len(re.findall(pattern, ptx)) for name, pattern in PATTERNS.items()}
        facts |= {"tma": ptx.count("cp.async.bulk.tensor"), "prefetch": ptx.count("prefetch.global.L2")}
        order = [ptx.find("griddepcontrol." + what) for what in ("wait", "launch_dependents")]
        stores = [m.start() for m in re.finditer(r"st\.global", ptx)]
        facts |= {"waits": order[0] >= 0, "wait_first": order[0] < min(order[1], *stores)}
        FOUND[NAME] = facts | {"shared": built.metadata.shared} | resources(built.asm["cubin"])
        return built

    return compiled


def decode(rows: int, bias: bool) -> None:
    global NAME
    x, y = half(rows, E), half(rows, F)
    squares = torch.empty(128, rows)
    at = torch.zeros(1, dtype=torch.int64)
    k, v, q = half(rows, KV, L, D), half(rows, KV, L, D), half(rows, H, D)
    qkv, o, gate_up, down, head = (
        half((H + 2 * KV) * D, E),
        half(E, E),
        half(2 * F, E),
        half(E, F),
        half(V, E),
    )
    b = {n: half(n) if bias else None for n in ((H + 2 * KV) * D, E, 2 * F)}
    tag = f"decode M{rows}" + (" bias" if bias else "")
    NAME = f"{tag} embed"
    embed.launch(torch.zeros(rows, dtype=torch.int64), half(V, E), half(E))
    NAME = f"{tag} qkv"
    tile = decode_tile("qkv", x, D)
    norm_qkv_rope.launch(x, squares, qkv, b[qkv.shape[0]], half(L, D), at, k, v, q, 1e-5, tile)
    NAME = f"{tag} attention"
    splits = decode_attention.splits_for(rows * KV, L)
    decode_attention.launch(
        q, k, v, at, decode_attention.scratch(rows * KV, H // KV, D, splits, "cpu"), splits
    )
    NAME = f"{tag} o"
    ahead = launch.Ahead(gate_up, E, 256, F)
    linear_add.launch(x, o, b[E], x, half(E), decode_tile("short", x, 32), ahead)
    NAME = f"{tag} gate_up"
    norm_gate_up.launch(x, squares, gate_up, b[2 * F], 1e-5, decode_tile("gate_up", x, 16))
    NAME = f"{tag} down"
    linear_add.launch(y, down, b[E], x, half(E), decode_tile("long", y, 32), launch.Ahead(qkv, E, 256))
    NAME = f"{tag} lm_head"
    norm_head.launch(x, squares, head, 1e-5, decode_tile("head", x, 64))


def prefill(rows: int, bias: bool) -> None:
    global NAME
    x, y, squares = half(rows, E), half(rows, F), torch.empty(16, rows)
    k, v, q = half(2, KV, L, D), half(2, KV, L, D), half(rows, H, D)
    b = {n: half(n) if bias else None for n in ((H + 2 * KV) * D, E, 2 * F)}
    tag = f"prefill M{rows}" + (" bias" if bias else "")
    NAME = f"{tag} qkv"
    prefill_qkv_rope.launch(
        x, squares, half((H + 2 * KV) * D, E), b[(H + 2 * KV) * D], half(L, D),
        torch.arange(rows // 2), k, v, q, 1e-5, prefill_tiling("qkv", x, D // 2),
    )  # fmt: skip
    NAME = f"{tag} o"
    prefill_linear_add.launch(x, half(E, E), b[E], x, half(E), prefill_tiling("add", x, 256))
    NAME = f"{tag} gate_up"
    prefill_gate_up.launch(x, squares, half(2 * F, E), b[2 * F], 1e-5, prefill_tiling("gate_up", x, 128))
    NAME = f"{tag} down"
    prefill_linear_add.launch(y, half(E, F), b[E], x, half(E), prefill_tiling("add", y, 256))


def main() -> None:
    start(Target("cuda", 90, 32))
    JITFunction.run = compile_only(JITFunction.run)
    follow = launch.follow
    for module in (embed, norm_qkv_rope, decode_attention, linear_add, norm_gate_up, norm_head):
        module.follow = lambda x, *args, **options: follow(OnGpu(x), *args, **options)
    for rows in (1, 2, 8, 16):
        decode(rows, bias=rows == 2)
    decode(2, bias=False)
    prefill(1024, bias=False)
    prefill(1000, bias=True)
    print(json.dumps(FOUND))


if __name__ == "__main__":
    main()
