"""Everything that makes two runs unlike is said, and nothing where like meets like."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.traces.builders import run, step
from traces.analysis.compare import compare

if TYPE_CHECKING:
    from traces.store import Run

WORK = {"batch": 2, "prompt": 512, "new_tokens": 256, "dtype": "float16"}


def decode(*, complete: bool = True, row: dict[str, Any] | None = None, **known: Any) -> Run:
    rows = [
        {"start_ns": 50 * i, "dur_ns": 9, "phase": "decode", "step": i, "module": "m", **(row or {})}
        for i in (0, 1)
    ]
    steps = [step("decode", i, 50 * i, 50 * i + 50, complete=complete) for i in (0, 1)]
    base = {"model": "x", "workload": WORK, "device": {"name": "H200"}, "steps": steps}
    return run(rows, **base | known)


def said(a: Run, b: Run, *by: str) -> list[str]:
    return compare(a, b, by or None).not_comparable


def test_like_meets_like() -> None:
    assert said(decode(variant="cuda"), decode(variant="triton", mode="graph")) == []


def test_model_workload_and_device() -> None:
    other = decode(model="y", workload=WORK | {"batch": 1, "dtype": "bfloat16"}, device={"name": "H100"})
    assert said(decode(), other) == [
        "model differs: x against y",
        "batch differs: 2 against 1",
        "dtype differs: float16 against bfloat16",
        "device differs: H200 against H100",
    ]


def test_what_one_run_does_not_say() -> None:
    bare = decode(model=None, workload=None, device={})
    assert said(decode(), bare) == ["B does not say its model, batch, prompt, new tokens, dtype, device"]
    assert said(bare, decode())[0].startswith("A does not say")
    assert said(bare, bare) == []


def test_number_of_devices() -> None:
    two = decode()
    rows = two.table.to_pylist()
    double = run([*rows, *({**r, "device": 1} for r in rows)], **dict(two.meta.items()))
    assert said(two, double) == ["number of devices differs: 1 against 2, and times are summed over them"]


def test_phases_of_one_run_and_no_steps() -> None:
    more = [step(p, 0, 0, 5) for p in ("e", "prefill", "d", "c", "b", "a")]
    assert said(decode(), decode(steps=decode().meta["steps"] + more)) == [
        *(f"phase {p} is only in B" for p in "abcd"), "2 more phases are only in B",
    ]  # fmt: skip
    assert said(decode(), decode(steps=[])) == [
        "no phase is in both runs: the whole runs are compared, not steps",
        "phase decode is only in A",
        "B has no steps",
    ]


def test_incomplete_and_inferred_steps() -> None:
    steps = [s | {"inferred": True} for s in decode().meta["steps"]]
    assert said(decode(complete=False), decode(steps=steps)) == [
        "no complete step in A: it ends with its last kernel, without idle",
        "the steps of B are inferred from repetition, not marked in the trace",
    ]


def test_inferred_and_unequal_layers_matter_only_where_they_are_used() -> None:
    health = decode().meta["health"] | {"layers": {"inferred": True, "count": 4, "phases": ["decode"]}}
    a, b = decode(row={"layer": 3}, health=health), decode(row={"layer": 5}, health=health)
    assert said(a, b, "module") == [
        "the layers of A and B are inferred from repetition, not marked in the trace",
        "number of layers differs: 4 against 6",
    ]
    assert said(a, b, "category") == []


def test_profilers_and_step_times_without_one() -> None:
    timed = {"decode": {"n": 9, "median_ns": 40, "iqr_ns": 1}}
    got = compare(decode(tool="nsys", unprofiled=timed), decode(tool="torch"))
    assert got.not_comparable == [
        "profiler differs: nsys against torch, which spell C++ kernel names differently",
        "only A was timed without a profiler: both walls are under one, which stretches them",
    ]
    assert (got.basis, got.spread["a"]["basis"], got.total["a"]) == ("profiled", "profiled", 50)
