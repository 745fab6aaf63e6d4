"""One whole decode step of the model's variants, each in one CUDA graph, on the same weights, in turns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import torch

from profiler.bench.models import model_of
from profiler.bench.table import Measured, Timed, Work
from profiler.capture import facts, modes
from profiler.capture.unprofiled import times
from profiler.model.generate import random_prompt

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from profiler.bench.case import Setting
    from profiler.capture.modes import Runner
    from profiler.model.config import Config, Workload

ROUNDS: Final = 6
STEPS: Final = 24  # a round
CPU_ROUNDS: Final = 2
CONTROL: Final = "'"


@torch.no_grad()
def measure(setting: Setting, variants: Sequence[str], say: Callable[[str], None]) -> Measured:
    """Microseconds of a step from the middle of the generation, n samples a variant.

    Raises MissingToolError if the model does not fit the GPU.
    """
    config, workload, device = setting.config, setting.workload, setting.device
    facts.check_memory(config, workload, device)
    mode = modes.choose_mode(None, device)
    start = workload.prompt + workload.new_tokens // 2
    steps = min(STEPS, workload.length - start - 1) or 1
    runners = _runners(setting, variants, mode, say)
    samples: dict[str, list[float]] = {name: [] for name in runners}
    for turn in range(ROUNDS if device == "cuda" else CPU_ROUNDS):
        names = list(runners)
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            runners[name].stand_at(start)
            samples[name] += [ns / 1e3 for ns in times(runners[name].decode, steps, device)]
    keys = start + 1 + (steps - 1) // 2  # in mid-round
    timed = [
        Timed(f"{name} ({mode})", name.startswith("triton"), tuple(found)) for name, found in samples.items()
    ]
    shape = f"{config.name} B{workload.batch} keys {keys}"
    return Measured("decode step", shape, step_work(config, workload, keys), timed, every=True)


def step_work(config: Config, workload: Workload, keys: int) -> Work:
    """Every weight once, but the embedding's (a tied one is lm_head), and `keys` of the KV cache a layer."""
    rows = config.parameters - (0 if config.tied else config.vocab * config.dim)
    cached = 2 * config.layers * workload.batch * config.kv_heads * config.head_dim * keys
    scores = 4 * config.layers * workload.batch * config.heads * config.head_dim * keys
    size = getattr(torch, workload.dtype).itemsize
    return Work((rows + cached) * size, 2 * workload.batch * rows + scores)


def _runners(
    setting: Setting, variants: Sequence[str], mode: str, say: Callable[[str], None]
) -> dict[str, Runner]:
    config, workload, device = setting.config, setting.workload, setting.device
    prompt = random_prompt(config.vocab, workload, device=device, seed=0)
    first, runners = None, {}
    for variant in variants:
        say(f"decode: preparing {variant}")
        model, _ = model_of(config, workload, variant, device, first)
        first = first or model
        runner = modes.eager(model, prompt)
        if mode != "eager":
            runner = modes.compiled(runner)
        modes.warm_up(runner, times=3 if device == "cuda" else 1)
        if mode == "graph":
            runner = modes.captured(runner)
            modes.warm_up(runner)
        name = variant
        while name in runners:  # the same again: an A/A control
            name += CONTROL
        runners[name] = runner
    return runners
