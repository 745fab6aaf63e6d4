"""Numbers and names as text a person can read. Names come from traces, so nothing in them is trusted."""

from __future__ import annotations

import html
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Final

from traces.text import NAME_LIMIT, plain

if TYPE_CHECKING:
    from collections.abc import Sequence

NONE: Final = "–"
_UNITS: Final = ((1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "µs"), (1, "ns"))
_PUNCTUATION: Final = re.compile(r"([!-/:-@\[-`{-~])")
_TRANSFORMED: Final = re.compile(r"(?<=[:@<-])(?=\S)|(?<=www)(?=\\\.)", re.IGNORECASE)
_SMALL: Final = 10_000  # below this, thousands separators only get in the way


def duration(ns: float | None) -> str:
    """Time in the largest unit that leaves at least 1: `21.34 ms`, `1.50 µs`, `320 ns`."""
    if ns is None:
        return NONE
    for size, unit in _UNITS:
        if abs(ns) >= size:
            return f"{ns / size:,.2f} {unit}" if size > 1 else f"{ns:,.0f} ns"
    return f"{ns:,.0f} ns"


def signed(ns: float) -> str:
    """A difference in time with its sign, a true minus: `+0.31 ms`, `−70.00 µs`."""
    return ("+" if ns > 0 else "−" if ns < 0 else "±") + duration(abs(ns))


def percent(share: float | None) -> str:
    """A share (0..1) in percent."""
    return NONE if share is None else f"{share * 100:.1f} %"


def count(number: float) -> str:
    """A count: whole numbers whole, means with one decimal."""
    text = f"{number:.0f}" if float(number).is_integer() else f"{number:.1f}"
    return text if abs(number) < _SMALL else f"{number:,.0f}"


def markdown(text: object, limit: int = NAME_LIMIT) -> str:
    """Text that Streamlit's Markdown shows as it is.

    Every ASCII punctuation mark is escaped; an invisible word joiner keeps apart what Streamlit would turn
    into links, emoji or arrows even so.
    """
    return _TRANSFORMED.sub("\u2060", _PUNCTUATION.sub(r"\\\1", plain(text, limit)))


def label(text: object, limit: int = NAME_LIMIT) -> str:
    """Text that Plotly shows as it is in ticks, legends and hovers, where tags and entities count."""
    return html.escape(plain(text, limit), quote=False)  # Plotly does not know &quot;


def command(
    verb: str, paths: Sequence[Path], phase: str | None, by: Sequence[str] = (), to: str | None = None
) -> str:
    """The command line that prints the same numbers; paths below the working directory are relative."""
    words = ["python", "-m", "profiler", verb, *(_short(p) for p in paths)]
    words += ["--to", to] if to else []
    words += ["--phase", phase] if phase else []
    words += ["--by", ",".join(by)] if by else []
    return " ".join(shlex.quote(w) for w in words)


def _short(path: Path) -> str:
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)
