"""Modules and layers of whole traces, from file to run."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from tests.traces.readers.nsys_exports import Made
from tests.traces.traces import host, kernel, op, trace, user_range, write
from traces.ingest import ingest

if TYPE_CHECKING:
    from pathlib import Path

    from traces.store import Run

Rows = list[dict[str, Any]]
# Kernels of a layer, and their launching op.
LAYER = [
    ("void vllm::rms_norm_kernel<c10::BFloat16>", "_C::rms_norm"),
    ("nvjet_tst_64x8_64x16_4x1_v_bz_TNN", "aten::mm"),
    ("flash_fwd_splitkv_kernel", "aten::_flash_attention_forward"),
    ("nvjet_tst_128x8_64x16_4x1_v_bz_TNN", "aten::mm"),
    ("void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add>", "aten::add"),
]


def module_call(name: str, ts: float, dur: float, tid: int = 100) -> dict[str, Any]:
    made = user_range(f"nn.Module: {name}", ts, dur, tid)
    return made | {"cat": "python_function", "args": {"Python id": 1, "Python module id": 0}}


def launch(name: str, op_name: str, ts: float, ids: itertools.count[int], tid: int = 100) -> Rows:
    c = next(ids)
    return [
        op(op_name, ts, 4, c, tid), host("cudaLaunchKernel", ts + 1, 2, c, tid), kernel(name, ts + 3, 2, c),
    ]  # fmt: skip


def columns(run: Run, *names: str) -> list[tuple[Any, ...]]:
    return list(zip(*(run.table[n].to_pylist() for n in names), strict=True))


def test_a_trace_with_stacks_says_modules(tmp_path: Path) -> None:
    ids = itertools.count(1)
    rows = [user_range("decode_7", 0, 500), module_call("Llama_0", 5, 400)]
    for layer in range(2):
        at = 10 + 100.0 * layer
        rows += [
            module_call(f"LlamaDecoderLayer_{layer}", at, 90),
            module_call(f"LlamaMLP_{layer}", at + 40, 30),
        ]
        rows += launch(*LAYER[0], at + 5, ids) + launch(*LAYER[1], at + 45, ids)
    rows += launch(*LAYER[1], 300, ids) + launch(*LAYER[1], 460, ids) + launch(*LAYER[1], 320, ids, tid=101)
    run = ingest(write(tmp_path / "t.json", trace(*rows)))
    first, second = ("Llama_0.LlamaDecoderLayer_0", "Llama_0.LlamaDecoderLayer_1")
    assert columns(run, "phase", "step", "layer", "module") == [
        ("decode", 7, 0, first), ("decode", 7, 0, f"{first}.LlamaMLP_0"),
        ("decode", 7, 1, second), ("decode", 7, 1, f"{second}.LlamaMLP_1"),
        ("decode", 7, None, "Llama_0"),
        ("decode", 7, None, None),  # another thread, as a backward pass
        ("decode", 7, None, None),
    ]  # fmt: skip
    assert "layers" not in run.meta["health"]


def test_module_like_ranges_alone_name_no_phase(tmp_path: Path) -> None:
    ids = itertools.count(1)
    rows = [user_range("ProfilerStep#3", 0, 100), user_range("model.layers.4.mlp", 10, 20)]
    run = ingest(write(tmp_path / "t.json", trace(*rows, *launch(*LAYER[1], 12, ids))))
    assert columns(run, "phase", "step", "layer", "module") == [("ProfilerStep", 3, 4, "model.layers.4.mlp")]


def test_layers_of_graph_replays_are_inferred_and_said_to_be(tmp_path: Path) -> None:
    rows: Rows = []
    for step in range(3):
        at = 1000.0 * step
        rows += [user_range(f"decode_{step}", at, 900), host("cudaGraphLaunch", at + 1, 5, step + 1)]
        names = ["embedding_kernel", *(n for n, _ in LAYER * 8), LAYER[0][0], LAYER[1][0], "argmax_kernel"]
        rows += [kernel(n, at + 10 + 3 * i, 2, step + 1) for i, n in enumerate(names)]
    run = ingest(write(tmp_path / "t.json", trace(*rows)))
    one = [None, *(i for i in range(8) for _ in LAYER), None, None, None]
    assert run.table["layer"].to_pylist() == one * 3
    assert run.table["module"].null_count == run.table.num_rows
    assert run.meta["health"]["layers"] == {"inferred": True, "count": 8, "phases": ["decode"]}
    assert run.meta["health"]["notes"] == [
        "layers: inferred from repeating kernels, not recorded: 8 in decode"
    ]


def test_layers_of_inferred_steps_are_inferred(tmp_path: Path) -> None:
    rows: Rows = []
    names = ["embedding_kernel", *(n for n, _ in LAYER * 8), LAYER[0][0], LAYER[1][0], "argmax_kernel"]
    for i, name in enumerate(names * 6):
        at = 10 + 3 * i + 500.0 * (i // len(names))
        rows += [host("cudaLaunchKernel", at - 5, 1, i + 1), kernel(name, at, 2, i + 1)]
    run = ingest(write(tmp_path / "t.json", trace(*rows)))
    assert {s["inferred"] for s in run.meta["steps"]} == {True}
    assert run.table["layer"].to_pylist() == [None, *(i for i in range(8) for _ in LAYER), *[None] * 3] * 6


def test_nvtx_of_vllms_and_other_hooks(tmp_path: Path) -> None:
    made = Made()
    hook = "{'Module': 'model.layers.1.self_attn', 'TrainableParams': {'weight': [8, 8]}, 'Inputs': [[2, 8]]}"
    made.range("execute_context_1(8)_generation_0(0)", 0, 1000).range(hook, 10, 50)
    made.range("layer_2", 100, 200).range("mlp", 110, 150).range("model.layers.3.mlp, op_id = 9", 300, 400)
    for i, at in enumerate((20, 120, 160, 350, 900), 1):
        made.call("cudaLaunchKernel", at, at + 2, correlationId=i)
        made.kernel("k", at + 3, at + 5, correlationId=i)
    run = ingest(made.write(tmp_path))
    assert columns(run, "layer", "module") == [
        (1, "model.layers.1.self_attn"), (2, "layers.2.mlp"), (2, "layers.2"), (3, "model.layers.3.mlp"),
        (None, None),
    ]  # fmt: skip
    assert set(run.table["phase"].to_pylist()) == {"execute_context_1(8)_generation_0(0)"}
