from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.traces.traces import BASE, host, kernel, op, trace, user_range, write
from traces.ingest import ingest
from traces.linking import link
from traces.readers import jsonstream, kineto
from traces.readers.files import Source
from traces.readers.kineto import MAX_DOCUMENTS

if TYPE_CHECKING:
    from pathlib import Path

    from traces.readers.timeline import Timeline


def read(tmp_path: Path, *documents: Any, between: bytes = b"\n") -> Timeline:
    text = between.join(d if isinstance(d, bytes) else json.dumps(d).encode() for d in documents)
    with Source(write(tmp_path / "t.json.gz", text)) as source:
        return kineto.read(source)


def one_rank(process: int, label: str = "", at: float = 0) -> list[dict[str, Any]]:
    """A launch and its kernel, ids alike in every process; kernels of rank r are named after its process."""
    call, row = host("cudaLaunchKernel", at + 1, 2, 5, pid=process), kernel(f"k{process}", at + 5, 3, 5)
    if label:
        call, row = call | {"pid": f"{label} {process}"}, row | {"pid": f"{label} 0"}
    return [call, row]


def gpu(made: Timeline, *names: str) -> list[tuple[Any, ...]]:
    """Columns of the GPU rows, once linked, ordered by name."""
    rows = link(made)
    return sorted(zip(*(rows[n].to_pylist() for n in ("name", *names)), strict=True))


def counts(made: Timeline) -> dict[str, int]:
    return {reason: entry["count"] for reason, entry in (made.notes.repaired | made.notes.dropped).items()}


def test_one_rank_in_one_file_has_nothing_to_tell(tmp_path: Path) -> None:
    made = read(tmp_path, trace(*one_rank(100), distributedInfo={"rank": 3}))
    assert gpu(made, "rank", "process") == [("k100", 3, 100)]
    assert counts(made) == {}


def test_labels_tell_ranks_and_processes_apart(tmp_path: Path) -> None:
    both = [*one_rank(100, "[TP00-DP00]"), *one_rank(200, "[TP01-DP00]")]
    made = read(tmp_path, trace(*both, distributedInfo={"rank": 0}))  # as the merger leaves the first one's
    assert gpu(made, "device", "rank", "process") == [("k100", 0, 0, 100), ("k200", 0, 1, 200)]
    assert counts(made) == {"ranks_split_by_label": 2}


@pytest.mark.parametrize(
    ("labels", "ranks"),
    [
        (["[TP03]"], [3]),
        (["[TP00-DP01]"], [None]),
        (["[TP02-DP00]", "[TP05-DP00]"], [2, 5]),
        (["[TP00-EP00]", "[TP01-EP01]"], [0, 1]),
        (["[DP00-TP01]", "[DP01-TP00]"], [None, None]),  # which of the two?
        (["[TP00-PP00]", "[TP00-PP01]", "[TP01-PP00]", "[TP01-PP01]"], [None] * 4),
    ],
)
def test_which_number_of_a_label_is_the_rank(
    tmp_path: Path, labels: list[str], ranks: list[int | None]
) -> None:
    rows = [e for i, label in enumerate(labels) for e in one_rank(100 + i, label)]
    made = read(tmp_path, trace(*rows))
    assert gpu(made, "rank", "process") == [(f"k{100 + i}", r, 100 + i) for i, r in enumerate(ranks)]
    lost = counts(made).get("ranks_merged_into_one_file", 0)
    assert lost == (len(labels) if None in ranks and len(labels) > 1 else 0)


def test_gpu_rows_may_carry_the_process_as_their_pid(tmp_path: Path) -> None:
    events = [e | {"pid": p} for p in (100, 200) for e in one_rank(p)]
    made = read(tmp_path, trace(*events, distributedInfo={"rank": 0, "world_size": 2}))
    assert gpu(made, "device", "rank", "process", "link") == [
        ("k100", 0, None, 100, "launch"), ("k200", 0, None, 200, "launch"),
    ]  # fmt: skip
    assert counts(made) == {"process_from_gpu_pid": 2, "ranks_merged_into_one_file": 2}


def test_where_a_gpu_row_does_not_tell_its_process_none_does(tmp_path: Path) -> None:
    events = [e | {"pid": p} for p in (100, 200) for e in one_rank(p)]
    made = read(tmp_path, trace(*events, kernel("stray", 30, 1, 9)))
    assert made.gpu["process"].null_count == 3
    assert counts(made) == {"correlation_of_several_processes": 1, "ranks_merged_into_one_file": 2}


@pytest.mark.parametrize(
    ("info", "ranks"),
    [
        ([{"rank": 0}, {"rank": 1}], 2),
        ([{"rank": "0"}, {"rank": 1}, {"rank": 2}], 3),
        ({"rank": 0}, 2),
        (None, 2),
        ("?", 2),
        ([], 2),
        ([1, None], 2),
        ({"rank": None}, 2),
    ],
)
def test_what_cannot_be_told_apart_is_null_and_counted(tmp_path: Path, info: Any, ranks: int) -> None:
    made = read(tmp_path, trace(*one_rank(100), *one_rank(200, at=20), distributedInfo=info))
    assert made.gpu["rank"].null_count == 2
    assert counts(made) == {"ranks_merged_into_one_file": ranks, "correlation_of_several_processes": 1}


@pytest.mark.parametrize("between", [b"", b"\n", b",\n", b"\x1e", b"\r\n\xef\xbb\xbf"])
def test_documents_one_behind_the_other_are_ranks(tmp_path: Path, between: bytes) -> None:
    first = trace(*one_rank(100), distributedInfo={"rank": 0}, deviceProperties=[{"id": 0, "name": "A"}])
    second = trace(*one_rank(200), distributedInfo={"rank": "1"}, deviceProperties=[{"id": 0, "name": "B"}])
    made = read(tmp_path, first, second, between=between)
    assert gpu(made, "rank", "process") == [("k100", 0, 100), ("k200", 1, 200)]
    assert counts(made) == {"several_documents": 1}
    begin = len(json.dumps(first).encode() + between)
    assert made.notes.repaired["several_documents"]["first_offset"] == begin
    assert made.device["name"] == "A"
    assert made.events == 4


@pytest.mark.parametrize("chunk", [1, 7, 64, 300, 500])
def test_documents_may_be_cut_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int) -> None:
    monkeypatch.setattr(jsonstream, "CHUNK", chunk)
    documents = [trace(*one_rank(100 + r), distributedInfo={"rank": r}, after="x" * 90) for r in range(4)]
    made = read(tmp_path, *[dict(reversed(d.items())) if r % 2 else d for r, d in enumerate(documents)])
    assert gpu(made, "rank", "process") == [(f"k{100 + r}", r, 100 + r) for r in range(4)]
    assert counts(made) == {"several_documents": 3}


def test_metadata_may_stand_on_both_sides_of_the_events_of_every_document(tmp_path: Path) -> None:
    def document(process: int, rank: int) -> dict[str, Any]:
        events = {"traceEvents": one_rank(process)}
        return {"schemaVersion": 1} | events | {"distributedInfo": {"rank": rank}, "traceName": "]},{["}

    made = read(tmp_path, document(100, 4), document(200, 6), document(300, 5))
    assert gpu(made, "rank") == [("k100", 4), ("k200", 6), ("k300", 5)]


def test_lists_of_events_may_follow_each_other_too(tmp_path: Path) -> None:
    made = read(tmp_path, one_rank(100), one_rank(200))
    assert gpu(made, "rank", "process") == [("k100", None, 100), ("k200", None, 200)]
    assert counts(made) == {"several_documents": 1, "ranks_merged_into_one_file": 2}


def test_documents_come_on_one_clock(tmp_path: Path) -> None:
    first, second = trace(*one_rank(100)), trace(*one_rank(200))
    second["baseTimeNanoseconds"] = BASE + 7
    made = read(tmp_path, first, second)
    assert made.base_unix_ns == BASE
    assert made.gpu["start"].to_pylist() == [5000, 5007]
    assert made.host["start"].to_pylist() == [1000, 1007]


@pytest.mark.parametrize("base", [-1, 2**63, 2**80, "x", None])
def test_a_clock_that_cannot_be(tmp_path: Path, base: Any) -> None:
    second = trace(*one_rank(200)) | {"baseTimeNanoseconds": base}
    made = read(tmp_path, trace(*one_rank(100)), second)
    assert made.gpu["start"].to_pylist() == [5000, 5000 - BASE]
    assert read(tmp_path, second).base_unix_ns == 0


def test_process_ids_that_come_again_are_set_apart(tmp_path: Path) -> None:
    documents = [trace(*one_rank(57), distributedInfo={"rank": r}) for r in (0, 1)]
    made = read(tmp_path, *documents)
    assert gpu(made, "rank", "process") == [("k57", 0, 57), ("k57", 1, 57 + 2**32)]
    assert counts(made) == {"several_documents": 1, "process_id_of_several_ranks": 1}


def test_a_process_id_too_large_to_be_set_apart(tmp_path: Path) -> None:
    made = read(tmp_path, *[trace(*one_rank(2**63 - 1)) for _ in range(3)])
    assert made.gpu.num_rows == 3


def test_a_document_without_events_and_a_broken_one_are_counted(tmp_path: Path) -> None:
    made = read(tmp_path, trace(*one_rank(1)), trace(), trace(*one_rank(2)), b'{"traceEvents": [{"ph": "X"')
    assert made.gpu.num_rows == 2
    assert {"document_without_events": 2, "truncated": 1}.items() <= counts(made).items()
    assert read(tmp_path, trace(), trace(*one_rank(2))).gpu.num_rows == 1


def test_so_many_documents_are_no_trace(tmp_path: Path) -> None:
    made = read(tmp_path, trace(*one_rank(1)), *[b'{"traceEvents":[]}'] * (MAX_DOCUMENTS + 5))
    assert counts(made) == {"document_without_events": MAX_DOCUMENTS - 1, "further_documents": 1}


def test_ranks_stay_apart_down_to_the_ledger(tmp_path: Path) -> None:
    """Both ranks call their GPU 0: merged, their kernels would share the time of one device."""
    both = [
        *one_rank(100, "[TP00]"), user_range("decode_1", 0, 5) | {"pid": "[TP00] 100"},
        *one_rank(200, "[TP01]"), user_range("prefill", 0, 5) | {"pid": "[TP01] 200"},
    ]  # fmt: skip
    run = ingest(write(tmp_path / "t.json", trace(*both)))
    assert run.table["exclusive_ns"].to_pylist() == [3000, 3000]
    assert dict(zip(run.table["rank"].to_pylist(), run.table["phase"].to_pylist(), strict=True)) == {
        0: "decode", 1: "prefill",
    }  # fmt: skip
    assert run.meta["health"]["repaired"]["ranks_split_by_label"]["count"] == 2


PIDS = st.sampled_from(
    [0, 1, 100, 200, "[TP00] 100", "[TP01] 200", "[TP01] 0", "[TP1-DP2] 9", "Spans", None, 2**63]
)
EVENTS = st.lists(
    st.tuples(st.sampled_from(["kernel", "host", "op", "range"]), PIDS, st.integers(0, 3), st.booleans()),
    min_size=1, max_size=12,
)  # fmt: skip
INFOS = st.sampled_from(
    [None, {"rank": 0}, {"rank": "1"}, [{"rank": 0}, {"rank": 1}], "?", [3], {"rank": 2**40}]
)


def made_of(kind: str, pid: Any, correlation: int, timed: bool) -> dict[str, Any]:
    makers = {
        "kernel": kernel("k", 5, 1, correlation), "host": host("l", 1, 2, correlation),
        "op": op("aten::mm", 0, 4), "range": user_range("decode", 0, 9),
    }  # fmt: skip
    return makers[kind] | {"pid": pid} | ({} if timed else {"ts": None})


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(EVENTS, INFOS, st.sampled_from([BASE, BASE + 5, None])), min_size=1, max_size=4))
def test_no_row_is_lost_whatever_is_merged(tmp_path: Path, documents: list[Any]) -> None:
    written = [
        trace(*(made_of(*e) for e in events), distributedInfo=info) | {"baseTimeNanoseconds": base}
        for events, info, base in documents
    ]
    made = read(tmp_path, *written)
    rows = sum(t.num_rows for t in (made.gpu, made.host, made.ops, made.ranges))
    dropped = made.notes.dropped.get("no_timestamp", {"count": 0})["count"]
    assert rows + dropped == made.events == sum(len(events) for events, _, _ in documents)
    assert made.gpu["process"].null_count in (0, made.gpu.num_rows)
    linked = link(made)
    assert linked.num_rows == made.gpu.num_rows
    told = [r for r in linked["rank"].to_pylist() if r is not None]
    assert all(0 <= r < 2**31 for r in told)
    for table in (made.gpu, made.host, made.ops, made.ranges):
        table.validate(full=True)
