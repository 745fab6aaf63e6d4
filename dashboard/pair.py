"""The two runs on the page and the phase they are compared in: what every view is given."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import streamlit as st

from dashboard import library
from dashboard.format import command
from traces.analysis import kernels
from traces.analysis.comparable import facts, obstacles
from traces.analysis.compare import Comparison, compare

if TYPE_CHECKING:
    import pyarrow as pa

    from dashboard.library import Entry
    from traces.store import Run

SideName = Literal["a", "b"]
SIDES: tuple[SideName, SideName] = ("a", "b")


@dataclass(frozen=True)
class Pair:
    """Run A (the baseline), run B, and the phase (None: they share none, so whole runs are compared)."""

    entries: dict[SideName, Entry]
    phase: str | None

    def run(self, side: SideName) -> Run:
        """One of the two runs. Raises InputError when its file is damaged."""
        return library.load(self.entries[side])

    @property
    def key(self) -> tuple[object, ...]:
        """What identifies the two files as they are now."""
        return tuple((str(e.path), e.stamp) for e in self.entries.values())

    def comparison(self, *by: str) -> Comparison:
        """A against B per step. Raises KernelgapError as `compare` does."""
        return _compare(self.key, by, self.phase, self.run("a"), self.run("b"))

    @property
    def unlike(self) -> list[str]:
        """What stands in the way of a fair comparison by category, found without comparing."""
        a, b = (facts(self.run(side), self.phase) for side in SIDES)
        return obstacles(a, b, self.phase, ("category",))

    def kernels(self, side: SideName) -> pa.Table:
        """Statistics per kernel name of one run (`traces.analysis.kernels.SCHEMA`)."""
        return _kernels(str(self.entries[side].path), self.entries[side].stamp, self.phase, self.run(side))

    def cli(self, verb: str, *by: str, sides: tuple[SideName, ...] = SIDES) -> None:
        """Show the command line that prints the same numbers as the view above it."""
        st.caption("The same from the command line")
        paths = [self.entries[side].path for side in sides]
        st.code(command(verb, paths, self.phase, by), language="bash", wrap_lines=True)

    @property
    def has_modules(self) -> bool:
        """Whether both runs know modules or layers, so that their kernels can be paired by module."""
        tables = [self.run(side).table for side in SIDES]
        return all(any(t[c].null_count < t.num_rows for c in ("module", "layer")) for t in tables)


# Arguments with an underscore are not hashed. cache_resource shares results, which hold whole runs, where
# cache_data would copy them.
@st.cache_resource(max_entries=64, show_spinner=False)
def _compare(key: object, by: tuple[str, ...], phase: str | None, _a: Run, _b: Run) -> Comparison:
    return compare(_a, _b, by, phase)


@st.cache_resource(max_entries=16, show_spinner=False)
def _kernels(path: str, stamp: object, phase: str | None, _run: Run) -> pa.Table:
    return kernels.by_name(_run, phase)
