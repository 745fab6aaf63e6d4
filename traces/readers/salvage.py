"""Getting events out of text that is not JSON: what tools really wrote, mended one event at a time.

Seen in the wild: unescaped quotes in Python names (pytorch#146900), raw control characters and bad
UTF-8 (pytorch#130622), Windows paths with single backslashes (pytorch#98432), bare N/A, NaN and inf,
files cut off in the middle. At most the broken event is lost, and every repair is counted with the
offset of its first byte.
"""

from __future__ import annotations

import re
from bisect import bisect
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from traces.readers.events import (
    DECODE_ERRORS,
    Event,
    array,
    decode_loosely,
    decode_many,
    decode_one,
    elements,
)

if TYPE_CHECKING:
    from collections.abc import Callable

_NEXT = re.compile(rb",\s*(?=\{)")
_END = re.compile(rb"[\s,]*\]")
_COMMA = re.compile(rb"\s*,?\s*")
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|[{}\[\]]', re.DOTALL)
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
_BARE = re.compile(rb"(?<=[:\[,\s])([-+]?(?:N/A|nan|NaN|inf|Infinity|INF|NAN))(?=[\s,\]}])")
_ESCAPE = re.compile(rb'\\(?!["\\/bfnrt]|u[0-9a-fA-F]{4})')
_CONTROL = re.compile(rb"[\x00-\x1f]")
# A name runs to the first quote that a known key follows; quotes inside it were not escaped.
_NAME = re.compile(
    rb'("name"\s*:\s*")((?:(?!"(?:ph|cat|pid|tid|ts|dur|args)"\s*:).)*?)'
    rb'(?="\s*,\s*"(?:ph|cat|pid|tid|ts|dur|args|id|s|bp)"\s*:)',
    re.DOTALL,
)
_JUNK = re.compile(rb"[^,\]]+")
# An event may hold `,{` itself, which cuts it into pieces: how many are tried together.
MAX_MERGE: Final = 64
MAX_MEND: Final = 8
# So many faults in one stretch are worked around; with more of them, every event is taken by itself.
MAX_FAULTS: Final = 8
_EDGE: Final = 1 << 20
_PLACE = re.compile(r"\(byte (\d+)\)")


@dataclass
class Notes:
    """Counts by reason, each with the byte offset of the first case in the (uncompressed) text."""

    repaired: dict[str, dict[str, int]] = field(default_factory=dict)
    dropped: dict[str, dict[str, int]] = field(default_factory=dict)

    def repair(self, reason: str, offset: int, count: int = 1) -> None:
        """Count something that was mended and kept."""
        self._add(self.repaired, reason, offset, count)

    def drop(self, reason: str, offset: int, count: int = 1) -> None:
        """Count something that was lost."""
        self._add(self.dropped, reason, offset, count)

    @staticmethod
    def _add(where: dict[str, dict[str, int]], reason: str, offset: int, count: int) -> None:
        entry = where.setdefault(reason, {"count": 0, "first_offset": offset})
        entry["count"] += count


@dataclass
class Salvaged:
    """What a stretch of text held: its events, where the rest begins, and whether the array ended there.

    `begins` are runs of whole events: the number of the first one, and where in the text it stands.
    """

    events: list[Event]
    rest: int
    ended: bool
    begins: list[tuple[int, int]]


def place(text: bytes, begins: list[tuple[int, int]], number: int) -> int:
    """Where in `text` the event of that number begins; `begins` as in `Salvaged`."""
    first, at = begins[bisect(begins, number, key=lambda begin: begin[0]) - 1]
    at = _skip_comma(text, at)
    for _ in range(number - first):
        at = _skip_comma(text, balanced(text, at, len(text)) or at)
    return at


def recover(text: bytes, offset: int, notes: Notes, *, last: bool) -> Salvaged:
    """Take the events out of a stretch that is not strict JSON; parameters and result as for `salvage`.

    Decodes strictly up to each fault, and takes only the event there by itself.
    """
    events: list[Event] = []
    begins = [(0, 0)]
    at = 0
    for _ in range(MAX_FAULTS):
        try:
            whole: list[Event] | None = decode_many(array(text[at:]), exact=True)
            return Salvaged([*events, *(whole or [])], len(text), ended=False, begins=begins)
        except DECODE_ERRORS as error:
            fault = _place(text, at, error)
        if fault is None:  # the text ends inside an event
            for begin in [m.end() for m in _NEXT.finditer(text, max(at, len(text) - _EDGE))][:-4:-1]:
                if (whole := _strict_before(text, at, begin)) is not None:
                    events, at = events + whole, begin
                    break
            break
        if text[fault : fault + 1] == b"]" and (whole := _strict(text[at:fault])) is not None:
            return Salvaged(events + whole, fault + 1, ended=True, begins=begins)
        begin = max((m.end() for m in _NEXT.finditer(text, at, fault)), default=at)
        if (whole := _strict_before(text, at, begin)) is None:
            break
        events += whole
        one = salvage(text[begin:], offset + begin, notes, last=last, limit=1)
        begins += [(len(events), begin + at_one) for _, at_one in one.begins]
        events += one.events
        at = begin + one.rest
        begins.append((len(events), at))
        if one.ended or not one.rest or at >= len(text):
            return Salvaged(events, at, one.ended, begins)
    rest = salvage(text[at:], offset + at, notes, last=last)
    begins += [(len(events) + number, at + begin) for number, begin in rest.begins]
    return Salvaged(events + rest.events, at + rest.rest, rest.ended, begins)


def _strict(text: bytes) -> list[Event] | None:
    try:
        return decode_many(array(text), exact=True)
    except DECODE_ERRORS:
        return None


def _strict_before(text: bytes, at: int, begin: int) -> list[Event] | None:
    """The events from `at` to the one that begins at `begin`."""
    return _strict(text[at:begin].rstrip().removesuffix(b",")) if begin > at else []


def _place(text: bytes, at: int, error: Exception) -> int | None:
    """Where in `text` decoding from `at` on failed; the array's own `]` if there was text behind it."""
    found = _PLACE.search(str(error))
    if not found:
        return None
    place = at + elements(text[at:]) + int(found[1]) - 1
    return text.rfind(b"]", at, place) if "trailing characters" in str(error) else place


def salvage(text: bytes, offset: int, notes: Notes, *, last: bool, limit: int | None = None) -> Salvaged:
    """Take the events out of `text`, which begins at an element of the array, one by one.

    Stops after `limit` elements. `offset` is the place of `text` in the whole; `last` says that nothing
    follows it (then an unfinished event is dropped as truncated; else `rest` is where it begins).
    """
    starts = [m.end() for m in _NEXT.finditer(text)]
    events: list[Event] = []
    begins: list[tuple[int, int]] = []
    at, index, taken = _skip_comma(text, 0), 0, 0
    while at < len(text) and taken != limit:
        while index < len(starts) and starts[index] <= at:
            index += 1
        if closed := _array_end(text, at):
            return Salvaged(events, closed, ended=True, begins=begins)
        event, end = _take(text, at, starts[index : index + MAX_MERGE], offset, notes, last=last)
        if end is None:
            break
        if event is not None:
            begins.append((len(events), at))
            events.append(event)
        at, taken = _skip_comma(text, end), taken + 1
    if last and taken != limit and text[at:].strip():
        notes.drop("truncated", offset + at)
        return Salvaged(events, len(text), ended=False, begins=begins)
    return Salvaged(events, at, ended=False, begins=begins)


def _take(
    text: bytes, at: int, nexts: list[int], offset: int, notes: Notes, *, last: bool
) -> tuple[Event | None, int | None]:
    """The event at `at` and where it ends; (None, end) if it was lost; (None, None) if it is unfinished."""
    if text[at : at + 1] != b"{":
        return _take_junk(text, at, offset, notes, last=last)
    nearest = nexts[0] if nexts else len(text)
    piece = text[at:nearest].rstrip().rstrip(b",")
    if nexts and (event := _try(decode_one, piece)):
        return event, at + len(piece)
    end = balanced(text, at, limit=nexts[-1] if len(nexts) == MAX_MERGE else len(text))
    if end is not None and (event := _try(decode_one, text[at:end])):
        return event, end
    if not last and len(nexts) < MAX_MERGE:  # what follows may decide; it comes with the next stretch
        return None, None
    for limit in [*nexts[:MAX_MEND], *([len(text)] if len(nexts) < MAX_MEND else [])]:
        if mended := _mend(text[at:limit]):
            event, size, reasons = mended
            for reason in reasons or ["unexpected_type"]:
                notes.repair(reason, offset + at)
            return event, at + size
    if end is None and not nexts:
        return None, None
    notes.drop("broken_event", offset + at)
    return None, nearest if nexts else end


def _take_junk(text: bytes, at: int, offset: int, notes: Notes, *, last: bool) -> tuple[None, int | None]:
    """Pass over an element that is no object."""
    junk = _JUNK.match(text, at)
    if junk is None or (junk.end() == len(text) and not last):
        return None, None
    notes.drop("broken_event", offset + at)
    return None, junk.end()


def _mend(text: bytes) -> tuple[Event, int, list[str]] | None:
    """Repair the event at the beginning of `text`: (event, its length in `text`, reasons)."""
    fixed, reasons = repair(text)
    end = balanced(fixed, 0, len(fixed))
    if end is None:
        return None
    event = _try(decode_one, fixed[:end]) or _try(decode_loosely, fixed[:end])
    return (event, len(text) - (len(fixed) - end), reasons) if event else None


def _try(decode: Callable[[bytes], Event], text: bytes) -> Event | None:
    try:
        return decode(text)
    except (*DECODE_ERRORS, ValueError):
        return None


def balanced(text: bytes, at: int, limit: int) -> int | None:
    """The end of the object that begins at `at`, by counting brackets outside strings."""
    depth = 0
    for match in _TOKEN.finditer(text, at, limit):
        token = match[0][:1]
        if token in b"{[":
            depth += 1
        elif token in b"}]":
            depth -= 1
            if depth <= 0:
                return match.end() if depth == 0 else None
    return None


def _array_end(text: bytes, at: int) -> int | None:
    """The place behind the array's `]` if nothing but white space or a stray comma stands before it."""
    rest = _END.match(text, at)
    return rest.end() if rest else None


def _skip_comma(text: bytes, at: int) -> int:
    found = _COMMA.match(text, at)
    return found.end() if found else at


def repair(text: bytes) -> tuple[bytes, list[str]]:
    """Mend what is known to go wrong in one event; returns the text and the reasons, in order."""
    reasons = []
    try:
        text.decode("utf-8")
    except UnicodeDecodeError:
        text = text.decode("utf-8", errors="replace").encode()
        reasons.append("bad_utf8")
    fixed = _NAME.sub(lambda m: m[1] + re.sub(rb'(?<!\\)"', rb'\\"', m[2]), text, count=1)
    if fixed != text:
        text, reasons = fixed, [*reasons, "unescaped_quote"]
    for reason, mend in (("bad_escape", _mend_escapes), ("control_character", _mend_controls)):
        fixed = _STRING.sub(lambda m, mend=mend: mend(m[0]), text)  # type: ignore[misc]
        if fixed != text:
            text, reasons = fixed, [*reasons, reason]
    fixed = _outside_strings(text)
    if fixed != text:
        text, reasons = fixed, [*reasons, "not_a_number"]
    return text, reasons


def _mend_escapes(string: bytes) -> bytes:
    return _ESCAPE.sub(rb"\\\\", string)


def _mend_controls(string: bytes) -> bytes:
    return _CONTROL.sub(lambda m: b"\\u%04x" % m[0][0], string)


def _outside_strings(text: bytes) -> bytes:
    """Replace bare N/A, NaN and inf by null, leaving strings alone."""
    parts, at = [], 0
    for match in _STRING.finditer(text):
        parts += [_BARE.sub(b"null", text[at : match.start()]), match[0]]
        at = match.end()
    return b"".join([*parts, _BARE.sub(b"null", text[at:])])
