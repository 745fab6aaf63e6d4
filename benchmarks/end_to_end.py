"""Whole steps and whole requests of a model's variants, taking turns, with an A/A control; no profiler.

    python -m benchmarks.end_to_end [--model llama3-8b] [--variant cuda,triton-blog] [--mode graph]
                                    [--rounds 6] [--steps 24] [--requests 3] [--json FILE]

All variants share one set of random weights and one prompt. The first variant runs twice in every round, as
A and as its own control A': what A' differs from A is noise. A round times `steps` decode steps from the
middle of the generation and three prefills of each contender, in rotating order; a sample is the time between
GPU events after successive steps. A request is prefill and every decode step, by the host's clock.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from profiler.capture.modes import Runner
    from profiler.model.config import Config, Workload
    from profiler.model.transformer import Transformer

CONTROL: Final = "'"
PREFILLS: Final = 3


@dataclass
class Contender:
    """One way to run the model, and its samples in ms."""

    variant: str  # with CONTROL behind it for the second measurement of the first variant
    mode: str
    runner: Runner
    choices: dict[str, Any]
    decode: list[float] = field(default_factory=list)
    prefill: list[float] = field(default_factory=list)
    request: list[float] = field(default_factory=list)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print a Markdown table; with `--json` also every number behind it."""
    options = _parse(arguments)
    from profiler.capture import facts
    from profiler.model.config import WORKLOADS, preset
    from profiler.ops import check_variant
    from traces.errors import KernelgapError

    try:
        for variant in options.variant:
            check_variant(variant)
        config, workload = preset(options.model), WORKLOADS[options.model]
        device = facts.choose_device(options.device)
        contenders = _contenders(config, workload, options.variant, options.mode, device)
    except KernelgapError as error:
        print(f"end_to_end: {error}", file=sys.stderr)
        return error.exit_code
    start = workload.prompt + workload.new_tokens // 2
    for turn in range(options.rounds):
        _say(f"round {turn + 1} of {options.rounds}")
        for c in contenders[turn % len(contenders) :] + contenders[: turn % len(contenders)]:
            _one_round(c, start, min(options.steps, workload.length - start - 1), device)
            if turn < options.requests:
                c.request.append(_request(c.runner, workload.new_tokens, device))
    report = {
        "model": config.name,
        "workload": asdict(workload),
        "device": facts.device_facts(device),
        "versions": facts.versions(),
        "results": [_result(c, workload) for c in contenders],
    }
    print(table(report))
    if options.json:
        options.json.write_text(json.dumps(report, indent=1) + "\n")
    return 0


def table(report: dict[str, Any]) -> str:
    """A Markdown table: medians (IQR), and each against the first row."""
    first = report["results"][0]
    lines = [
        f"{report['model']} on {report['device']['name']}: {report['workload']}",
        "",
        "| variant | mode | decode ms/token (IQR, n) | prefill ms (IQR, n) | request ms (n) | tokens/s "
        "| decode speed | prefill speed | request speed |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for r in report["results"]:
        speeds = " | ".join(
            f"{first[what]['median_ms'] / r[what]['median_ms']:.3f}x"
            for what in ("decode", "prefill", "request")
        )
        lines.append(
            f"| {r['variant']} | {r['mode']} | {_cell(r['decode'])} | {_cell(r['prefill'])} "
            f"| {r['request']['median_ms']:.1f} ({r['request']['n']}) | {r['tokens_per_s']:.1f} | {speeds} |"
        )
    return "\n".join(lines)


def summary(samples: Sequence[float]) -> dict[str, float]:
    """Count, median, interquartile range, ms."""
    quarters = statistics.quantiles(samples, n=4, method="inclusive") if len(samples) > 1 else [0.0] * 3
    return {
        "n": len(samples),
        "median_ms": round(statistics.median(samples), 4),
        "iqr_ms": round(quarters[2] - quarters[0], 4),
    }


def _result(c: Contender, workload: Workload) -> dict[str, Any]:
    request = summary(c.request)
    return {
        "variant": c.variant,
        "mode": c.mode,
        "decode": summary(c.decode),
        "prefill": summary(c.prefill),
        "request": request,
        "tokens_per_s": round(workload.batch * workload.new_tokens / request["median_ms"] * 1000, 1),
        "choices": c.choices,
    }


def _cell(s: dict[str, float]) -> str:
    return f"{s['median_ms']:.3f} ({s['iqr_ms']:.3f}, {s['n']})"


def _contenders(
    config: Config, workload: Workload, variants: Sequence[str], modes: Sequence[str], device: str
) -> list[Contender]:
    """Every variant in every mode, warm; the first one again as its control."""
    from profiler.bench.models import model_of
    from profiler.capture import facts
    from profiler.model.generate import random_prompt

    facts.check_memory(config, workload, device)
    prompt = random_prompt(config.vocab, workload, device=device, seed=0)
    out: list[Contender] = []
    first: Transformer | None = None
    for variant in variants:
        model, choices = model_of(config, workload, variant, device, first)
        first = first or model
        for mode in modes:
            _say(f"preparing {variant} {mode}")
            runner, again = _runners(model, prompt, mode, twice=model is first, device=device)
            out.append(Contender(variant, mode, runner, choices))
            if again is not None:
                out.append(Contender(variant + CONTROL, mode, again, choices))
    return out


def _runners(
    model: Transformer, prompt: Any, mode: str, *, twice: bool, device: str
) -> tuple[Runner, Runner | None]:
    """A warm runner, and its control: the same steps captured once more, or just measured once more."""
    import torch

    from profiler.capture import modes

    with torch.no_grad():
        runner = modes.eager(model, prompt)
        if mode != "eager":
            runner = modes.compiled(runner)
        modes.warm_up(runner, times=3 if device == "cuda" else 1)
        if mode != "graph":
            return runner, runner if twice else None
        made = [modes.captured(runner) for _ in range(2 if twice else 1)]
        for graph in made:
            modes.warm_up(graph)
    return made[0], made[1] if twice else None


def _one_round(c: Contender, start: int, steps: int, device: str) -> None:
    import torch

    from profiler.capture.unprofiled import times

    with torch.no_grad():
        c.runner.stand_at(start)
        c.decode += [ns / 1e6 for ns in times(c.runner.decode, steps, device)]
        c.prefill += [ns / 1e6 for ns in times(c.runner.prefill, PREFILLS, device)]


def _request(runner: Runner, new_tokens: int, device: str) -> float:
    """Prefill and all decode steps by the host's clock, ms."""
    import torch

    from profiler.capture.torch_profiler import synchronize

    with torch.no_grad():
        synchronize(device)
        begin = time.perf_counter_ns()
        runner.stand_at(runner.state.prompt.shape[1])
        for _ in range(new_tokens - 1):
            runner.decode()
        synchronize(device)
    return (time.perf_counter_ns() - begin) / 1e6


def _say(text: str) -> None:
    print(f"[end_to_end] {text}", file=sys.stderr, flush=True)


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.end_to_end", description=__doc__)
    parser.add_argument("--model", default="llama3-8b")
    parser.add_argument("--variant", type=_names, default=["cuda", "triton-blog"], metavar="VARIANTS")
    parser.add_argument("--mode", type=_names, default=["graph"], metavar="MODES")
    parser.add_argument("--device", choices=("cuda", "cpu"))
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--steps", type=int, default=24)
    parser.add_argument("--requests", type=int, default=3, help="rounds that also time whole requests")
    parser.add_argument("--json", type=Path, metavar="FILE")
    return parser.parse_args(arguments)


def _names(text: str) -> list[str]:
    return text.split(",")


if __name__ == "__main__":
    sys.exit(main())
