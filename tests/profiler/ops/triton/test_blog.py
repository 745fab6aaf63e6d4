"""`triton-blog` as the model uses it: results, what torch.compile is given, and what `prepare` reports."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch._dynamo.backends.common import aot_autograd
from torch._inductor.decomposition import select_decomp_table

from profiler.model.config import WORKLOADS, Config, Workload, preset
from profiler.model.generate import decode_step, generate, new_state, prefill, random_prompt
from profiler.model.transformer import Transformer, build
from profiler.ops import load
from profiler.ops.triton import splitk, tiles
from profiler.ops.triton.blog import BlogOps
from profiler.ops.triton.splitk import Shape
from tests.profiler.ops.triton.checks import DEVICE, close

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from profiler.model.generate import State
    from profiler.ops import Ops

OURS = {"kernelgap::splitk_linear", "kernelgap::flash_attention"}


@pytest.fixture(autouse=True)
def nothing_selected() -> Iterator[None]:
    yield
    splitk.select({})


def model_of(ops: Ops, name: str = "tiny", *, biased: bool = False) -> tuple[Transformer, State]:
    config = preset(name)
    if biased:
        config = Config(**(vars(config) | {"attention_bias": True, "mlp_bias": True, "tied": True}))
    workload = WORKLOADS["tiny"]
    model = build(config, ops, device=DEVICE, dtype=torch.float32, seed=0)
    model.allocate(workload.batch, workload.length)
    return model, new_state(random_prompt(config.vocab, workload, device=DEVICE, seed=0))


def test_it_is_a_variant() -> None:
    assert isinstance(load("triton-blog", DEVICE), BlogOps)


@pytest.mark.parametrize("biased", [False, True])
def test_generates_what_the_vendor_variant_does(biased: bool) -> None:
    tokens, logits = [], []
    for variant in ("cuda", "triton-blog"):
        model, state = model_of(load(variant, DEVICE), biased=biased)
        with torch.no_grad():
            tokens.append(generate(model, state, 3))
            logits.append(decode_step(model, state))
    assert torch.equal(tokens[0], tokens[1])
    torch.testing.assert_close(logits[1], logits[0], rtol=1e-4, atol=1e-4)


def operators(step: Callable[[Transformer, State], torch.Tensor]) -> tuple[list[Any], torch.Tensor]:
    """Every operator that Inductor would be given for one step, and the step's result."""
    found: list[Any] = []

    def compiler(graph: torch.fx.GraphModule, _: list[torch.Tensor]) -> Any:
        found.extend(n.target for n in graph.graph.nodes if n.op == "call_function")
        return graph.forward

    model, state = model_of(BlogOps())
    backend = aot_autograd(fw_compiler=compiler, decompositions=select_decomp_table())
    torch.compiler.reset()
    with torch.no_grad():
        prefill(model, state)
        run = torch.compile(step, fullgraph=True, dynamic=False, backend=backend)
        return found, run(model, state).clone()


@pytest.mark.parametrize("step", [prefill, decode_step])
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")  # Inductor's own imports
def test_a_compiled_step_is_our_ops_and_what_inductor_generates(
    step: Callable[[Transformer, State], torch.Tensor],
) -> None:
    """One graph, in which nothing is left to an ATen or vendor kernel."""
    from torch._inductor import lowering

    found, result = operators(step)
    names = {getattr(target, "_name", str(target)) for target in found}
    custom = {name for name in names if name.startswith("kernelgap::")}
    assert custom == OURS
    rest = [t for t in found if isinstance(t, torch._ops.OpOverload) and t.namespace != "kernelgap"]
    products = ("mm", "bmm", "addmm", "baddbmm", "convolution", "sdpa", "scaled_dot_product", "sort")
    assert [t for t in rest if any(p in t._name for p in products)] == []
    assert [t for t in rest if t not in lowering.lowerings or t in lowering.fallbacks] == []
    model, state = model_of(BlogOps())
    with torch.no_grad():
        prefill(model, state)
        close(result, step(model, state))


def test_eager_runs_no_aten_arithmetic() -> None:
    """Every operator that computes is one of ours; ATen only allocates, copies and makes views."""
    model, state = model_of(BlogOps())
    with torch.no_grad():
        prefill(model, state)
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as trace:
            decode_step(model, state)
    outer = {e.name for e in trace.events() if e.cpu_parent is None}
    arithmetic = {"aten::mm", "aten::linear", "aten::add", "aten::mul", "aten::rms_norm", "aten::silu"}
    assert not outer & arithmetic
    assert outer >= OURS


@pytest.mark.parametrize("step", [prefill, decode_step])
def test_eager_copies_nothing(step: Callable[[Transformer, State], torch.Tensor]) -> None:
    """A view that a kernel cannot read would be copied, and on a GPU ATen's kernel would do that."""
    config, workload = preset("tiny"), Workload(2, 16, 4, "float32")
    model = build(config, BlogOps(), device=DEVICE, dtype=torch.float32, seed=0)
    model.allocate(workload.batch, workload.length)
    state = new_state(random_prompt(config.vocab, workload, device=DEVICE, seed=0))
    with torch.no_grad():
        prefill(model, state)
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as trace:
            step(model, state)
    assert [e.name for e in trace.events() if e.name in ("aten::clone", "aten::contiguous")] == []


def test_prepare_selects_tuned_configurations_and_says_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    class Properties:
        name = "Some GPU"

    monkeypatch.setenv("KERNELGAP_CACHE", str(tmp_path))
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: Properties)
    tuned = splitk.Config(16, 64, 64, 2, 4, 3, 1)
    shape = Shape(2, 6144, 4096)
    stale = tiles.Entry("Some GPU", "float16", Shape(2, 8, 8), "old", config=tuned)
    entry = tiles.Entry("Some GPU", "float16", shape, tiles.fingerprint(), config=tuned, us=15.0)
    (tmp_path / "tiles.json").write_text(tiles.dump([entry, stale]))
    found = BlogOps().prepare(preset("llama3-8b"), Workload(2, 512, 256), device="cuda")["gemm"]
    assert (found["tuned"], found["default"], found["other_kernel"]) == (1, 8, 1)
    assert found["shapes"]["M2 N6144 K4096"] == {"config": str(tuned), "source": "tuned"}
    assert splitk._selected[shape] == tuned
    assert splitk._selected[Shape(2, 4096, 4096)] == splitk.default_config(2, 2)


def test_prepare_on_the_cpu_takes_the_defaults() -> None:
    found = BlogOps().prepare(preset("tiny"), WORKLOADS["tiny"], device="cpu")["gemm"]
    assert found["tuned"] == 0
    assert {s["source"] for s in found["shapes"].values()} == {"default"}
