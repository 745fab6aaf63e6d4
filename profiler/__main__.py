"""`python -m profiler VERB`, also the console script `kernelgap`."""

from __future__ import annotations

import contextlib
import io
import os
import signal
import sys
from typing import TYPE_CHECKING

from traces.errors import KernelgapError
from traces.text import plain

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import FrameType

INTERRUPTED = 130
_MESSAGE_LIMIT = 2000


def command() -> int:
    """The whole process: `python -m profiler` and the console script."""
    signal.signal(signal.SIGINT, _interrupt)  # before anything that takes time to import
    signal.signal(signal.SIGTERM, _terminate)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # names may hold what the terminal's encoding does not
            stream.reconfigure(errors="backslashreplace")
    code = main(prepare=_lean)
    with contextlib.suppress(OSError, ValueError):  # reported already, or a closed pipe
        sys.stdout.flush()
    return code


def _lean() -> None:
    """For verbs that hand nothing to pandas."""
    if {"ingest", "show", "compare", "export"} & set(sys.argv[1:2]):
        from traces.lean import system_memory, without_pandas

        system_memory()
        without_pandas()


def main(argv: Sequence[str] | None = None, prepare: Callable[[], None] | None = None) -> int:
    """Run one verb and return its exit code; expected failures are one line on stderr.

    `prepare` is called first, for what only a process of our own may do.
    """
    try:
        if prepare:
            prepare()
        from profiler.cli import build_parser

        arguments = build_parser().parse_args(argv)
        code = int(arguments.run(arguments))
        sys.stdout.flush()
        return code
    except KernelgapError as error:
        return _fail(str(error), error.exit_code)
    except KeyboardInterrupt:
        return _fail("interrupted", INTERRUPTED)
    except BrokenPipeError:  # the reader of our output, such as `head`, has gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        if _interrupted:  # a library turned the interrupt into an error of its own
            return _fail("interrupted", INTERRUPTED)
        if os.environ.get("KERNELGAP_DEBUG"):
            raise
        if isinstance(error, OSError) and error.filename is None:
            return _fail(f"cannot write the output ({error.strerror or error})", 1)
        what = f"{type(error).__name__}: {error}"
        return _fail(f"internal error: {what}; please report it (KERNELGAP_DEBUG=1 shows where)", 1)


_interrupted: list[int] = []  # signals seen


def _interrupt(number: int, frame: FrameType | None) -> None:
    _interrupted.append(number)
    raise KeyboardInterrupt


def _terminate(number: int, frame: FrameType | None) -> None:
    raise SystemExit(128 + number)  # unwinds, so that temporary files go


def _fail(message: str, code: int) -> int:
    with contextlib.suppress(OSError, ValueError):  # nobody listens
        print(f"kernelgap: {plain(' '.join(message.split()), _MESSAGE_LIMIT)}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(command())
