"""The three ways to run a step: eager, compiled, and compiled inside a CUDA graph."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

import torch

from profiler.capture.provenance import Recorder
from profiler.model.generate import State, decode_step, new_state, prefill
from traces.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from torch import Tensor

    from profiler.model.transformer import Transformer
    from profiler.ops import Ops

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


def check_compiles(ops: Ops, variant: str, mode: str) -> None:
    """Raise UsageError where torch.compile would find nothing to do: its run would be an eager one."""
    if mode == "compile" and ops.fused:
        raise UsageError(f"variant {variant!r} is fused by hand and has no compiled mode: use eager or graph")


@dataclass(frozen=True)
class Runner:
    """A model's steps in one mode, over static buffers.

    `prefill` works on `scratch`, `decode` on `state`: a prefill in the middle of a generation rewrites the
    prompt's KV slots with the values they hold and disturbs nothing else. The logits that a step returns are
    good until the next step.
    """

    model: Transformer
    state: State
    scratch: State
    prefill: Callable[[], Tensor]
    decode: Callable[[], Tensor]
    recorders: Mapping[str, Recorder] = field(default_factory=dict)  # by phase, of compiled steps
    reached: dict[int, Tensor] = field(default_factory=dict)  # token of the steps stood at, by position

    def step(self, phase: str) -> Tensor:
        """Run the step of that phase, "prefill" or "decode"; its logits."""
        return self.prefill() if phase == "prefill" else self.decode()

    def stand_at(self, position: int) -> None:
        """Make the decode step at `position` the next one, by a real greedy generation from the prompt.

        The tokens on the way are generated once: the cache still holds what they wrote.
        """
        self.prefill()
        at = self.state.prompt.shape[1]
        token = self.scratch.token
        if position in self.reached:
            at, token = position, self.reached[position]
        self.state.token.copy_(token)
        self.state.position.fill_(at)
        for _ in range(position - at):
            self.decode()
        self.reached[position] = self.state.token.clone()


def eager(model: Transformer, prompt: Tensor) -> Runner:
    """Steps run op by op."""
    state, scratch = new_state(prompt), new_state(prompt)
    return Runner(model, state, scratch, lambda: prefill(model, scratch), lambda: decode_step(model, state))


def compiled(runner: Runner) -> Runner:
    """The same steps through torch.compile, tuned, with GEMMs left to ATen (cuBLAS).

    Fused operators stay as they are: they leave nothing to compile.
    """
    model, state, scratch = runner.model, runner.state, runner.scratch
    if model.ops.fused:
        return runner
    options = compile_options()
    recorders = {phase: Recorder(options) for phase in ("prefill", "decode")}
    run_prefill = torch.compile(prefill, fullgraph=True, dynamic=False, backend=recorders["prefill"])
    run_decode = torch.compile(decode_step, fullgraph=True, dynamic=False, backend=recorders["decode"])
    return replace(
        runner,
        prefill=lambda: run_prefill(model, scratch),
        decode=lambda: run_decode(model, state),
        recorders=recorders,
        reached={},
    )


def compile_options() -> dict[str, Any]:
    """Inductor's options for both steps, chosen by measurement on an H200 (docs/results.md).

    A residual sum is read by the norm and by the next sum; `realize_reads_threshold` 1 keeps it, else each
    norm adds up to four layers' outputs again. `combo_kernels` puts independent kernels into one launch,
    and with `triton.enable_pdl` a generated kernel starts while the one before it drains. No autotuning: it
    judges kernels of 2 us by timings that cannot tell them apart, and in some compilations picked norms of 8
    to 15 us, or a product that copies its bias first. For the same reason products are not padded
    (`shape_padding`) where a timing of the moment says so. GEMMs stay ATen's (cuBLAS), said once more by
    `max_autotune_gemm_backends`.
    """
    return {
        "max_autotune_gemm_backends": "ATEN",
        "realize_reads_threshold": 1,
        "combo_kernels": True,
        "triton.enable_pdl": True,
        "shape_padding": False,
    }


def warm_up(runner: Runner, times: int = 3) -> None:
    """Run both steps: on a GPU the first call compiles, the second may still tune, the third is steady."""
    for _ in range(times):
        runner.stand_at(runner.state.prompt.shape[1])
        runner.decode()


def captured(runner: Runner) -> Runner:
    """The steps of `runner`, already warm, each recorded in a CUDA graph of its own.

    The graphs read and write the buffers of `runner`, so a replay is the next step. They share one memory
    pool: what must outlive a step lies in those buffers, outside the pool. Only the logits lie inside, and a
    step may overwrite the other one's.
    """
    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):  # libraries allocate their per-stream workspaces before the capture
        runner.stand_at(runner.state.prompt.shape[1])
        runner.decode()
    torch.cuda.current_stream().wait_stream(stream)
    pool = torch.cuda.graph_pool_handle()
    prefill, decode = (_recorded(step, stream, pool) for step in (runner.prefill, runner.decode))
    return replace(runner, prefill=prefill, decode=decode, reached={})


def _recorded(step: Callable[[], Tensor], stream: torch.cuda.Stream, pool: Any) -> Callable[[], Tensor]:
    """A function that replays the graph of `step`; its result is always the same tensor."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, pool=pool, stream=stream):
        logits = step()

    def replay() -> Tensor:
        graph.replay()
        return logits

    return replay
