"""Small runs and traces made in memory, so that tests state only what they are about."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from traces import ledger
from traces.schema import SCHEMA, SCHEMA_VERSION
from traces.store import Run

if TYPE_CHECKING:
    from traces.schema import Metadata


def metadata(**known: Any) -> Metadata:
    base: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION, "run_id": "0123abcd", "model": None, "variant": None, "mode": None,
        "tool": "kineto", "workload": None, "device": {}, "versions": {},
        "source": {"file": "made.json", "sha256": "0" * 64}, "time_base_unix_ns": 0, "steps": [],
        "unprofiled": None, "health": {"events": 0, "rows": {}, "dropped": {}, "repaired": {}, "orphans": 0},
    }  # fmt: skip
    return base | known  # type: ignore[return-value]


def run(rows: list[dict[str, Any]], **known: Any) -> Run:
    """A run from rows with `start_ns` and `dur_ns`; the ledger columns are computed, the rest is null."""
    columns = {f.name: pa.nulls(len(rows), f.type) for f in SCHEMA}
    defaults = {"kind": "kernel", "name": "k", "device": 0, "stream": 7, "group": "gemm", "category": "gemm"}
    rows = [defaults | {"used_ns": r.get("dur_ns", 0)} | r for r in rows]
    for name in {n for r in rows for n in r}:
        columns[name] = pa.array([r.get(name) for r in rows], SCHEMA.field(name).type)
    table = pa.table(columns, schema=SCHEMA)
    exclusive, gap, _ = ledger.close(table)
    for name, values in (("exclusive_ns", exclusive), ("gap_ns", gap)):
        table = table.set_column(SCHEMA.get_field_index(name), name, pa.array(np.asarray(values)))
    return Run(table, metadata(**known))


def step(phase: str, number: int, start: int, end: int, *, complete: bool = True) -> dict[str, Any]:
    return {
        "phase": phase, "step": number, "start_ns": start, "end_ns": end,
        "complete": complete, "inferred": False,
    }  # fmt: skip
