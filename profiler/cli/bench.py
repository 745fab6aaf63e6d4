"""`bench`: kernels against cuBLAS, SDPA and ATen at a model's shapes, and the roofline."""

from __future__ import annotations

import argparse
import json
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from profiler.cli import options
from traces.errors import MissingToolError, OutputError, UsageError

if TYPE_CHECKING:
    from profiler.bench.case import Setting
    from profiler.bench.table import Measured
    from profiler.model.config import Config, Workload
    from traces.analysis.roofline import Peaks

NAME = "bench"
HELP = "time Triton kernels against cuBLAS, SDPA and ATen at a model's shapes: L2-cold, in CUDA graphs"

SCHEMA_VERSION: Final = 1
LENGTHS: Final = (512, 2048, 8192)
CPU_LENGTHS: Final = (16, 64)
_SHORT: Final = {"float16": "f16", "bfloat16": "bf16", "float32": "f32"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's flags."""
    parser.add_argument(
        "names", nargs="+", metavar="BENCHMARK",
        help="gemm, attention, norm, mlp, softmax, decode (a whole step), ops (a layer's kernels at decode)",
    )  # fmt: skip
    parser.add_argument("--model", help="whose shapes (default llama3-8b, on the CPU tiny)")
    parser.add_argument("--batch", type=options.positive, help="sequences (default: the model's workload)")
    parser.add_argument("--prompt", type=options.positive, help="prompt tokens of each sequence")
    parser.add_argument("--dtype", help="float16, bfloat16 or float32")
    parser.add_argument(
        "--lengths", type=_lengths, metavar="KEYS",
        help="cache lengths of decode attention, comma-joined (default 512,2048,8192)",
    )  # fmt: skip
    parser.add_argument(
        "--variant", type=options.columns, default=["cuda", "triton"], metavar="VARIANTS",
        help="of `decode`, comma-joined (default cuda,triton)",
    )  # fmt: skip
    parser.add_argument(
        "--bandwidth", type=_bandwidth, metavar="GB/S",
        help="the memory roof, such as a measured one (default: the data sheet of this GPU)",
    )  # fmt: skip
    parser.add_argument(
        "--device", default="cuda", help="cuda (default) or cpu: Triton's interpreter, times mean nothing"
    )
    parser.add_argument(
        "--json", nargs="?", const="-", metavar="FILE",
        help="write JSON (a versioned shape) to FILE beside the tables, or with - to stdout in their place",
    )  # fmt: skip
    parser.add_argument("--force", action="store_true", help="overwrite FILE")


def run(arguments: argparse.Namespace) -> int:
    """Measure and print; nothing is written before everything is measured."""
    from profiler.bench import check_names

    names = check_names(arguments.names)
    target = _target(arguments.json, force=arguments.force)
    if find_spec("torch") is None or find_spec("triton") is None:
        raise MissingToolError("bench needs PyTorch and Triton: pip install 'kernelgap[gpu]'")
    report = _report(arguments, names)
    if arguments.json == "-":
        print(json.dumps(report))
        return 0
    if target is not None:
        try:
            target.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
        except OSError as error:
            raise OutputError(f"{target}: cannot be written ({error.strerror or error})") from error
    from profiler.cli.render_bench import print_bench

    print_bench(report)
    return 0


def _target(text: str | None, *, force: bool) -> Path | None:
    """The file of `--json FILE`, checked before anything is measured."""
    from traces import store

    if text in (None, "-"):
        return None
    path = Path(text)
    if path.is_dir():
        raise OutputError(f"{path}: is a folder; name a file")
    if not force:
        store.refuse_existing(path)
    store.check_writable(path.parent)
    return path


def _report(arguments: argparse.Namespace, names: list[str]) -> dict[str, Any]:
    """Everything that was measured, as JSON."""
    import torch

    from profiler.bench.table import out, rows
    from profiler.capture import facts
    from profiler.cli.render import CPU_NOTICE

    setting = _setting(arguments)
    device = facts.device_facts(setting.device)
    peaks = _peaks(device, setting.workload.dtype, arguments.bandwidth)
    found = {}
    for name in names:
        try:
            measured = _measured(name, setting, arguments.variant)
        except torch.cuda.OutOfMemoryError as error:
            raise MissingToolError(
                f"the GPU ran out of memory in bench {name}: use a smaller --batch, --prompt or --lengths, "
                "or free the GPU"
            ) from error
        found[name] = {
            "rows": [row for m in measured for row in rows(m, peaks)],
            "out": [entry for m in measured for entry in out(m)],
        }
    work = setting.workload
    return {
        "schema_version": SCHEMA_VERSION,
        "model": setting.config.name,
        "batch": work.batch,
        "prompt": work.prompt,
        "dtype": work.dtype,
        "lengths": list(setting.lengths),
        "device": device,
        "notice": CPU_NOTICE if setting.device == "cpu" else None,
        "versions": facts.versions(),
        "roof": peaks and {
            "gb_per_s": peaks.bytes_per_s and peaks.bytes_per_s / 1e9,
            "tflop_per_s": peaks.flops_per_s and peaks.flops_per_s / 1e12,
            "source": peaks.source,
        },
        "benchmarks": found,
    }  # fmt: skip


def _setting(arguments: argparse.Namespace) -> Setting:
    """The model, its workload and the device. Raises UsageError or MissingToolError."""
    from dataclasses import replace

    from profiler.capture import facts
    from profiler.model.config import WORKLOADS, check_fits, preset
    from profiler.ops import check_variant, load

    for variant in arguments.variant:
        check_variant(variant)
    named = preset(arguments.model) if arguments.model else None
    device = facts.choose_device(arguments.device)
    config = named or preset("tiny" if device == "cpu" else "llama3-8b")
    asked = {name: getattr(arguments, name) for name in ("batch", "prompt", "dtype")}
    workload = replace(WORKLOADS[config.name], **{n: v for n, v in asked.items() if v is not None})
    check_fits(config, workload)
    lengths = _fitting(config, arguments.lengths, device)
    _check_machine(config, workload, device)
    load("triton", device)  # chooses Triton's interpreter on the CPU, before a kernel is defined

    from profiler.bench.case import Setting

    return Setting(config, workload, device, lengths, _l2_bytes(device))


def _check_machine(config: Config, workload: Workload, device: str) -> None:
    from profiler.capture import facts
    from profiler.cli.capture import CPU_BYTES, CPU_PARAMETERS

    facts.check_gpu("triton", "eager", device)
    if device == "cuda":
        return
    if config.parameters > CPU_PARAMETERS:
        raise MissingToolError(f"{config.name} needs a CUDA GPU; --model tiny runs on the CPU")
    needed = facts.needed_bytes(config, workload)
    if needed > CPU_BYTES:
        raise UsageError(
            f"batch {workload.batch}, prompt {workload.prompt}: {needed / facts.GIB:.1f} GiB are needed, too "
            "much for the CPU; ask for less"
        )


def _l2_bytes(device: str) -> int:
    if device == "cpu":
        return 0
    import torch

    return int(torch.cuda.get_device_properties(torch.cuda.current_device()).L2_cache_size)


def _fitting(config: Config, asked: list[int] | None, device: str) -> list[int]:
    """The lengths that were asked for, or the default ones that the model's context holds."""
    if asked is not None:
        if max(asked) > config.max_seq:
            raise UsageError(
                f"--lengths {max(asked)}: {config.name} has {config.max_seq} positions; ask for less"
            )
        return asked
    default = CPU_LENGTHS if device == "cpu" else LENGTHS
    fits = [length for length in default if length <= config.max_seq]
    for length in set(default) - set(fits):
        _say(f"no attention over {length} keys: {config.name} has {config.max_seq} positions")
    return fits


def _peaks(device: dict[str, Any], dtype: str, bandwidth: float | None) -> Peaks | None:
    """The roofline of this GPU; none on the CPU."""
    from traces.analysis import roofline

    if device["type"] == "cpu":
        return None
    measured = {"read_bytes_per_s": bandwidth * 1e9} if bandwidth else None
    return roofline.peaks(device["name"], _SHORT[dtype], measured)


def _measured(name: str, setting: Setting, variants: list[str]) -> list[Measured]:
    """All cases of one benchmark, one after the other."""
    import torch

    from profiler import bench
    from profiler.bench import timing

    if name == "decode":
        from profiler.bench import decode

        return [decode.measure(setting, variants, _say)]
    gpu = setting.device == "cuda"
    sampler = timing.GpuSampler(setting.l2_bytes) if gpu else timing.cpu_sampler
    rounds = (timing.ROUNDS, timing.WARM_UP) if gpu else (timing.CPU_ROUNDS, 1)
    torch.manual_seed(0)
    found = []
    with torch.no_grad():
        for case in bench.cases(name, setting):
            _say(f"{name}: {case.op}, {case.shape}")
            found.append(timing.measure(case, sampler, *rounds))
            del case  # its tensors, before the next ones are made
            if gpu:
                torch.cuda.empty_cache()
    return found


def _lengths(text: str) -> list[int]:
    return [options.positive(part) for part in options.columns(text)]


def _bandwidth(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a bandwidth in GB/s, such as 4700")
    return value


def _say(text: str) -> None:
    print(f"[bench] {text}", file=sys.stderr, flush=True)
