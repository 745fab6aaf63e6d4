from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from traces import phases
from traces.range_names import parse
from traces.readers.timeline import RANGES, UNCLOSED


def ranges(*rows: tuple[str, int, int, int]) -> pa.Table:
    columns = {
        "start": [r[1] for r in rows], "dur": [r[2] for r in rows], "name": [r[0] for r in rows],
        "process": [1] * len(rows), "thread": [r[3] for r in rows],
    }  # fmt: skip
    return pa.table(columns, schema=RANGES)


def launches(*at: tuple[int | None, int]) -> pa.Table:
    return pa.table(
        {
            "launch_start": pa.array([a for a, _ in at], pa.int64()),
            "process": pa.array([1] * len(at), pa.int64()),
            "thread": pa.array([t for _, t in at], pa.int64()),
        }
    )


def assigned(rows: pa.Table, table: pa.Table) -> list[tuple[str | None, int | None]]:
    found = phases.assign(rows, table)
    return list(zip(found.phase.to_pylist(), found.step.to_pylist(), strict=True))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("kernelgap.decode#12", ("decode", 12)),
        ("ProfilerStep#5", ("ProfilerStep", 5)),
        ("decode_3", ("decode", 3)),
        ("step 3", ("step", 3)),
        ("prefill", ("prefill", None)),
        ("7", ("7", None)),
        ("## Call CompiledFxGraph abc ##", None),
        ("nccl:all_reduce", None),
        ("Optimizer.step#Adam.step", None),
        ("enumerate(DataLoader)#_SingleProcess.__next__", None),
        ("run_99999999999999999999", ("run_99999999999999999999", None)),
        ("run_9999999999", ("run_9999999999", None)),
        ("1" * 50_000 + "x", ("1" * 50_000 + "x", None)),
        ("r_" + "1" * 5_000, ("r_" + "1" * 5_000, None)),
        ("Torch-Compiled Region: 0/0", None),
    ],
)
def test_parse(name: str, expected: Any) -> None:
    assert parse(name) == expected


def test_ours_win_over_user_ranges_and_those_over_profiler_steps() -> None:
    table = ranges(
        ("ProfilerStep#4", 0, 100, 1), ("outer", 10, 50, 1), ("inner_2", 20, 10, 1),
        ("user", 70, 30, 1), ("kernelgap.decode#1", 72, 10, 1),
    )  # fmt: skip
    rows = launches((5, 1), (25, 1), (75, 1), (90, 1), (200, 1), (None, 1))
    assert assigned(rows, table) == [
        ("ProfilerStep", 4), ("outer", 0), ("decode", 1), ("user", 0), (None, None), (None, None),
    ]  # fmt: skip


def test_another_thread_takes_our_range_or_the_only_user_range_open() -> None:
    table = ranges(("forward_1", 0, 10, 1), ("forward_2", 20, 10, 1), ("load", 22, 4, 3))
    assert assigned(launches((5, 2), (23, 2), (28, 2)), table) == [
        ("forward", 1), (None, None), ("forward", 2),
    ]  # fmt: skip
    assert assigned(launches((5, 2)), ranges(("kernelgap.decode#0", 0, 9, 1))) == [("decode", 0)]


def test_unnumbered_ranges_count_their_occurrences() -> None:
    table = ranges(("decode", 20, 5, 1), ("decode", 0, 5, 1))
    assert assigned(launches((1, 1), (21, 1)), table) == [("decode", 0), ("decode", 1)]


def test_numbers_that_come_again_are_counted_so_that_no_two_steps_merge() -> None:
    names = [f"decode_{i}" for i in (0, 1, 0, 1)]
    table = ranges(*((n, 10 * i, 5, 1) for i, n in enumerate(names)), ("decode_1", 31, 3, 2))
    found = phases.assign(launches(*((10 * i + 1, 1) for i in range(4)), (32, 2)), table)
    assert found.step.to_pylist() == [0, 1, 2, 3, 3]
    assert found.recounted == ["decode"]
    threads = ranges(("step_1", 0, 10, 1), ("step_1", 1, 9, 2), ("step_2", 20, 5, 1))
    assert phases.assign(launches((2, 1), (3, 2), (21, 1)), threads).step.to_pylist() == [1, 1, 2]


def test_a_graph_side_annotation_is_never_needed_and_launch_decides() -> None:
    # The kernel may run long after the range ended on the host.
    assert assigned(launches((9, 1)), ranges(("decode_0", 0, 10, 1))) == [("decode", 0)]


def test_tiles_end_where_the_next_consecutive_step_begins() -> None:
    phase = pa.array(["prefill", "decode", "decode", "decode", "decode", None]).dictionary_encode()
    step = pa.array([0, 0, 0, 1, 3, None], pa.int32())
    start = np.array([0, 10, 14, 20, 30, 50])
    end = np.array([9, 12, 18, 26, 35, 60])
    made = phases.tiles(phases.Phases(phase, step), start, end, np.ones(6, dtype=bool))
    assert [(s["phase"], s["step"], s["start_ns"], s["end_ns"], s["complete"]) for s in made] == [
        ("prefill", 0, 0, 9, False),
        ("decode", 0, 10, 20, True),
        ("decode", 1, 20, 26, False),
        ("decode", 3, 30, 35, False),
    ]


def test_ranges_that_say_modules_name_no_phase() -> None:
    inner = ranges(("decode_0", 0, 90, 1), ("layer_3", 10, 10, 1), ("model.layers.3.mlp", 12, 5, 1))
    assert assigned(launches((13, 1), (19, 1), (50, 1)), inner) == [("decode", 0)] * 3
    other_thread = ranges(("model.layers.3.mlp", 0, 20, 1), ("ProfilerStep#2", 0, 90, 1))
    assert assigned(launches((5, 1), (5, 2)), other_thread) == [("ProfilerStep", 2)] * 2
    only = ranges(("nn.Module: Net_0", 0, 50, 1), ("{'Module': 'top.h.0'}", 0, 20, 1), ("layer_1", 60, 9, 1))
    assert assigned(launches((5, 1), (61, 1)), only) == [(None, None)] * 2


def test_a_range_that_was_never_closed_counts_only_where_no_other_encloses_the_launch() -> None:
    table = ranges(
        ("warmup", 0, 99, 1), ("decode_0", 10, 10, 1), ("step 7", 60, 10, 2),
        ("kernelgap.prefill#0", 40, 59, 1),
    )  # fmt: skip
    table = table.append_column(UNCLOSED, pa.array([True, False, False, True]))
    assert assigned(launches((5, 1), (12, 1), (45, 1), (65, 1)), table) == [
        ("warmup", 0), ("decode", 0), ("prefill", 0), ("step", 7),
    ]  # fmt: skip
