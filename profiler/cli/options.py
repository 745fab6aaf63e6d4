"""Flags that several verbs share."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from traces.attribution.classify import Classifier


def add_by(parser: argparse.ArgumentParser) -> None:
    """`--by`: the columns to group by."""
    parser.add_argument("--by", type=columns, metavar="COLUMNS", help="columns to group by, comma-joined")


def add_phase(parser: argparse.ArgumentParser) -> None:
    """`--phase`: only the tiles of one phase."""
    parser.add_argument("--phase", type=name, help="only this phase's steps, such as decode")


def add_json(parser: argparse._ActionsContainer) -> None:
    """`--json`: machine-readable output."""
    parser.add_argument(
        "--json", action="store_true", help="print JSON (a versioned shape) instead of a table"
    )


def add_output(parser: argparse.ArgumentParser, help_text: str) -> None:
    """`-o` and `--force`."""
    parser.add_argument("-o", "--output", type=Path, metavar="OUT", help=help_text)
    parser.add_argument("--force", action="store_true", help="overwrite what exists")


def add_rules(parser: argparse.ArgumentParser) -> None:
    """`--rules`: the user's kernel rules before the shipped ones."""
    parser.add_argument(
        "--rules",
        type=Path,
        metavar="FILE",
        help="your own kernel rules (TOML, as in docs/attribution.md); they decide before the shipped ones. "
        "Labels are stored in the run: show and compare need no rules",
    )


def classifier(rules: Path | None) -> Classifier | None:
    """The classifier of `--rules FILE`, checked whole; None without one. Raises UsageError for a bad file."""
    if rules is None:
        return None
    from traces.attribution.classify import user_classifier

    return user_classifier(rules)


def columns(text: str) -> list[str]:
    """`a,b` as a list; their names are checked where the run is known."""
    found = [part.strip() for part in text.split(",") if part.strip()]
    if not found:
        raise argparse.ArgumentTypeError(f"{text!r} names nothing")
    return found


def positive(text: str) -> int:
    """A whole number from 1 to 2**31 - 1."""
    return _within(text, 1, 2**31 - 1)


def seed(text: str) -> int:
    """A whole number from 0 to 2**63 - 1."""
    return _within(text, 0, 2**63 - 1)


def name(text: str) -> str:
    """Any text but an empty one."""
    if not text:
        raise argparse.ArgumentTypeError("must not be empty")
    return text


def _within(text: str, low: int, high: int) -> int:
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 20 else low - 1
    if not low <= number <= high:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from {low} to {high}")
    return number
