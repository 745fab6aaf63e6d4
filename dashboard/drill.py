"""Tells the page which part of an icicle or treemap was clicked: Streamlit hears only points and boxes.

Plotly zooms into a clicked part by itself. This component listens to the same click and hands the part's id
on, so that it can go into the page's address. It draws nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import streamlit as st

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

# A chart may be drawn after this runs, and drawn anew later: look for it now and then.
_SCRIPT: Final = """
export default function ({ data, setTriggerValue }) {
  const heard = (event) => {
    const id = event.nextLevel ?? "";
    if (typeof id === "string" && /^[0-9a-f]{0,12}$/.test(id)) setTriggerValue("moved", id);
  };
  const listened = new Set();
  const look = () => {
    for (const key of data.charts) {
      const chart = document.querySelector(`.st-key-${key} .js-plotly-plot`);
      if (!chart || !chart.on || listened.has(chart)) continue;
      listened.add(chart);
      for (const kind of ["icicle", "treemap"]) chart.on(`plotly_${kind}click`, heard);
    }
  };
  look();
  const timer = setInterval(look, 300);
  return () => {
    clearInterval(timer);
    for (const chart of listened)
      for (const kind of ["icicle", "treemap"]) chart.removeListener?.(`plotly_${kind}click`, heard);
  };
}
"""


def listen(charts: Sequence[str], moved: Callable[[str], None], key: str) -> None:
    """Call `moved` with the id of the part that a click on one of the charts (their keys) leads to."""

    def heard() -> None:
        state: Any = st.session_state.get(key)
        part = getattr(state, "moved", None)
        if isinstance(part, str):
            moved(part)

    component = st.components.v2.component("kernelgap_drill", js=_SCRIPT)
    component(data={"charts": list(charts)}, key=key, on_moved_change=heard)
