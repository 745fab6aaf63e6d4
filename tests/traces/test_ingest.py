from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.traces.traces import BASE, host, kernel, op, trace, two_steps, user_range, write
from traces import ledger, store
from traces.errors import InputError
from traces.ingest import ingest
from traces.schema import COMPACT

if TYPE_CHECKING:
    from pathlib import Path

    from traces.store import Run


def assert_closed(run: Run) -> None:
    _, _, totals = ledger.close(run.table)
    exclusive, gap = (pc.sum(run.table[n]).as_py() for n in ("exclusive_ns", "gap_ns"))
    assert exclusive == sum(t.busy_ns for t in totals)
    assert exclusive + gap + sum(t.tail_ns for t in totals) == sum(t.span_ns for t in totals)


def test_two_steps_end_to_end(tmp_path: Path) -> None:
    run = ingest(write(tmp_path / "run.pt.trace.json.gz", two_steps()))
    rows = run.table.to_pylist()
    assert run.table.schema == COMPACT
    assert [r["category"] for r in rows] == ["gemm", "activation"] * 3
    assert [(r["phase"], r["step"]) for r in rows] == [("prefill", 0)] * 2 + [("decode", 0)] * 2 + [
        ("decode", 1)
    ] * 2
    assert rows[0]["start_ns"] == 0
    assert run.meta["time_base_unix_ns"] == BASE + 13_000
    assert (rows[0]["dur_ns"], rows[1]["dur_ns"]) == (10_500, 9_500)
    assert rows[0]["launch_start_ns"] == -6_000
    assert [
        (s["phase"], s["step"], s["start_ns"], s["end_ns"], s["complete"]) for s in run.meta["steps"]
    ] == [
        ("prefill", 0, 0, 29_500, False),
        ("decode", 0, 100_000, 200_000, True),
        ("decode", 1, 200_000, 229_500, False),
    ]
    assert [r["gap_cause"] for r in rows] == [None, "host", "step_end", "host", "step_end", "host"]
    assert run.meta["source"]["file"] == "run.pt.trace.json.gz"
    assert run.meta["health"]["rows"] == {"kernel": 6}
    assert_closed(run)


def test_hopeless_times_are_flagged_kept_and_outside_the_span(tmp_path: Path) -> None:
    day = 86_400_000_000
    run = ingest(
        write(
            tmp_path / "t.json",
            trace(
                kernel("zero", 0, 0),
                kernel("negative", -5, 1),
                kernel("century", 10, 36_500 * day),
                kernel("reversed", 12, -1),
                kernel("beyond", 10, 2**60),
                kernel("good", 1000, 3),
                kernel("instant", 1010, 0),
            ),
        )
    )
    flags = dict(zip(run.table["name"].to_pylist(), run.table["flag"].to_pylist(), strict=True))
    assert flags == {
        "zero": "zero_time",
        "negative": "negative_start",
        "century": "too_long",
        "reversed": "reversed",
        "beyond": "too_long",
        "good": None,
        "instant": None,
    }
    assert run.meta["health"]["flagged"] == {
        "negative_start": 1,
        "reversed": 1,
        "too_long": 2,
        "zero_time": 1,
    }
    by_name = {r["name"]: r for r in run.table.to_pylist()}
    assert by_name["good"]["start_ns"] == 0
    assert by_name["beyond"]["dur_ns"] == 2**63 - 1
    assert all(by_name[n]["used_ns"] == 0 for n in ("zero", "negative", "century", "reversed", "beyond"))
    assert ledger.close(run.table)[2][0].span_ns == 10_000
    assert_closed(run)


def test_a_wait_for_the_device_is_sync_and_a_queued_kernel_is_launch(tmp_path: Path) -> None:
    run = ingest(
        write(
            tmp_path / "t.json",
            trace(
                host("cudaLaunchKernel", 0, 2, 1),
                host("cudaLaunchKernel", 3, 2, 2),
                kernel("a", 10, 5, 1),
                kernel("b", 16, 5, 2),
                host("cudaDeviceSynchronize", 6, 20, 9),
                host("cudaLaunchKernel", 30, 2, 3),
                kernel("c", 35, 5, 3),
            ),
        )
    )
    assert run.table["gap_cause"].to_pylist() == [None, "launch", "sync"]
    assert run.table["gap_ns"].to_pylist() == [0, 1000, 14_000]


def test_graph_replays_are_numbered(tmp_path: Path) -> None:
    replay = lambda at, c: [  # noqa: E731
        host("cudaGraphLaunch", at, 3, c),
        kernel("a", at + 5, 1, c),
        kernel("b", at + 7, 1, c),
    ]
    run = ingest(write(tmp_path / "t.json", trace(*replay(0, 1), *replay(20, 2))))
    assert run.table["graph_ordinal"].to_pylist() == [0, 1, 0, 1]
    assert run.table["graph_replay"].to_pylist() == [0, 0, 1, 1]


def test_shapes_give_the_work_of_a_matrix_product(tmp_path: Path) -> None:
    shaped = {"Input Dims": [[2, 4096], [4096, 6144]], "Input type": ["c10::Half", "c10::Half"]}
    run = ingest(
        write(
            tmp_path / "t.json",
            trace(
                op("aten::mm", 0, 9, **shaped),
                host("cudaLaunchKernel", 1, 1, 1),
                host("cudaLaunchKernel", 3, 1, 2),
                kernel("nvjet_sm90_hsh_64x8_64x16_4x1_v_bz_TNN", 10, 5, 1),
                kernel("void cublasLt::splitKreduce_kernel<32>", 16, 5, 2),
            ),
        )
    )
    assert run.table["shape"].to_pylist() == ["M2 N6144 K4096 f16", None]
    assert run.table["flops"].to_pylist() == [2 * 2 * 6144 * 4096, None]
    assert run.table["min_bytes"].to_pylist() == [2 * (2 * 4096 + 4096 * 6144 + 2 * 6144), None]


def test_our_own_cpu_capture_has_outermost_ops_as_rows(tmp_path: Path) -> None:
    facts = {"model": "tiny", "variant": "cuda", "mode": "eager", "tool": "torch", "device": {"type": "cpu"}}
    events = [user_range("kernelgap.decode#0", 0, 50), op("aten::linear", 1, 10), op("aten::mm", 2, 5)]
    run = ingest(write(tmp_path / "t.json", trace(*events, kernelgap=json.dumps(facts))))
    assert run.table.select(["kind", "name", "category", "phase"]).to_pylist() == [
        {"kind": "cpu_op", "name": "aten::linear", "category": "gemm", "phase": "decode"}
    ]
    assert run.table["link"].to_pylist() == [None]
    assert (run.meta["model"], run.meta["device"]) == ("tiny", {"type": "cpu"})


def test_a_foreign_trace_without_gpu_rows_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"t\.json: no GPU rows among 1 events"):
        ingest(write(tmp_path / "t.json", trace(op("aten::mm", 0, 5))))


def test_truncation_shows_in_health(tmp_path: Path) -> None:
    text = json.dumps(two_steps()).encode()
    run = ingest(write(tmp_path / "t.json", text[: len(text) * 3 // 4]))
    assert run.meta["health"]["dropped"]["truncated"]["count"] == 1
    assert_closed(run)


@settings(max_examples=60)
@given(
    st.lists(
        st.tuples(st.integers(-2, 10**6), st.integers(-2, 10**5), st.integers(0, 2), st.integers(0, 1)),
        min_size=1,
        max_size=30,
    )
)
def test_rows_in_are_rows_out_and_every_ledger_closes(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[int, int, int, int]]
) -> None:
    events = [
        kernel(f"k{i}", ts / 1000, dur / 1000, i + 1, stream=stream, device=device)
        for i, (ts, dur, stream, device) in enumerate(rows)
    ]
    run = ingest(write(tmp_path_factory.mktemp("made") / "t.json", trace(*events)))
    assert sorted(run.table["name"].to_pylist()) == sorted(f"k{i}" for i in range(len(rows)))
    assert_closed(run)


def test_without_ranges_steps_are_inferred_from_repetition_and_say_so(tmp_path: Path) -> None:
    events = [kernel("warmup", 0, 1)]
    for i in range(4):
        at = 100 + 50 * i
        events += [
            kernel(n, at + 5 * k, 3) for k, n in enumerate(("embed", "gemm", "norm", "gemm", "argmax"))
        ]
    run = ingest(write(tmp_path / "t.json", trace(*events)))
    assert run.table["step"].to_pylist() == [None] + [i for i in range(4) for _ in range(5)]
    assert [(s["phase"], s["step"], s["start_ns"], s["end_ns"]) for s in run.meta["steps"]] == [
        ("step", 0, 100_000, 150_000),
        ("step", 1, 150_000, 200_000),
        ("step", 2, 200_000, 250_000),
        ("step", 3, 250_000, 273_000),
    ]
    assert all(s["inferred"] for s in run.meta["steps"])
    assert_closed(run)


@pytest.mark.parametrize(
    "facts", [{"device": "x"}, {"model": 1}, {"workload": {}}, {"unprofiled": {"decode": 3}}]
)
def test_foreign_facts_under_our_key_are_left_and_counted(tmp_path: Path, facts: dict[str, object]) -> None:
    run = ingest(write(tmp_path / "t.json", trace(kernel("k", 1, 2), kernelgap=facts)))
    assert run.meta["health"]["dropped"]["captured_facts"]["count"] == 1
    assert store.read(store.write(run, tmp_path / "r.parquet")).meta["model"] is None


def test_shapes_beyond_any_machine_give_no_work(tmp_path: Path) -> None:
    shaped = {"Input Dims": [[10**10, 10**10], [10**10, 10**10]], "Input type": ["float", "float"]}
    events = [
        op("aten::mm", 0, 9, **shaped),
        host("cudaLaunchKernel", 1, 1, 1),
        kernel("ampere_sgemm_32x32_nn", 10, 5, 1),
    ]
    run = ingest(write(tmp_path / "t.json", trace(*events)))
    assert run.table["flops"].to_pylist() == [None]


def test_times_no_int64_holds_are_flagged(tmp_path: Path) -> None:
    run = ingest(write(tmp_path / "t.json", trace(kernel("a", 10, 5), kernel("b", 1e30, 5))))
    assert run.table["flag"].to_pylist() == [None, "beyond_int64"]
    assert run.table["used_ns"].to_pylist() == [5000, 0]
    assert_closed(run)


def test_an_unknown_duration_is_null_and_flagged(tmp_path: Path) -> None:
    run = ingest(
        write(tmp_path / "t.json", trace(kernel("k", 1, 2), kernel("n", 5, "N/A"), kernel("z", 9, 0)))
    )
    assert run.table["dur_ns"].to_pylist() == [2000, None, 0]
    assert run.table["used_ns"].to_pylist() == [2000, 0, 0]
    assert run.table["flag"].to_pylist() == [None, "no_duration", None]
    assert run.meta["health"]["repaired"]["no_duration"]["count"] == 1
    assert_closed(run)


def test_names_that_are_no_text_cost_no_other_row(tmp_path: Path) -> None:
    text = json.dumps(trace(kernel("good", 1, 2), kernel("k\ud800x", 5, 2))).encode()
    run = ingest(write(tmp_path / "t.json", text))
    assert run.table.num_rows == 2
    assert run.table["name"].to_pylist()[0] == "good"
    assert store.write(run, tmp_path / "r.parquet").exists()


def test_a_stray_double_comma_costs_nothing(tmp_path: Path) -> None:
    text = json.dumps(trace(*(kernel(f"k{i}", i, 0.5) for i in range(5)))).replace(
        '}}, {"ph"', '}},, {"ph"', 1
    )
    assert ingest(write(tmp_path / "t.json", text.encode())).table.num_rows == 5
