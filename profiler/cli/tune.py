"""`tune`: search the SplitK tile configurations of a model's layer shapes on this GPU."""

from __future__ import annotations

import json
import os
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from profiler.cli import options
from traces.errors import MissingToolError

if TYPE_CHECKING:
    import argparse

    from profiler.model.config import Config, Workload
    from profiler.ops.triton.splitk import Shape
    from profiler.tune.session import Session

NAME = "tune"
HELP = "search GEMM tile configurations for this GPU, resumable, and report tuned over untuned"

BUDGET: Final = 360
SCHEMA_VERSION: Final = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's flags."""
    parser.add_argument("--model", default="llama3-8b", help="whose layer shapes (default llama3-8b)")
    parser.add_argument("--batch", type=options.positive, help="sequences (default: the model's workload)")
    parser.add_argument("--prompt", type=options.positive, help="prompt tokens of each sequence")
    parser.add_argument("--dtype", help="float16, bfloat16 or float32")
    parser.add_argument(
        "--budget", type=options.positive, default=BUDGET, metavar="SECONDS",
        help="stop cleanly after this long; a second run goes on from there (default 360)",
    )  # fmt: skip
    parser.add_argument(
        "--cache", type=Path, metavar="FILE",
        help="keep results in this file alone (default: tiles.json in $KERNELGAP_CACHE or "
        "~/.cache/kernelgap, on top of the results that ship)",
    )  # fmt: skip
    parser.add_argument(
        "--no-end-to-end", action="store_true", help="do not time the whole model with and without tuning"
    )
    options.add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Search what is missing, time the model with and without it, print both."""
    began = time.monotonic()
    if find_spec("torch") is None or find_spec("triton") is None:
        raise MissingToolError("tune needs PyTorch and Triton: pip install 'kernelgap[gpu]'")
    config, workload = _plan(arguments)
    report = _tune(arguments, config, workload, began + arguments.budget)
    if arguments.json:
        print(json.dumps(report))
    else:
        from profiler.cli.render_tuning import print_tuning

        print_tuning(report)
    return 0


def _plan(arguments: argparse.Namespace) -> tuple[Config, Workload]:
    """The model and its workload. Raises UsageError, or MissingToolError without a GPU."""
    from dataclasses import replace

    from profiler.model.config import WORKLOADS, check_fits, preset

    config = preset(arguments.model)
    asked = {name: getattr(arguments, name) for name in ("batch", "prompt", "dtype")}
    workload = replace(WORKLOADS[config.name], **{n: v for n, v in asked.items() if v is not None})
    check_fits(config, workload)
    import torch

    if not torch.cuda.is_available():
        raise MissingToolError("tune measures kernels: it needs a CUDA GPU, and PyTorch can use none here")
    return config, workload


def _tune(
    arguments: argparse.Namespace, config: Config, workload: Workload, deadline: float
) -> dict[str, Any]:
    import torch
    import triton

    from profiler.ops.triton import tiles
    from profiler.tune import session as sessions
    from profiler.tune.precompile import Builder, Target
    from profiler.tune.timing import GpuBench

    dtype = getattr(torch, workload.dtype)
    target = triton.runtime.driver.active.get_current_target()
    cores = len(os.sched_getaffinity(0))
    with Builder(Target(target.backend, target.arch, target.warp_size), max(cores - 1, 1)) as builder:
        machine = sessions.Machine(
            gpu=torch.cuda.get_device_properties(torch.cuda.current_device()).name,
            bench=lambda shape: GpuBench(shape, dtype),
            builder=builder,
            clock=time.monotonic,
            say=_say,
        )
        session = sessions.Session(machine, workload.dtype, deadline, arguments.cache)
        status = session.run(tiles.linear_shapes(config, workload))
    return {
        "schema_version": SCHEMA_VERSION,
        "gpu": machine.gpu,
        "model": config.name,
        "dtype": workload.dtype,
        "batch": workload.batch,
        "prompt": workload.prompt,
        "kernel": tiles.fingerprint(),
        "cache": str(session.file),
        "other_kernel": session.stale,
        "binaries": builder.count,
        "shapes": sessions.rows(session, status, config, workload),
        "end_to_end": _end_to_end(arguments, config, workload, session, status, deadline),
    }


def _end_to_end(
    arguments: argparse.Namespace,
    config: Config,
    workload: Workload,
    session: Session,
    status: dict[Shape, str],
    deadline: float,
) -> dict[str, Any]:
    """The measurement, or `skipped` and why."""
    if arguments.no_end_to_end:
        return {"skipped": "not asked for"}
    from profiler.ops.triton import tiles
    from profiler.tune import end_to_end

    if left := sum(state == "left" for state in status.values()):
        return {"skipped": f"{left} shapes are not tuned yet: run again"}
    seconds = deadline - time.monotonic()
    if seconds < end_to_end.NEEDS_SECONDS:
        need = f"{end_to_end.NEEDS_SECONDS:.0f} s"
        return {"skipped": f"{max(seconds, 0):.0f} s of the budget are left, {need} are needed: run again"}
    import torch

    torch.cuda.empty_cache()
    size = getattr(torch, workload.dtype).itemsize
    tuned = {shape: tiles.choose(shape, session.entries, size).config for shape in status}
    return end_to_end.measure(
        config, workload, tuned, out_of_time=lambda: time.monotonic() >= deadline, say=_say
    )


def _say(text: str) -> None:
    print(f"[tune] {text}", file=sys.stderr, flush=True)
