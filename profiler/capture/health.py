"""Is a capture complete? A profiler may drop kernels without a word (pytorch#192021, kineto#1165)."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from profiler.capture.run import CapturedTrace
    from traces.store import Run


def judged(run: Run, captured: CapturedTrace) -> dict[str, Any]:
    """What capture adds to the health of its run.

    `kernels_seen`: per phase how many kernels the launch log promises a step (None without one), and the
    different numbers seen. `provenance`: how often Inductor and the eager run name the same module for a
    generated kernel. Whatever is wrong comes in words too, behind the run's own `notes`.
    """
    log = captured.log
    seen, notes = kernels_seen(run, log.expected)
    judged: dict[str, Any] = {"notes": [*run.meta["health"].get("notes", []), *log.notes, *notes]}
    if seen:
        judged["kernels_seen"] = seen
    if log.provenance:
        judged["provenance"] = dict(log.provenance)
    return judged


def kernels_seen(run: Run, expected: Mapping[str, int]) -> tuple[dict[str, Any], list[str]]:
    """Kernels of each step, by phase, against the launch log's; and what does not agree, in words."""
    columns = (run.table[n].to_pylist() for n in ("kind", "phase", "step"))
    steps = Counter(
        (phase, step) for kind, phase, step in zip(*columns, strict=True) if kind == "kernel" and phase
    )
    out: dict[str, Any] = {}
    notes = []
    for phase in sorted({*(p for p, _ in steps), *expected}):
        counts = {step: n for (p, step), n in steps.items() if p == phase}
        promised, seen = expected.get(phase), sorted(set(counts.values()))
        out[phase] = {"expected": promised, "seen": seen}
        if promised is None and len(seen) > 1:
            notes.append(f"{phase} steps ran {seen[0]} to {seen[-1]} kernels: the trace may lack some")
        elif promised is not None:
            notes += [
                f"{phase} step {step}: {n} kernels seen, {promised} expected"
                for step, n in sorted(counts.items(), key=str)
                if n != promised
            ]
            notes += [f"{phase}: no kernels seen, {promised} a step expected"] if not counts else []
    return out, notes
