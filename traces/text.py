"""Names come from traces, so nothing in them is trusted: one visible line of text."""

from __future__ import annotations

import unicodedata
from typing import Final

NAME_LIMIT: Final = 96


def plain(text: object, limit: int = NAME_LIMIT) -> str:
    """One line of text: long text cut in the middle; control, direction and broken characters by code."""
    whole = str(text)
    if len(whole) > limit:
        tail = limit // 3
        whole = f"{whole[: limit - tail - 1]}…{whole[-tail:]}"
    return "".join(_visible(c) for c in whole)


def _visible(char: str) -> str:
    """Characters that hide, reorder or break text (categories Cc, Cf, Cs, Zl, Zp), by their code."""
    return f"⟨{ord(char):04X}⟩" if unicodedata.category(char) in ("Cc", "Cf", "Cs", "Zl", "Zp") else char
