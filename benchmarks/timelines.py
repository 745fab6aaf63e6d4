"""Synthetic runs of any size, made with a seed, in the shape of an LLM's decode."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa

from traces import ledger
from traces.schema import SCHEMA, SCHEMA_VERSION
from traces.store import Run

LAYERS: Final = 32
_GEMM: Final = "sm90_xmma_gemm_f16f16_f16f32_f32_tn_n_tilesize{}_cublas"
_FLASH: Final = "flash_fwd_splitkv_kernel<Flash_fwd_kernel_traits<128, 64, 128>>"
LAYER: Final = (  # name, category, group, module, about ns
    ("void rms_norm_kernel<__half, 4096>(__half*, __half const*, float)", "norm", "small_op", "norm", 2_000),
    (_GEMM.format("128x128x64"), "gemm", "gemm", "attn.qkv_proj", 12_000),
    ("rope_kernel", "rope", "small_op", "attn.rope", 1_800),
    (_FLASH, "attention", "attention", "attn.core", 7_000),
    ("flash_fwd_splitkv_combine_kernel", "attention_reduce", "attention", "attn.core", 2_500),
    (_GEMM.format("64x64x64"), "gemm", "gemm", "attn.o_proj", 8_000),
    ("ncclDevKernel_AllReduce_Sum_f16_RING_LL", "collective", "communication", "attn.all_reduce", 6_000),
    ("triton_poi_fused_mul_silu_8", "activation", "small_op", "mlp.act", 1_500),
    ("gemvx::kernel<int, int, __half, __half, float, 128>", "gemv", "gemm", "mlp.down_proj", 15_000),
    ("Memcpy DtoD (Device -> Device)", "memcpy", "memory", "mlp.copy", 900),
)  # fmt: skip
SECOND_STREAM: Final = frozenset({"communication"})


def made(kernels: int, seed: int, variant: str = "cuda", faster: float = 1.0) -> Run:
    """A run of so many kernels: a prefill step of a hundredth of them, then decode steps of 32 layers.

    Collectives run on a stream of their own, one kernel in ten starts before its predecessor has ended
    (programmatic dependent launch), and one in fifty comes after a long gap. `faster` divides durations.
    """
    rng = np.random.default_rng(seed)
    per_step = LAYERS * len(LAYER)
    what = np.arange(kernels) % len(LAYER)
    base = np.array([k[4] for k in LAYER])[what] / faster
    used = np.maximum(rng.gamma(8.0, base / 8.0), 300).astype(np.int64)
    gap = rng.integers(300, 1_500, kernels)
    gap[rng.random(kernels) < 0.02] += 20_000
    early = rng.random(kernels) < 0.1
    gap[early] = -np.minimum(used, np.roll(used, 1))[early] // 4
    start = np.concatenate([[0], np.cumsum(used + gap)[:-1]])
    prefill = min(kernels // 100, kernels - 1)
    step = np.where(np.arange(kernels) < prefill, 0, (np.arange(kernels) - prefill) // per_step)
    phase = np.where(np.arange(kernels) < prefill, "prefill", "decode")
    order = np.argsort(start, kind="stable")
    columns = _columns(what, kernels) | {
        "start_ns": start, "dur_ns": used, "used_ns": used, "phase": phase, "step": step.astype(np.int32),
        "correlation": np.arange(kernels), "launch_start_ns": start - 5_000,
        "launch_dur_ns": np.full(kernels, 2_000),
    }  # fmt: skip
    arrays = [_array(columns.get(f.name), f, kernels) for f in SCHEMA]
    table = pa.table(arrays, schema=SCHEMA).take(order)
    exclusive, idle, _ = ledger.close(table)
    for name, values in (("exclusive_ns", exclusive), ("gap_ns", idle)):
        table = table.set_column(SCHEMA.get_field_index(name), name, pa.array(values))
    return Run(table, _metadata(table, kernels, variant))  # type: ignore[arg-type]


def _columns(what: Any, kernels: int) -> dict[str, Any]:
    layer = (np.arange(kernels) // len(LAYER)) % LAYERS
    names = {
        key: np.array([k[i] for k in LAYER], object)[what]
        for i, key in enumerate(("name", "category", "group"))
    }
    modules = np.array([[f"layers.{n}.{k[3]}" for k in LAYER] for n in range(LAYERS)], object)
    apart = np.array([k[2] in SECOND_STREAM for k in LAYER])[what]
    return names | {
        "kind": np.full(kernels, "kernel", object), "module": modules[layer, what],
        "layer": layer.astype(np.int16), "device": np.zeros(kernels, np.int32),
        "stream": np.where(apart, 20, 7), "link": np.full(kernels, "launch", object),
        "grid_x": np.full(kernels, 132, np.int32), "block_x": np.full(kernels, 128, np.int32),
    }  # fmt: skip


def _array(values: Any, field: pa.Field, rows: int) -> pa.Array:
    return pa.nulls(rows, field.type) if values is None else pa.array(values, field.type)


def _metadata(table: pa.Table, kernels: int, variant: str) -> dict[str, Any]:
    keys = table.select(["phase", "step", "start_ns"]).append_column(
        "end", pa.array(table["start_ns"].to_numpy() + table["used_ns"].to_numpy())
    )
    found = keys.group_by(["phase", "step"], use_threads=False).aggregate(
        [("start_ns", "min"), ("end", "max")]
    )
    tiles = sorted(found.to_pylist(), key=lambda r: r["start_ns_min"])
    steps = []
    for tile, after in zip(tiles, [*tiles[1:], None], strict=True):
        whole = after is not None and after["phase"] == tile["phase"]
        end = after["start_ns_min"] if whole else tile["end_max"]
        steps.append({"phase": tile["phase"], "step": tile["step"], "start_ns": tile["start_ns_min"],
                      "end_ns": end, "complete": whole, "inferred": False})  # fmt: skip
    return {
        "schema_version": SCHEMA_VERSION, "run_id": f"{variant}-{kernels}", "model": "synthetic",
        "variant": variant, "mode": "eager", "tool": "kineto",
        "workload": {"batch": 1, "prompt": 128, "new_tokens": 64, "dtype": "float16"},
        "device": {"type": "cuda", "name": "synthetic"}, "versions": {},
        "source": {"file": f"{variant}-{kernels}.json", "sha256": "0" * 64}, "time_base_unix_ns": 0,
        "steps": steps, "unprofiled": None,
        "health": {"events": kernels, "rows": {"kernel": kernels}, "dropped": {}, "repaired": {},
                   "orphans": 0},
    }  # fmt: skip
