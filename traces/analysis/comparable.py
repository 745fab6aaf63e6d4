"""What stands in the way of a fair comparison of two runs, in plain words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

import pyarrow.compute as pc

from traces.schema import Workload

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from traces.store import Run

_NAMES: Final = ("A", "B")
_LISTED: Final = 4  # phases named one by one


class Side(Protocol):
    """One run and what of it is compared."""

    @property
    def run(self) -> Run:
        """The run."""

    @property
    def devices(self) -> int:
        """How many devices' times are summed."""

    @property
    def incomplete(self) -> bool:
        """Whether only incomplete steps are there to compare."""


@dataclass(frozen=True)
class Facts:
    """What `obstacles` asks of a side, without comparing."""

    run: Run
    devices: int
    incomplete: bool


def facts(run: Run, phase: str | None) -> Facts:
    """The facts of a run in a phase, the same as those of a comparison's side."""
    devices = run.table.select(["rank", "device"]).group_by(["rank", "device"]).aggregate([]).num_rows
    steps = [s for s in run.meta["steps"] if s["phase"] == phase]
    return Facts(run, max(devices, 1), bool(steps) and not any(s["complete"] for s in steps))


def obstacles(a: Side, b: Side, phase: str | None, by: tuple[str, ...]) -> list[str]:
    """Every difference in what was run, where, and how it was measured; empty when like meets like."""
    runs = a.run, b.run
    return [
        *_facts_apart(runs),
        *_devices(a, b),
        *_phases(runs, phase),
        *_steps((a, b), phase),
        *_layers(runs, by),
        *_measured(runs, phase),
    ]


def _facts_apart(runs: tuple[Run, Run]) -> Iterator[str]:
    left, right = (_facts(run) for run in runs)
    untold: tuple[list[str], list[str]] = ([], [])
    for name, x in left.items():
        y = right[name]
        if x is not None and y is not None and x != y:
            yield f"{name} differs: {x} against {y}"
        elif x != y:
            untold[0 if x is None else 1].append(name)
    for side, names in zip(_NAMES, untold, strict=True):
        if names:
            yield f"{side} does not say its {', '.join(names)}"


def _facts(run: Run) -> dict[str, Any]:
    """What two runs should have in common."""
    work: dict[str, Any] = dict(run.meta["workload"] or {})
    workload = {name.replace("_", " "): work.get(name) for name in Workload.__annotations__}
    return {"model": run.meta["model"], **workload, "device": run.meta["device"].get("name")}


def _devices(a: Side, b: Side) -> Iterator[str]:
    if a.devices != b.devices:
        yield f"number of devices differs: {a.devices} against {b.devices}, and times are summed over them"


def _phases(runs: tuple[Run, Run], phase: str | None) -> Iterator[str]:
    if phase is None:
        yield "no phase is in both runs: the whole runs are compared, not steps"
    phases = [dict.fromkeys(s["phase"] for s in run.meta["steps"]) for run in runs]
    for name, mine, theirs in zip(_NAMES, phases, phases[::-1], strict=True):
        if not mine:
            yield f"{name} has no steps"
        only = sorted(p for p in mine if p not in theirs)
        yield from (f"phase {p} is only in {name}" for p in only[:_LISTED])
        if rest := only[_LISTED:]:
            yield f"{len(rest)} more phases are only in {name}"


def _steps(sides: tuple[Side, Side], phase: str | None) -> Iterator[str]:
    if whose := _whose(side.incomplete for side in sides):
        yield f"no complete step in {whose}: it ends with its last kernel, without idle"
    inferred = ([s["inferred"] for s in side.run.meta["steps"] if s["phase"] == phase] for side in sides)
    if whose := _whose(map(any, inferred)):
        yield f"the steps of {whose} are inferred from repetition, not marked in the trace"


def _layers(runs: tuple[Run, Run], by: tuple[str, ...]) -> Iterator[str]:
    if not {"layer", "module"} & set(by):
        return
    told = [run.meta["health"].get("layers") for run in runs]
    if whose := _whose(isinstance(t, dict) and bool(t.get("inferred")) for t in told):
        yield f"the layers of {whose} are inferred from repetition, not marked in the trace"
    counts = [pc.max(run.table["layer"]).as_py() for run in runs]
    if None not in counts and counts[0] != counts[1]:
        yield f"number of layers differs: {counts[0] + 1} against {counts[1] + 1}"


def _whose(true: Iterable[bool]) -> str:
    """`A`, `B`, `A and B`, or nothing."""
    return " and ".join(name for name, yes in zip(_NAMES, true, strict=True) if yes)


def _measured(runs: tuple[Run, Run], phase: str | None) -> Iterator[str]:
    tools = [run.meta["tool"] for run in runs]
    if tools[0] != tools[1]:
        yield f"profiler differs: {tools[0]} against {tools[1]}, which spell C++ kernel names differently"
    timed = [bool((run.meta["unprofiled"] or {}).get(phase or "")) for run in runs]
    if timed[0] != timed[1]:
        name = _NAMES[timed.index(True)]
        yield f"only {name} was timed without a profiler: both walls are under one, which stretches them"
