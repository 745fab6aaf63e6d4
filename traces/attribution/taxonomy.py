"""Groups, categories, backends and their colours: the vocabulary of every report."""

from __future__ import annotations

from typing import Final

GROUPS: Final[dict[str, tuple[str, ...]]] = {
    "gemm": ("gemm", "gemv", "gemm_reduce", "grouped_gemm", "quantized_gemm"),
    "attention": ("attention", "attention_reduce"),
    "small_op": (
        "norm", "rope", "activation", "elementwise", "softmax", "reduction", "embedding", "copy", "fill",
        "quantize", "kv_cache", "sampling", "random", "moe_routing", "loss", "optimizer", "pooling", "fused",
    ),
    "communication": ("collective", "p2p"),
    "memory": ("memcpy", "memset"),
    "other": ("conv", "fft", "linalg", "sync", "graph", "unknown"),
}  # fmt: skip

GROUP_OF: Final[dict[str, str]] = {c: group for group, categories in GROUPS.items() for c in categories}

BACKENDS: Final = (
    "cublas", "cudnn", "cutlass", "flash_attn", "mem_efficient", "triton", "inductor", "aten", "nccl", "rccl",
    "hipblaslt", "ck", "aiter", "vllm", "flashinfer", "tensorrt_llm", "cub", "foreach", "fft", "cusolver",
    "other",
)  # fmt: skip

# Okabe-Ito: told apart under the three common colour-vision deficiencies.
COLOURS: Final[dict[str, str]] = {
    "gemm": "#0072B2",
    "attention": "#E69F00",
    "small_op": "#009E73",
    "communication": "#56B4E9",
    "memory": "#D55E00",
    "other": "#CC79A7",
    "idle": "#999999",
}
