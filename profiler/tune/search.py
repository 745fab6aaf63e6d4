"""Exhaustive search over one shape's candidates: a quick pass over all, then a final between the fastest.

Pure: it is handed what measures, what tells the time, and where to note progress.
"""

from __future__ import annotations

import statistics
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, MutableMapping, Sequence

    from profiler.ops.triton.splitk import Config

MUCH_SLOWER: Final = 1.25  # one sample this far above the best ends a candidate's quick pass
QUICK_SAMPLES: Final = 3
FINALISTS: Final = 8
WITHIN: Final = 1.06  # of the best quick time, to reach the final
ROUNDS: Final = 15


class CannotRun(Exception):  # noqa: N818 - a candidate's fate, not an error
    """A candidate that this GPU or compiler refuses; the message is a short reason to count it under."""


class OutOfTime(Exception):  # noqa: N818
    """The deadline has come; what was noted so far can be resumed."""


class Bench(Protocol):
    """Measures candidates of one shape."""

    def sampler(self, config: Config) -> Callable[[], float]:
        """A function that measures once and returns microseconds a call. Raises CannotRun or OutOfTime."""

    def right(self, config: Config) -> bool:
        """Whether the result agrees with the reference."""


@dataclass(frozen=True)
class Outcome:
    """The winner; times in microseconds, medians of the interleaved rounds of the final."""

    config: Config
    us: float
    default_us: float | None  # None if the default cannot run or is wrong
    spread: float  # |median - median| / median of the same configuration measured as two
    failed: dict[str, int]
    tried: int


def search(
    candidates: Sequence[Config],
    bench: Bench,
    trials: MutableMapping[str, float | None],
    *,
    out_of_time: Callable[[], bool],
    noted: Callable[[], None] = lambda: None,
) -> Outcome:
    """The fastest right configuration of `candidates`, of which the first is the default.

    `trials` (configuration's text -> quick time, None for one that cannot run) is filled in as the pass goes,
    `noted` called after each; entries that are there already are not measured again. The default wins ties:
    another configuration must be faster by more than the A/A spread.

    Raises:
        OutOfTime: as soon as `out_of_time` says so.
        CannotRun: no candidate runs and gives the right result.
    """
    failed: Counter[str] = Counter()
    for config in candidates:
        if str(config) in trials:
            continue
        if out_of_time():
            raise OutOfTime
        try:
            trials[str(config)] = _quick(bench.sampler(config), _best(trials))
        except CannotRun as reason:
            failed[str(reason)] += 1
            trials[str(config)] = None
        noted()
    known = sum(v is None for v in trials.values()) - failed.total()
    if known:  # from the run that this one resumes
        failed["cannot run"] += known
    finalists = _finalists(candidates, bench, trials, failed)
    if out_of_time():
        raise OutOfTime
    config, us, default_us, spread = _final(finalists, bench, candidates[0])
    return Outcome(config, us, default_us, spread, dict(failed), len(trials))


def _best(trials: MutableMapping[str, float | None]) -> float:
    return min((t for t in trials.values() if t is not None), default=float("inf"))


def _quick(sample: Callable[[], float], best: float) -> float:
    first = sample()
    if first > MUCH_SLOWER * best:
        return first
    return min(first, *(sample() for _ in range(QUICK_SAMPLES - 1)))


def _finalists(
    candidates: Sequence[Config],
    bench: Bench,
    trials: MutableMapping[str, float | None],
    failed: Counter[str],
) -> list[Config]:
    """Right ones, fastest first: those near the best quick time, and the default wherever it stands."""
    timed = [(t, c) for c in candidates if (t := trials.get(str(c))) is not None]
    timed.sort(key=lambda pair: pair[0])
    found: list[Config] = []
    limit = float("inf")
    for time, config in timed:
        near = time <= limit and len(found) < FINALISTS
        if not near and config != candidates[0]:
            continue
        if not bench.right(config):
            failed["wrong result"] += 1
            continue
        found.append(config)
        limit = min(limit, WITHIN * time)
    if not found:
        raise CannotRun("no candidate runs and gives the right result")
    return found


def _final(
    finalists: Sequence[Config], bench: Bench, default: Config
) -> tuple[Config, float, float | None, float]:
    """Winner, its median, the default's median, and the A/A spread; all measured in turns."""
    samplers = [bench.sampler(c) for c in (finalists[0], *finalists)]  # the first one twice
    times: list[list[float]] = [[] for _ in samplers]
    for turn in range(ROUNDS):
        order = range(len(samplers)) if turn % 2 else range(len(samplers) - 1, -1, -1)
        for i in order:
            times[i].append(samplers[i]())
    medians = [statistics.median(t) for t in times]
    spread = abs(medians[0] - medians[1]) / medians[1]
    by_config = dict(zip(finalists, medians[1:], strict=True))
    best = min(finalists, key=lambda c: by_config[c])
    default_us = by_config.get(default)
    if default_us is not None and by_config[best] >= default_us * (1 - spread):
        best = default
    return best, by_config[best], default_us, spread
