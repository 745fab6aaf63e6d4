"""The kernels behind one part of a comparison: what a bar of the waterfall is made of, in A and in B."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from traces.analysis import achieved

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from traces.analysis.compare import Comparison, Side

SCHEMA: Final = pa.schema(
    [
        ("name", pa.string()),
        ("category", pa.string()),
        *(
            (f"{side}_{column}", kind)
            for column, kind in (
                ("per_step", pa.float64()),  # kernels per step
                ("ns", pa.float64()),  # exclusive time per step
                ("mean_ns", pa.float64()),  # exclusive time per kernel
                ("tflops", pa.float64()),
                ("gb_per_s", pa.float64()),
            )
            for side in "ab"
        ),
    ]
)


def kernels_of(result: Comparison, keys: Collection[tuple[Any, ...]], columns: int) -> pa.Table:
    """The kernels of some rows of a comparison by name and category; columns of `SCHEMA`, most time first.

    `result` is the comparison with `name` and `category` added to its columns, `keys` are the values of the
    rows' first `columns` columns. The times of a side add up to those rows' before they were rounded to whole
    ns. A side without the kernel has nulls. What other phases run inside the tiles is in no row here.
    """
    wanted = set(keys)
    found: dict[tuple[str | None, str | None], dict[str, Any]] = {}
    for side, part in (("a", result.a), ("b", result.b)):
        first = result.by[:columns]
        names = tuple(dict.fromkeys((*first, "name", "category")))
        sums: dict[tuple[str | None, str | None], list[dict[str, Any]]] = {}
        for row in grouped(part, names):
            if tuple(row[c] for c in first) in wanted:
                sums.setdefault((row["name"], row["category"]), []).append(row)
        for key, rows in sums.items():
            into = found.setdefault(key, {"name": key[0], "category": key[1]})
            into.update({f"{side}_{n}": v for n, v in measures(added(rows), part.steps).items()})
    rows = sorted(found.values(), key=lambda r: (-max(r.get("a_ns", 0), r.get("b_ns", 0)), str(r["name"])))
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def grouped(side: Side, by: Sequence[str]) -> list[dict[str, Any]]:
    """One side's rows by columns of its table: `count`, `exclusive_ns` and work, sums over all its steps."""
    sums = {"exclusive_ns": "exclusive_ns", **{f"_{n}": n for n in achieved.SUMMED}}
    groups = side.table.group_by(list(by), use_threads=False).aggregate(
        [("exclusive_ns", "count"), *((c, "sum") for c in sums)]
    )
    return [
        {
            **{c: row[c] for c in by},
            "count": row["exclusive_ns_count"],
            **{name: row[f"{column}_sum"] for column, name in sums.items()},
        }
        for row in groups.to_pylist()
    ]


def added(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Rows of `grouped` added up; work that no row knows stays None."""
    total: dict[str, Any] = {}
    for name in ("count", "exclusive_ns", *achieved.SUMMED):
        known = [row[name] for row in rows if row[name] is not None]
        total[name] = sum(known) if known or name not in ("flops", "min_bytes") else None
    return total


def measures(total: dict[str, Any], steps: int) -> dict[str, float | None]:
    """A sum of `added` per step: `per_step` (kernels), `ns`, `mean_ns` (of a kernel), and its rates.

    The rates `tflops`, `gb_per_s` and `roofline` are those of `achieved.rates`, None where work is not known.
    """
    rates = achieved.rates(total)
    return {
        "per_step": total["count"] / steps,
        "ns": total["exclusive_ns"] / steps,
        "mean_ns": total["exclusive_ns"] / total["count"] if total["count"] else None,
        **{n: rates[n] for n in ("tflops", "gb_per_s", "roofline")},
    }
