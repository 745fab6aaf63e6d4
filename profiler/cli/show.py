"""`show RUN`: where the time of one run goes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from profiler.cli import options

if TYPE_CHECKING:
    import argparse

NAME = "show"
HELP = "show where the time of a run goes"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's flags."""
    parser.add_argument("path", type=Path, metavar="RUN", help="a run (.parquet)")
    options.add_by(parser)
    options.add_phase(parser)
    options.add_json(parser)
    parser.add_argument("--top", type=options.positive, default=40, help="rows of the table (default 40)")


def run(arguments: argparse.Namespace) -> int:
    """Print the breakdown as a table, with the layers of a model added up, or as JSON, with every row."""
    from traces import store
    from traces.analysis.breakdown import breakdown

    by = arguments.by or ["group", "category"]
    together = not arguments.json and "layer" not in by
    result = breakdown(store.read(arguments.path), by, arguments.phase, layers_together=together)
    if arguments.json:
        print(json.dumps(result.to_json()))
    else:
        from profiler.cli.render_breakdown import print_breakdown

        print_breakdown(result, arguments.top)
    return 0
