"""Files from elsewhere into the store: uploads, paths and URIs, and what each became, in words."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

from traces import store

if TYPE_CHECKING:
    from collections.abc import Iterable

LIMIT_S: Final = 600
_ROOT: Final = Path(__file__).resolve().parents[1]
_NAME: Final = 500  # of a name's end is enough to tell what it was
_BLOCK: Final = 1 << 20


@dataclass(frozen=True)
class Outcome:
    """What became of one file: `fine`, and a sentence. Both are text from strangers."""

    name: str
    fine: bool
    told: str


def upload(name: str, data: BinaryIO) -> list[Outcome]:
    """Take an uploaded file; its name is only looked at for what it ends in."""
    ending = "".join(Path(name.replace("\0", "")).suffixes[-2:]).lower()
    suffix = ending if ending == ".json.gz" else Path(ending or "x").suffix
    with tempfile.TemporaryDirectory(prefix="kernelgap-") as scratch:
        path = Path(scratch) / ("upload" + (suffix if suffix.isascii() and len(suffix) < 10 else ""))
        with path.open("wb") as out:
            while block := data.read(_BLOCK):
                out.write(block)
        return take(str(path), name)


def take(source: str, name: str | None = None) -> list[Outcome]:
    """Take a path or a URI of this machine's user into the store."""
    command = [sys.executable, "-P", "-m", "dashboard.intake_worker", source, str(store.default_store())]
    if name is not None:
        command.append(name.replace("\0", "")[-_NAME:].encode(errors="replace").decode())
    path = os.pathsep.join(filter(None, (str(_ROOT), os.environ.get("PYTHONPATH"))))
    try:
        done = subprocess.run(
            command, env=os.environ | {"PYTHONPATH": path}, stdin=subprocess.DEVNULL, capture_output=True,
            timeout=LIMIT_S, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return [Outcome(name or source, False, f"not done after {LIMIT_S} s; ingest it on the command line")]
    except ValueError:  # a NUL in the path
        return [Outcome(name or source, False, "no path or URI can be called that")]
    try:
        return list(_outcomes(json.loads(done.stdout)))
    except ValueError:
        return [
            Outcome(name or source, False, "taking it in failed; try it on the command line, which says why")
        ]


def _outcomes(found: Iterable[dict[str, object]]) -> Iterable[Outcome]:
    for one in found:
        name = str(one["name"])
        if "problem" in one:
            yield Outcome(name, False, str(one["problem"]))
        else:
            place = "became" if one["new"] else "is already in the library as"
            told = f"{place} the run {one['run']}, {one['rows']:,} rows. Its trace: {one['health']}"
            yield Outcome(name, True, told)
