"""A Chrome trace as a stream of stretches of events, and the metadata around them, in bounded memory.

The text is cut where one event seems to end and the next to begin, without decoding it. The first stretch
begins at an event; if `[` + stretch + `]` is valid JSON, so does the next one. A stretch that does not
decode (a cut inside an event, the end of the array, a broken event) goes through `recover`, and what
is left of it is put before the next stretch. So the cutter need not understand nesting, line layout or
key order, and stretches can be decoded ahead and elsewhere.
"""

from __future__ import annotations

import re
from collections import deque
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, TypeVar

import msgspec

from traces.errors import InputError
from traces.readers.events import DECODE_ERRORS, Event
from traces.readers.salvage import Notes, balanced, place, recover, repair

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CHUNK: Final = 2 << 20
MAX_PENDING: Final = 64 << 20  # no event, and no metadata, is larger than this
_ARRAY = re.compile(rb'"traceEvents"\s*:\s*\[')
_BOUNDARY = re.compile(rb"\}\s*,\s*(?=\{)")
_FURTHER = re.compile(rb"(?:[\s,\x1e]|\xef\xbb\xbf)*(?=[{\[])")
_FIRST_KEY = re.compile(rb'\s*\{\s*("\w+")\s*:')
_WINDOW: Final = 1 << 16
_BLANK: Final = b" \r\n\t\xef\xbb\xbf"
_UTF16: Final = (b"\xff\xfe", b"\xfe\xff", b"{\0", b"[\0", b"\0{", b"\0[")
MAX_TAIL: Final = 8 << 20  # so far behind the events another document is looked for
T = TypeVar("T")


class Stretch(NamedTuple):
    """A piece of the array's text, its separators included; `last` says that nothing follows."""

    offset: int
    text: bytes
    last: bool


class Where(NamedTuple):
    """Where the events of one stretch stand: `begins` as in `Salvaged`, `offset` the place of `text`."""

    text: bytes
    offset: int
    begins: list[tuple[int, int]]

    def place(self, number: int) -> int:
        """Where in the whole text the event of that number begins."""
        return self.offset + place(self.text, self.begins, number)


class Text:
    """What `read` gives, with text put back before it; `offset` is the place of the next byte."""

    def __init__(self, read: Callable[[int], bytes]) -> None:
        self._read, self._back, self.offset = read, b"", 0

    def read(self, size: int) -> bytes:
        """What was put back, however long, else up to `size` bytes; empty at the end."""
        text, self._back = self._back or self._read(size), b""
        self.offset += len(text)
        return text

    def put_back(self, text: bytes) -> None:
        """Give `text`, which was read last, once more."""
        self._back, self.offset = text, self.offset - len(text)


class EventStream(Generic[T]):
    """Iterate over (where, decoded stretch); `metadata` and `notes` are complete when it is exhausted.

    If another document follows the first one in the same text, `following` then reads that, with the same
    `notes`.

    `submit(text)` starts to decode a stretch and returns a function that gives the result, or None if it
    is not strict JSON; up to `ahead` of them are under way. `build` makes the same from recovered events.
    """

    def __init__(
        self,
        read: Callable[[int], bytes] | Text,
        where: str,
        submit: Callable[[bytes], Callable[[], T | None]],
        build: Callable[[list[Event]], T],
        ahead: int = 1,
        notes: Notes | None = None,
    ) -> None:
        self.where = where
        self.notes = notes or Notes()
        self.following: EventStream[T] | None = None
        self.metadata: dict[str, Any] = {}
        self._text = read if isinstance(read, Text) else Text(read)
        self._submit, self._build, self._ahead = submit, build, ahead
        self._waiting: deque[tuple[Stretch, Callable[[], T | None]]] = deque()
        self.begin = self._offset = self._text.offset
        self._pending = b""  # text not cut yet; `_offset` is its place in the whole
        self._searched = 0  # no cut lies before this place of the pending text
        self._boundary = _BOUNDARY
        self._finished = self._done = False

    def __iter__(self) -> Iterator[tuple[Where, T]]:
        head = self._find_array()
        if head is None:
            return
        carry, ended, tail, end, end_of_array = b"", False, [], self._offset, 0
        for stretch, result in self._under_way():
            made = result()
            end = stretch.offset + len(stretch.text)
            if ended:
                tail.append(stretch.text)
            elif made is not None and not carry:
                yield Where(stretch.text, stretch.offset, [(0, 0)]), made
            else:
                text, offset = carry + stretch.text, stretch.offset - len(carry)
                found = recover(text, offset, self.notes, last=stretch.last)
                if found.events:
                    yield Where(text, offset, found.begins), self._build(found.events)
                carry, ended = text[found.rest :], found.ended
                self._refuse_endless(len(carry))
                if ended:
                    tail, end_of_array, carry = [carry], offset + found.rest, b""
            if ended and (behind := self._another(head, tail)) is not None:
                tail = [b"".join(tail)[:behind]]
                break
        if not ended and "truncated" not in self.notes.dropped:
            self.notes.drop("truncated", end)
        self._read_metadata(head, b"".join(tail), end_of_array)

    def _under_way(self) -> Iterator[tuple[Stretch, Callable[[], T | None]]]:
        """Stretches in order, with `ahead` of them submitted before the first one is asked for."""
        waiting = self._waiting
        while True:
            while len(waiting) < self._ahead and (stretch := self._cut()):
                waiting.append((stretch, self._submit(stretch.text)))
            if not waiting:
                return
            yield waiting.popleft()

    def _cut(self) -> Stretch | None:
        """The next stretch: up to the last place in the pending text that looks like the end of an event."""
        while not self._done:
            self._fill()
            if self._finished:
                self._done = True
                return Stretch(self._offset, self._consume(len(self._pending)), last=True)
            if end := self._last_boundary():
                return Stretch(self._offset, self._consume(end), last=False)
        return None

    def _last_boundary(self) -> int:
        size = len(self._pending)
        for low in (max(self._searched, size - _WINDOW), self._searched):
            if found := list(self._boundary.finditer(self._pending, low)):
                return found[-1].start() + 1
        self._searched = max(0, size - _WINDOW)
        if size > 2 * CHUNK:  # not even one event that begins like the first
            self._boundary = _BOUNDARY
        return 0

    def _fill(self) -> None:
        """Bring in the next chunk of text."""
        if not self._finished:
            chunk = self._text.read(CHUNK)
            self._finished = not chunk
            self._pending += chunk
            self._refuse_endless(len(self._pending))

    def _refuse_endless(self, size: int) -> None:
        if size > MAX_PENDING:
            raise InputError(f"{self.where}: no end of an event within {MAX_PENDING >> 20} MiB; not a trace")

    def _consume(self, count: int) -> bytes:
        taken, self._pending = self._pending[:count], self._pending[count:]
        self._offset += count
        self._searched = 0
        return taken

    def _find_array(self) -> bytes | None:
        """Skip to the first event; returns the text before the array, or None if there is no array."""
        head, at = None, 0
        while head is None:
            self._fill()
            if self._pending.startswith(_UTF16):
                raise InputError(f"{self.where}: is UTF-16 text; save it as UTF-8")
            if self._pending[:_WINDOW].lstrip(_BLANK).startswith(b"["):
                self._consume(self._pending.index(b"[") + 1)
                head = b""
            elif match := _ARRAY.search(self._pending, at):
                head = self._consume(match.end())[: match.start()]
            elif self._finished:
                self.metadata.update(self._object(self._pending.strip(_BLANK), 0))
                return None
            at = max(0, len(self._pending) - _WINDOW)
        if first := _FIRST_KEY.match(self._pending):  # nested objects seldom begin like an event
            self._boundary = re.compile(rb"\}\s*,\s*(?=\{\s*%b\s*:)" % first[1])
        return head

    def _another(self, head: bytes, tail: list[bytes]) -> int | None:
        """Where in `tail`, the text behind the array, this document ends and another follows, if so."""
        if sum(map(len, tail)) > MAX_TAIL:
            return None
        text = b"".join(tail)
        end = balanced(b"{" + text, 0, len(text) + 1) if head else 1
        further = _FURTHER.match(text, end - 1) if end else None
        if not end or not further:
            return None
        behind = (s.text for s, _ in self._waiting)
        self._text.put_back(b"".join((text[further.end() :], *behind, self._pending)))
        again = (self._text, self.where, self._submit, self._build, self._ahead, self.notes)
        self.following = EventStream(*again)
        return end - 1

    def _read_metadata(self, head: bytes, tail: bytes, offset: int) -> None:
        """The object around the array; keys that come after the events count like those before."""
        before = head.strip(_BLANK).rstrip(b", \r\n\t")
        behind = tail.strip(_BLANK).lstrip(b", \r\n\t")
        if before.strip(b"{} "):
            self.metadata.update(self._object(before + b"}", 0))
        if behind.strip(b"{} "):
            self.metadata.update(self._object(b"{" + behind, offset))
        if isinstance(again := self.metadata.pop("traceEvents", None), list):
            self.notes.drop("second_array", offset, len(again))

    def _object(self, text: bytes, offset: int) -> dict[str, Any]:
        for candidate, mended in ((text, False), (repair(text)[0], True), (_first_object(text), True)):
            try:
                found = msgspec.json.decode(candidate)
            except DECODE_ERRORS:
                continue
            if mended:
                self.notes.repair("metadata", offset)
            return found if isinstance(found, dict) else {}
        self.notes.drop("metadata", offset)
        return {}


def _first_object(text: bytes) -> bytes:
    """Cut trailing garbage: the text up to the brace that closes the first one."""
    end = balanced(text, 0, len(text))
    return text[:end] if end else text
