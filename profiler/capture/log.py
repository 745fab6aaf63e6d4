"""Profile one uncaptured run of each compiled step, and log what launched its kernels."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Final

from profiler.capture import align, launches
from profiler.capture.torch_profiler import module_ranges, phase_range, record
from traces.readers import kineto

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from profiler.capture.launches import Entry, Launch
    from profiler.capture.modes import Runner
    from profiler.capture.provenance import Origin
    from traces.readers.timeline import Timeline

EXAMPLES: Final = 2  # of disagreements, a phase
PHASES: Final = ("decode", "prefill")  # the place of each is the number of its graph in the log


@dataclass
class Log:
    """The lines of all phases; how far their two sources agree, and in plain words where one failed."""

    entries: list[Entry] = field(default_factory=list)
    provenance: Counter[str] = field(default_factory=Counter)  # agree, differ, missing; generated kernels
    notes: list[str] = field(default_factory=list)
    said: list[str] = field(default_factory=list)  # examples of where they do not

    @property
    def expected(self) -> dict[str, int]:
        """How many kernels one step of each phase launches."""
        return dict(Counter(entry.phase for entry in self.entries))


def log_steps(eager: Runner, compiled: Runner, *, device: str, path: Path) -> Log:
    """Profile one eager and one compiled step of each phase together, and log the compiled ones.

    `path`: where the trace may lie meanwhile. Both runners share their model and state, and are warm.
    """
    start = compiled.state.prompt.shape[1]

    def steps() -> None:
        for phase in reversed(PHASES):
            with module_ranges(eager.model), phase_range(f"eager {phase}", 0):
                eager.step(phase)
            with phase_range(f"compiled {phase}", 0):
                compiled.step(phase)

    def warm_up() -> None:
        compiled.stand_at(start)
        with module_ranges(eager.model):
            eager.prefill()
            eager.decode()
        compiled.decode()
        compiled.stand_at(start)

    record(path, device=device, warm_up=warm_up, steps=steps)
    timeline = kineto.read_file(path)
    path.unlink()
    return read_log(timeline, {p: r.origins for p, r in compiled.recorders.items()}, visible=start + 1)


def log_fused(runner: Runner, *, device: str, path: Path) -> Log:
    """Profile and log one step of each phase of fused operators, which run as they will be captured.

    `path`: where the trace may lie meanwhile. The runner is warm.
    """
    start = runner.state.prompt.shape[1]

    def steps() -> None:
        with module_ranges(runner.model):
            for phase in reversed(PHASES):
                with phase_range(phase, 0):
                    runner.step(phase)

    def warm_up() -> None:
        runner.stand_at(start)
        with module_ranges(runner.model):
            runner.decode()
        runner.stand_at(start)

    record(path, device=device, warm_up=warm_up, steps=steps)
    timeline = kineto.read_file(path)
    path.unlink()
    log = Log()
    for graph, phase in enumerate(PHASES):
        found = launches.read_launches(timeline, phase, start + 1)
        log.entries += launches.log_entries(align.filled(found), graph, phase)
    return log


def read_log(timeline: Timeline, origins: dict[str, list[Origin] | None], visible: int | None = None) -> Log:
    """The log from the trace of `log_steps`, and for each phase Inductor's calls (None: it kept none)."""
    log = Log()
    for graph, phase in enumerate(PHASES):
        compiled = launches.read_launches(timeline, f"compiled {phase}", visible)
        eager = launches.read_launches(timeline, f"eager {phase}")
        named = _named(log, phase, compiled, eager, origins.get(phase))
        log.entries += launches.log_entries(named, graph, phase)
    return log


def _named(
    log: Log, phase: str, compiled: Sequence[Launch], eager: Sequence[Launch], origins: list[Origin] | None
) -> Sequence[Launch]:
    told = align.by_provenance(compiled, origins or [])
    if origins is None:
        log.notes.append(f"{phase}: this PyTorch keeps no provenance of its compiled kernels")
    named = align.assign_modules(compiled, eager)
    if named is not None:
        log.provenance.update(align.agreement(named, told))
        log.said += [f"{phase}: {text}" for text in islice(align.disagreements(named, told), EXAMPLES)]
        return named
    log.notes.append(
        f"{phase}: eager and compiled step call different ops ({align.difference(compiled, eager)}); "
        "modules are Inductor's alone"
    )
    return align.between_products(align.placed(compiled, told))
