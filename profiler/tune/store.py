"""Writing a tile cache: whole files only, and never over what another process added meanwhile."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from profiler.ops.triton import tiles
from traces.errors import OutputError

if TYPE_CHECKING:
    from profiler.ops.triton.tiles import Entry


def put(path: Path, entry: Entry) -> None:
    """Add an entry to the cache at `path`, in place of the one with its key.

    Raises:
        OutputError: the file cannot be written.
        InputError: there is a file, and it is no tile cache.
    """
    text = tiles.dump(tiles.merge(tiles.read(path), entry))
    temporary: str | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).chmod(0o644)
        Path(temporary).replace(path)
    except OSError as error:
        if temporary is not None:
            with contextlib.suppress(OSError):
                Path(temporary).unlink()
        raise OutputError(f"{path}: cannot write the tile cache ({error.strerror})") from error
