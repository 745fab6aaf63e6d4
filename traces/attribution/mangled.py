"""A small reader of mangled C++ names, for profilers that record the symbol instead of the name.

It reads the name that leads an Itanium symbol (https://itanium-cxx-abi.github.io/cxx-abi/abi.html#mangling)
with its template arguments, and keeps what rules look at: identifiers and their nesting. Types, literals and
back references are dropped, so `_ZN2at6native13reduce_kernelILi512ENS0_7MeanOpsIfEEEEvT_` reads as
`at::native::reduce_kernel<MeanOps<>>`.
"""

from __future__ import annotations

import re
from typing import Final

# Literals (`Li512E`, `Lb1E`), the value of an enum literal behind its type (`E2E`), back references, and the
# built-in types that hold a capital letter: none of them opens or closes anything.
_DROPPED: Final = re.compile(
    r"L[a-z]n?\w*?E|(?<=E)\d+(?=E)|S[0-9A-Z]*_|S[absiod]|T\d*_|D[a-z](?:\d+[b_])?|DF\d+[b_]"
)
_LENGTH: Final = re.compile(r"\d+")
_IDENTIFIER: Final = re.compile(r"[A-Za-z_]\w*")
_OPENERS: Final = "INXJFZL"
_ANONYMOUS: Final = "_GLOBAL__N_"


def read(symbol: str) -> str:
    """The leading name of the mangled `symbol`, readable; the symbol itself if it cannot be read."""
    position, out, open_ = 2, [], []  # type: int, list[str], list[str]
    fresh = True  # whether the next identifier begins a name rather than continues one
    while position < len(symbol):
        if dropped := _DROPPED.match(symbol, position):
            position = dropped.end()
        elif name := _identifier(symbol, position):
            if out and not open_:
                break  # the parameters of a plain function begin
            position = name[1]
            if not name[0].startswith(_ANONYMOUS):
                inside = fresh or not open_ or open_[-1] != "N"
                out += [] if not out or out[-1] == "<" else [", " if inside else "::"]
                out.append(name[0])
                fresh = False
        else:
            letter = symbol[position]
            position += 1
            if letter == "E" and open_:
                out += [">"] * (open_.pop() == "I")
                fresh = False
            elif letter in _OPENERS:
                open_.append(letter)
                out += ["<"] * (letter == "I")
                fresh = True
            if out and not open_:
                break
    return "".join(out) if out else symbol


def _identifier(symbol: str, position: int) -> tuple[str, int] | None:
    """An identifier with its length in front, and where it ends."""
    length = _LENGTH.match(symbol, position)
    if length is None:
        return None
    end = length.end() + int(length[0][:6])
    name = symbol[length.end() : end]
    return (name, end) if end <= len(symbol) and _IDENTIFIER.fullmatch(name) else None
