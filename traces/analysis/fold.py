"""The rows of a comparison with the layers added up, for reading: `layers.*.mlp.down` is one row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traces.analysis.units import over_layers

if TYPE_CHECKING:
    from collections.abc import Iterable


def folded(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows as of `Comparison.rows`, equal sums, largest change first; `status` is `partly` where they differ.

    `count` says how many rows each holds. The row of other phases keeps its mark, `phase`: None.
    """
    out: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in rows:
        key = {k: over_layers(v) if k == "module" and v is not None else v for k, v in row["key"].items()}
        mark = {"phase": None} if "phase" in row else {}
        at = (*key.values(), bool(mark))
        into = out.setdefault(
            at, {"key": key, **mark, "a": 0, "b": 0, "delta": 0, "status": row["status"], "count": 0}
        )
        for name in ("a", "b", "delta"):
            into[name] += row[name]
        into["count"] += 1
        if into["status"] != row["status"]:
            into["status"] = "partly"
    return sorted(out.values(), key=lambda r: (-abs(r["delta"]), -max(r["a"], r["b"]), str(r["key"])))
