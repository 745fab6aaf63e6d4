"""What no machine can do: a check of runs whose GPU is in the table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traces.analysis.achieved import ceilings
from traces.analysis.roofline import dtype_of

if TYPE_CHECKING:
    from traces.store import Run

L2 = 1.5  # how much faster than its device memory a cache may feed a kernel


def faster_than_possible(run: Run) -> list[dict[str, object]]:
    """Rows above their GPU's dense peak rate, or far above its memory bandwidth."""
    table = run.table.select(["name", "op", "shape", "flops", "min_bytes", "used_ns", "flag"])
    out = []
    for row in table.to_pylist():
        roof = ceilings(run, dtype_of(row["shape"], row["name"]))
        if roof is None or row["flag"] or not row["used_ns"]:
            continue
        for amount, rate, slack in (
            (row["flops"], roof.flops_per_s, 1.0),
            (row["min_bytes"], roof.bytes_per_s, L2),
        ):
            if amount and rate and amount / row["used_ns"] * 1e9 > rate * slack:
                out.append(row)
    return out
