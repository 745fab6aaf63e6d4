from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import textwrap
import time
from typing import TYPE_CHECKING

import pytest

from tests.traces.traces import host, kernel, op, trace, user_range
from traces.errors import UsageError
from traces.readers import jsonstream, kineto, workers

if TYPE_CHECKING:
    from pathlib import Path

    from traces.readers.timeline import Timeline

pytestmark = pytest.mark.skipif(not workers.POSSIBLE, reason="worker processes need POSIX")

BROKEN = [
    b'{"ph":"X","cat":"kernel","name":"a"b }, {","pid":0,"tid":7,"ts":1.5,"dur":1}',
    b'{"ph":"X","cat":"kernel","name":"C:\\Users\\q","pid":0,"tid":7,"ts":2.5,"dur":1}',
    b'{"ph":"X","cat":"kernel","name":"n","pid":0,"tid":7,"ts":3.5,"dur":NaN}',
    b'{"ph":"X","cat":"kernel","name":"n" "ts":4}',
    b'{"ph":"X","cat":"kernel","name":"l","ts":5,"dur":1,"args":[{"a":1}, {"b":2}]}',
    b'{"ph":"X","cat":"kernel","name":"\xff","ts":6,"dur":1}',
    b"null",
]


def made_trace(seed: int, events: int, broken: int, indent: int | None) -> bytes:
    """A trace whose strings and nested objects hold what looks like the end of an event."""
    rng = random.Random(seed)
    makers = (
        lambda i: kernel(f"k{i % 5} }}, {{ ]", i + 0.001, 1.5, i, nested=[{"a": 1}, {"b": [2, {"c": 3}]}]),
        lambda i: host("cudaLaunchKernel", i, 1, i),
        lambda i: op(
            "aten::mm", i, 2, i, **{"Input Dims": [[2, 3], [3, i % 4]], "Input type": ["float"] * 2}
        ),
        lambda i: user_range(f"step {i}", i, 3),
        lambda i: {"ph": "X", "cat": "python_function", "name": f"f({i})", "ts": i, "dur": 1},
        lambda i: {"ph": "s", "id": i, "pid": 0, "tid": 7, "ts": i, "cat": "ac2g", "name": "ac2g"},
    )
    texts = [json.dumps(rng.choice(makers)(i), indent=indent).encode() for i in range(events)]
    for _ in range(broken):
        texts.insert(rng.randrange(len(texts) + 1), rng.choice(BROKEN))
    separator = b"," if indent is None else b",\n  "
    around = json.dumps(
        trace() | {"traceEvents": [], "INFO": [{"x": "}, {"}, {"y": 1}]}, indent=indent
    ).encode()
    return around.replace(b'"traceEvents": []', b'"traceEvents": [' + separator.join(texts) + b"\n]", 1)


def read(path: Path, jobs: int) -> Timeline:
    return kineto.read_file(path, jobs=jobs)


def assert_same(one: Timeline, other: Timeline) -> None:
    for name in ("gpu", "host", "ops", "ranges"):
        mine, theirs = (getattr(t, name) for t in (one, other))
        assert mine.schema == theirs.schema
        assert mine.to_pylist() == theirs.to_pylist()
    assert (one.events, one.base_unix_ns) == (other.events, other.base_unix_ns)
    for kind in ("dropped", "repaired"):
        mine, theirs = (getattr(t.notes, kind) for t in (one, other))
        assert {k: v["count"] for k, v in mine.items()} == {k: v["count"] for k, v in theirs.items()}


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("broken", [0, 3, 30])
def test_the_result_does_not_depend_on_where_the_text_is_cut(
    indent: int | None, broken: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t.json"
    path.write_bytes(made_trace(broken, 400, broken, indent))
    whole = read(path, 1)
    assert whole.gpu.num_rows > 20
    assert whole.events >= 400
    rng = random.Random(1)
    for chunk in [97, *(rng.randrange(300, 20_000) for _ in range(12))]:
        monkeypatch.setattr(jsonstream, "CHUNK", chunk)
        assert_same(read(path, 1), whole)


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers for any input, and nothing decoded here while they start."""
    monkeypatch.setattr(workers, "WORTHWHILE", 0)
    start = workers.Pool.__init__

    def started(pool: workers.Pool, count: int) -> None:
        start(pool, count)
        pool.wait_until_ready()

    monkeypatch.setattr(workers.Pool, "__init__", started)


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("indent", [None, 2])
def test_workers_give_what_one_process_gives(
    indent: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t.json"
    path.write_bytes(made_trace(7, 3000, 12, indent))
    whole = read(path, 1)
    for chunk in (700, 9_000, 60_000):
        monkeypatch.setattr(jsonstream, "CHUNK", chunk)
        alone = read(path, 1)
        assert_same(alone, whole)
        together = read(path, 2)
        assert_same(together, whole)
        assert together.notes == alone.notes  # offsets too


@pytest.mark.usefixtures("eager")
def test_the_text_of_a_dead_worker_is_decoded_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "t.json"
    path.write_bytes(made_trace(3, 2000, 0, None))
    whole = read(path, 1)
    monkeypatch.setattr(jsonstream, "CHUNK", 8_000)
    send, sent = workers.Worker.send, [0]

    def deadly(worker: workers.Worker, task: workers.Task) -> None:
        send(worker, task)
        sent[0] += 1
        if sent[0] in (5, 9):
            os.kill(worker.process.pid, signal.SIGKILL)

    monkeypatch.setattr(workers.Worker, "send", deadly)
    assert_same(read(path, 2), whole)
    assert sent[0] >= 9


def test_a_worker_that_cannot_start_is_no_hang(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "WORTHWHILE", 0)
    monkeypatch.setattr(sys, "executable", "/bin/false")
    path = tmp_path / "t.json"
    path.write_bytes(made_trace(3, 200, 0, None))
    assert read(path, 2).events == 200


PARENT = """
    import sys, time
    sys.path[:] = {path!r}
    from traces.readers import workers
    with workers.Pool(2) as pool:
        pool.wait_until_ready()
        print(*(w.process.pid for w in pool.workers), flush=True)
        time.sleep(60)
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_workers_die_with_their_parent(how: signal.Signals) -> None:
    code = textwrap.dedent(PARENT).format(path=sys.path)
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as parent:
        assert parent.stdout is not None
        children = [int(pid) for pid in parent.stdout.readline().split()]
        assert len(children) == 2
        parent.send_signal(how)
        parent.wait(10)
    deadline = time.monotonic() + 10
    while any(map(alive, children)) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not any(map(alive, children))


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    try:  # an orphan that nobody has waited for yet is not alive
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return True


def test_an_error_while_reading_ends_the_workers() -> None:
    pool = workers.Pool(1)
    processes = [w.process for w in pool.workers]
    with pytest.raises(ZeroDivisionError), pool:
        _ = 1 / 0
    assert all(p.poll() is not None for p in processes)


@pytest.mark.parametrize(("setting", "expected"), [("3", 3), ("1", 1)])
def test_jobs_from_the_environment(setting: str, expected: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERNELGAP_JOBS", setting)
    assert workers.jobs() == expected
    assert workers.jobs(2) == 2


@pytest.mark.parametrize("setting", ["0", "-1", "many", "1.5"])
def test_jobs_refuses_nonsense(setting: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERNELGAP_JOBS", setting)
    with pytest.raises(UsageError, match="KERNELGAP_JOBS"):
        workers.jobs()
