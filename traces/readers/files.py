"""Opening inputs: plain or gzip by content (not by name), hashed while they are read."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, BinaryIO, Final

from isal import isal_zlib

from traces.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

_GZIP: Final = b"\x1f\x8b"
_BLOCK: Final = 1 << 20
# Real traces shrink 5 to 30 times; only a bomb shrinks a thousand times.
MAX_RATIO: Final = 400
_BOMB_FLOOR: Final = 256 << 20
_USUAL_RATIO: Final = 12


class Source:
    """A readable input. `read(n)` gives uncompressed bytes; `sha256` covers the file as it lies on disk.

    Raises InputError if the file is missing, a folder, unreadable, or a gzip bomb. A gzip that is cut
    off or damaged gives what it can and sets `damage` to the reason.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.damage: str | None = None
        self._hash = hashlib.sha256()
        self._read, self.given = 0, 0  # bytes of the file, and uncompressed ones handed out
        self._file = _open(path)
        self._pending = self._raw(len(_GZIP))
        self.compressed = self._pending.startswith(_GZIP)
        self._inflater = isal_zlib.decompressobj(wbits=31) if self.compressed else None

    def __enter__(self) -> Source:
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._file.close()

    def read(self, size: int) -> bytes:
        """At least one and about `size` uncompressed bytes; empty at the end."""
        if not self.compressed:
            data, self._pending = self._pending + self._raw(max(1, size - len(self._pending))), b""
            self.given += len(data)
            return data
        parts, total = [], 0
        while total < size and (part := self._inflate(size - total)):
            parts.append(part)
            total += len(part)
        self.given += total
        if self.given > max(_BOMB_FLOOR, MAX_RATIO * self._read):
            raise InputError(f"{self.path}: gzip grows more than {MAX_RATIO} times; refused as a gzip bomb")
        return b"".join(parts)

    @property
    def likely_size(self) -> int:
        """About how many bytes there are, uncompressed."""
        size = self.path.stat().st_size
        return size * _USUAL_RATIO if self.compressed else size

    def sha256(self) -> str:
        """Of the whole file; reads what is left of it."""
        while self._raw(_BLOCK):
            pass
        return self._hash.hexdigest()

    def _inflate(self, size: int) -> bytes:
        while self._inflater is not None:
            if self._inflater.eof:
                self._next_member()
                continue
            data = self._inflater.unconsumed_tail or self._pending or self._raw(_BLOCK)
            self._pending = b""
            if not data:
                self.damage = self.damage or "truncated_gzip"
                self._inflater = None
                break
            try:
                out = self._inflater.decompress(data, max_length=size)
            except (isal_zlib.IsalError, EOFError):  # type: ignore[misc]
                self.damage, self._inflater = "damaged_gzip", None
                break
            if out:
                return bytes(out)
        return b""

    def _next_member(self) -> None:
        """A gzip file may hold several members one after the other; anything else behind one is garbage."""
        assert self._inflater is not None
        rest = bytes(self._inflater.unused_data) or self._pending or self._raw(_BLOCK)
        self._pending = b""
        if rest.startswith(_GZIP):
            self._inflater, self._pending = isal_zlib.decompressobj(wbits=31), rest
            return
        if rest.strip(b"\0"):
            self.damage = "garbage_after_gzip"
        self._inflater = None

    def _raw(self, size: int) -> bytes:
        try:
            data = self._file.read(size)
        except OSError as error:
            raise InputError(f"{self.path}: cannot read ({error.strerror or error})") from error
        self._hash.update(data)
        self._read += len(data)
        return data


def _open(path: Path) -> BinaryIO:
    if path.is_dir():
        raise InputError(f"{path}: is a folder; name a trace file (.json, .json.gz)")
    try:
        return path.open("rb")
    except FileNotFoundError as error:
        raise InputError(f"{path}: no such file") from error
    except OSError as error:
        raise InputError(f"{path}: cannot open ({error.strerror or error})") from error
