"""`first_offset` is where the first event with that fault begins, whatever stands around it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.traces.traces import host, kernel, op, user_range, write
from traces.readers import jsonstream, kineto
from traces.readers.files import Source

if TYPE_CHECKING:
    from pathlib import Path

    from traces.readers.timeline import Timeline

SOUND = [
    kernel("k, {", 1, 2, 5, nested=[{"a": "]}"}, {"b": [1]}]), host("l", 1, 1, 5), op("aten::mm", 0, 4),
    user_range("decode", 0, 9), {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "}, {"}},
]  # fmt: skip
FAULTY: dict[str, dict[str, Any]] = {
    "no_timestamp": kernel("k", 1, 2) | {"ts": None},
    "no_duration": kernel("k", 1, 2) | {"dur": "N/A"},
    "no_name": host("", 1, 2, 3),
    "bad_utf8": op("a\ud800b", 1, 2),
    "unusable_number": kernel("k", 1, 2, stream="default"),
}
BROKEN = [
    b'{"ph":"X","cat":"kernel","name":"a"b","pid":0,"ts":1,"dur":1}',
    b"{oops}",
    b"7",
    b'{"ph":"X","name":"C:\\q"}',
]


def read(tmp_path: Path, text: bytes) -> Timeline:
    with Source(write(tmp_path / "t.json", text)) as source:
        return kineto.read(source)


def noted(made: Timeline) -> dict[str, dict[str, int]]:
    return {r: e for r, e in (made.notes.dropped | made.notes.repaired).items() if r in FAULTY}


@pytest.mark.parametrize("reason", FAULTY)
@pytest.mark.parametrize("chunk", [120, 1000, 1 << 20])
@pytest.mark.parametrize("broken", [b"", BROKEN[0] + b",", BROKEN[1] + b","])
def test_it_is_the_event_not_its_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reason: str, chunk: int, broken: bytes
) -> None:
    monkeypatch.setattr(jsonstream, "CHUNK", chunk)
    sound = b", ".join(json.dumps(e).encode() for e in SOUND * 7) + b",\n "
    faulty = json.dumps(FAULTY[reason]).encode()
    text = b'{"traceEvents": [\n ' + sound + broken + sound + faulty + b", " + sound + faulty + b"]}"
    made = read(tmp_path, text)
    assert noted(made)[reason] == {"count": 2, "first_offset": text.index(faulty)}


def test_the_earliest_of_several_kinds_of_rows(tmp_path: Path) -> None:
    first, second = (
        json.dumps(host("l", 1, 1, 5) | {"ts": "?"}),
        json.dumps(kernel("k", 1, 2) | {"ts": "?"}),
    )
    text = f"[{first}, {second}]".encode()
    assert noted(read(tmp_path, text))["no_timestamp"] == {"count": 2, "first_offset": 1}


PARTS = st.one_of(
    st.sampled_from([json.dumps(e).encode() for e in SOUND]),
    st.sampled_from([json.dumps(e).encode() for e in FAULTY.values()]),
    st.sampled_from(BROKEN),
)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(parts=st.lists(PARTS, min_size=1, max_size=30), chunk=st.sampled_from([60, 150, 400, 5000]))
def test_any_mix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, parts: list[bytes], chunk: int) -> None:
    monkeypatch.setattr(jsonstream, "CHUNK", chunk)
    text = b"[" + b",".join(parts) + b"]"
    if not any(p.startswith(b'{"ph"') for p in parts):
        return
    for reason, entry in noted(read(tmp_path, text)).items():
        assert entry["first_offset"] == text.find(json.dumps(FAULTY[reason]).encode())
