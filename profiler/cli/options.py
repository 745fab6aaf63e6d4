"""Flags that several verbs share."""

from __future__ import annotations

import argparse
from pathlib import Path


def add_by(parser: argparse.ArgumentParser) -> None:
    """`--by`: the columns to group by."""
    parser.add_argument("--by", type=columns, metavar="COLUMNS", help="columns to group by, comma-joined")


def add_phase(parser: argparse.ArgumentParser) -> None:
    """`--phase`: only the tiles of one phase."""
    parser.add_argument("--phase", help="only this phase's steps, such as decode")


def add_json(parser: argparse.ArgumentParser) -> None:
    """`--json`: machine-readable output."""
    parser.add_argument(
        "--json", action="store_true", help="print JSON (a versioned shape) instead of a table"
    )


def add_output(parser: argparse.ArgumentParser, help_text: str) -> None:
    """`-o` and `--force`."""
    parser.add_argument("-o", "--output", type=Path, metavar="OUT", help=help_text)
    parser.add_argument("--force", action="store_true", help="overwrite what exists")


def columns(text: str) -> list[str]:
    """`a,b` as a list; their names are checked where the run is known."""
    return [part.strip() for part in text.split(",") if part.strip()]


def positive(text: str) -> int:
    """A whole number of at least 1."""
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return number
