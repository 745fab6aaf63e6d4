from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from profiler.ops.triton import splitk
from profiler.ops.triton.splitk import Config, Shape
from profiler.tune.end_to_end import ROUNDS, alternate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

TUNED = {Shape(2, 8, 8): Config(16, 16, 64, 1, 4, 3, 1)}


@pytest.fixture(autouse=True)
def nothing_selected() -> Iterator[None]:
    yield
    splitk.select({})


class Runner:
    """Counts what is asked of it, and sees which table is selected meanwhile."""

    def __init__(self, log: list[tuple[str, bool]], name: str) -> None:
        self.log, self.name = log, name

    def stand_at(self, position: int) -> None:
        self.log.append((self.name, bool(splitk._selected)))

    def decode(self) -> str:
        return self.name

    prefill = decode


def times(step: Callable[[], object], count: int) -> list[int]:
    return [100 if step() == "tuned" else 120] * count


def measure(out_of_time: Callable[[], bool]) -> tuple[dict[str, Any], list[tuple[str, bool]]]:
    log: list[tuple[str, bool]] = []
    runners: Any = {side: Runner(log, side) for side in ("untuned", "tuned")}
    tables = {"untuned": {}, "tuned": TUNED}
    return alternate(runners, tables, start=5, steps=4, out_of_time=out_of_time, times=times), log


def test_sides_take_turns_with_their_own_table() -> None:
    found, log = measure(lambda: False)
    assert len(log) == 2 * ROUNDS
    assert {name for name, selected in log if selected} == {"tuned"}
    assert {name for name, selected in log if not selected} == {"untuned"}
    assert [name for name, _ in log[:4]] == ["tuned", "untuned", "untuned", "tuned"]
    assert found["decode"]["tuned"] == {"n": 4 * ROUNDS, "median_ns": 100, "iqr_ns": 0}
    assert found["decode"]["speedup"] == found["prefill"]["speedup"] == 1.2
    assert found["rounds"] == ROUNDS


def test_out_of_time_ends_after_one_round() -> None:
    found, _ = measure(lambda: True)
    assert found["rounds"] == 1
