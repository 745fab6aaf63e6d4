"""`python -m dashboard.intake_worker SOURCE STORE [NAME]`: take a file, or what a URI names, into the store.

A process of its own, so that a hostile or huge file can neither stop the page nor keep its memory. It prints
a JSON list, one object a file: `name`, and either `run`, `rows`, `new` and `health` or `problem`.
"""

from __future__ import annotations

import contextlib
import filecmp
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from dashboard import health, remote
from traces import store
from traces.errors import InputError, KernelgapError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

_LONGEST: Final = 200  # of a file's name, ASCII
_TRIES: Final = 100


def main(arguments: list[str]) -> int:
    """Take everything; what fails is told beside its name."""
    source, folder, *name = arguments
    try:
        outcomes = list(_everything(source, Path(folder), *name))
    except KernelgapError as error:
        outcomes = [{"name": source, "problem": str(error)}]
    json.dump(outcomes, sys.stdout)
    return 0


def take(path: Path, name: str, folder: Path) -> dict[str, Any]:
    """Make a run of the file at `path`, called `name` where it comes from, and keep it in `folder`.

    Its name there is the canonical one of its contents, so that nothing of `name` reaches the file system but
    letters and digits. Raises KernelgapError.
    """
    if not name.lower().endswith(remote.SUFFIXES):
        raise UsageError(f"not a run or a trace ({', '.join(remote.SUFFIXES)})")
    if path.suffix == ".parquet":
        run = store.read(path)
        target, new = _kept(path, folder / _name(run))
    else:
        from traces.ingest import ingest

        run = ingest(path)
        known = _of_source(run.meta["source"]["sha256"], folder)
        target, new = (known, False) if known else (store.write(run, _free(folder / _name(run))), True)
    told = {"name": name, "run": target.name, "rows": run.table.num_rows, "new": new}
    return told | {"health": health.line(run)[1]}


def _everything(source: str, folder: Path, name: str | None = None) -> Iterator[dict[str, Any]]:
    store.check_writable(folder)
    with tempfile.TemporaryDirectory(prefix="kernelgap-") as scratch:
        if remote.scheme(source) is None:
            path = Path(source)
            if not path.is_file():
                raise InputError(f"{source}: no such file or folder")
            yield _one(path, name or path.name, folder, Path(scratch))
            return
        found, more = remote.find(source)
        for file in found:
            here = Path(scratch) / "copy"
            try:
                remote.copy(file, here)
                yield _one(here, file.name, folder, Path(scratch))
            except KernelgapError as error:
                yield {"name": file.name, "problem": _told(error)}
        if more:
            yield {
                "name": source,
                "problem": f"{more} more files there were left out ({remote.MOST_FILES} at once)",
            }


def _one(path: Path, name: str, folder: Path, scratch: Path) -> dict[str, Any]:
    """Take one file under a name without surprises; a link, so that nothing is copied."""
    suffix = next((s for s in sorted(remote.SUFFIXES, key=len) if name.lower().endswith(s)), "")
    plain = scratch / (store.slug(name[: len(name) - len(suffix)].replace(".", "-")) + suffix)
    try:
        plain.unlink(missing_ok=True)
        plain.symlink_to(path.resolve())
        return take(plain, name, folder)
    except KernelgapError as error:
        return {"name": name, "problem": _told(error).replace(f"{plain}: ", "")}
    except (OSError, MemoryError) as error:
        return {"name": name, "problem": f"cannot be taken in ({error})"}


def _name(run: store.Run) -> str:
    """The canonical name, short enough for any file system."""
    name = store.file_name(run.meta)
    return name if len(name) <= _LONGEST else f"{name[: _LONGEST - 8]}.parquet"


def _kept(source: Path, target: Path) -> tuple[Path, bool]:
    """Copy a run into the store, and whether it is new there; nothing is overwritten."""
    for place in _places(target):
        if place.exists() and filecmp.cmp(source, place, shallow=False):
            return place, False
    return store.copy(source, _free(target)), True


def _free(target: Path) -> Path:
    """The first name like `target` that no file has. Raises InputError."""
    found = next((place for place in _places(target) if not os.path.lexists(place)), None)
    if found is None:
        raise InputError(f"{_TRIES} other runs have its name already")
    return found


def _places(target: Path) -> Iterator[Path]:
    """`x.parquet`, `x-2.parquet` and so on."""
    yield target
    yield from (target.with_name(f"{target.stem}-{number}.parquet") for number in range(2, _TRIES + 1))


def _of_source(sha256: str, folder: Path) -> Path | None:
    """The run in the store that was made from the same trace."""
    for path in store.find([folder]):
        with contextlib.suppress(KernelgapError):
            if store.read_metadata(path)["source"].get("sha256") == sha256:
                return path
    return None


def _told(error: KernelgapError) -> str:
    return " ".join(str(error).split())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
