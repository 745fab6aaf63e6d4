"""What two runs are, side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from dashboard.format import NONE
from traces.text import plain

if TYPE_CHECKING:
    from traces.store import Run

DIFFERS: Final = "≠"
_EXPECTED: Final = ("file", "run")  # differ between any two runs


def facts(a: Run, b: Run) -> pa.Table:
    """Facts of both runs as text, and a mark where they differ."""
    left, right = _facts(a), _facts(b)
    names = list(dict.fromkeys([*left, *right]))
    pairs = [(left.get(n, NONE), right.get(n, NONE)) for n in names]
    marks = [DIFFERS if x != y and n not in _EXPECTED else "" for n, (x, y) in zip(names, pairs, strict=True)]
    columns = {
        "fact": names,
        "A (baseline)": [p[0] for p in pairs],
        "B": [p[1] for p in pairs],
        "differs": marks,
    }
    return pa.table({k: pa.array(v, pa.string()) for k, v in columns.items()})


def _facts(run: Run) -> dict[str, str]:
    meta = run.meta
    load = meta["workload"]
    steps = [s["phase"] for s in meta["steps"]]
    found = {
        "model": meta["model"], "variant": meta["variant"], "mode": meta["mode"], "tool": meta["tool"],
        "workload": _joined(load),
        **{f"device {k}": _memory(k, v) for k, v in meta["device"].items()},
        **{f"version {k}": v for k, v in meta["versions"].items()},
        "steps": ", ".join(f"{p} {steps.count(p)}" for p in dict.fromkeys(steps)),
        "weights": _joined(meta.get("weights")),
        "rows": f"{run.table.num_rows:,}",
        "run": meta["run_id"], "source": meta["source"].get("file"),
        "file": run.path.name if run.path else None,
    }  # fmt: skip
    return {plain(k): plain(v, 200) for k, v in found.items() if v not in (None, "")}


def _joined(facts: Any) -> str:
    return ", ".join(f"{str(k).replace('_', ' ')} {v}" for k, v in dict(facts or {}).items())


def _memory(name: str, value: Any) -> Any:
    """Bytes in GiB."""
    return f"{value / 2**30:.1f} GiB" if name == "memory_bytes" and isinstance(value, int) else value
