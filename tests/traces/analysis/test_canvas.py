"""Scenes against the ledger and simple, slow definitions: no kernel is lost, hidden or counted wrongly."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.traces.builders import run
from traces import ledger
from traces.analysis import canvas

if TYPE_CHECKING:
    from traces.store import Run

rows = st.lists(
    st.fixed_dictionaries(
        {
            "start_ns": st.integers(0, 200),
            "dur_ns": st.sampled_from([0, 1, 3, 9, 40]),
            "group": st.sampled_from(["gemm", "small_op", "never heard of", None]),
            "name": st.sampled_from(["k", "kk", "other"]),
            "rank": st.sampled_from([None, 0]),
            "device": st.integers(0, 1),
            "stream": st.sampled_from([None, 7, 8]),
        }
    ),
    min_size=1,
    max_size=40,
)


def made(given_rows: list[dict[str, Any]]) -> Run:
    return run(sorted(given_rows, key=lambda r: r["start_ns"]))


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(canvas, "BLOCK", 2)


@settings(max_examples=200)
@given(rows, st.integers(-10, 230), st.integers(1, 200))
def test_a_range_adds_up_as_the_ledger_does(
    given_rows: list[dict[str, Any]], first: int, length: int
) -> None:
    both = made(given_rows)
    found = canvas.totals(canvas.lay_out(both), first, first + length)
    if not found.span_ns:
        assert (found.busy, found.kernels, found.idle_ns) == ({}, 0, 0)
        return
    exclusive, devices = ledger.close_windows(both.table, [(found.first, found.last)])
    busy: dict[str, int] = {}
    for group, ns in zip(both.table["group"].to_pylist(), exclusive, strict=True):
        name = group if group in canvas.GROUP_NAMES else "other"
        busy[name] = busy.get(name, 0) + int(ns)
    assert found.busy == {g: ns for g, ns in busy.items() if ns}
    assert found.idle_ns == sum(d.idle_ns for d in devices)
    assert found.busy_ns + found.idle_ns == found.span_ns == sum(d.span_ns for d in devices)


@given(rows)
def test_every_kernel_has_a_track_on_which_no_other_covers_it(given_rows: list[dict[str, Any]]) -> None:
    both = made(given_rows)
    scene = canvas.lay_out(both)
    assert sorted(scene.row.tolist()) == list(range(both.table.num_rows))
    assert sum(t.kernels for t in scene.tracks) == scene.count
    for number, track in enumerate(scene.tracks):
        mine = np.flatnonzero(scene.track == number)
        assert len(mine) == track.kernels
        if not track.overflow:
            assert (scene.start[mine][1:] >= scene.end[mine][:-1]).all()
            for name in ("rank", "device", "stream"):
                assert set(both.table[name].take(scene.row[mine]).to_pylist()) == {getattr(track, name)}


@given(rows, st.integers(-10, 230), st.integers(1, 200))
def test_the_kernels_inside_a_window(given_rows: list[dict[str, Any]], first: int, length: int) -> None:
    scene = canvas.lay_out(made(given_rows))
    spans = zip(scene.start.tolist(), scene.end.tolist(), strict=True)
    last = first + length
    want = [i for i, (s, e) in enumerate(spans) if s < last and (e > first or (s == e and s >= first))]
    assert canvas.inside(scene, first, last).tolist() == want
    assert canvas.about(scene, first, last) >= len(want)


def test_kernels_deeper_than_the_lanes_share_one_track_and_are_counted() -> None:
    scene = canvas.lay_out(run([{"start_ns": 0, "dur_ns": 100} for _ in range(canvas.MOST_LANES + 3)]))
    assert scene.overflow == 3
    assert scene.tracks[-1] == canvas.Track(None, None, None, 0, True, 3)
    assert [t.lane for t in scene.tracks[:-1]] == list(range(canvas.MOST_LANES))


def test_streams_beyond_the_tracks_share_one_and_the_busiest_keep_theirs() -> None:
    busy = [{"start_ns": 10 * i, "dur_ns": 5, "stream": 999} for i in range(9)]
    many = [{"start_ns": 0, "dur_ns": 5, "stream": s} for s in range(canvas.MOST_TRACKS + 4)]
    scene = canvas.lay_out(made(busy + many))
    assert len(scene.tracks) == canvas.MOST_TRACKS + 1
    assert scene.overflow == 5
    assert 999 in [t.stream for t in scene.tracks]


def test_rows_that_the_ledger_leaves_out_are_counted() -> None:
    bad = {"start_ns": 0, "dur_ns": 5, "flag": "too_long", "used_ns": 0}
    scene = canvas.lay_out(run([bad, {"start_ns": 1, "dur_ns": 5}]))
    assert (scene.count, scene.unusable, scene.span) == (1, 1, (1, 6))


def test_a_run_without_kernels() -> None:
    scene = canvas.lay_out(run([]))
    assert (scene.count, scene.span, scene.tracks, scene.devices) == (0, (0, 0), [], [])
    assert canvas.totals(scene, 0, 10) == canvas.Range(0, 0, 0, {}, 0)


def test_neighbours_of_the_same_name() -> None:
    names = ["a", "b", "a", "c", "a"]
    scene = canvas.lay_out(run([{"start_ns": 10 * i, "dur_ns": 5, "name": n} for i, n in enumerate(names)]))
    assert [canvas.neighbour(scene, 2, d) for d in (1, -1)] == [4, 0]
    assert [canvas.neighbour(scene, 4, 1), canvas.neighbour(scene, 0, -1)] == [None, None]
    assert canvas.neighbour(scene, 0, 1, scene.kinds.matching("C")) == 3
    assert canvas.neighbour(scene, -1, 1, scene.kinds.matching("a")) == 0
    assert canvas.neighbour(scene, 5, -1, scene.kinds.matching("a")) == 4
    assert canvas.neighbour(scene, 0, 1, scene.kinds.matching("")) is None


def test_the_details_are_the_kernel_s_own_row() -> None:
    both = run([{"start_ns": 9, "dur_ns": 1, "name": "late"}, {"start_ns": 0, "dur_ns": 1, "name": "first"}])
    scene = canvas.lay_out(both)
    assert [canvas.details(scene, both, i)["name"] for i in (0, 1)] == ["first", "late"]
