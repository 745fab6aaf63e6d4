from __future__ import annotations

import io
import json
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.traces.traces import kernel, trace
from traces.errors import InputError
from traces.readers import jsonstream
from traces.readers.events import DECODE_ERRORS, Event, array, decode_many
from traces.readers.jsonstream import EventStream


def strict(text: bytes) -> list[Event] | None:
    try:
        return decode_many(array(text))
    except DECODE_ERRORS:
        return None


def read(text: bytes, ahead: int = 1) -> tuple[list[str], EventStream[list[Event]]]:
    stream: EventStream[list[Event]] = EventStream(
        io.BytesIO(text).read, "made.json", lambda part: lambda: strict(part), lambda events: events, ahead
    )
    return [e.name for _, events in stream for e in events], stream


def k(name: str) -> bytes:
    return json.dumps(kernel(name, 1, 2)).encode()


@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": "), (" ,\n", " :\t")])
@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("chunk", [200, 1000, 1 << 20])
@pytest.mark.parametrize("ahead", [1, 5])
def test_any_layout_at_any_chunk_size(
    separators: tuple[str, str], indent: int | None, chunk: int, ahead: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jsonstream, "CHUNK", chunk)
    names = [f"k{i} }}, {{ ]" for i in range(50)]
    events = [kernel(n, i, 1, nested=[{"a": 1}, {"b": [2, {"c": 3}]}]) for i, n in enumerate(names)]
    made = trace(*events, deviceProperties=[{"id": 0}, {"id": 1}])
    made["INFO"] = [{"x": 1}, {"y": "]}"}]  # metadata behind the events
    got, stream = read(json.dumps(made, separators=separators, indent=indent).encode(), ahead)
    assert got == names
    assert stream.metadata["INFO"] == made["INFO"]
    assert stream.metadata["deviceProperties"] == made["deviceProperties"]
    assert (stream.notes.repaired, stream.notes.dropped) == ({}, {})


def test_top_level_list_byte_order_mark_and_empty_array() -> None:
    assert read(b"[" + k("a") + b"," + k("b") + b"]")[0] == ["a", "b"]
    assert read(b'\xef\xbb\xbf{"traceEvents":[' + k("a") + b"]}")[0] == ["a"]
    names, stream = read(b'{"traceEvents":[], "rank": 3}')
    assert names == []
    assert stream.metadata == {"rank": 3}
    assert not stream.notes.dropped


@pytest.mark.parametrize(
    ("broken", "survives", "reason"),
    [
        (b'{"ph":"X","cat":"kernel","name":"a"b","pid":0,"ts":1,"dur":1}', 'a"b', "unescaped_quote"),
        (
            b'{"ph":"X","name":"{"d": "cpu", "t": "f32"}(1): run","pid":0}',
            '{"d": "cpu", "t": "f32"}(1): run',
            "unescaped_quote",
        ),
        (b'{"ph":"X","name":"C:\\Users\\q","ts":1}', "C:\\Users\\q", "bad_escape"),
        (b'{"ph":"X","name":"a\x01\nb","ts":1}', "a\x01\nb", "control_character"),
        (b'{"ph":"X","name":"a\xffb","ts":1}', "a\ufffdb", "bad_utf8"),
        (b'{"ph":"X","name":"n","ts":1,"dur":NaN}', "n", "not_a_number"),
        (b'{"ph":"X","name":"n","ts":1,"args":{"x": N/A, "y": -inf}}', "n", "not_a_number"),
        (b'{"ph":"X","name":"n","ts":1,"args":[1]}', "n", "unexpected_type"),
        (b'{"ph":"X","name":"n","ts":1,"args":{"stream":1e400}}', "n", "unexpected_type"),
        (b'{"ph":"X","name":"n" "ts":1}', None, "broken_event"),
        (b"null", None, "broken_event"),
    ],
)
@pytest.mark.parametrize("place", [0, 1, 2])
def test_one_broken_event_costs_at_most_itself(
    broken: bytes, survives: str | None, reason: str, place: int
) -> None:
    events = [k("a"), k("b")]
    events.insert(place, broken)
    names, stream = read(b'{"traceEvents": [\n  ' + b",\n  ".join(events) + b'\n], "traceName": "x"}')
    expected = ["a", "b"]
    if survives is not None:
        expected.insert(place, survives)
    assert names == expected
    counted = stream.notes.dropped if survives is None else stream.notes.repaired
    assert counted[reason]["count"] == 1
    assert stream.metadata["traceName"] == "x"


def test_the_offset_of_the_broken_byte_is_told() -> None:
    text = b'{"traceEvents":[' + k("a") + b"," + b'{"name":"\x01"}' + b"]}"
    assert read(text)[1].notes.repaired["control_character"]["first_offset"] == text.index(b'{"name":"\x01')


def test_cut_off_anywhere_keeps_what_came_before() -> None:
    events = [k(f"k{i}") for i in range(4)]
    text = b'{"traceEvents":[' + b",".join(events) + b'], "traceName": "x"}'
    for cut in range(text.index(b"[") + 1, text.rindex(b"]")):
        names, stream = read(text[:cut])
        whole = sum(text[:cut].find(e) >= 0 for e in events)
        assert names == [f"k{i}" for i in range(whole)]
        assert stream.notes.dropped["truncated"]["count"] == 1


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_mutations_never_crash(data: st.DataObject) -> None:
    text = bytearray(json.dumps(trace(*(kernel(f"k{i}", i, 1) for i in range(5)))).encode())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(text) - 1))
        text[at] = data.draw(st.integers(0, 255))
    try:
        names, _ = read(bytes(text))
    except InputError:
        return
    assert len(names) <= 6


@pytest.mark.parametrize(
    "text", [b"", b"   ", b"not json", b"\x00\x01\x02", b"{}", b'{"a": 1}', b"[" * 100_000]
)
def test_text_without_events(text: bytes) -> None:
    assert read(text)[0] == []


def test_depth_bombs_do_not_recurse() -> None:
    deep = b'{"ph":"X","name":"n","ts":1,"args":{"x":' + b"[" * 50_000 + b"]" * 50_000 + b"}}"
    names, stream = read(b'{"traceEvents":[' + k("a") + b"," + deep + b"," + k("b") + b"]}")
    assert names == ["a", "b"]
    assert stream.notes.dropped["broken_event"]["count"] == 1


def test_endless_text_without_an_event_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsonstream, "CHUNK", 1 << 10)
    monkeypatch.setattr(jsonstream, "MAX_PENDING", 1 << 16)
    with pytest.raises(InputError, match="not a trace"):
        read(b'{"a": "' + b"x" * (1 << 18))


@pytest.mark.parametrize("codec", ["utf-16", "utf-16-le", "utf-16-be"])
def test_utf16_is_refused_by_name(codec: str) -> None:
    with pytest.raises(InputError, match="UTF-16"):
        read(json.dumps(trace(kernel("k", 1, 2))).encode(codec))


def test_endless_blanks_are_refused() -> None:
    class Blanks:
        given = 0

        def read(self, size: int) -> bytes:
            self.given += size
            return b" " * size

    for head in (b"", b'{"traceEvents": ['):
        blanks = Blanks()
        parts = [head]
        stream: EventStream[list[Event]] = EventStream(
            lambda size, p=parts, b=blanks: p.pop() if p and p[0] else b.read(size),  # type: ignore[misc]
            "made.json",
            lambda part: lambda: strict(part),
            lambda events: events,
        )
        with pytest.raises(InputError, match="not a trace"):
            list(stream)
        assert blanks.given < 2 * jsonstream.MAX_PENDING


@pytest.mark.parametrize("head", [b"", b'{"traceEvents":[', b'{"a":', b'{"traceEvents":[{"args":{"x":'])
def test_a_depth_bomb_is_refused_at_once(head: bytes) -> None:
    began = time.process_time()
    with pytest.raises(InputError, match="not a trace"):
        read(head + b"[" * (80 << 20))
    assert time.process_time() - began < 3


@pytest.mark.parametrize(
    "value", [b"null", b"7", b'"text"', b"true", b"[]", b"[1, 2]", b'{"traceEvents": null}']
)
def test_bare_values_hold_no_events(value: bytes) -> None:
    assert read(value)[0] == []


def test_a_second_array_is_counted_and_the_last_of_other_keys_wins() -> None:
    text = (
        b'{"rank":1,"traceEvents":[' + k("a") + b'],"rank":2,"traceEvents":[' + k("b") + b"," + k("c") + b"]}"
    )
    names, stream = read(text)
    assert names == ["a"]
    assert stream.metadata["rank"] == 2
    assert stream.notes.dropped["second_array"]["count"] == 2


def test_few_faults_do_not_cost_the_speed_of_the_rest() -> None:
    events = [k(f"k{i}") for i in range(40_000)]
    for i in (5, 20_000, 39_999):
        events[i] = b'{"ph":"X","name":"a"b","ts":1}'
    text = b'{"traceEvents":[' + b",".join(events) + b"]}"
    began = time.process_time()
    names, stream = read(text)
    assert len(names) == 40_000
    assert stream.notes.repaired["unescaped_quote"] == {
        "count": 3,
        "first_offset": text.index(b'{"ph":"X","name":"a"b"'),
    }
    assert time.process_time() - began < 3
