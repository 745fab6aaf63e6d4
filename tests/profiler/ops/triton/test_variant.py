"""The variant as the model uses it: results, traces, torch.compile and CUDA graphs."""

from __future__ import annotations

from typing import NamedTuple

import pytest
import torch
from torch.profiler import ProfilerActivity, profile

from profiler.ops.cuda import CudaOps
from profiler.ops.triton.variant import TritonOps
from tests.profiler.ops.triton.checks import DEVICE, close, rand

HEADS, KV_HEADS, D, LENGTH = 4, 2, 16, 24
WIDTH = HEADS * D


class Layer(NamedTuple):
    """What one decode step of a one-layer model reads and writes."""

    token: torch.Tensor
    position: torch.Tensor
    table: torch.Tensor
    norm: torch.Tensor
    qkv: torch.Tensor
    gate_up: torch.Tensor
    down: torch.Tensor
    k_cache: torch.Tensor
    v_cache: torch.Tensor


def layer(batch: int, dtype: torch.dtype = torch.float32) -> Layer:
    def weight(*shape: int) -> torch.Tensor:
        return (rand(*shape) * shape[-1] ** -0.5).to(dtype)

    return Layer(
        torch.randint(11, (batch, 1), device=DEVICE),
        torch.tensor([5], device=DEVICE),
        rand(11, WIDTH, dtype=dtype),
        rand(WIDTH, dtype=dtype),
        weight(WIDTH + 2 * KV_HEADS * D, WIDTH),
        weight(2 * 96, WIDTH),
        weight(WIDTH, 96),
        rand(batch, KV_HEADS, LENGTH, D, dtype=dtype),
        rand(batch, KV_HEADS, LENGTH, D, dtype=dtype),
    )


def step(ops: TritonOps | CudaOps, m: Layer) -> torch.Tensor:
    """Every operator once or more, in the order of a decoder."""
    x = ops.embedding(m.token, m.table)
    qkv = ops.linear(ops.rms_norm(x, m.norm, 1e-5), m.qkv).unflatten(-1, (-1, D)).transpose(1, 2)
    q, k, v = qkv.split([HEADS, KV_HEADS, KV_HEADS], 1)
    angles = ops.embedding(m.position, m.table[:, : D // 2])
    q, k = ops.rope(q, k, angles, angles)
    ops.write_kv(m.k_cache, m.v_cache, k, v, m.position)
    mask = ops.visible(m.position, m.k_cache)
    seen = ops.attention(q, m.k_cache, m.v_cache, m.position, mask, causal=False)
    x = ops.add(x, seen.transpose(1, 2).flatten(2))
    x = ops.add(x, ops.linear(ops.silu_mul(ops.linear(x, m.gate_up)), m.down))
    logits = ops.linear(x, m.table)
    ops.advance(m.token, m.position, ops.argmax(logits))
    return logits


def copy(m: Layer) -> Layer:
    return Layer(*(t.clone() for t in m))


@pytest.mark.parametrize("batch", [1, 3])
def test_agrees_with_the_vendor_variant(batch: int) -> None:
    ours = layer(batch)
    theirs = copy(ours)
    for _ in range(2):
        close(step(TritonOps(), ours), step(CudaOps(), theirs))
    for a, b in zip(ours, theirs, strict=True):
        close(a, b) if a.is_floating_point() else torch.testing.assert_close(a, b)


def test_prompt_agrees_with_the_vendor_variant() -> None:
    q, k, v = (rand(2, 9, n, D).transpose(1, 2) for n in (HEADS, KV_HEADS, KV_HEADS))
    args = q, k, v, torch.arange(9, device=DEVICE), None
    close(TritonOps().attention(*args, causal=True), CudaOps().attention(*args, causal=True))


@pytest.mark.skipif(DEVICE != "cpu", reason="on a GPU the rows are kernels")
def test_a_call_is_one_outermost_op_in_a_cpu_trace() -> None:
    ops, m = TritonOps(), layer(1)
    m.table.requires_grad_(False)
    with torch.no_grad():
        step(ops, m)
        with profile(activities=[ProfilerActivity.CPU]) as trace:
            ops.linear(m.table, m.qkv)
            ops.rms_norm(m.table, m.norm, 1e-5)
            ops.attention(rand(1, HEADS, 1, D), m.k_cache, m.v_cache, m.position, None, causal=False)
    outermost = [e.name for e in trace.events() if e.cpu_parent is None and e.name.startswith("kernelgap::")]
    assert outermost == ["kernelgap::linear", "kernelgap::rms_norm", "kernelgap::attention"]
    nested = [e.name for e in trace.events() if e.cpu_parent is not None]
    assert not [name for name in nested if name.startswith("kernelgap::")]


def test_compiles_as_one_graph_with_our_kernels_opaque() -> None:
    """Custom ops stay; the small ops become ATen, for Inductor to fuse."""
    calls: list[str] = []

    def backend(graph: torch.fx.GraphModule, _: list[torch.Tensor]) -> torch.fx.GraphModule:
        calls.extend(str(n.target) for n in graph.graph.nodes if n.op in ("call_function", "call_method"))
        return graph

    ours = layer(2)
    eager = copy(ours)
    compiled = torch.compile(step, fullgraph=True, backend=backend)
    close(compiled(TritonOps(), ours), step(TritonOps(), eager))
    custom = {c.split(".")[1] for c in calls if c.startswith("kernelgap")}
    assert custom == {"rms_norm", "linear", "attention", "silu_mul"}


@pytest.mark.gpu
@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")  # torch 2.11's own imports
def test_inductor_fullgraph() -> None:
    ours = layer(2)  # fp32: fused kernels round fp16 less often than eager ones
    eager = copy(ours)
    compiled = torch.compile(step, fullgraph=True)
    close(compiled(TritonOps(), ours), step(TritonOps(), eager))


@pytest.mark.gpu
def test_one_cuda_graph_serves_every_position() -> None:
    ops, captured = TritonOps(), layer(2, torch.float16)
    eager = copy(captured)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        step(ops, copy(captured))  # compiles the kernels, which a capture cannot
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        logits = step(ops, captured)
    for _ in range(4):
        graph.replay()
        expected = step(ops, eager)
        torch.cuda.synchronize()
        close(logits, expected)
    assert captured.position.item() == eager.position.item() == 9
