"""`capture`: run model variants under a profiler and write runs."""

from __future__ import annotations

import json
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from profiler.cli import options
from traces.errors import MissingToolError, UsageError

if TYPE_CHECKING:
    import argparse

    from profiler.capture.run import CapturedTrace
    from profiler.model.config import Config, Workload
    from traces.attribution.classify import Classifier

NAME = "capture"
HELP = "run a model's variants under a profiler and write runs"

LOG_SUFFIX: Final = ".launches.jsonl"
TRACE_SUFFIX: Final = ".trace.json.gz"
CPU_BYTES: Final = 4 << 30
CPU_PARAMETERS: Final = 100_000_000  # more than this is no use on a CPU, and Triton's interpreter crawls


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's flags."""
    parser.add_argument(
        "--model",
        help="llama3-8b, granite-8b or tiny (default: what --weights fit, else llama3-8b on a GPU, tiny on "
        "the CPU)",
    )
    parser.add_argument(
        "--weights", type=Path, metavar="DIR",
        help="a Hugging Face checkpoint (config.json and safetensors); default: random weights",
    )  # fmt: skip
    parser.add_argument(
        "--variant", type=options.columns, default=["cuda", "triton"], metavar="VARIANTS",
        help="cuda, triton, triton-blog, comma-joined (default cuda,triton; cuda,cuda is an A/A control)",
    )  # fmt: skip
    parser.add_argument("--mode", help="eager, compile or graph (default: graph on a GPU, eager on the CPU)")
    parser.add_argument("--tool", default="torch", help="the profiler: torch (default)")
    parser.add_argument("--batch", type=options.positive, help="sequences (default: the model's workload)")
    parser.add_argument("--prompt", type=options.positive, help="prompt tokens of each sequence")
    parser.add_argument("--new-tokens", type=options.positive, help="tokens to generate")
    parser.add_argument("--dtype", help="float16, bfloat16 or float32")
    parser.add_argument("--device", default="auto", help="auto, cuda or cpu (default auto)")
    parser.add_argument("--steps", type=options.positive, help="decode steps to profile (default 8 on a GPU)")
    parser.add_argument(
        "--seed", type=options.seed, default=0, help="of random weights and of the prompt (default 0)"
    )
    parser.add_argument(
        "--keep-traces", action="store_true", help="keep the raw traces (.json.gz) beside the runs"
    )
    options.add_rules(parser)
    options.add_output(
        parser, "a folder, or a .parquet file (one variant); default: $KERNELGAP_STORE or ./runs"
    )
    options.add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Capture every variant in turn, then print where the time went."""
    _check(arguments)
    classifier = options.classifier(arguments.rules)
    config, workload, device = _plan(arguments)
    from profiler.capture.run import capture_variant

    written = []
    with tempfile.TemporaryDirectory(prefix="kernelgap-") as scratch:
        for number, variant in enumerate(arguments.variant):
            folder = Path(scratch) / str(number)
            folder.mkdir()
            captured = capture_variant(
                config, variant, arguments.mode, workload, device, folder=folder, steps=arguments.steps,
                seed=arguments.seed, weights=arguments.weights, progress=_speaker(f"{config.name} {variant}"),
            )  # fmt: skip
            written.append(_keep(captured, arguments, classifier))
            _speaker(f"{config.name} {variant}")(f"wrote {written[-1]}")
    _report(written, as_json=arguments.json)
    return 0


def _check(arguments: argparse.Namespace) -> None:
    """Everything that can be refused before torch is loaded."""
    from traces import store

    if arguments.tool != "torch":
        raise UsageError(f"--tool {arguments.tool}: unknown; this version captures with torch")
    output: Path = arguments.output or store.default_store()
    if store.is_file_target(output):
        if len(arguments.variant) > 1:
            raise UsageError(
                f"-o {output}: one file cannot hold {len(arguments.variant)} runs; name a folder"
            )
        beside = [output, output.with_suffix(LOG_SUFFIX), output.with_suffix(TRACE_SUFFIX)]
        for path in [] if arguments.force else beside:
            store.refuse_existing(path)
    if find_spec("torch") is None:
        raise MissingToolError("capture needs PyTorch: pip install 'kernelgap[gpu]' (showing runs does not)")


def _plan(arguments: argparse.Namespace) -> tuple[Config, Workload, str]:
    """The model, its workload and the device. Raises UsageError, MissingToolError or OutputError."""
    from dataclasses import replace

    from profiler.capture.facts import GIB, choose_device, needed_bytes
    from profiler.capture.modes import choose_mode
    from profiler.model.config import WORKLOADS, check_fits, preset
    from profiler.ops import check_variant
    from traces import store

    for variant in arguments.variant:
        check_variant(variant)
    config = _model(arguments.model, arguments.weights)
    device = choose_device(None if arguments.device == "auto" else arguments.device)
    choose_mode(arguments.mode, device)
    config = config or preset("llama3-8b" if device == "cuda" else "tiny")
    if device == "cpu" and config.parameters > CPU_PARAMETERS:
        raise MissingToolError(
            f"{config.name} needs a CUDA GPU and none is used here; --model tiny runs on the CPU"
        )
    asked = {n: getattr(arguments, n) for n in ("batch", "prompt", "new_tokens", "dtype")}
    workload = replace(WORKLOADS[config.name], **{n: v for n, v in asked.items() if v is not None})
    check_fits(config, workload)
    if device == "cpu" and needed_bytes(config, workload) > CPU_BYTES:
        raise UsageError(
            f"batch {workload.batch}, prompt {workload.prompt}: "
            f"{needed_bytes(config, workload) / GIB:.1f} GiB are needed, too much for the CPU; ask for less"
        )
    output: Path = arguments.output or store.default_store()
    store.check_writable(output.parent if store.is_file_target(output) else output)
    return config, workload, device


def _model(name: str | None, weights: Path | None) -> Config | None:
    """The preset that was asked for or that the weights fit; None where neither was given."""
    from profiler.model import huggingface
    from profiler.model.config import preset

    if weights is None:
        return preset(name) if name else None
    return huggingface.fit(weights, preset(name)) if name else huggingface.choose(weights)


def _keep(captured: CapturedTrace, arguments: argparse.Namespace, classifier: Classifier | None) -> Path:
    """Ingest a capture and put the run, and its launch log, where they belong."""
    from profiler.capture import health
    from traces import ingest, store

    made = ingest.ingest(captured.trace, captured.launches, classifier)
    made.meta["health"] |= health.judged(made, captured)
    target = store.place(arguments.output or store.default_store(), made.meta)
    path = store.write(made, target, force=arguments.force)
    if captured.launches:
        store.copy(captured.launches, path.with_suffix(LOG_SUFFIX))
    if arguments.keep_traces:
        store.copy(captured.trace, path.with_suffix(TRACE_SUFFIX), compress=True)
    return path


def _report(written: list[Path], *, as_json: bool) -> None:
    if as_json:
        print(json.dumps({"schema_version": 1, "runs": [str(p) for p in written]}))
        return
    from profiler.cli.render_breakdown import print_breakdown
    from profiler.cli.render_comparison import print_comparison
    from traces import store
    from traces.analysis.breakdown import breakdown
    from traces.analysis.compare import compare

    runs = [store.read(p) for p in written]
    for made in runs:
        print_breakdown(breakdown(made, ["group", "category"], "decode"), top=12)
        print()
    if len(runs) == 2:
        print_comparison(compare(runs[0], runs[1], by=["category"]), top=12)
        print()
    for path in written:
        print(path)
    print("open the dashboard: streamlit run dashboard/app.py")


def _speaker(label: str) -> Any:
    def say(text: str) -> None:
        print(f"[{label}] {text}", file=sys.stderr, flush=True)

    return say
