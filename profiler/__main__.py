"""`python -m profiler VERB`, also the console script `kernelgap`."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from profiler.cli import build_parser
from traces.errors import KernelgapError

if TYPE_CHECKING:
    from collections.abc import Sequence

INTERRUPTED = 130


def command() -> int:
    """The whole process: `python -m profiler` and the console script."""
    sys.meta_path.insert(0, _WithoutPandas())
    return main()


class _WithoutPandas:
    """pyarrow imports pandas, where it is installed, only to ask whether a list is a Series.

    That takes 0.4 s, and no verb needs it.
    """

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        """Say that there is no pandas, and leave every other module to the other finders."""
        if name == "pandas":
            raise ModuleNotFoundError("not used by the command line", name=name)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb and return its exit code; expected failures are one line on stderr."""
    arguments = build_parser().parse_args(argv)
    try:
        return int(arguments.run(arguments))
    except KernelgapError as error:
        return _fail(str(error), error.exit_code)
    except KeyboardInterrupt:
        return _fail("interrupted", INTERRUPTED)
    except BrokenPipeError:  # the reader of our output, such as `head`, has gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        if os.environ.get("KERNELGAP_DEBUG"):
            raise
        what = f"{type(error).__name__}: {error}"
        return _fail(f"internal error: {what}; please report it (KERNELGAP_DEBUG=1 shows where)", 1)


def _fail(message: str, code: int) -> int:
    print(f"kernelgap: {' '.join(message.split())}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(command())
