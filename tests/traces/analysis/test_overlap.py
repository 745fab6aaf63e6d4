from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.traces.builders import run
from traces import ledger
from traces.analysis.overlap import Overlap, overlaps


def kernel(start: int, dur: int, group: str = "gemm", **known: Any) -> dict[str, Any]:
    return {"start_ns": start, "dur_ns": dur, "group": group, **known}


def test_communication_beside_other_work_is_hidden() -> None:
    rows = [
        kernel(0, 10), kernel(5, 20, "communication", stream=9), kernel(20, 20),
        kernel(50, 10, "communication", stream=9), kernel(55, 10, "communication", stream=8),
    ]  # fmt: skip
    assert overlaps(run(rows), [(0, 70)]) == [Overlap(None, 0, 70, 10 + 15, 5 + 5, 5 + 15, 70 - 40 - 15)]


def test_each_device_has_its_own() -> None:
    rows = [
        kernel(0, 10, rank=0), kernel(0, 10, "communication", rank=1), kernel(4, 2, rank=1),
        kernel(0, 9, rank=2, flag="too_long"),
    ]  # fmt: skip
    assert overlaps(run(rows), [(0, 10)]) == [
        Overlap(0, 0, 10, 0, 0, 10, 0),
        Overlap(1, 0, 10, 8, 2, 0, 0),
        Overlap(2, 0, 10, 0, 0, 0, 10),
    ]


row = st.builds(
    kernel,
    st.integers(0, 60),
    st.integers(0, 20),
    st.sampled_from(["gemm", "communication"]),
    device=st.integers(0, 1),
    stream=st.integers(0, 2),
)


@given(st.lists(row, max_size=15), st.integers(0, 40), st.integers(1, 40))
def test_the_parts_are_the_span_and_agree_with_every_instant(
    made: list[dict[str, Any]], first: int, length: int
) -> None:
    some = run(made)
    window = (first, first + length)
    found = overlaps(some, [window])
    assert [o.span_ns for o in found] == [d.span_ns for d in ledger.close_windows(some.table, [window])[1]]
    for part in found:
        parts = (part.exposed_ns, part.hidden_ns, part.other_ns, part.idle_ns)
        assert sum(parts) == part.span_ns
        counted = dict.fromkeys(("exposed", "hidden", "other", "idle"), 0)
        for t in range(*window):
            groups = {
                r["group"]
                for r in made
                if r["device"] == part.device and r["start_ns"] <= t < r["start_ns"] + r["dur_ns"]
            }
            comm = "communication" in groups
            counted[
                ("hidden" if len(groups) > 1 else "exposed") if comm else "other" if groups else "idle"
            ] += 1
        assert parts == tuple(counted.values())
