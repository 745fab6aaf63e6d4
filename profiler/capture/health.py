"""Is a capture complete? A profiler may drop kernels without a word (pytorch#192021, kineto#1165)."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from traces.store import Run


def kernels_seen(run: Run, expected: Mapping[str, int]) -> dict[str, Any]:
    """Kernels of each decode step against the launch log's; nothing where it promises nothing."""
    promised = expected.get("decode_kernels_per_step")
    if promised is None:
        return {}
    columns = (run.table[n].to_pylist() for n in ("kind", "phase", "step"))
    seen = Counter(
        s for kind, phase, s in zip(*columns, strict=True) if kind == "kernel" and phase == "decode"
    )
    notes = [
        f"decode step {step}: {count} kernels seen, {promised} expected"
        for step, count in sorted(seen.items())
        if count != promised
    ]
    counts = sorted(set(seen.values()))
    return {
        "kernels": {"expected_per_decode_step": promised, "seen": counts},
        "notes": [*run.meta["health"].get("notes", []), *notes],
    }
