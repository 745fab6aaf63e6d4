"""How accurate each variant is: its logits and its greedy tokens against the same model in fp32.

    python -m benchmarks.accuracy [--model llama3-8b] [--variant cuda,triton] [--tokens 256]
                                  [--mode eager|compile|graph] [--weights DIR] [--json FILE]

The reference has the variants' own weights, widened to fp32, and computes with PyTorch's fp32 operators, TF32
off. First every variant reads the reference's greedy tokens ("teacher-forced"): errors of the logits, and how
often the largest one is the same token. Then each generates by itself, and the first token that differs
is explained: a near-tie, where the reference puts its token above the variant's by no more than 4 standard
deviations of the difference of two logits, given the RMS error of the 64 largest logits at that step; or not.
Errors far beyond what rounding to the variant's dtype can do explain nothing.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from profiler.cli import options
from traces.errors import KernelgapError, MissingToolError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from benchmarks.divergence import Reference
    from profiler.model.config import Config, Workload
    from profiler.model.transformer import Transformer
    from profiler.ops import Ops


def main(arguments: Sequence[str] | None = None) -> int:
    """Print Markdown tables, with `--json` also write every number; 3 if a difference is unexplained."""
    asked = _parse(arguments)
    try:
        report = measure(asked)
    except KernelgapError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    print(table(report))
    if asked.json:
        asked.json.write_text(json.dumps(report, indent=1) + "\n")
    return 3 if any(unexplained(result) for result in report["results"]) else 0


def measure(asked: argparse.Namespace) -> dict[str, Any]:
    """The whole report. Raises UsageError, InputError or MissingToolError before anything is allocated."""
    import torch

    from profiler.capture import facts, modes
    from profiler.model import huggingface
    from profiler.model.checkpoint import load as load_weights
    from profiler.model.checkpoint import open_checkpoint
    from profiler.model.config import WORKLOADS, check_fits, preset
    from profiler.model.generate import random_prompt
    from profiler.model.transformer import build
    from profiler.ops import check_variant, load

    for variant in asked.variant:
        check_variant(variant)
    config, device = preset(asked.model), facts.choose_device(asked.device)
    mode = modes.choose_mode(asked.mode or "eager", device)
    workload = replace(WORKLOADS[asked.model], **_changes(asked))
    check_fits(config, workload)
    for variant in asked.variant:
        facts.check_gpu(variant, mode, device)
    if asked.weights:
        config = huggingface.fit(asked.weights, config)
    checkpoint = open_checkpoint(asked.weights, config) if asked.weights else None
    _check_memory(config, workload, device)
    first = load("cuda", device)
    model = build(config, first, device=device, dtype=getattr(torch, workload.dtype), seed=asked.seed)
    if checkpoint:
        load_weights(model, checkpoint)
    prompt = random_prompt(config.vocab, workload, device=device, seed=asked.seed)
    _say(f"{config.name}: the fp32 reference, {workload.new_tokens} tokens")
    reference = in_fp32(model, prompt, workload, seed=asked.seed)
    results = []
    for variant in asked.variant:
        _say(f"{config.name} {variant}: teacher-forced and free")
        ops = load(variant, device)
        found = of_variant(model, ops, prompt, workload, mode, reference)
        results.append({"variant": variant, "mode": mode} | found)
    return {
        "schema_version": 1,
        "model": config.name,
        "weights": checkpoint.facts() if checkpoint else {"source": "random", "seed": asked.seed},
        "workload": asdict(workload),
        "device": facts.device_facts(device),
        "versions": facts.versions(),
        "results": results,
    }


def in_fp32(model: Transformer, prompt: Tensor, workload: Workload, *, seed: int) -> Reference:
    """The greedy generation of the same weights in fp32; its memory is free again afterwards."""
    import torch

    from benchmarks.divergence import refer
    from profiler.capture import modes
    from profiler.model.transformer import build
    from profiler.ops.cuda import CudaOps

    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    device = prompt.device.type
    wide = build(model.config, CudaOps(), device=device, dtype=torch.float32, seed=seed)
    wide.load_state_dict(model.state_dict())
    wide.allocate(workload.batch, workload.length)
    reference = refer(modes.eager(wide, prompt), workload.new_tokens)
    del wide
    _release(device)
    return reference


def of_variant(
    model: Transformer, ops: Ops, prompt: Tensor, workload: Workload, mode: str, reference: Reference
) -> dict[str, Any]:
    """One variant's errors and divergences; `model` computes with `ops` from then on."""
    from benchmarks.divergence import divergences, follow, forced_facts
    from profiler.capture import modes

    device = prompt.device.type
    choices = ops.prepare(model.config, workload, device=device)
    modules: list[Any] = [module for module in model.modules() if hasattr(module, "ops")]
    for module in modules:
        module.ops = ops
    model.allocate(workload.batch, workload.length)
    runner = modes.eager(model, prompt)
    if mode != "eager":
        runner = modes.compiled(runner)
        modes.warm_up(runner)
    if mode == "graph":
        runner = modes.captured(runner)
    try:
        forced = forced_facts(follow(runner, reference, forced=True), reference)
        free = divergences(follow(runner, reference, forced=False), reference)
    finally:
        del runner
        _release(device)
    return {"choices": choices, "forced": forced, "free": free}


def unexplained(result: dict[str, Any]) -> int:
    """Differences of one variant that rounding does not explain."""
    free = sum(not d.get("explained", True) for d in result["free"])
    return int(result["forced"]["unexplained"]) + free


def table(report: dict[str, Any]) -> str:
    """Two Markdown tables: errors along the reference's tokens, and where free generations part."""
    work = report["workload"]
    lines = [
        f"{report['model']} on {report['device']['name']}, {work['dtype']}, batch {work['batch']}, prompt "
        f"{work['prompt']}, {work['new_tokens']} tokens, against fp32",
        "",
        "| variant | mode | max error | mean error | logit std | top-1 agreement | of | not near-ties |",
        "|---|---|--:|--:|--:|--:|--:|--:|",
    ]
    for r in report["results"]:
        f = r["forced"]
        lines.append(
            f"| {r['variant']} | {r['mode']} | {f['max_abs_error']:.4g} | {f['mean_abs_error']:.4g} "
            f"| {f['logit_std']:.3g} | {f['top1_agreement']:.2%} | {f['steps']} | {f['unexplained']} |"
        )
    lines += ["", "| variant | sequence | first token that differs | why |", "|---|--:|--:|---|"]
    for r in report["results"]:
        for d in r["free"]:
            step = "none" if d["step"] is None else d["step"]
            lines.append(f"| {r['variant']} | {d['sequence']} | {step} | {d['reason']} |")
    return "\n".join(lines)


def _changes(asked: argparse.Namespace) -> dict[str, Any]:
    given = {"batch": asked.batch, "prompt": asked.prompt, "new_tokens": asked.tokens, "dtype": asked.dtype}
    return {name: value for name, value in given.items() if value is not None}


def _check_memory(config: Config, workload: Workload, device: str) -> None:
    """Raise MissingToolError if both models and the reference's logits do not fit."""
    import torch

    from profiler.capture.facts import GIB, needed_bytes

    if device != "cuda":
        return
    wide = needed_bytes(config, replace(workload, dtype="float32"))
    logits = 4 * workload.new_tokens * workload.batch * config.vocab
    needed, free = needed_bytes(config, workload) + wide + logits, torch.cuda.mem_get_info()[0]
    if needed > free:
        raise MissingToolError(
            f"{config.name} beside its fp32 reference needs {needed / GIB:.1f} GiB of GPU memory, "
            f"{free / GIB:.1f} GiB are free: use a smaller batch or fewer tokens, or free the GPU"
        )


def _release(device: str) -> None:
    import gc

    import torch

    torch.compiler.reset()
    gc.collect()
    if device == "cuda":
        torch.cuda.empty_cache()


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.accuracy", description="see the module's text"
    )
    parser.add_argument("--model", default="llama3-8b", help="llama3-8b, granite-8b or tiny")
    parser.add_argument("--variant", type=options.columns, default=["cuda", "triton"], help="comma-joined")
    parser.add_argument("--tokens", type=options.positive, default=256, help="of each sequence (default 256)")
    parser.add_argument("--mode", help="eager (default), compile or graph")
    parser.add_argument("--batch", type=options.positive, help="sequences (default: the model's workload)")
    parser.add_argument("--prompt", type=options.positive, help="prompt tokens of each sequence")
    parser.add_argument(
        "--dtype", help="of the variants: float16 or bfloat16 (default: the model's workload)"
    )
    parser.add_argument("--device", help="cuda or cpu (default: cuda where there is one)")
    parser.add_argument("--seed", type=options.seed, default=0, help="of random weights and of the prompt")
    parser.add_argument("--weights", type=Path, metavar="DIR", help="a Hugging Face checkpoint")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write every number there")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
