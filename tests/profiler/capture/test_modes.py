"""Step functions survive the compiler whole: no graph break, same tokens."""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING

import pytest
import torch

from profiler.capture import modes
from profiler.model.config import Workload, preset
from profiler.model.generate import decode_step, prefill, random_prompt
from profiler.model.transformer import build
from profiler.ops import load
from traces.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

TINY = preset("tiny")
WORKLOAD = Workload(2, prompt=4, new_tokens=4, dtype="float32")


def runner(variant: str) -> modes.Runner:
    model = build(TINY, load(variant, "cpu"), device="cpu", dtype=torch.float32, seed=0)
    model.allocate(WORKLOAD.batch, WORKLOAD.length)
    return modes.eager(model, random_prompt(TINY.vocab, WORKLOAD, device="cpu", seed=0))


def tokens(run: modes.Runner, count: int) -> list[list[int]]:
    run.stand_at(WORKLOAD.prompt)
    found = [run.state.token.flatten().tolist()]
    for _ in range(count):
        run.decode()
        found.append(run.state.token.flatten().tolist())
    return found


@pytest.mark.parametrize("variant", ["cuda", "triton"])
@torch.no_grad()
def test_steps_trace_as_one_graph(variant: str) -> None:
    if variant == "triton":
        pytest.importorskip("triton")
    eager = runner(variant)
    run_prefill = torch.compile(prefill, fullgraph=True, dynamic=False, backend="aot_eager")
    run_decode = torch.compile(decode_step, fullgraph=True, dynamic=False, backend="aot_eager")
    compiled = modes.Runner(
        eager.model,
        eager.state,
        eager.scratch,
        lambda: run_prefill(eager.model, eager.scratch),
        lambda: run_decode(eager.model, eager.state),
    )
    assert tokens(compiled, 2) == tokens(eager, 2)
    torch.compiler.reset()


@torch.no_grad()
def test_standing_somewhere_is_generating_up_to_there() -> None:
    run = runner("cuda")
    expected = tokens(run, 3)
    for steps in range(4):
        run.stand_at(WORKLOAD.prompt + steps)
        assert run.state.position.item() == WORKLOAD.prompt + steps
        assert run.state.token.flatten().tolist() == expected[steps]


@torch.no_grad()
def test_prefill_in_the_middle_of_a_generation_disturbs_nothing() -> None:
    run = runner("cuda")
    expected = tokens(run, 2)
    run.stand_at(WORKLOAD.prompt + 1)
    run.prefill()
    run.decode()
    assert run.state.token.flatten().tolist() == expected[2]


@torch.no_grad()
def test_each_step_is_recorded_in_a_graph_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a stand-in for CUDA: which calls are recorded, from which stream, in which pool."""
    graphs: list[FakeGraph] = []

    class FakeGraph:
        def __init__(self) -> None:
            graphs.append(self)
            self.replays = 0

        def replay(self) -> None:
            self.replays += 1

    class FakeStream:
        def wait_stream(self, other: object) -> None:
            pass

    recorded = []

    @contextmanager
    def record(graph: FakeGraph, *, pool: object, stream: object) -> Iterator[None]:
        recorded.append((graph, pool, stream))
        yield

    for name, stand_in in {
        "CUDAGraph": FakeGraph,
        "Stream": FakeStream,
        "current_stream": FakeStream,
        "stream": lambda _: nullcontext(),
        "graph_pool_handle": object,
        "graph": record,
    }.items():
        monkeypatch.setattr(torch.cuda, name, stand_in)

    run = runner("cuda")
    run.reached[WORKLOAD.prompt + 1] = torch.zeros(2, 1)
    captured = modes.captured(run)
    assert [graph for graph, *_ in recorded] == graphs
    assert len(graphs) == 2
    assert len({id(pool) for _, pool, _ in recorded}) == 1
    assert len({id(stream) for *_, stream in recorded}) == 1
    assert captured.prefill().shape == captured.decode().shape == (2, 1, TINY.vocab)
    assert captured.decode() is captured.decode()
    assert captured.prefill() is not captured.decode()
    assert [graph.replays for graph in graphs] == [2, 4]
    assert captured.reached == {}


def test_gemms_stay_with_the_vendor() -> None:
    options = modes.compile_options()
    assert options["max_autotune_gemm_backends"] == "ATEN"
    assert not options.get("coordinate_descent_tuning")  # it would generate products of a single row


def test_the_default_mode_follows_the_device() -> None:
    assert modes.choose_mode(None, "cuda") == "graph"
    assert modes.choose_mode(None, "cpu") == "eager"
    with pytest.raises(UsageError):
        modes.choose_mode("graph", "cpu")
