"""`python -m dashboard.report A B`: the page of a comparison on standard output.

`python -m profiler export A B --to html` starts this; exit codes are those of the command line.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from traces import store
from traces.errors import KernelgapError
from traces.text import plain

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Write the page; an expected failure is one line on stderr."""
    parser = argparse.ArgumentParser(prog="python -m dashboard.report", description="A comparison as HTML.")
    parser.add_argument("a", type=Path, metavar="A")
    parser.add_argument("b", type=Path, metavar="B")
    parser.add_argument("--phase")
    arguments = parser.parse_args(argv)
    try:
        a, b = (store.read(path) for path in (arguments.a, arguments.b))
        from dashboard.report.content import build  # streamlit and plotly take a second: after what may fail

        page = build(a, b, arguments.phase)
    except KernelgapError as error:
        print(f"kernelgap: {plain(' '.join(str(error).split()), 2000)}", file=sys.stderr)
        return error.exit_code
    sys.stdout.buffer.write(page.encode())
    return 0


if __name__ == "__main__":
    sys.exit(main())
