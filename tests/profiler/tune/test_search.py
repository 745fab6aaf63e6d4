from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from profiler.ops.triton.splitk import Config
from profiler.tune.search import ROUNDS, CannotRun, OutOfTime, search

if TYPE_CHECKING:
    from collections.abc import Callable


def config(number: int) -> Config:
    return Config(16, 16 * number, 64, 1, 4, 3, 1)


CANDIDATES = [config(n) for n in range(1, 11)]
DEFAULT = CANDIDATES[0]


@dataclass
class FakeBench:
    """Candidate n takes `times[n]`; a list is a series of samples, its last one repeating."""

    times: dict[Config, float | list[float]]
    wrong: tuple[Config, ...] = ()
    samples: list[Config] = field(default_factory=list)

    def sampler(self, config: Config) -> Callable[[], float]:
        if config not in self.times:
            raise CannotRun("out of resources")
        series = self.times[config]
        left = list(series) if isinstance(series, list) else [series]

        def sample() -> float:
            self.samples.append(config)
            return left.pop(0) if len(left) > 1 else left[0]

        return sample

    def right(self, config: Config) -> bool:
        return config not in self.wrong


def never() -> bool:
    return False


def test_finds_the_fastest() -> None:
    bench = FakeBench({c: 10.0 + i for i, c in enumerate(CANDIDATES)} | {CANDIDATES[6]: 5.0})
    found = search(CANDIDATES, bench, {}, out_of_time=never)
    assert (found.config, found.us, found.default_us) == (CANDIDATES[6], 5.0, 10.0)
    assert (found.spread, found.failed, found.tried) == (0.0, {}, 10)


def test_the_slow_are_sampled_once_and_stay_out_of_the_final() -> None:
    bench = FakeBench(dict.fromkeys(CANDIDATES, 10.0) | {CANDIDATES[3]: 20.0})
    search(CANDIDATES, bench, {}, out_of_time=never)
    assert bench.samples.count(CANDIDATES[3]) == 1
    assert bench.samples.count(CANDIDATES[1]) == 3 + ROUNDS


def test_a_slow_first_sample_near_the_best_is_measured_again() -> None:
    bench = FakeBench(dict.fromkeys(CANDIDATES, 10.0) | {CANDIDATES[2]: [12.0, 6.0]})
    trials: dict[str, float | None] = {}
    search(CANDIDATES, bench, trials, out_of_time=never)
    assert trials[str(CANDIDATES[2])] == 6.0


def test_wrong_and_refused_candidates_are_counted_and_never_win() -> None:
    times = {c: 10.0 + i for i, c in enumerate(CANDIDATES)} | {CANDIDATES[5]: 1.0}
    del times[CANDIDATES[7]]
    found = search(CANDIDATES, FakeBench(times, wrong=(CANDIDATES[5],)), {}, out_of_time=never)
    assert found.config == DEFAULT
    assert found.failed == {"out of resources": 1, "wrong result": 1}


def test_a_wrong_default_is_reported_as_unknown() -> None:
    bench = FakeBench({c: 10.0 + i for i, c in enumerate(CANDIDATES)}, wrong=(DEFAULT,))
    found = search(CANDIDATES, bench, {}, out_of_time=never)
    assert (found.config, found.default_us) == (CANDIDATES[1], None)


def test_nothing_right_cannot_run() -> None:
    bench = FakeBench(dict.fromkeys(CANDIDATES, 1.0), wrong=tuple(CANDIDATES))
    with pytest.raises(CannotRun, match="no candidate"):
        search(CANDIDATES, bench, {}, out_of_time=never)
    with pytest.raises(CannotRun, match="no candidate"):
        search(CANDIDATES, FakeBench({}), {}, out_of_time=never)


def test_the_default_keeps_what_is_within_the_spread() -> None:
    """9.9 against 10.0 is no gain where the same configuration differs by 5 % from itself."""
    quiet = search(CANDIDATES, FakeBench(dict.fromkeys(CANDIDATES, 10.0) | {CANDIDATES[4]: 9.9}), {},
                   out_of_time=never)  # fmt: skip
    assert quiet.config == CANDIDATES[4]

    class Twin(FakeBench):
        """The first sampler of the final, the twin of the fastest, is 5 % slower."""

        asked = 0

        def sampler(self, config: Config) -> Callable[[], float]:
            self.asked += config == CANDIDATES[4]
            twin = self.asked == 2 and config == CANDIDATES[4]
            return (lambda: 10.4) if twin else super().sampler(config)

    noisy = search(CANDIDATES, Twin(dict.fromkeys(CANDIDATES, 10.0) | {CANDIDATES[4]: 9.9}), {},
                   out_of_time=never)  # fmt: skip
    assert noisy.spread == pytest.approx(0.5 / 9.9)
    assert noisy.config == DEFAULT


def test_stops_at_the_deadline_and_resumes_where_it_was() -> None:
    times: dict[Config, float | list[float]] = {c: 10.0 - i for i, c in enumerate(CANDIDATES)}
    del times[CANDIDATES[1]]
    trials: dict[str, float | None] = {}
    notes: list[int] = []
    with pytest.raises(OutOfTime):
        search(CANDIDATES, FakeBench(times), trials, out_of_time=lambda: len(trials) == 4,
               noted=lambda: notes.append(len(trials)))  # fmt: skip
    assert notes == [1, 2, 3, 4]
    assert trials[str(CANDIDATES[1])] is None
    bench = FakeBench(times)
    found = search(CANDIDATES, bench, trials, out_of_time=never)
    assert (found.config, found.tried, found.failed) == (CANDIDATES[9], 10, {"cannot run": 1})
    assert CANDIDATES[2] not in bench.samples  # timed before, and too slow for the final
