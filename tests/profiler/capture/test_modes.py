"""Step functions survive the compiler whole: no graph break, same tokens."""

from __future__ import annotations

import pytest
import torch

from profiler.capture import modes
from profiler.model.config import Workload, preset
from profiler.model.generate import decode_step, prefill, random_prompt
from profiler.model.transformer import build
from profiler.ops import load
from traces.errors import UsageError

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


def test_gemms_stay_with_the_vendor() -> None:
    for batch in (1, 2):
        assert modes.compile_options(batch)["max_autotune_gemm_backends"] == "ATEN"
    assert not modes.compile_options(1)["coordinate_descent_tuning"]


def test_the_default_mode_follows_the_device() -> None:
    assert modes.choose_mode(None, "cuda") == "graph"
    assert modes.choose_mode(None, "cpu") == "eager"
    with pytest.raises(UsageError):
        modes.choose_mode("graph", "cpu")
