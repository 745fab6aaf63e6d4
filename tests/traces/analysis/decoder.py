"""Runs of a small decoder whose kernels, modules and layers a test chooses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.traces.builders import run, step
from traces.attribution.taxonomy import GROUP_OF

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traces.store import Run


CUDA = (
    ("attn_norm", "norm", 4), ("attn.qkv", "gemm", 20), ("attn", "rope", 3), ("attn", "attention", 9),
    ("attn", "attention_reduce", 2), ("attn.o", "gemm", 12), ("attn.o", "gemm_reduce", 2),
    ("mlp_norm", "norm", 5),
    ("mlp.gate_up", "gemm", 60), ("mlp", "activation", 2), ("mlp.down", "gemm", 30),
)  # fmt: skip
TRITON = (
    ("attn_norm", "norm", 2), ("attn.qkv", "gemm", 18), ("attn.qkv", "gemm_reduce", 1), ("attn", "rope", 3),
    ("attn", "attention", 6), ("attn.o", "gemm", 13), ("", "elementwise", 1), ("mlp_norm", "norm", 2),
    ("mlp.gate_up", "gemm", 70), ("mlp", "activation", 2), ("mlp.down", "gemm", 33),
)  # fmt: skip


def decoder(
    plan: Sequence[tuple[str | None, str, int]],
    *,
    layers: int = 3,
    steps: int = 3,
    gap: int = 1,
    names: dict[str, str] | None = None,
    modules: bool = True,
    known_layers: bool = True,
    root: str = "layers",
    **known: Any,
) -> Run:
    """`steps` complete decode steps and an incomplete one; `names` renames modules below the layer.

    Before the layers an embedding, after them an LM head, both 10 ns, outside any layer.
    """
    rows: list[dict[str, Any]] = []
    tiles = []
    at = 0
    for number in range(steps + 1):
        start = at
        for layer in (None, *range(layers), None):
            head = [("embed", "embedding", 10)] if at == start else [("lm_head", "gemm", 10)]
            for module, category, ns in plan if layer is not None else head:
                path = (
                    module if layer is None else _path(root, layer, (names or {}).get(module or "", module))
                )
                rows.append({
                    "start_ns": at, "dur_ns": ns, "name": f"{category}_kernel", "category": category,
                    "group": GROUP_OF[category], "phase": "decode", "step": number,
                    "module": path if modules and module is not None else None,
                    "layer": layer if known_layers else None,
                })  # fmt: skip
                at += ns + gap
        tiles.append(step("decode", number, start, at, complete=number < steps))
    return run(rows, steps=tiles, **known)


def _path(root: str, layer: int, module: str | None) -> str:
    return f"{root}.{layer}.{module}".rstrip(".")
