"""The command line: one file per verb. Heavy imports happen inside `run`, so that `--help` is instant."""

from __future__ import annotations

import argparse
from typing import Final, Protocol

from profiler.cli import bench, capture, compare, export, ingest, show, tune
from traces import __version__


class Command(Protocol):
    """What a verb's module offers."""

    NAME: str
    HELP: str

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the verb's flags."""

    def run(self, arguments: argparse.Namespace) -> int:
        """Do it and return the exit code; raises KernelgapError for expected failures."""


COMMANDS: Final[tuple[Command, ...]] = (capture, ingest, show, compare, export, tune, bench)

_EPILOG: Final = """\
exit codes: 0 ok, 1 failure (output exists, disk full), 2 usage, 3 regression found,
4 bad input, 5 missing tool or device, 130 interrupted. Data goes to stdout, progress to stderr.
"""


def build_parser() -> argparse.ArgumentParser:
    """The parser of `python -m profiler`."""
    parser = argparse.ArgumentParser(
        prog="python -m profiler",
        description="Where every nanosecond of a token goes, and why two builds of a model differ.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"kernelgap {__version__}")
    verbs = parser.add_subparsers(title="verbs", metavar="VERB", required=True)
    for command in COMMANDS:
        verb = verbs.add_parser(command.NAME, help=command.HELP, description=command.HELP)
        command.add_arguments(verb)
        verb.set_defaults(run=command.run)
    return parser
