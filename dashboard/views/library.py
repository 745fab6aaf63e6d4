"""Library: every file of the store, the gallery and other folders, runs and not, and how to get more."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import streamlit as st

from dashboard import intake, library, remote
from dashboard.format import NONE, markdown
from traces import store
from traces.text import plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dashboard.intake import Outcome
    from dashboard.library import Entry
    from traces.schema import Metadata

HOW: Final = """\
# profile a model on this machine (for the model tiny, a CPU will do)
python -m profiler capture --model tiny
# or turn a trace of torch.profiler or Nsight Systems into a run
python -m profiler ingest trace.json -o runs/"""
FILTERS: Final = ("model", "gpu", "variant", "mode")  # their keys in the page's address
UNKNOWN: Final = "(not known)"
UPLOADS: Final = tuple(s.removeprefix(".") for s in remote.SUFFIXES)


def show(found: Sequence[Entry]) -> None:
    """Draw the view; unlike the others it needs no two runs."""
    said()
    if runs := [e for e in found if e.meta]:
        kept = filtered(runs)
        number = f"{len(kept)} of {len(runs)}" if len(kept) < len(runs) else f"{len(runs)}"
        st.caption(f"{number} runs. Select two to compare them, the baseline first.")
        if kept:
            picked(kept, listing(kept))
        else:
            st.info("No run has all of these. Clear a filter to see more.")
    if damaged := [e for e in found if e.problem]:
        problems(damaged)
    st.subheader("Add runs")
    add()
    how_to()


def filtered(runs: Sequence[Entry]) -> list[Entry]:
    """The runs that the filters leave; what is chosen is in the page's address."""
    kept = list(runs)
    for cell, name in zip(st.columns(len(FILTERS)), FILTERS, strict=True):
        options = sorted({facet(e.meta, name) for e in runs if e.meta})
        chosen = cell.multiselect(
            name if name != "gpu" else "GPU", options, key=name, bind="query-params", format_func=plain,
            placeholder="all",
        )  # fmt: skip
        kept = [e for e in kept if not chosen or (e.meta and facet(e.meta, name) in chosen)]
    return kept


def facet(meta: Metadata, name: str) -> str:
    """What a run is filtered by."""
    value = meta["device"].get("name") if name == "gpu" else dict(meta).get(name)
    return str(value) if value else UNKNOWN


def picked(runs: Sequence[Entry], table: pa.Table) -> None:
    """The table, and a button once two of its rows are selected."""
    event = st.dataframe(
        table, hide_index=True, height="content" if len(runs) <= 20 else 740, on_select="rerun",
        selection_mode="multi-row", key="shelf", alt="Runs in the library",
    )  # fmt: skip
    rows = event["selection"]["rows"] if event else []
    if len(rows) == 2 and max(rows) < len(runs):
        a, b = (runs[i].label for i in rows)
        st.button(f"Compare {markdown(a)} with {markdown(b)}", type="primary", on_click=compare, args=(a, b))


def compare(a: str, b: str) -> None:
    """Show the two runs."""
    st.session_state.update(run_a=a, run_b=b)
    st.query_params["view"] = "Overview"


def add() -> None:
    """Uploads, folders and URIs; what each becomes is said above the table after it is done."""
    left, right = st.columns(2)
    turn = st.session_state.setdefault("upload turn", 0)
    key = f"upload {turn}"
    left.file_uploader(
        "Upload runs or traces", UPLOADS, accept_multiple_files=True, key=key,
        on_change=uploaded, args=(key,),
        help="Runs (.parquet) are checked and copied, traces are ingested, into the store. Uploads pass "
        "through the server's memory: for large traces give the path instead.",
    )  # fmt: skip
    with right.form("open", border=False):
        st.text_input(
            "Open a folder, a file or a URI", key="source", max_chars=2000,
            placeholder="/data/runs, trace.json.gz, s3://bucket/runs, hf://datasets/…",
            help="A folder is listed where it lies. A file, or what s3://, gs://, hf:// or file:// names, "
            "is copied or ingested into the store.",
        )  # fmt: skip
        st.form_submit_button("Open", on_click=opened)
    for folder in library.folders():
        text, button = right.columns([5, 1], vertical_alignment="center")
        there = "" if library.is_folder(folder) else " ⚠ is not a folder here"
        text.caption(f"Also listed: {markdown(folder, 300)}{there}")
        button.button("✕", key=f"close {folder}", help="Do not list it", on_click=close, args=(str(folder),))


def uploaded(key: str) -> None:
    """Take the files in, then give the uploader a new key, which frees their memory."""
    outcomes: list[Outcome] = []
    for file in st.session_state.get(key) or []:
        outcomes += intake.upload(file.name, file)
    st.session_state["taken"] = outcomes
    st.session_state["upload turn"] += 1


def opened() -> None:
    """List a folder, or take in what the text names."""
    text = str(st.session_state["source"]).strip()
    if not text:
        return
    local = unquote(urlsplit(text).path) if remote.scheme(text) == "file" else text
    if remote.scheme(local) is None and library.is_folder(Path(local)):
        known = st.query_params.get_all(library.FOLDER)
        st.query_params[library.FOLDER] = list(dict.fromkeys([*known, local]))
    else:
        st.session_state["taken"] = intake.take(local)


def close(folder: str) -> None:
    """Do not list a folder any more; its files stay."""
    st.query_params[library.FOLDER] = [f for f in st.query_params.get_all(library.FOLDER) if f != folder]


def said() -> None:
    """What became of the files that were taken in last."""
    for outcome in st.session_state.pop("taken", []):
        told = f"**{markdown(outcome.name, 120)}** {markdown(outcome.told, 600)}"
        (st.success if outcome.fine else st.error)(told)


def how_to() -> None:
    """How to make runs and where they are looked for."""
    folder = markdown(store.default_store(), 300)
    st.markdown(
        f"Runs are Parquet files in {folder} (`KERNELGAP_STORE`, else `./runs`). Nothing is ever deleted."
    )
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
        **{name: [dict(m).get(name) for _, m in lines] for name in ("model", "variant", "mode", "tool")},
        "GPU": [m["device"].get("name") for _, m in lines],
        "steps": [str(len(m["steps"])) for _, m in lines],
        "size": [f"{e.stamp[1] / 1e6:.2f} MB" for e, _ in lines],
        "folder": [e.path.parent.name for e, _ in lines],
    }
    text = {k: [NONE if v is None else plain(v, 200) for v in column] for k, column in columns.items()}
    return pa.table({k: pa.array(v, pa.string()) for k, v in text.items()})
