"""The timeline as a component of the page: a canvas that zooms and pans in the browser.

Its scripts lie beside this file and are joined into one module: no build step, nothing fetched. What it shows
and what it tells the server is in `page` and `address`; names of kernels reach it as data only.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

import streamlit as st

if TYPE_CHECKING:
    from streamlit.components.v2.types import ComponentRenderer

SCRIPTS: Final = ("text", "data", "tracks", "minimap", "draw", "find", "panel", "build", "input", "main")
KEY: Final = "timeline"


def script() -> str:
    """The component's module: its scripts, joined."""
    return "\n".join((files(__name__) / f"{name}.js").read_text("utf-8") for name in SCRIPTS)


def style() -> str:
    """The component's style sheet."""
    return (files(__name__) / "timeline.css").read_text("utf-8")


@cache
def _component() -> ComponentRenderer:
    return st.components.v2.component(
        "kernelgap_timeline", html='<div class="kg"></div>', css=style(), js=script()
    )


def mount(message: bytes) -> None:
    """Show the timeline; `message` is a frame of `traces.analysis.packing`."""
    _component()(key=KEY, data=message, on_view_change=lambda: None)


def reported() -> Any:
    """What the browser last said it shows, unchecked; None before it has said anything."""
    state: Any = st.session_state.get(KEY)
    return state.get("view") if hasattr(state, "get") else None
