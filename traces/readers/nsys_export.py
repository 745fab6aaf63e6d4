"""From a report (.nsys-rep) to SQLite, by the nsys program of this machine."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import tempfile
from typing import TYPE_CHECKING, Final

from traces.errors import InputError, MissingToolError

if TYPE_CHECKING:
    from pathlib import Path

VARIABLE: Final = "KERNELGAP_NSYS"
TIMEOUT_S: Final = 1800.0
_NEWER = "was recorded by a newer nsys than {nsys}; use that one, or a newer one ({variable}=PATH)"
# What nsys prints (2022 to 2026), and what it means for the user.
_KNOWN: Final = (
    (r"newer than your current version|Version number is invalid", _NEWER),
    (r"QdstrmImporter and qdstrm file versions must match|[Qq]dstrm version .* is not supported",
     "is raw data of another nsys version; import it with the version that recorded it"),
    (r"Section Table Reference magic number mismatch", "is cut off or damaged; copy or record it again"),
    (r"Cannot read from stream", "is no nsys report, or empty; name a .nsys-rep that nsys profile wrote"),
    (r"File already exists", "was not exported: the temporary output exists already; try again"),
    (r"File not found", "was not found by nsys; check the path"),
    (r"Unsupported export type",
     "cannot be exported by {nsys}, which is too old; use a newer one ({variable}=PATH)"),
    (r"[Nn]o space left on device|[Dd]isk (?:is )?full",
     "was not exported: the disk of temporary files is full (TMPDIR)"),
)  # fmt: skip


def find(nsys: str | None = None) -> str:
    """The nsys program: the given one, else `KERNELGAP_NSYS`, else that on PATH.

    Raises MissingToolError if there is none.
    """
    wanted = nsys or os.environ.get(VARIABLE) or "nsys"
    if found := shutil.which(wanted):
        return found
    where = "given" if nsys else f"in {VARIABLE}" if os.environ.get(VARIABLE) else "on PATH"
    raise MissingToolError(
        f"no nsys program {where} ({wanted}), which reading .nsys-rep needs; install Nsight Systems, set "
        f"{VARIABLE}=PATH, or export elsewhere with: nsys export --type sqlite REPORT"
    )


def export(
    report: Path,
    folder: Path,
    nsys: str | None = None,
    timeout_s: float = TIMEOUT_S,
    shown: Path | None = None,
) -> Path:
    """Export `report` (`shown` in messages) to SQLite in `folder`, and return that file.

    Raises MissingToolError without nsys, InputError where it fails, hangs, or writes nothing.
    """
    program, shown = find(nsys), shown or report
    out = folder / "report.sqlite"
    # Absolute, so that no file name can pass for an option.
    argv = [program, "export", "--type", "sqlite", "--output", str(out.absolute()), str(report.absolute())]
    code, said = _run(argv, timeout_s)
    if code is None:
        raise InputError(f"{shown}: {program} export did not end within {timeout_s:g} s and was stopped")
    if code == 0 and out.is_file() and out.stat().st_size:
        return out
    for pattern, meaning in _KNOWN:
        if re.search(pattern, said):
            raise InputError(f"{shown}: {meaning.format(nsys=program, variable=VARIABLE)}")
    ended = f"was killed by signal {-code}" if code < 0 else f"ended with code {code}"
    raise InputError(f"{shown}: {program} export {ended} and no usable output{_last_line(said)}")


def _run(argv: list[str], timeout_s: float) -> tuple[int | None, str]:
    """Run in a process group of its own: (exit code, or None where it had to be killed, its output)."""
    with tempfile.TemporaryFile() as output:  # a pipe could be held open by a grandchild
        try:
            process = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
            )
        except OSError as error:
            raise MissingToolError(f"{argv[0]}: cannot be started ({error.strerror or error})") from error
        code: int | None = None
        try:
            code = process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            pass
        finally:  # also on Ctrl-C
            if code is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        output.seek(0)
        return code, output.read(1 << 20).decode(errors="replace")


def _last_line(said: str) -> str:
    lines = ["".join(c for c in line if c.isprintable()).strip() for line in said.splitlines()]
    told = [line for line in lines if line]
    return f": {told[-1][:200]}" if told else ""
