"""Compile the kernels of `triton-blog` for sm_90 without a GPU and print what the code is made of, as JSON.

Runs in a process of its own, as `sm90_probe.py`, whose tools it uses.
"""

from __future__ import annotations

import json
from typing import Any

from profiler.ops.triton import flash, splitk
from tests.profiler.ops.triton.sm90_probe import I32, I64, STRIDES, H, compile_sm90

ROWS = {"decode": 2, "prefill": 1024}


def gemm(dtype: str, m: int, config: splitk.Config) -> dict[str, Any]:
    values = splitk.constants(m, 4096, config)
    sizes = {"x_ptr": dtype, "w_ptr": dtype, "out_ptr": dtype, "bias_ptr": None}
    sizes |= {"M": I32 if m % 16 == 0 else "i32", "N": I32, "K": I32, "group_m": "i32"}
    options = {name: int(values.pop(name)) for name in ("num_warps", "num_stages")}
    return compile_sm90(splitk.splitk_gemm_kernel, sizes | values, **options)


def gemms() -> dict[str, dict[str, Any]]:
    """The default of each phase in each 16-bit type, and a split prefill."""
    found = {}
    for phase, m in ROWS.items():
        config = splitk.default_config(m, 2)
        found[f"splitk_{phase}"] = gemm(H, m, config)
    found["splitk_decode_bf16"] = gemm("*bf16", 2, splitk.default_config(2, 2))
    zero = {"out_ptr": H, "size": I32, "BLOCK": 1024}
    return found | {"splitk_zero": compile_sm90(splitk.splitk_zero_fill_kernel, zero)}


def attention() -> dict[str, dict[str, Any]]:
    """Llama3-8B: 32 heads over 8, head size 128."""
    common = STRIDES | {"q_ptr": H, "k_ptr": H, "v_ptr": H, "out_ptr": H, "positions_ptr": I64}
    common |= {"scale": "fp32", "D": 128, "HEADS": 32, "GROUP": 4}
    found = {}
    for phase, tokens in (("decode", 1), ("prefill", 512)):
        block_t, block_l, warps, stages = flash.tiles(tokens, 2)
        sizes = common | {"BLOCK_T": block_t, "BLOCK_L": block_l, "T": tokens if tokens == 1 else I32}
        found[f"flash_{phase}"] = compile_sm90(
            flash.flash_attention_kernel, sizes, num_warps=warps, num_stages=stages
        )
    return found


if __name__ == "__main__":
    print(json.dumps(gemms() | attention()))
