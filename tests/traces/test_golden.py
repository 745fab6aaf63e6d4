"""A real capture, small: decode steps of `tiny`, Triton in one CUDA graph on an H200 (`tests/cases`)."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow.compute as pc
import pytest

from traces.attribution import launch_log
from traces.errors import InputError
from traces.ingest import ingest

CASES = Path(__file__).parents[1] / "cases"
TRACE = CASES / "h200_tiny_triton_graph.trace.json.gz"
LOG = CASES / "h200_tiny_triton_graph.launches.jsonl"


def test_without_the_log_replays_are_named_by_their_kernels_alone() -> None:
    run = ingest(TRACE)
    decode = run.table.filter(pc.equal(run.table["phase"], "decode"))
    assert run.table.num_rows == 189
    assert decode["link"].to_pylist() == ["graph"] * 99
    assert Counter(decode["graph_replay"].to_pylist()) == {0: 33, 1: 33, 2: 33}
    assert decode["graph_ordinal"].to_pylist() == list(range(33)) * 3
    assert decode["module"].null_count == 99
    assert run.meta["time_base_unix_ns"] == 1_796_068_358_426_717_207
    assert [(s["phase"], s["step"], s["end_ns"] - s["start_ns"]) for s in run.meta["steps"]][-3:] == [
        ("decode", 0, 97_887),
        ("decode", 1, 97_695),
        ("decode", 2, 91_999),
    ]
    assert pc.sum(decode["exclusive_ns"]).as_py() == 250_966


def test_the_log_gives_every_replay_modules_ops_and_shapes() -> None:
    run = ingest(TRACE, LOG)
    decode = run.table.filter(pc.equal(run.table["phase"], "decode"))
    assert run.meta["health"]["launch_log"] == {"replays": 3, "matched": 3, "mismatched": 0}
    head = decode.filter(pc.equal(decode["module"], "lm_head")).to_pylist()
    assert [(r["op"], r["shape"], r["category"]) for r in head] == [
        ("kernelgap::linear", "M2 N256 K64 f32", "gemm")
    ] * 3
    assert head[0]["flops"] == 2 * 2 * 256 * 64
    assert head[0]["rule"].startswith("graph:")
    assert {r["layer"] for r in decode.to_pylist()} == {0, 1, None}


def test_a_log_that_does_not_agree_is_not_used_and_counted(tmp_path: Path) -> None:
    other = tmp_path / "other.jsonl"
    other.write_text(LOG.read_text().replace("rms_norm_kernel", "layer_norm_kernel"))
    run = ingest(TRACE, other)
    assert run.meta["health"]["launch_log"] == {"replays": 3, "matched": 0, "mismatched": 3}
    assert run.table.filter(pc.equal(run.table["phase"], "decode"))["module"].null_count == 99


def test_bad_logs_are_one_clear_sentence(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot read the launch log"):
        launch_log.read(tmp_path / "absent.jsonl")
    for text in ("not json", '{"graph": 0}', '{"graph": 0, "ordinal": "x", "name": "k"}'):
        (tmp_path / "bad.jsonl").write_text(text)
        with pytest.raises(InputError, match="not a launch log"):
            launch_log.read(tmp_path / "bad.jsonl")
