"""Runs that lie elsewhere: a file or a folder behind a URI, copied to this machine.

`s3://`, `gs://`, `hf://` and `file://` go through pyarrow's own file systems where it was built with them,
else through fsspec and the package it needs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyarrow import fs

from traces.errors import InputError, KernelgapError, MissingToolError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SCHEMES: Final = ("s3", "gs", "hf", "file")
SUFFIXES: Final = (".parquet", ".json", ".json.gz", ".sqlite")
MOST_FILES: Final = 20
MOST_BYTES: Final = 2 << 30
_PACKAGES: Final = {"s3": "s3fs", "gs": "gcsfs", "hf": "huggingface_hub"}
_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_RETRY_S: Final = 20
_BLOCK: Final = 1 << 20


@dataclass(frozen=True)
class Found:
    """One file behind a URI."""

    name: str
    path: str
    size: int | None
    system: Any


def scheme(text: str) -> str | None:
    """`s3` of `s3://…`; None for what is a path."""
    found = _SCHEME.match(text)
    return found[1].lower() if found else None


def find(uri: str) -> tuple[list[Found], int]:
    """The files behind a URI (itself, or a folder's runs and traces), and how many more were left out.

    Raises UsageError for a scheme that is not offered, MissingToolError where a package is missing,
    InputError where there is nothing or nothing can be reached.
    """
    try:
        system, path = _system(uri)
        info = system.get_file_info(path)
        if info.type == fs.FileType.File:
            return [Found(info.base_name, path, info.size, system)], 0
        if info.type != fs.FileType.Directory:
            raise InputError(f"{uri}: there is nothing there")
        inside = system.get_file_info(fs.FileSelector(path))
    except KernelgapError:
        raise
    except Exception as error:  # whatever a package for one kind of store raises
        raise InputError(f"{uri}: cannot be read ({_line(error)})") from error
    good = [i for i in inside if i.type == fs.FileType.File and i.base_name.lower().endswith(SUFFIXES)]
    if not good:
        raise InputError(f"{uri}: a folder without runs or traces ({', '.join(SUFFIXES)})")
    kept = sorted(good, key=lambda i: i.path)[:MOST_FILES]
    return [Found(i.base_name, i.path, i.size, system) for i in kept], len(good) - len(kept)


def copy(found: Found, target: Path) -> None:
    """Copy one file here, block by block. Raises InputError beyond MOST_BYTES or when it cannot be read."""
    if (found.size or 0) > MOST_BYTES:
        raise InputError(f"{found.name}: {found.size:,} bytes, more than {MOST_BYTES:,}")
    try:
        with found.system.open_input_stream(found.path) as source, target.open("wb") as out:
            for block in _blocks(source):
                out.write(block)
                if out.tell() > MOST_BYTES:
                    raise InputError(f"{found.name}: more than {MOST_BYTES:,} bytes")
    except KernelgapError:
        raise
    except Exception as error:  # whatever a package for one kind of store raises
        raise InputError(f"{found.name}: cannot be read ({_line(error)})") from error


def _blocks(source: Any) -> Iterator[bytes]:
    while block := source.read(_BLOCK):
        yield block


def _system(uri: str) -> tuple[Any, str]:
    name = scheme(uri)
    if name not in SCHEMES:
        known = ", ".join(f"{s}://" for s in SCHEMES)
        raise UsageError(f"{name}:// is not offered; use {known} or a path on this machine")
    if name != "hf":
        try:
            return fs.FileSystem.from_uri(_impatient(uri))  # type: ignore[no-any-return]
        except (pa.ArrowNotImplementedError, ImportError):  # pyarrow was built without it
            pass
    try:
        import fsspec

        system, path = fsspec.core.url_to_fs(uri)
    except ImportError as error:
        package = _PACKAGES.get(name, "fsspec")
        raise MissingToolError(f"{name}:// needs a package: pip install {package}") from error
    return fs.PyFileSystem(fs.FSSpecHandler(system)), PurePosixPath(path).as_posix()


def _impatient(uri: str) -> str:
    """Google's client tries for fifteen minutes to reach its server, unless told not to."""
    if scheme(uri) != "gs" or "?" in uri:
        return uri
    return f"{uri}?retry_limit_seconds={_RETRY_S}"


def _line(error: BaseException) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)[:200]
