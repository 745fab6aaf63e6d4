"""A whole run of `tune` with a fake GPU, compiler and clock."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pytest

from profiler.model.config import Workload, preset
from profiler.ops.triton import tiles
from profiler.ops.triton.splitk import Config, Shape, default_config
from profiler.tune.search import CannotRun
from profiler.tune.session import Machine, Session, rows
from profiler.tune.space import space

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from profiler.tune.precompile import Job

SHAPES = [Shape(2, 256, 2048), Shape(64, 256, 2048)]
PER_SAMPLE = 0.01  # seconds of fake time


@dataclass
class Fake:
    """A GPU, a compiler and a clock in one."""

    best: Config | None = None
    now: float = 0.0
    broken: bool = False
    slow_compiler: bool = False
    uncompilable: tuple[Config, ...] = ()
    refuses: tuple[Shape, ...] = ()
    asked: list[Job] = field(default_factory=list)
    sampled: list[tuple[Shape, Config]] = field(default_factory=list)
    said: list[str] = field(default_factory=list)

    def ask(self, job: Job) -> None:
        self.asked.append(job)

    def wait(self, job: Job, timeout: float) -> str | None:
        if self.slow_compiler:
            self.now += timeout
            raise TimeoutError
        return "CompilationError" if job.config in self.uncompilable else None

    def machine(self) -> Machine:
        return Machine("GPU", lambda shape: FakeBench(self, shape), self, lambda: self.now, self.said.append)


@dataclass
class FakeBench:
    fake: Fake
    shape: Shape

    def sampler(self, config: Config) -> Callable[[], float]:
        if self.shape in self.fake.refuses:
            raise CannotRun("out of resources")

        def sample() -> float:
            self.fake.now += PER_SAMPLE
            self.fake.sampled.append((self.shape, config))
            return 5.0 if config == self.fake.best else 10.0

        return sample

    def right(self, config: Config) -> bool:
        return True


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KERNELGAP_CACHE", str(tmp_path / "user"))
    monkeypatch.setattr(tiles, "SHIPPED", tmp_path / "shipped")
    return tmp_path / "user" / "tiles.json"


def session(fake: Fake, deadline: float = 1e9, path: Path | None = None) -> Session:
    return Session(fake.machine(), "float16", deadline, path)


def test_tunes_every_shape_once(cache: Path) -> None:
    best = space(SHAPES[0], 2)[7]
    fake = Fake(best=best)
    assert session(fake).run(SHAPES) == dict.fromkeys(SHAPES, "tuned")
    found = {e.shape: e for e in tiles.read(cache)}
    assert found[SHAPES[0]].config == best
    assert (found[SHAPES[0]].us, found[SHAPES[0]].default_us) == (5.0, 10.0)
    assert found[SHAPES[1]].config == default_config(64, 2)  # nothing was faster
    assert all(e.trials == {} and e.tried == len(space(e.shape, 2)) for e in found.values())
    again = Fake()
    assert session(again).run(SHAPES) == dict.fromkeys(SHAPES, "known")
    assert (again.sampled, again.asked) == ([], [])


def test_stops_at_the_deadline_notes_what_it_has_and_resumes(cache: Path) -> None:
    fake = Fake()
    assert session(fake, deadline=1.0).run(SHAPES) == dict.fromkeys(SHAPES, "left")
    assert fake.now == pytest.approx(1.0, abs=5 * PER_SAMPLE)
    (entry,) = tiles.read(cache)
    assert entry.config is None
    assert 10 < len(entry.trials) < len(space(SHAPES[0], 2))
    assert "out of time" in fake.said[-1]
    later = Fake(best=space(SHAPES[0], 2)[-1])
    assert session(later).run(SHAPES) == dict.fromkeys(SHAPES, "tuned")
    assert f"resuming {len(space(SHAPES[0], 2))} configurations, {len(entry.trials)} timed" in later.said[0]
    quick = {config for shape, config in later.sampled if shape == SHAPES[0]}
    assert sum(str(c) in entry.trials for c in quick) <= 8  # finalists only


def test_an_interrupted_run_has_noted_its_progress(cache: Path) -> None:
    class Interrupted(Fake):
        def wait(self, job: Job, timeout: float) -> str | None:
            if self.now > 1.0:
                raise KeyboardInterrupt
            return None

    with pytest.raises(KeyboardInterrupt):
        session(Interrupted()).run(SHAPES)
    (entry,) = tiles.read(cache)
    assert len(entry.trials) > 10


def test_a_killed_run_loses_seconds_only(cache: Path) -> None:
    """Also without a chance to tidy up, what was timed more than 5 s ago is on disk."""

    class Killed(Fake):
        def wait(self, job: Job, timeout: float) -> str | None:
            self.now += 0.1
            if self.now > 12.0:
                raise SystemExit
            return None

    with pytest.raises(SystemExit):
        session(Killed()).run(SHAPES)
    (entry,) = tiles.read(cache)
    assert len(entry.trials) > 40


def test_a_compiler_that_is_too_slow_ends_the_run_on_time(cache: Path) -> None:
    fake = Fake(slow_compiler=True)
    assert session(fake, deadline=60.0).run(SHAPES) == dict.fromkeys(SHAPES, "left")
    assert fake.now == 60.0
    assert "out of time" in fake.said[-1]


def test_what_does_not_compile_is_counted(cache: Path) -> None:
    out = tuple(space(SHAPES[0], 2)[1:4])
    session(Fake(uncompilable=out)).run(SHAPES[:1])
    (entry,) = tiles.read(cache)
    assert entry.failed == {"does not compile": 3}


def test_a_shape_that_cannot_run_does_not_stop_the_others(cache: Path) -> None:
    fake = Fake(refuses=(SHAPES[0],))
    assert session(fake).run(SHAPES) == {SHAPES[0]: "failed", SHAPES[1]: "tuned"}
    assert any("no candidate runs" in line for line in fake.said)


def test_dead_workers_are_mentioned_once(cache: Path) -> None:
    class Dying(Fake):
        def wait(self, job: Job, timeout: float) -> str | None:
            self.broken = True
            return None

    fake = Dying()
    session(fake).run(SHAPES[:1])
    assert sum("have died" in line for line in fake.said) == 1


def test_entries_of_another_kernel_are_mentioned_and_do_not_count(cache: Path) -> None:
    session(Fake()).run(SHAPES[:1])
    old = [replace(e, fingerprint="old") for e in tiles.read(cache)]
    cache.write_text(tiles.dump(old))
    fake = Fake()
    assert session(fake).run(SHAPES[:1]) == {SHAPES[0]: "tuned"}
    assert fake.said[0].startswith("1 cache entries are of another kernel")
    assert len(tiles.read(cache)) == 2


def test_a_named_file_stands_alone(cache: Path, tmp_path: Path) -> None:
    session(Fake()).run(SHAPES[:1])
    path = tmp_path / "mine.json"
    assert session(Fake(), path=path).run(SHAPES[:1]) == {SHAPES[0]: "tuned"}
    assert [e.shape for e in tiles.read(path)] == SHAPES[:1]


def test_rows_for_the_report(cache: Path) -> None:
    model, workload = preset("llama3-8b"), Workload(2, 512, 256)
    shapes = tiles.linear_shapes(model, workload)
    made = session(Fake(best=space(shapes[0], 2)[5]))
    status = made.run(shapes[:1]) | dict.fromkeys(shapes[1:], "left")
    found = rows(made, status, model, workload)
    assert [r["calls_per_step"] for r in found] == [32, 32, 32, 32, 1, 32, 32, 32, 32]
    assert [r["phase"] for r in found] == ["decode"] * 5 + ["prefill"] * 4
    first = found[0]
    assert (first["untuned_us"], first["tuned_us"], first["speedup"]) == (10.0, 5.0, 2.0)
    assert first["tb_s"] == pytest.approx((2 * 4096 + 6144 * 4096 + 2 * 6144) * 2 / 5e-6 / 1e12)
    assert first["tflop_s"] == pytest.approx(2 * 2 * 6144 * 4096 / 5e-6 / 1e12)
    assert found[1]["tuned_us"] is None
    assert found[1]["tried"] == 0
