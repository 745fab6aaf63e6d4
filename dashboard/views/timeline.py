"""Timeline: streams by time, run A above run B, and below it the kernels of what is shown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import streamlit as st

from dashboard import timeline
from dashboard.format import duration
from dashboard.timeline import address, page
from traces.analysis import canvas
from traces.text import plain

if TYPE_CHECKING:
    from dashboard.pair import Pair
    from dashboard.timeline.address import View
    from dashboard.timeline.page import Side

LISTED: Final = 200_000  # kernels of the table below the picture
LAZY: Final = 1_000
_SHOWN: Final = (
    "start_ns", "used_ns", "name", "group", "category", "module", "gap_ns", "stream", "phase", "step", "flag",
)  # fmt: skip
_PHASE: Final = "timeline_phase"
_NS: Final = st.column_config.NumberColumn(format="localized")
COLUMNS: Final = {
    "start ns": st.column_config.NumberColumn(format="localized", help="Since the start of the step"),
    "duration ns": _NS, "idle before ns": _NS,
    "kernel": st.column_config.TextColumn(width="large"),
}  # fmt: skip


def show(pair: Pair) -> None:
    """Draw the view."""
    both = page.sides(pair)
    if not any(side.scene.count for side in both):
        st.info("Neither run has a kernel with a usable time. Pick other runs, or see their Health.")
        return
    _parts(pair)
    pair.cli("compare")


@st.fragment
def _parts(pair: Pair) -> None:
    """The picture and what follows it: zooming and selecting runs this again, and only this."""
    both = page.sides(pair)
    view, state, notes = _view(both, pair.phase)
    for name, value in address.write(view, _plain(pair.phase)).items():
        _keep(name, value)
    timeline.mount(page.message(both, view, str(pair.phase), state, notes))
    for side in both:
        st.caption(_caption(side, view))
    _table(both, view)


def _view(both: list[Side], phase: str | None) -> tuple[View, Any, list[str]]:
    """What to show: as the browser says, else the address, else a step of the phase."""
    state = timeline.reported()
    view = address.heard(state) if isinstance(state, dict) and state.get("of") == str(phase) else None
    changed = st.session_state.get(_PHASE, phase) != phase
    st.session_state[_PHASE] = phase
    if view is not None:
        return view, state, []
    if changed:
        return page.first_view(both, phase), state, []
    wish = address.read(st.query_params, _plain(phase))
    notes = [f"The link's {name} makes no sense and is left out." for name in wish.unread]
    if wish.step and not any(side.step(wish.step) for side in both):
        notes.append(f"The link names a step that neither run has: {plain(wish.step)}.")
        return page.first_view(both, phase), state, notes
    view = page.first_view(both, phase) if wish.step is None else page.step_view(both, wish.step)
    made = address.View(view.step, wish.window or view.window, wish.range, wish.find, wish.kernel)
    return made, state, notes


def _plain(phase: str | None) -> str | None:
    return None if phase is None else plain(phase)


def _keep(name: str, value: str) -> None:
    """Write a parameter of the address, if it is not so already."""
    if not value:
        st.query_params.pop(name, None)
    elif st.query_params.get(name) != value:
        st.query_params[name] = value


def _caption(side: Side, view: View) -> str:
    sums = page.totals(side, view)
    what = "in the range" if view.range else "in view"
    if not sums.span_ns:
        return f"{side.name.upper()}: nothing {what}, the run is over or has not begun."
    return (
        f"{side.name.upper()} {what}: {sums.kernels:,} kernels in {duration(sums.span_ns)}, "
        f"busy {duration(sums.busy_ns)}, idle {duration(sums.idle_ns)}"
    )


def _table(both: list[Side], view: View) -> None:
    """The kernels of the range, else of what is in view."""
    number = sum(page.totals(side, view).kernels for side in both)
    if number > LISTED:
        st.caption(
            f"{number:,} kernels in view: select a range (drag) of at most {LISTED:,} to list them here."
        )
        return
    table = listed(both, view)
    st.dataframe(
        table, hide_index=True, height=400 if table.num_rows > LAZY else "auto", column_config=COLUMNS,
        lazy=table.num_rows > LAZY,
        alt=f"{table.num_rows:,} kernels {'of the range' if view.range else 'in view'}, A first, by start",
    )  # fmt: skip


def listed(both: list[Side], view: View) -> pa.Table:
    """The kernels shown, A first, by start: times in ns, start since the origin of the axis."""
    parts = []
    for side in both:
        rows = side.scene.row[canvas.inside(side.scene, *side.absolute(view, view.shown))]
        low, high = (int(rows.min()), int(rows.max())) if len(rows) else (0, -1)
        near = side.run.table.select(_SHOWN).slice(low, high - low + 1)  # `take` copies all it is given
        found = near.take(rows - low)
        parts.append(
            pa.table(
                {
                    "run": pa.array([side.name.upper()] * len(rows), pa.string()),
                    "start ns": pc.subtract(found["start_ns"], side.origin(view)),
                    "duration ns": found["used_ns"],
                    "kernel": _readable(found["name"]),
                    "group": _readable(found["group"]),
                    "category": _readable(found["category"]),
                    "module": _readable(found["module"]),
                    "idle before ns": found["gap_ns"],
                    "stream": found["stream"],
                    "phase": _readable(found["phase"]),
                    "step": found["step"],
                    "flag": _readable(found["flag"]),
                }
            )
        )
    return pa.concat_tables(parts)


def _readable(column: pa.ChunkedArray) -> pa.Array:
    """Texts as plain text, each distinct one made so once."""
    coded = column.combine_chunks().dictionary_encode()
    texts = [None if t is None else plain(t, 2_000) for t in coded.dictionary.to_pylist()]
    return pa.DictionaryArray.from_arrays(coded.indices, pa.array(texts, pa.string())).cast(pa.string())
