"""Library: every file of the store and the gallery, runs and others, and how to get more."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import streamlit as st

from dashboard.format import NONE, markdown
from traces.text import plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dashboard.library import Entry

HOW = """\
# profile a model on this machine (for the model tiny, a CPU will do)
python -m profiler capture --model tiny
# or turn a trace of torch.profiler or Nsight Systems into a run
python -m profiler ingest trace.json -o runs/"""


def show(found: Sequence[Entry]) -> None:
    """Draw the view; unlike the others it needs no two runs."""
    damaged = [e for e in found if e.problem]
    if runs := [e for e in found if e.meta]:
        st.dataframe(listing(runs), hide_index=True, height="content", alt="Runs in the library")
    if damaged:
        problems(damaged)
    st.subheader("Add runs")
    how_to()


def how_to() -> None:
    """How to make runs and where they are looked for."""
    st.markdown("Runs are Parquet files in `./runs`, or in the folder that `KERNELGAP_STORE` names.")
    st.code(HOW, language="bash")


def problems(damaged: Sequence[Entry], most: int = 50) -> None:
    """A sentence beside the name of each file that is not a run."""
    st.subheader("Files that could not be opened")
    for entry in damaged[:most]:
        st.markdown(f"⚠ **{markdown(entry.path.name)}**: {markdown(entry.problem, 400)}")
    if len(damaged) > most:
        st.caption(f"and {len(damaged) - most} more")


def listing(runs: Sequence[Entry]) -> pa.Table:
    """What each run is, as text."""
    lines = [(e, e.meta) for e in runs if e.meta]
    columns: dict[str, list[object]] = {
        "run": [e.label for e, _ in lines],
        "model": [m["model"] for _, m in lines],
        "variant": [m["variant"] for _, m in lines],
        "mode": [m["mode"] for _, m in lines],
        "tool": [m["tool"] for _, m in lines],
        "device": [m["device"].get("name") for _, m in lines],
        "steps": [str(len(m["steps"])) for _, m in lines],
        "size": [f"{e.stamp[1] / 1e6:.2f} MB" for e, _ in lines],
    }
    text = {k: [NONE if v is None else plain(v, 200) for v in column] for k, column in columns.items()}
    return pa.table({k: pa.array(v, pa.string()) for k, v in text.items()})
