"""How contenders are checked and take turns, without a GPU."""

from __future__ import annotations

import weakref
from contextlib import nullcontext
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
import torch

from profiler.bench import timing
from profiler.bench.case import MAX_COPIES, Case, Contender, Setting, right
from profiler.bench.table import Work
from profiler.model.config import WORKLOADS, preset
from traces.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

L2 = 60 << 20


def setting(device: str = "cuda") -> Setting:
    return Setting(preset("tiny"), WORKLOADS["tiny"], device, (16,), L2)


def refuses(error: Exception) -> Callable[[int], torch.Tensor]:
    def run(copy: int) -> torch.Tensor:
        raise error

    return run


def test_copies_outgrow_the_l2_twice() -> None:
    s = setting()
    assert s.copies(50 << 20) == 3
    assert s.copies(2 * L2 + 1) == 2
    assert s.copies(10) == MAX_COPIES
    assert setting("cpu").copies(10) == 2
    for size in (1 << 20, 4 << 20, 33 << 20):
        assert s.copies(size) * size > 2 * L2


def test_a_graph_walks_the_copies_as_a_whole_and_only_once_where_they_fit_the_l2() -> None:
    big = Work(50 << 20)
    calls = timing.calls_of(big, 3, 2 * L2)
    assert calls % 3 == 0
    assert calls * big.bytes / 4e6 >= timing.LEAST_US
    assert timing.calls_of(Work(1000), 256, 2 * L2) == 256
    assert timing.calls_of(Work(200 << 20, 10**12), 2, 2 * L2) == 2


def test_contenders_take_turns_and_warm_ups_do_not_count() -> None:
    order: list[str] = []

    def sampler(name: str) -> Callable[[], float]:
        def sample() -> float:
            order.append(name)
            return float(len(order))

        return sample

    samples = timing.in_turns({n: sampler(n) for n in "abc"}, rounds=2, warm_up=1)
    assert "".join(order) == "abcbcacab"
    assert samples == {"a": [6.0, 8.0], "b": [4.0, 9.0], "c": [5.0, 7.0]}
    assert timing.in_turns({}, 2, 1) == {}


def test_wrong_results_and_refusals_have_no_times() -> None:
    one = torch.ones(4)
    contenders = [
        Contender("unchecked", False, lambda i: one),
        Contender("right", True, lambda i: one * 1.0001, lambda: one),
        Contender("wrong", True, lambda i: one * 1.1, lambda: one),
        Contender("nan", True, lambda i: one * float("nan"), lambda: one),
        Contender("backend", False, refuses(RuntimeError("No available kernel. Aborting execution."))),
        Contender("shape", True, refuses(UsageError("gemm: does not fit\nmore"))),
    ]
    case = Case("op", "shape", Work(10), 2, contenders, calls=7)
    found = timing.measure(case, timing.cpu_sampler, rounds=2, warm_up=1)
    assert {t.name: t.out for t in found.contenders if t.out} == {
        "wrong": "wrong result",
        "nan": "wrong result",
        "backend": "not supported",
        "shape": "UsageError: gemm: does not fit",
    }
    assert [len(t.samples) for t in found.contenders] == [2, 2, 0, 0, 0, 0]
    assert (found.op, found.calls) == ("op", 7)


def test_a_broken_benchmark_and_a_full_gpu_are_not_hidden() -> None:
    for error in (TypeError("a bug"), torch.cuda.OutOfMemoryError("full")):
        case = Case("op", "shape", Work(10), 1, [Contender("x", True, refuses(error))])
        with pytest.raises(type(error)):
            timing.measure(case, timing.cpu_sampler, 1, 0)


def test_tolerance_is_relative_to_the_largest_result() -> None:
    expected = torch.tensor([100.0, 0.001])
    assert right(torch.tensor([100.05, 0.05]), expected)
    assert not right(torch.tensor([100.2, 0.001]), expected)


class PretendedGpu:
    """Stands for streams, events and graphs, and notes what is asked of them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.log: list[str] = []
        said, number = self.log.append, iter(range(100))

        class Event:
            def __init__(self, enable_timing: bool) -> None:
                self.name = f"event {next(number)}"

            def record(self) -> None:
                said(self.name)

            def synchronize(self) -> None:
                said("wait")

            def elapsed_time(self, end: object) -> float:
                return 6.0  # ms

        class Graph:
            def capture_begin(self, capture_error_mode: str) -> None:
                said("capture")

            def capture_end(self) -> None:
                said("captured")

            def replay(self) -> None:
                said("replay")

        class Flush:
            def sum(self) -> None:
                said("flush")

        monkeypatch.setattr(torch, "ones", lambda *_, **__: Flush())
        monkeypatch.setattr(torch.cuda, "Event", Event)
        monkeypatch.setattr(torch.cuda, "CUDAGraph", Graph)
        monkeypatch.setattr(torch.cuda, "Stream", lambda: SimpleNamespace(wait_stream=lambda _: None))
        monkeypatch.setattr(torch.cuda, "current_stream", lambda: None)
        monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
        monkeypatch.setattr(torch.cuda, "stream", lambda _: nullcontext())


def test_a_replay_starts_on_a_cold_l2_and_every_copy_keeps_its_output(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gpu = PretendedGpu(monkeypatch)
    alive: set[int] = set()

    class Output(torch.Tensor):
        pass

    def run(copy: int) -> torch.Tensor:
        gpu.log.append(f"call {copy}")
        fresh = torch.zeros(1).as_subclass(Output)
        weakref.finalize(fresh, alive.discard, len(gpu.log))
        alive.add(len(gpu.log))
        return fresh

    most: list[int] = []
    contender = Contender("x", True, lambda i: (run(i), most.append(len(alive)))[0])
    case = Case("op", "shape", Work(100 << 20), 3, [contender])
    sample = timing.GpuSampler(L2)(case, contender)
    calls = timing.calls_of(case.work, 3, 2 * L2)
    assert gpu.log == ["call 0", "capture", *[f"call {i % 3}" for i in range(calls)], "captured"]
    assert calls > 6
    assert most[-1] in (3, 4)  # of the last walk, and the newest
    gpu.log.clear()
    assert sample() == pytest.approx(6000 / calls)
    assert gpu.log == ["flush", "event 0", "replay", "event 1", "wait"]


def test_a_capture_that_fails_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = PretendedGpu(monkeypatch)
    fails = iter((False, False, True))

    def run(copy: int) -> torch.Tensor:
        if next(fails):
            raise RuntimeError("operation not permitted when stream is capturing")
        return torch.zeros(1)

    case = Case("op", "shape", Work(100 << 20), 2, [Contender("x", True, run)])
    found = timing.measure(case, timing.GpuSampler(L2), 1, 0)
    assert found.contenders[0].out == "RuntimeError: operation not permitted when stream is capturing"
    assert gpu.log == ["capture", "captured"]
