"""Where every nanosecond of a token goes: `streamlit run dashboard/app.py`.

This file is navigation and the choice of runs; each view is a file of its own under `views/`. What is chosen
lives in the page's address, so that a link or a reload shows the same thing.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlencode

# Streamlit puts only this folder on the path. First, so that this page uses the code beside it.
if (root := str(Path(__file__).resolve().parents[1])) not in sys.path[:2]:
    sys.path.insert(0, root)

import streamlit as st

from dashboard import library
from dashboard.format import markdown
from dashboard.pair import SIDES, Pair, SideName
from dashboard.views import icicle, idle, kernels, layer, overview, roofline, timeline, waterfall
from dashboard.views import library as shelf
from traces.errors import KernelgapError

if TYPE_CHECKING:
    from collections.abc import Callable

    from streamlit.delta_generator import DeltaGenerator

    from dashboard.library import Entry

VIEWS: Final[dict[str, Callable[[Pair], None]]] = {
    "Overview": overview.show,
    "Waterfall": waterfall.show,
    "Timeline": timeline.show,
    "Icicle": icicle.show,
    "Kernels": kernels.show,
    "Roofline": roofline.show,
    "Idle": idle.show,
    "Layer": layer.show,
}
LIBRARY: Final = "Library"
WHOLE: Final = "whole run"


def main() -> None:
    """Draw the page."""
    st.set_page_config(page_title="kernelgap", page_icon="▦", layout="wide")
    found = library.entries(library.folders())
    runs = [e for e in found if e.meta]
    if not runs:
        st.title("No runs yet")
        shelf.show(found)
        return
    pair = pick(runs)
    view, corner = navigate([*VIEWS, LIBRARY])
    if view == LIBRARY:
        shelf.show(found)
    else:
        if lost := len(found) - len(runs):
            st.caption(f"⚠ Files of the library that could not be opened: {lost}. {LIBRARY} says why.")
        if pair is not None:
            draw(pair, VIEWS[view])
    link(corner)


def navigate(names: list[str]) -> tuple[str, DeltaGenerator]:
    """The views as buttons, each with its digit as a key: the one chosen, and the place for the link.

    The choice is in the address, which is where it is read from.
    """
    asked = st.query_params.get("view", names[0])
    if asked not in names:
        st.warning(f"The link names a view that is not here: {markdown(asked, 200)}")
    chosen = asked if asked in names else names[0]
    with st.container(horizontal=True, gap="small", key="views"):
        for number, name in enumerate(names, 1):
            st.button(
                name, key=f"view {name}", type="primary" if name == chosen else "tertiary",
                shortcut=str(number) if number < 10 else None, on_click=go, args=(name,),
            )  # fmt: skip
        corner = st.popover("Link", help="A link to this page, for everybody whose library has these runs")
    return chosen, corner


def go(view: str) -> None:
    """Show another view."""
    st.query_params["view"] = view


def link(corner: DeltaGenerator) -> None:
    """The page's address as text with a button that copies it; last, when every choice is in it."""
    query = urlencode({name: st.query_params.get_all(name) for name in st.query_params}, doseq=True)
    corner.code(f"{st.context.url or ''}?{query}", language=None, wrap_lines=True)


def pick(runs: list[Entry]) -> Pair | None:
    """Let the person choose A, B and the phase; None when one of them turns out damaged."""
    remember(runs)
    by_label = {e.label: e for e in runs}
    left, swap, right, last = st.columns([10, 1, 10, 4], vertical_alignment="bottom")
    a = left.selectbox("A, the baseline", list(by_label), key="run_a")
    b = right.selectbox("B", list(by_label), key="run_b")
    swap.button("⇄", help="Swap A and B", on_click=exchange, width="stretch")
    st.query_params.update(a=a, b=b)
    chosen: dict[SideName, Entry] = {"a": by_label[a], "b": by_label[b]}
    try:
        both = [library.load(chosen[s]) for s in SIDES]
    except KernelgapError as error:
        st.error(markdown(error, 600))
        return None
    phases = shared(*([s["phase"] for s in run.meta["steps"]] for run in both))
    asked = st.query_params.get("phase")
    if asked is not None and asked not in (phases or [WHOLE]):
        st.warning(f"These runs do not share the phase {markdown(asked, 200)} that the link names.")
    with last:
        st.selectbox("Phase", phases or [WHOLE], key="phase", bind="query-params", disabled=len(phases) < 2)
    return Pair(chosen, st.session_state["phase"] if phases else None)


def remember(runs: list[Entry]) -> None:
    """Start from the page's address, else from a sensible pair; say when it names a run that is not here.

    The runs are written to the address by hand: a bound widget leaves its default out of it, and the default
    pair changes as runs are added.
    """
    labels = {e.label for e in runs}
    for side, entry in zip(SIDES, library.default_pair(runs), strict=True):
        asked = st.session_state.get(f"run_{side}") or st.query_params.get(side)
        if asked is not None and asked not in labels:
            st.warning(f"The link names a run that is not here: {markdown(asked, 200)}")
        st.session_state[f"run_{side}"] = asked if asked in labels else entry.label


def exchange() -> None:
    """Make B the baseline."""
    state = st.session_state
    state["run_a"], state["run_b"] = state["run_b"], state["run_a"]


def shared(a: list[str], b: list[str]) -> list[str]:
    """The phases of both runs, decode first."""
    theirs = set(b)
    return sorted(dict.fromkeys(p for p in a if p in theirs), key=lambda p: p != "decode")


def draw(pair: Pair, show: Callable[[Pair], None]) -> None:
    """One view, below what must be known before its numbers are read; errors become a sentence."""
    try:
        banners(pair)
        show(pair)
    except KernelgapError as error:
        st.error(markdown(error, 600))


def banners(pair: Pair) -> None:
    """What makes the numbers mean something else than they seem to."""
    on_cpu = [s.upper() for s in SIDES if pair.run(s).meta["device"].get("type") == "cpu"]
    if on_cpu:
        st.warning(f"**CPU, not a GPU latency**: {' and '.join(on_cpu)} ran on the CPU.", icon="⚠️")
    if unlike := pair.unlike:
        st.warning("Not alike: " + "; ".join(markdown(text, 400) for text in unlike), icon="⚠️")


main()
