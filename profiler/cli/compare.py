"""`compare A B`: where the gap between two runs comes from."""

from __future__ import annotations

import argparse
import json
import sys
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
    shape = parser.add_mutually_exclusive_group()
    options.add_json(shape)
    shape.add_argument(
        "--markdown", action="store_true", help="print a compact table for a pull-request comment"
    )
    parser.add_argument(
        "--top", type=options.positive, help="rows of the table (default 40, with --markdown 10)"
    )
    parser.add_argument(
        "--fail-over",
        type=_percent,
        metavar="PCT",
        help="exit 3 if a step of B is slower than A's by more than PCT percent and by more than the noise "
        "(the wider IQR); why or why not goes to stderr",
    )


def run(arguments: argparse.Namespace) -> int:
    """Print the comparison; exit 3 where `--fail-over` finds a regression."""
    from traces import store
    from traces.analysis.compare import compare, regressed
    from traces.text import plain

    result = compare(store.read(arguments.a), store.read(arguments.b), arguments.by, arguments.phase)
    if arguments.json:
        print(json.dumps(result.to_json()))
    elif arguments.markdown:
        from profiler.cli.markdown import comparison

        print(comparison(result, arguments.top or 10), end="")
    else:
        from profiler.cli.render_comparison import print_comparison

        print_comparison(result, arguments.top or 40)
    if arguments.fail_over is None:
        return 0
    gate = regressed(result, arguments.fail_over)
    sys.stdout.flush()
    beware = f"; beware: {'; '.join(result.not_comparable)}" if result.not_comparable else ""
    print(f"kernelgap: --fail-over {plain(gate.why + beware, 2000)}", file=sys.stderr)
    return REGRESSION if gate.failed else 0


def _percent(text: str) -> float:
    try:
        value = float(text.removesuffix("%"))
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a percentage such as 5 or 5%")
    return value
