"""One run of `tune`: every shape of a model within a budget, resumed from and noted in a tile cache."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from profiler.model.config import DTYPE_BYTES
from profiler.ops.triton import tiles
from profiler.tune import store
from profiler.tune.precompile import Job
from profiler.tune.search import CannotRun, OutOfTime, search
from profiler.tune.space import space

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path
    from typing import Protocol

    from profiler.model.config import Config as Model
    from profiler.model.config import Workload
    from profiler.ops.triton.splitk import Config, Shape
    from profiler.ops.triton.tiles import Entry
    from profiler.tune.search import Bench

    class Builder(Protocol):
        """`precompile.Builder`, or a fake."""

        broken: bool

        def ask(self, job: Job) -> None:
            """Have the job's binary built some time soon."""

        def wait(self, job: Job, timeout: float) -> str | None:
            """None once the binary is there, else why it cannot be built. Raises TimeoutError."""


NOTE_EVERY: Final = 5.0  # seconds between two writes of an unfinished shape


@dataclass(frozen=True)
class Machine:
    """What the search needs of the machine; tests hand in fakes."""

    gpu: str
    bench: Callable[[Shape], Bench]
    builder: Builder
    clock: Callable[[], float]  # seconds
    say: Callable[[str], None]


@dataclass
class Session:
    """The shapes of one model and dtype on one GPU, until `deadline` on the machine's clock."""

    machine: Machine
    dtype: str
    deadline: float
    cache: Path | None = None  # this file alone; by default the user's, over what ships
    entries: dict[Shape, Entry] = field(init=False)
    stale: int = field(init=False)

    def __post_init__(self) -> None:
        """Read what is known. Raises InputError if a cache is damaged."""
        self.entries, self.stale = tiles.known(self.machine.gpu, self.dtype, self.cache)
        if self.stale:
            self.machine.say(f"{self.stale} cache entries are of another kernel or Triton and do not count")

    @property
    def file(self) -> Path:
        """Where results go."""
        return self.cache or tiles.user_file()

    def run(self, shapes: Iterable[Shape]) -> dict[Shape, str]:
        """Search every shape that has no finished entry; how each stands: tuned, known, left or failed."""
        status = {s: "known" if s in self.entries and self.entries[s].config else "left" for s in shapes}
        todo = [s for s, state in status.items() if state == "left"]
        for job in (Job(self.dtype, s, c) for s in todo for c in space(s, DTYPE_BYTES[self.dtype])):
            self.machine.builder.ask(job)
        for shape in todo:
            try:
                self._tune(shape)
                status[shape] = "tuned"
            except CannotRun as reason:
                self.machine.say(f"{shape}: {reason}")
                status[shape] = "failed"
            except OutOfTime:
                self.machine.say(f"{shape}: out of time; run again to go on from here")
                break
        return status

    def _tune(self, shape: Shape) -> None:
        if self._out_of_time():
            raise OutOfTime
        fresh = tiles.Entry(self.machine.gpu, self.dtype, shape, tiles.fingerprint())
        entry = self.entries.get(shape, fresh)
        candidates = space(shape, DTYPE_BYTES[self.dtype])
        trials = dict(entry.trials)
        begun = "resuming" if trials else "searching"
        self.machine.say(f"{shape}: {begun} {len(candidates)} configurations, {len(trials)} timed before")
        noted = [self.machine.clock()]

        def note(*, now: bool = False) -> None:
            if now or self.machine.clock() - noted[0] >= NOTE_EVERY:
                noted[0] = self.machine.clock()
                self._put(replace(entry, trials=trials))

        bench = _Waiting(self, shape, self.machine.bench(shape))
        try:
            found = search(candidates, bench, trials, out_of_time=self._out_of_time, noted=note)
        except (OutOfTime, KeyboardInterrupt):
            note(now=True)
            raise
        self._put(replace(entry, trials={}, **vars(found)))
        gain = f", {found.default_us / found.us:.2f}x the default" if found.default_us else ""
        self.machine.say(f"{shape}: {found.us:.2f} us{gain}, {found.config}")

    def _put(self, entry: Entry) -> None:
        self.entries[entry.shape] = entry
        store.put(self.file, entry)

    def _out_of_time(self) -> bool:
        return self.machine.clock() >= self.deadline


@dataclass(frozen=True)
class _Waiting:
    """A bench that first waits for the candidate's binary."""

    session: Session
    shape: Shape
    bench: Bench

    def sampler(self, config: Config) -> Callable[[], float]:
        """See `search.Bench`; also raises OutOfTime at the session's deadline."""
        machine = self.session.machine
        was_broken = machine.builder.broken
        try:
            job = Job(self.session.dtype, self.shape, config)
            refused = machine.builder.wait(job, self.session.deadline - machine.clock())
        except TimeoutError as late:
            raise OutOfTime from late
        if refused:
            raise CannotRun("does not compile")
        if machine.builder.broken and not was_broken:
            machine.say("the compiling processes have died: compiling one by one in this process instead")
        return self.bench.sampler(config)

    def right(self, config: Config) -> bool:
        """See `search.Bench`."""
        return self.bench.right(config)


def rows(
    session: Session, status: dict[Shape, str], model: Model, workload: Workload
) -> list[dict[str, Any]]:
    """What is known of each shape, as JSON: times in microseconds, rates of the tuned one."""
    size = DTYPE_BYTES[workload.dtype]
    found = []
    for shape, state in status.items():
        entry = session.entries.get(shape)
        done = entry if entry and entry.config and entry.us else None
        row: dict[str, Any] = {
            "shape": str(shape),
            "phase": "decode" if shape.m == workload.batch else "prefill",
            "calls_per_step": _calls(shape, model, workload),
            "status": state,
            "untuned_us": done.default_us if done else None,
            "tuned_us": done.us if done else None,
            "speedup": done.default_us / done.us if done and done.us and done.default_us else None,
            "config": str(done.config) if done else None,
            "spread": done.spread if done else None,
            "tried": entry.tried or len(entry.trials) if entry else 0,
            "failed": dict(entry.failed) if entry else {},
        }
        found.append(row | (_rates(shape, size, done.us) if done and done.us else {}))
    return found


def _calls(shape: Shape, model: Model, workload: Workload) -> int:
    """Products of this shape in one step; two weights of one shape count twice, lm_head for decode only."""
    attention = model.heads * model.head_dim
    layer = [
        (model.qkv_dim, model.dim),
        (model.dim, attention),
        (2 * model.intermediate, model.dim),
        (model.dim, model.intermediate),
    ]
    head = shape == (workload.batch, model.vocab, model.dim)
    return model.layers * layer.count(shape[1:]) + head


def _rates(shape: Shape, size: int, us: float) -> dict[str, float]:
    m, n, k = shape
    moved = (m * k + n * k + m * n) * size
    return {"tb_s": moved / us / 1e6, "tflop_s": 2 * m * n * k / us / 1e6}
