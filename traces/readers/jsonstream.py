"""A Chrome trace as a stream: batches of events and the metadata around them, in bounded memory.

The text is cut where one event ends and the next begins, decoded strictly and fast; only a stretch that
does not decode goes through `salvage`. A cut is right whenever `[` + stretch + `]` is valid JSON, so the
cutter need not understand nesting, line layout or key order.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import msgspec

from traces.errors import InputError
from traces.readers.events import DECODE_ERRORS, Event, decode_many
from traces.readers.salvage import Notes, balanced, repair, salvage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CHUNK: Final = 4 << 20
MAX_PENDING: Final = 64 << 20  # no event, and no metadata, is larger than this
_ARRAY = re.compile(rb'"traceEvents"\s*:\s*\[')
_BOUNDARY = re.compile(rb"\}\s*,\s*(?=\{)")
_CLOSING = re.compile(rb"\}\s*\](?=\s*(?:[,}]|\Z))")
_TAIL_WINDOW: Final = 1 << 16
_BLANK: Final = b" \r\n\t\xef\xbb\xbf"


class EventStream:
    """Iterate over lists of events; `metadata`, `notes` and `events` are complete when it is exhausted."""

    def __init__(self, read: Callable[[int], bytes], where: str) -> None:
        self.read = read
        self.where = where
        self.notes = Notes()
        self.metadata: dict[str, Any] = {}
        self.events = 0
        self.offset = 0  # of the pending text in the whole
        self._pending = b""
        self._finished = False

    def __iter__(self) -> Iterator[list[Event]]:
        head = self._find_array()
        if head is None:
            return
        ended = False
        while not ended:
            self._fill()
            batch, ended = self._next_batch()
            self.events += len(batch)
            if batch:
                yield batch
            if self._finished and not self._pending.strip() and not ended:
                if "truncated" not in self.notes.dropped:
                    self.notes.drop("truncated", self.offset)
                break
        tail = self._read_tail() if ended else b""
        self._read_metadata(head, tail)

    def _fill(self, at_least: int = 0) -> None:
        """Bring in the next chunk of text."""
        if self._finished:
            return
        chunk = self.read(CHUNK)
        self._finished = not chunk
        self._pending += chunk
        if len(self._pending) > MAX_PENDING:
            raise InputError(f"{self.where}: no end of an event within {MAX_PENDING >> 20} MiB; not a trace")

    def _consume(self, count: int) -> bytes:
        taken, self._pending = self._pending[:count], self._pending[count:]
        self.offset += count
        return taken

    def _find_array(self) -> bytes | None:
        """Skip to the first event; returns the text before the array, or None if there is no array."""
        while True:
            self._fill()
            if self._pending.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"["):
                self._consume(self._pending.index(b"[") + 1)
                return b""
            if match := _ARRAY.search(self._pending):
                return self._consume(match.end())[: match.start()]
            if self._finished:
                self.metadata.update(self._object(self._pending.strip(_BLANK)))
                return None

    def _next_batch(self) -> tuple[list[Event], bool]:
        """Decode the longest stretch of whole events in the pending text: (events, array ended)."""
        for end, ended in self._cuts():
            try:
                batch = decode_many(b"[" + self._pending[:end] + b"]")
            except DECODE_ERRORS:
                continue
            self._consume(end)
            self._drop_separator(ended)
            return batch, ended
        if len(self._pending) < CHUNK and not self._finished:
            return [], False
        found = salvage(self._pending, self.offset, self.notes, last=self._finished)
        self._consume(found.rest)
        return found.events, found.ended

    def _cuts(self) -> Iterator[tuple[int, bool]]:
        """Likely ends of whole events, best first: before the last boundary, or the array's own end."""
        if not self._pending.strip():
            return
        if self._finished:
            closings = list(_CLOSING.finditer(self._pending, max(0, len(self._pending) - _TAIL_WINDOW)))
            yield from ((m.start() + 1, True) for m in reversed(closings[-4:]))
            return
        window = max(0, len(self._pending) - _TAIL_WINDOW)
        boundaries = list(_BOUNDARY.finditer(self._pending, window))
        yield from ((m.start() + 1, False) for m in reversed(boundaries[-2:]))

    def _drop_separator(self, ended: bool) -> None:
        pattern = rb"\s*\]" if ended else rb"\s*,\s*"
        if match := re.compile(pattern).match(self._pending):
            self._consume(match.end())

    def _read_tail(self) -> bytes:
        while not self._finished:
            self._fill()
        return self._pending

    def _read_metadata(self, head: bytes, tail: bytes) -> None:
        """The object around the array; keys that come after the events count like those before."""
        before = head.strip(_BLANK).rstrip(b", \r\n\t")
        behind = tail.strip(_BLANK).lstrip(b", \r\n\t")
        if before.strip(b"{} "):
            self.metadata.update(self._object(before + b"}"))
        if behind.strip(b"{} "):
            self.metadata.update(self._object(b"{" + behind))

    def _object(self, text: bytes) -> dict[str, Any]:
        for candidate, mended in ((text, False), (repair(text)[0], True), (_first_object(text), True)):
            try:
                found = msgspec.json.decode(candidate)
            except DECODE_ERRORS:
                continue
            if mended:
                self.notes.repair("metadata", self.offset)
            return found if isinstance(found, dict) else {}
        self.notes.drop("metadata", self.offset)
        return {}


def _first_object(text: bytes) -> bytes:
    """Cut trailing garbage: the text up to the brace that closes the first one."""
    end = balanced(text, 0, len(text))
    return text[:end] if end else text
