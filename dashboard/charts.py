"""What the charts share: colours, layout, and how one is put on the page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import streamlit as st

from traces.attribution.taxonomy import COLOURS, GROUPS

if TYPE_CHECKING:
    from collections.abc import Callable

    import plotly.graph_objects as go

ORDER: Final = (*GROUPS, "idle")  # the same order of groups in every chart
SLOWER: Final = "#D55E00"  # with ▲ and +: never told by colour alone
FASTER: Final = "#0072B2"  # with ▼ and −
TOTAL: Final = "#8A94A0"
_CONFIG: Final = {"displaylogo": False, "responsive": True, "modeBarButtonsToRemove": ["lasso2d", "select2d"]}


def colour(group: str | None) -> str:
    """The fixed colour of a group; unknown groups look like `other`."""
    return COLOURS.get(group or "other", COLOURS["other"])


def hatch(group: str | None) -> dict[str, Any]:
    """Idle is hatched as well as grey."""
    shape = "/" if group == "idle" else ""
    return {"shape": shape, "fillmode": "overlay", "fgcolor": "rgba(255,255,255,0.35)", "size": 9}


def draw(figure: go.Figure, key: str, alt: str, picked: Callable[[], None] | None = None) -> None:
    """Put a chart on the page with a description for people who cannot see it.

    `picked` is called when a click chooses points or lets them go; `st.session_state[key]` then has them.
    """
    figure.update_layout(
        margin={"l": 8, "r": 8, "t": 32, "b": 8},
        legend={"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0, "traceorder": "normal"},
        hoverlabel={"align": "left"},
    )
    if picked is None:
        st.plotly_chart(figure, key=key, alt=alt, config=_CONFIG)
    else:
        st.plotly_chart(
            figure, key=key, alt=alt, config=_CONFIG, on_select=picked, selection_mode="points"
        )  # fmt: skip
