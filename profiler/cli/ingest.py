"""`ingest IN... -o OUT`: foreign traces become runs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from profiler.cli import options
from traces.errors import KernelgapError, UsageError
from traces.text import plain

if TYPE_CHECKING:
    import argparse

    from traces.attribution.classify import Classifier

NAME = "ingest"
HELP = "turn traces of torch.profiler or Nsight Systems into runs"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's flags."""
    parser.add_argument(
        "inputs",
        nargs="+",
        type=Path,
        metavar="IN",
        help="traces: .json, .json.gz, .sqlite, .nsys-rep, parquetdir",
    )
    options.add_output(parser, "a .parquet file (one input) or a folder; default: $KERNELGAP_STORE or ./runs")
    parser.add_argument(
        "--log", type=Path, metavar="FILE", help="launch log (.launches.jsonl) of its CUDA graph"
    )
    options.add_rules(parser)
    options.add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Ingest every input; one that fails does not stop the others. Returns the first failure's exit code."""
    target = _target(arguments.output, len(arguments.inputs))
    classifier = options.classifier(arguments.rules)
    written, code = [], 0
    for source in arguments.inputs:
        try:
            written.append(_one(source, target, arguments.log, classifier, force=arguments.force))
        except KernelgapError as error:
            if len(arguments.inputs) == 1:
                raise
            print(f"kernelgap: {plain(error, 2000)}", file=sys.stderr)
            code = code or error.exit_code
    if arguments.json:
        import json

        print(json.dumps({"schema_version": 1, "runs": [str(p) for p in written]}))
    else:
        for path in written:
            print(path)
    return code


def _target(output: Path | None, inputs: int) -> Path:
    from traces import store

    if output is None:
        return store.default_store()
    if store.is_file_target(output) and inputs > 1:
        raise UsageError(f"-o {output}: one file cannot hold {inputs} runs; name a folder")
    return output


def _one(source: Path, target: Path, log: Path | None, classifier: Classifier | None, *, force: bool) -> Path:
    from profiler.cli.render import health_lines
    from traces import ingest, store

    if store.is_file_target(target) and not force:
        store.refuse_existing(target)  # before the work, not after it
    made = ingest.ingest(source, log, classifier)
    path = store.write(made, store.place(target, made.meta), force=force)
    for line in health_lines(made.meta["health"]):
        print(plain(f"{source.name}: {line}", 2000), file=sys.stderr)
    return path
