"""The three ways to run a step: eager, compiled, and compiled inside one CUDA graph."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import torch

from profiler.model.generate import State, decode_step, new_state, prefill
from traces.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from profiler.model.transformer import Transformer

MODES: Final = ("eager", "compile", "graph")


def choose_mode(mode: str | None, device: str) -> str:
    """`mode`, or by default graph on a GPU and eager on the CPU; UsageError for what cannot be had."""
    if mode is None:
        return "graph" if device == "cuda" else "eager"
    if mode not in MODES:
        raise UsageError(f"unknown mode {mode!r}: choose one of {', '.join(MODES)}")
    if device == "cpu" and mode != "eager":
        raise UsageError(f"mode {mode!r} needs a GPU: on the CPU only eager exists")
    return mode


@dataclass(frozen=True)
class Runner:
    """A model's steps in one mode, over static buffers.

    `prefill` works on `scratch`, `decode` on `state`: a prefill in the middle of a generation rewrites the
    prompt's KV slots with the values they hold and disturbs nothing else.
    """

    model: Transformer
    state: State
    scratch: State
    prefill: Callable[[], Tensor]
    decode: Callable[[], Tensor]

    def stand_at(self, position: int) -> None:
        """Generate for real from the prompt until the next decode step is the one at `position`."""
        self.prefill()
        self.state.token.copy_(self.scratch.token)
        self.state.position.fill_(self.state.prompt.shape[1])
        for _ in range(position - self.state.prompt.shape[1]):
            self.decode()


def eager(model: Transformer, prompt: Tensor) -> Runner:
    """Steps run op by op."""
    state, scratch = new_state(prompt), new_state(prompt)
    return Runner(model, state, scratch, lambda: prefill(model, scratch), lambda: decode_step(model, state))


def compiled(runner: Runner) -> Runner:
    """The same steps through torch.compile, tuned, with GEMMs left to ATen (cuBLAS)."""
    model, state, scratch = runner.model, runner.state, runner.scratch
    options = compile_options(batch=state.prompt.shape[0])
    run_prefill = torch.compile(prefill, fullgraph=True, dynamic=False, options=options)
    run_decode = torch.compile(decode_step, fullgraph=True, dynamic=False, options=options)
    return Runner(
        model, state, scratch, lambda: run_prefill(model, scratch), lambda: run_decode(model, state)
    )


def compile_options(batch: int) -> dict[str, Any]:
    """Inductor's max-autotune-no-cudagraphs, except where it would swap cuBLAS for a Triton kernel.

    `max_autotune_gemm_backends` keeps its GEMM templates out; with `coordinate_descent_tuning` a product with
    a single row is decomposed into a generated reduction (torch._inductor.decomposition.mm).
    """
    return {
        "max_autotune": True,
        "max_autotune_gemm_backends": "ATEN",
        "coordinate_descent_tuning": batch > 1,
    }


def warm_up(runner: Runner, times: int = 3) -> None:
    """Run both steps: on a GPU the first call compiles, the second may still tune, the third is steady."""
    for _ in range(times):
        runner.stand_at(runner.state.prompt.shape[1] + 1)


def captured(runner: Runner) -> Runner:
    """The decode step of `runner`, already warm, recorded in one CUDA graph; prefill stays as it is.

    The graph reads and writes the token and position of `runner.state`, so a replay is the next step.
    """
    graph = torch.cuda.CUDAGraph()
    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):  # libraries allocate their per-stream workspaces before the capture
        runner.stand_at(runner.state.prompt.shape[1] + 1)
    torch.cuda.current_stream().wait_stream(stream)
    with torch.cuda.graph(graph, stream=stream):
        logits = runner.decode()

    def replay() -> Tensor:
        graph.replay()
        return logits

    return Runner(runner.model, runner.state, runner.scratch, runner.prefill, replay)
