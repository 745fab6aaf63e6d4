"""`compare A B`: where the gap between two runs comes from."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from profiler.cli import options

NAME = "compare"
HELP = "show where the difference between two runs comes from, per step"
REGRESSION = 3


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's flags."""
    parser.add_argument("a", type=Path, metavar="A", help="the baseline run (.parquet)")
    parser.add_argument("b", type=Path, metavar="B", help="the run to explain (.parquet)")
    options.add_by(parser)
    options.add_phase(parser)
    options.add_json(parser)
    parser.add_argument("--top", type=options.positive, default=40, help="rows of the table (default 40)")
    parser.add_argument(
        "--fail-over",
        type=_percent,
        metavar="PCT",
        help="exit 3 if a step of B is slower than A's by more than PCT percent and by more than the spread",
    )


def run(arguments: argparse.Namespace) -> int:
    """Print the comparison; exit 3 where `--fail-over` finds a regression."""
    from traces import store
    from traces.analysis.compare import compare, regressed

    result = compare(store.read(arguments.a), store.read(arguments.b), arguments.by, arguments.phase)
    if arguments.json:
        print(json.dumps(result.to_json()))
    else:
        from profiler.cli.render import print_comparison

        print_comparison(result, arguments.top)
    failed = arguments.fail_over is not None and regressed(result, arguments.fail_over)
    return REGRESSION if failed else 0


def _percent(text: str) -> float:
    try:
        value = float(text.removesuffix("%"))
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a percentage such as 5 or 5%")
    return value
