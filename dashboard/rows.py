"""The rows of a comparison, named for people, with the layers folded together and idle as a row."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import streamlit as st

from traces.analysis.compare import of_other_phases
from traces.analysis.units import over_layers
from traces.attribution.taxonomy import GROUP_OF
from traces.text import plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traces.analysis.compare import Comparison

OTHERS: Final = "(other phases)"
NUMBERS: Final = {
    **{
        f"{side} ms": st.column_config.NumberColumn(
            format="%.4f",
            help=f"Exclusive time per step of {side}: overlapping kernels share the time equally",
        )
        for side in "AB"
    },
    "B − A ms": st.column_config.NumberColumn(format="%+.4f", help="How much longer B takes per step"),
    **{
        f"{side} %": st.column_config.NumberColumn(format="%.1f", help=f"Share of {side}'s step wall time")
        for side in "AB"
    },
}  # of `table`


@dataclass(frozen=True)
class Row:
    """One part of a step in A and in B, ns per step. Rows and idle add up to the total exactly."""

    name: str
    group: str
    a: int
    b: int
    status: str
    keys: tuple[tuple[Any, ...], ...] = ()  # of the comparison's rows that it holds

    @property
    def delta(self) -> int:
        """How much longer it takes in B."""
        return self.b - self.a


def rows_of(result: Comparison) -> list[Row]:
    """The comparison's rows, largest change first, and idle last; `layers.7.mlp` counts as `layers.*.mlp`."""
    times: defaultdict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0])
    sides: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    keys: defaultdict[tuple[str, str], list[tuple[Any, ...]]] = defaultdict(list)
    for row in result.rows:
        others = of_other_phases(row)
        key = (OTHERS, "other") if others else (_name(row["key"]), _group(row["key"]))
        times[key][0] += row["a"]
        times[key][1] += row["b"]
        sides[key].add(row["status"])
        if not others:
            keys[key].append(tuple(row["key"].values()))
    rows = [Row(*key, a, b, _status(sides[key]), tuple(keys[key])) for key, (a, b) in times.items()]
    rows.sort(key=lambda r: (-abs(r.delta), -max(r.a, r.b), r.name))
    return [*rows, Row("idle", "idle", result.idle["a"], result.idle["b"], "matched")]


def largest(rows: Sequence[Row], most: int) -> list[Row]:
    """At most `most` rows, idle among them: the smallest changes are added up in one row."""
    if len(rows) <= most:
        return list(rows)
    *parts, idle = rows
    kept, rest = parts[: most - 2], parts[most - 2 :]
    keys = tuple(key for r in rest for key in r.keys)
    folded = Row(
        f"{len(rest)} more", "other", sum(r.a for r in rest), sum(r.b for r in rest), "matched", keys
    )
    return [*kept, folded, idle]


def table(rows: Sequence[Row], total: dict[str, int]) -> pa.Table:
    """Rows, idle and total for the page: times in ms per step, shares of the step's wall time in percent."""
    lines = [*rows, Row("total", "", total["a"], total["b"], "")]
    share = {
        side: [100 * getattr(r, side) / total[side] if total[side] else None for r in lines] for side in "ab"
    }
    out = pa.table(
        {
            "part": pa.array([plain(r.name, 2000) for r in lines], pa.string()),
            "group": pa.array([plain(r.group) for r in lines], pa.string()),
            "A ms": pa.array([r.a / 1e6 for r in lines], pa.float64()),
            "B ms": pa.array([r.b / 1e6 for r in lines], pa.float64()),
            "B − A ms": pa.array([r.delta / 1e6 for r in lines], pa.float64()),
            "A %": pa.array(share["a"], pa.float64()),
            "B %": pa.array(share["b"], pa.float64()),
            "in": pa.array([_WHERE.get(r.status, "") for r in lines], pa.string()),
        }
    )
    return out if any(r.group not in ("", "idle") for r in rows) else out.drop_columns("group")


_WHERE: Final = {"matched": "A and B", "only_a": "A only", "only_b": "B only"}


def _name(key: dict[str, object]) -> str:
    parts = [over_layers(str(v)) if k == "module" else str(v) for k, v in key.items() if v is not None]
    return " · ".join(parts) or "(none)"


def _group(key: dict[str, object]) -> str:
    if "group" in key:
        return str(key["group"] or "other")
    return GROUP_OF.get(str(key.get("category")), "other" if "category" in key else "")


def _status(found: set[str]) -> str:
    return found.pop() if len(found) == 1 else "matched"
