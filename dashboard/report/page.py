"""The shell of the page: HTML from trusted parts, and a policy that lets only our own scripts run.

Names come from traces, so text enters through `text` alone, and figures as JSON that is never executed.
Should that fail, the page's Content-Security-Policy still knows our two scripts by their hash and forbids
everything else: other scripts, event handlers, and any request.
"""

from __future__ import annotations

import base64
import hashlib
import html
from pathlib import Path
from typing import TYPE_CHECKING, Final

from plotly.offline import get_plotlyjs

from traces.text import plain

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import plotly.graph_objects as go

_HERE: Final = Path(__file__).parent


def text(value: object, limit: int = 2000) -> str:
    """Text as HTML: one visible line, nothing in it markup."""
    return html.escape(plain(value, limit))


def element(tag: str, content: str, kind: str = "") -> str:
    """An element around trusted HTML; `kind` is its class."""
    return f'<{tag} class="{kind}">{content}</{tag}>' if kind else f"<{tag}>{content}</{tag}>"


def section(title: str, *parts: str) -> str:
    """A titled part of the page."""
    return element("section", element("h2", text(title)) + "".join(parts))


def table(
    head: Sequence[str], rows: Iterable[Sequence[object]], alt: str, words: int = 1, kind: str = ""
) -> str:
    """A table; the first `words` columns are text, the others are numbers, aligned right."""

    def line(cells: Sequence[object], tag: str) -> str:
        kinds = ["" if i < words else "n" for i in range(len(cells))]
        return element("tr", "".join(element(tag, text(c), k) for c, k in zip(cells, kinds, strict=True)))

    body = "".join(line(row, "td") for row in rows)
    inside = f"<caption>{text(alt)}</caption><thead>{line(head, 'th')}</thead><tbody>{body}</tbody>"
    return element("div", element("table", inside, kind), "scroll")


def figure(made: go.Figure, name: str, alt: str) -> str:
    """A Plotly figure, drawn when the page opens."""
    data = made.to_json().replace("<", "\\u003c")  # no </script> inside
    return (
        f'<div class="figure" id="{name}" role="img" aria-label="{text(alt)}"></div>'
        f'<script type="application/json" data-figure="{name}">{data}</script>'
    )


def page(title: str, body: str) -> str:
    """The whole file."""
    scripts = [get_plotlyjs(), (_HERE / "report.js").read_text("utf-8")]
    allowed = " ".join(f"'sha256-{_digest(s)}'" for s in scripts)
    policy = (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )
    style = (_HERE / "report.css").read_text("utf-8")
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark"><meta name="referrer" content="no-referrer">'
        f"<title>{text(title, 200)}</title><style>{style}</style></head>\n<body><main>{body}</main>\n"
        + "".join(f"<script>{s}</script>\n" for s in scripts)
        + "</body></html>\n"
    )


def _digest(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
