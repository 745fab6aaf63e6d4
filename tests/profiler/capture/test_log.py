"""From the trace of one eager and one compiled step of each phase to the launch log."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import nn

from profiler.capture import log
from profiler.capture.provenance import Origin, Recorder
from profiler.model.generate import new_state
from tests.profiler.capture.steps import Trace, compiled_step, eager_step

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pytest

    from traces.readers.timeline import Timeline


def logged(eager: Callable[[Trace], Trace] = eager_step) -> Timeline:
    trace = Trace()
    for phase in ("prefill", "decode"):
        for mode, step in (("eager", eager), ("compiled", compiled_step)):
            since, trace.now = trace.now, trace.now + 20
            step(trace)
            if (mode, phase) == ("compiled", "prefill"):
                trace.bare("only_in_prefill")
            trace.phase(f"kernelgap.{mode} {phase}#0", since + 5)
    return trace.read()


class Steps:
    """A runner that only tells what ran."""

    def __init__(self, name: str, ran: list[str]) -> None:
        self.name, self.ran = name, ran
        self.model = nn.Module()
        self.state = new_state(torch.zeros(1, 4, dtype=torch.int64))
        self.recorders = {"prefill": Recorder({}), "decode": Recorder({})}

    def stand_at(self, position: int) -> None:
        self.ran.append(f"{self.name} at {position}")

    def step(self, phase: str) -> None:
        self.ran.append(f"{self.name} {phase}")

    def prefill(self) -> None:
        self.step("prefill")

    def decode(self) -> None:
        self.step("decode")


def test_one_step_of_each_phase_is_profiled_in_both_forms(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[str] = []

    def record(path: Path, *, device: str, warm_up: Callable[[], None], steps: Callable[[], None]) -> None:
        path.touch()
        warm_up()
        ran.append("recording")
        steps()

    timeline = logged()
    monkeypatch.setattr(log, "record", record)
    monkeypatch.setattr(log.kineto, "read_file", lambda _: timeline)
    path = tmp_path / "log.json"
    made = log.log_steps(Steps("eager", ran), Steps("compiled", ran), device="cuda", path=path)  # type: ignore[arg-type]
    at = ran.index("recording")
    assert ran[at - 1] == "compiled at 4"
    assert ran[at + 1 :] == ["eager prefill", "compiled prefill", "eager decode", "compiled decode"]
    assert {"eager prefill", "eager decode", "compiled decode"} <= set(ran[:at])
    assert made.expected == {"decode": 9, "prefill": 10}
    assert made.notes == [
        f"{p}: this PyTorch keeps no provenance of its compiled kernels" for p in log.PHASES
    ]
    assert not path.exists()


def test_each_phase_is_a_graph_of_the_log() -> None:
    made = log.read_log(logged(), {"prefill": [], "decode": []})
    assert made.expected == {"decode": 9, "prefill": 10}
    assert [(e.graph, e.phase, e.ordinal) for e in made.entries] == [
        *((0, "decode", n) for n in range(9)),
        *((1, "prefill", n) for n in range(10)),
    ]
    assert all(e.module for e in made.entries)
    assert made.notes == []
    assert made.provenance == {"agree": 0, "differ": 0, "missing": 6}


def test_where_the_runs_do_not_align_inductor_speaks() -> None:
    origins = [Origin("triton_poi_fused_mul_1", "layers.0.attn")]
    made = log.read_log(logged(lambda t: t.op("aten::add", ["add"], module="x")), {"decode": origins})
    assert [e.module for e in made.entries[:4]] == [None, None, "layers.0.attn", None]
    assert made.provenance == {}
    parted = (
        "eager and compiled step call different ops (product 1 of 0 is product [[2, 64], [64, 128]] where "
        "eager has nothing more); modules are Inductor's alone"
    )
    assert made.notes[0] == f"decode: {parted}"
    assert made.notes[1] == "prefill: this PyTorch keeps no provenance of its compiled kernels"
    assert made.notes[2].startswith("prefill: eager and compiled step call different ops")
