"""`export RUN...`: a run for Perfetto or a spreadsheet, or a comparison as one page of HTML."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from profiler.cli import options
from traces.errors import InputError, KernelgapError, MissingToolError, OutputError, UsageError

if TYPE_CHECKING:
    import argparse
    import subprocess
    from collections.abc import Iterable

NAME = "export"
HELP = "write a run as Chrome JSON (Perfetto) or CSV, or a comparison of two as one HTML page"

SUFFIXES: Final = {"perfetto": ".json.gz", "csv": ".csv", "html": ".html"}
_KINDS: Final = {".json": "perfetto", ".csv": "csv", ".html": "html", ".htm": "html"}
_STDOUT: Final = Path("-")
_ROOT: Final = Path(__file__).resolve().parents[2]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's flags."""
    parser.add_argument(
        "runs", nargs="+", type=Path, metavar="RUN", help="a run (.parquet); two for html: A B"
    )
    parser.add_argument(
        "--to", choices=tuple(SUFFIXES), metavar="FORMAT",
        help="perfetto (Chrome JSON), csv or html; default: what -o ends in",
    )  # fmt: skip
    parser.add_argument(
        "--phase", type=options.name, help="html: compare this phase's steps (default as in compare)"
    )
    options.add_output(
        parser,
        "a file, a folder, or - for standard output; .gz compresses; default: named after the run, here",
    )


def run(arguments: argparse.Namespace) -> int:
    """Write one file and print its path; its size and what it leaves out go to stderr."""
    from traces import store

    kind = _kind(arguments)
    target = _target(arguments.output, arguments.runs, kind)
    if target != _STDOUT and not (arguments.force and not target.is_dir()):
        store.refuse_existing(target)  # before the work, not after it
    pieces = _html(arguments.runs, arguments.phase) if kind == "html" else _pieces(arguments.runs[0], kind)
    if target == _STDOUT:
        sys.stdout.buffer.writelines(pieces)
        return 0
    _save(target, pieces)
    print(target)
    print(f"kernelgap: {target.name}: {target.stat().st_size:,} bytes", file=sys.stderr)
    return 0


def _kind(arguments: argparse.Namespace) -> str:
    """The format that is asked for; raises UsageError where it is not, or does not fit the runs."""
    name = arguments.output.name.removesuffix(".gz") if arguments.output else ""
    kind: str | None = arguments.to or _KINDS.get(Path(name).suffix.lower())
    if kind is None:
        raise UsageError(f"--to: name a format: {', '.join(SUFFIXES)}")
    wanted = 2 if kind == "html" else 1
    if len(arguments.runs) != wanted:
        what = "two runs, A and B" if wanted == 2 else "one run"
        raise UsageError(f"--to {kind} takes {what}; {len(arguments.runs)} were named")
    if arguments.phase and kind != "html":
        raise UsageError(f"--phase: --to {kind} writes the whole run")
    return kind


def _target(output: Path | None, runs: list[Path], kind: str) -> Path:
    """The file to write: named after the runs, unless `-o` names it."""
    name = "_vs_".join(r.stem[:100] for r in runs) + SUFFIXES[kind]
    if output is None:
        return Path(name)
    try:
        return output / name if output != _STDOUT and output.is_dir() else output
    except OSError as error:
        raise OutputError(f"{output}: cannot be written ({error.strerror or error})") from error


def _save(target: Path, pieces: Iterable[bytes]) -> None:
    """Write a file that is there only once it is whole. Raises OutputError."""
    import gzip

    from traces import store

    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with store.atomic(target) as temporary, temporary.open("wb") as file:
            if target.suffix == ".gz":
                with gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) as packed:
                    packed.writelines(pieces)
            else:
                file.writelines(pieces)
    except OSError as error:
        raise OutputError(
            f"{target}: cannot write ({error.strerror or error}); nothing was changed"
        ) from error


def _pieces(path: Path, kind: str) -> Iterable[bytes]:
    """The file in pieces, after what it leaves out has been told."""
    from traces import store
    from traces.export import chrome, csv
    from traces.text import plain

    made = store.read(path)
    if kind == "csv":
        return csv.export(made)
    found = chrome.export(made)
    if not found.rows:
        raise InputError(f"{path}: no row with a usable time; there is nothing to show")
    for reason, count in found.left_out.items():
        print(f"kernelgap: {plain(path.name)}: left out: {count:,} x {reason}", file=sys.stderr)
    return found.text


def _check_dashboard() -> None:
    missing = [name for name in ("plotly", "streamlit") if find_spec(name) is None]
    if missing:
        raise MissingToolError(
            f"--to html draws with the dashboard's charts, and {' and '.join(missing)} is not installed: "
            "pip install 'kernelgap[dashboard]'"
        )


def _html(runs: list[Path], phase: str | None) -> Iterable[bytes]:
    """Let the dashboard write the page.

    It runs as a process of its own: the command line does not depend on the dashboard, and a machine that
    captures needs none of what it needs.
    """
    import subprocess

    _check_dashboard()
    command = [sys.executable, "-P", "-m", "dashboard.report", *(["--phase", phase] if phase else [])]
    command += ["--", *(os.fspath(r) for r in runs)]
    path = os.pathsep.join(filter(None, (str(_ROOT), os.environ.get("PYTHONPATH"))))
    done = subprocess.run(
        command,
        env=os.environ | {"PYTHONPATH": path},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    if done.returncode:
        raise _failure(done)
    return [done.stdout]  # what Streamlit logs of a page without a server is no news


def _failure(done: subprocess.CompletedProcess[bytes]) -> KernelgapError:
    """The error that ended the dashboard's process, with its exit code."""
    said = done.stderr.decode(errors="replace").strip().splitlines() or ["it ended without a word"]
    for kind in (UsageError, InputError, MissingToolError):
        if kind.exit_code == done.returncode:
            return kind(said[-1].removeprefix("kernelgap: "))
    return OutputError(f"the page could not be made: {said[-1].removeprefix('kernelgap: ')}")
