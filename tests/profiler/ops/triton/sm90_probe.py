"""Compile every kernel for sm_90 without a GPU and print what the code is made of, as JSON.

Runs in a process of its own: the tests' process has Triton's interpreter in place of the compiler.
"""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from profiler.ops.triton import (
    add,
    argmax,
    attention,
    bias_gelu_dropout,
    embedding,
    gemm,
    rms_norm,
    rope,
    silu_mul,
    softmax,
    write_kv,
)

H, F, I64, I32 = "*fp16", "*fp32", "*i64", "i32:16"  # :16 = divisible by 16, as the model's sizes are
CUOBJDUMP = Path(triton.__file__).parent / "backends/nvidia/bin/cuobjdump"
PATTERNS = {
    "wgmma": r"wgmma\.mma_async",
    "mma": r"mma\.sync",
    "cp_async": r"cp\.async\.cg.* 0x10",
    "wide_loads": r"ld\.global\S*\.(?:v4\.b32|v2\.b64)|cp\.async\.cg.* 0x10",
}
STRIDES = dict.fromkeys(
    ("q_b", "q_h", "q_t", "k_b", "k_h", "k_l", "k_t", "v_b", "v_h", "v_l", "v_t", "angle_t"), I32
)
STRIDES |= {"T": I32, "L": I32}


def compile_sm90(kernel: Any, arguments: dict[str, Any], **options: int) -> dict[str, Any]:
    """Counts of instructions in the PTX, shared memory, registers and stack, for tensors of those types."""
    types, constants, attributes = {}, {}, {}
    for index, name in enumerate(kernel.arg_names):
        value = arguments[name]
        types[name] = value.partition(":")[0] if isinstance(value, str) else "constexpr"
        if not isinstance(value, str):
            constants[name] = value
        elif value.startswith("*") or value.endswith(":16"):
            attributes[(index,)] = [["tt.divisibility", 16]]
    source = ASTSource(kernel, types, constants, attributes)
    built = triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options)
    counts = {name: len(re.findall(pattern, built.asm["ptx"])) for name, pattern in PATTERNS.items()}
    return counts | {"shared": built.metadata.shared} | resources(built.asm["cubin"])


def resources(cubin: bytes) -> dict[str, int]:
    """Registers per thread and bytes of stack, where spilled registers go."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        command = [CUOBJDUMP, "--dump-resource-usage", file.name]
        text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = re.search(r"REG:(\d+) STACK:(\d+)", text)
    assert found is not None, text
    return {"registers": int(found[1]), "stack": int(found[2])}


def gemm_kernels() -> dict[str, dict[str, Any]]:
    """One entry per configuration that the Llama3-8B shapes use."""
    found = {}
    sizes = {"x_ptr": H, "w_ptr": H, "M": "i32", "N": I32, "K": I32, "k_per_split": I32, "EVEN_K": True}
    sizes |= {"bias_ptr": None, "HAS_BIAS": False}
    for n, k in ((6144, 4096), (28672, 4096), (4096, 14336), (128256, 4096)):
        c = gemm.small_config(n, k, 2)
        shape = {
            "out_ptr": F if c.split_k > 1 else H,
            "BLOCK_N": c.block_n,
            "BLOCK_K": c.block_k,
            "PAD_M": 16,
        }
        found[f"decode_{n}x{k}"] = compile_sm90(
            gemm.gemm_small_m_kernel, sizes | shape, num_warps=c.num_warps, num_stages=c.num_stages
        )
    for m, n in ((1024, 6144), (1024, 4096), (64, 4096)):
        t = gemm.tiled_config(m, n, 4096, 2)
        shape = {"out_ptr": H, "BLOCK_M": t.block_m, "BLOCK_N": t.block_n, "BLOCK_K": t.block_k}
        found[f"prefill_{m}x{n}"] = compile_sm90(
            gemm.gemm_tiled_kernel,
            sizes | shape | {"GROUP_M": t.group_m},
            num_warps=t.num_warps,
            num_stages=t.num_stages,
        )
    reduce = {"part_ptr": F, "bias_ptr": None, "out_ptr": H, "size": I32, "N": I32, "SPLIT_K": 2}
    reduce |= {"BLOCK": 1024, "HAS_BIAS": False}
    return found | {"gemm_reduce": compile_sm90(gemm.gemm_reduce_kernel, reduce)}


def attention_kernels() -> dict[str, dict[str, Any]]:
    """Llama3-8B: 32 heads over 8, head size 128."""
    common = STRIDES | {"q_ptr": H, "k_ptr": H, "v_ptr": H, "positions_ptr": I64, "scale": "fp32", "D": 128}
    parts = {"m_ptr": F, "norm_ptr": F, "acc_ptr": F, "SPLITS": 16}
    prefill = common | {"out_ptr": H, "HEADS": 32, "GROUP": 4, "BLOCK_T": 128, "BLOCK_L": 64}
    decode = common | parts | {"KV_HEADS": 8, "GROUP": 4, "PAD": 16, "BLOCK_L": 64}
    return {
        "attention_prefill": compile_sm90(
            attention.attention_prefill_kernel, prefill, num_warps=8, num_stages=3
        ),
        "attention_decode": compile_sm90(
            attention.attention_decode_kernel, decode, num_warps=4, num_stages=2
        ),
        "attention_reduce": compile_sm90(
            attention.attention_reduce_kernel, parts | {"out_ptr": H, "D": 128}, num_warps=4
        ),
    }


def small_kernels() -> dict[str, dict[str, Any]]:
    """The memory-bound ops at the widths of Llama3-8B."""
    norm = {"x_ptr": H, "weight_ptr": H, "out_ptr": H, "x_row": I32, "D": I32, "eps": "fp32", "BLOCK": 4096}
    silu = {"gate_up_ptr": H, "out_ptr": H, "width": I32, "BLOCK": 1024}
    rows = {"tokens_ptr": I64, "table_ptr": H, "out_ptr": H, "width": I32, "BLOCK": 1024}
    plus = {"x_ptr": H, "y_ptr": H, "out_ptr": H, "size": I32, "BLOCK": 1024}
    heads = {"HEADS": 32, "HEADS_PAD": 32, "KV_HEADS": 8, "KV_PAD": 8, "HALF": 64, "BLOCK": 64}
    turn = (
        dict.fromkeys(("q_ptr", "k_ptr", "cos_ptr", "sin_ptr", "q_out_ptr", "k_out_ptr"), H) | STRIDES | heads
    )
    cache = dict.fromkeys(("kc_b", "kc_h", "kc_l", "vc_b", "vc_h", "vc_l"), I32) | STRIDES
    cache |= dict.fromkeys(("k_cache_ptr", "v_cache_ptr", "k_ptr", "v_ptr"), H) | {"positions_ptr": I64}
    cache |= {"HEADS": 8, "HEADS_PAD": 8, "D": 128, "D_PAD": 128}
    best = {"x_ptr": H, "value_ptr": F, "index_ptr": "*i32", "size": I32, "BLOCK": 4096}
    return {
        "rms_norm": compile_sm90(rms_norm.rms_norm_kernel, norm, num_warps=8),
        "silu_mul": compile_sm90(silu_mul.silu_mul_kernel, silu),
        "embedding": compile_sm90(embedding.embedding_kernel, rows),
        "add": compile_sm90(add.add_kernel, plus),
        "rope": compile_sm90(rope.rope_kernel, turn),
        "write_kv": compile_sm90(write_kv.write_kv_kernel, cache),
        "argmax": compile_sm90(argmax.argmax_block_kernel, best, num_warps=8),
    }


def softmax_kernels() -> dict[str, dict[str, Any]]:
    """The longest row of one pass, a model's width, and the two launches of a vocabulary."""
    row = {"x_ptr": H, "out_ptr": H, "best_ptr": F, "sum_ptr": F, "x_row": I32, "D": I32, "width": I32}
    row |= {"log2_e": "fp32", "PAD": 32, "BLOCK": softmax.BLOCK}
    return {
        "softmax_one_pass": compile_sm90(
            softmax.softmax_kernel, row | {"BLOCK": softmax.ONE_PASS}, num_warps=16
        ),
        "softmax_4096": compile_sm90(softmax.softmax_kernel, row, num_warps=8),
        "softmax_parts": compile_sm90(softmax.softmax_parts_kernel, row, num_warps=8),
        "softmax_scale": compile_sm90(softmax.softmax_scale_kernel, row, num_warps=8),
    }


def gelu_kernels() -> dict[str, dict[str, Any]]:
    """Both forms of GELU, and the one without dropout."""
    sizes = {
        "x_ptr": H,
        "bias_ptr": H,
        "out_ptr": H,
        "width": I32,
        "p": "fp32",
        "scale": "fp32",
        "seed": "i32",
    }
    sizes |= {"QUARTER": bias_gelu_dropout.QUARTER}
    kernel = bias_gelu_dropout.bias_gelu_dropout_kernel
    return {
        f"gelu_{name}": compile_sm90(kernel, sizes | {"TANH": tanh, "DROPOUT": dropout}, num_warps=4)
        for name, tanh, dropout in (("tanh", True, True), ("erf", False, True), ("no_dropout", True, False))
    }


if __name__ == "__main__":
    small = small_kernels() | softmax_kernels() | gelu_kernels()
    print(json.dumps(gemm_kernels() | attention_kernels() | small))
