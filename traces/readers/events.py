"""One trace event as Kineto writes it, decoded only as far as we need it.

Field names and their history: https://github.com/pytorch/kineto (libkineto/src/output_json.cpp).
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

import msgspec
from msgspec import Raw, field

Number = int | float | str | None
_NOTHING = Raw(b"")
SHAPES: Final = ("dims", "types", "strides", "concrete")  # what an op was called with, kept as text


class Args(msgspec.Struct, gc=False):
    """The `args` we use, in Kineto's order, which decodes fastest.

    Types are wide: files in the wild hold numbers as strings and the reverse. Lists stay text, because
    few of them are ever looked at and most are alike.
    """

    external: Number = field(name="External id", default=None)
    concrete: Raw = field(name="Concrete Inputs", default=_NOTHING)
    types: Raw = field(name="Input type", default=_NOTHING)
    strides: Raw = field(name="Input Strides", default=_NOTHING)
    dims: Raw = field(name="Input Dims", default=_NOTHING)
    device: Number = None
    stream: Number = None
    correlation: Number = None
    registers: Number = field(name="registers per thread", default=None)
    shared: Number = field(name="shared memory", default=None)
    grid: Raw = _NOTHING
    block: Raw = _NOTHING
    occupancy: Number = field(name="est. achieved occupancy %", default=None)
    bytes: Number = None
    graph_id: Number = field(name="graph id", default=None)
    graph_node: Number = field(name="graph node id", default=None)
    finished: Number = None


class Event(msgspec.Struct, gc=False):
    """`ts` and `dur` are microseconds: numbers, or text with all their digits (see `decode_many`)."""

    ph: str = ""
    cat: str = ""
    name: str = ""
    pid: Number = None
    tid: Number = None
    ts: Any = None
    dur: Any = None
    args: Args | None = None


_ONE = msgspec.json.Decoder(Event, float_hook=str)
_MANY = msgspec.json.Decoder(list[Event])
_MANY_EXACT = msgspec.json.Decoder(list[Event], float_hook=str)
DECODE_ERRORS = (msgspec.MsgspecError, RecursionError, UnicodeDecodeError)
_COMMA: Final = re.compile(rb"\s*,")


def elements(text: bytes) -> int:
    """Where the first event of a stretch begins: a comma may stand before it."""
    found = _COMMA.match(text)
    return found.end() if found else 0


def array(text: bytes) -> bytes:
    """A stretch `event, event, ...`, with or without a comma before the first, as a JSON array."""
    return b"".join((b"[", memoryview(text)[elements(text) :], b"]"))


def decode_many(text: bytes | memoryview, *, exact: bool = False) -> list[Event]:
    """Decode `[event, event, ...]`; raises one of DECODE_ERRORS if any part is not strict JSON.

    Fractional times come as floats, or with `exact` (slower) as text.
    """
    return (_MANY_EXACT if exact else _MANY).decode(text)


def decode_one(text: bytes) -> Event:
    """Decode one event; raises one of DECODE_ERRORS."""
    return _ONE.decode(text)


def decode_loosely(text: bytes) -> Event:
    """Decode one event that is valid JSON of unexpected types, or JSON with NaN and control characters.

    Fields that cannot be understood are left out. Raises ValueError or RecursionError if it is no object.
    """
    found = json.loads(
        text.decode("utf-8"),
        strict=False,
        parse_int=_literal,
        parse_float=_literal,
        parse_constant=lambda _: None,
    )
    if not isinstance(found, dict):
        raise ValueError("not an object")
    args = found.get("args")
    known: dict[str, Any] = {k: found[k] for k in ("ph", "cat", "name") if isinstance(found.get(k), str)}
    known |= {k: _number(found.get(k)) for k in ("pid", "tid")}
    known |= {k: str(found[k]) for k in ("ts", "dur") if isinstance(found.get(k), str)}
    return Event(**known, args=_args(args) if isinstance(args, dict) else None)


class _Literal(str):
    """A number kept as its digits."""

    __slots__ = ()


def _literal(digits: str) -> str:
    return _Literal(digits)


def _number(value: object) -> Number:
    if isinstance(value, _Literal):
        return integer(str(value)) if integer(str(value)) is not None else str(value)
    return value if isinstance(value, str) else None


def _args(found: dict[str, Any]) -> Args:
    known: dict[str, Any] = {}
    for name, key in zip(Args.__struct_fields__, Args.__struct_encode_fields__, strict=True):
        value = found.get(key)
        if name in ("grid", "block") and isinstance(value, list):
            known[name] = Raw(json.dumps([_number(v) for v in value]).encode())
        elif name not in ("grid", "block", *SHAPES):
            known[name] = _number(value)
    return Args(**known)


def integer(value: object) -> int | None:
    """An integer from whatever the file holds: 7, 7.0, "7", "0x7"; None for anything else."""
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return int(value) if value.is_integer() else None
    if isinstance(value, str):
        try:
            return int(value, 0) if len(value) < 40 else None
        except ValueError:
            try:
                number = float(value)
            except ValueError:
                return None
            return int(number) if number.is_integer() and abs(number) < 2**63 else None
    return None
