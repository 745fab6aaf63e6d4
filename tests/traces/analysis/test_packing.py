"""Kernels survive the way to the browser to the ns, in at most 12 bytes each."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.traces.analysis import framed
from tests.traces.builders import run
from traces.analysis import canvas, packing

DAY = 86_400_000_000_000
time = st.one_of(st.integers(0, 100), st.integers(2**32 - 3, 2**32 + 3), st.integers(0, DAY - 1))
rows = st.lists(
    st.fixed_dictionaries(
        {"start_ns": st.one_of(time, st.integers(0, 2**52)), "dur_ns": time, "name": st.sampled_from("abc")}
    ),
    max_size=30,
)


def sent(scene: canvas.Scene, window: tuple[int, int] | None = None) -> framed.Kernels:
    _, [(_, columns)] = framed.unframe(packing.frame({}, [packing.kernels(scene, window)]))
    return framed.kernels(columns)


@given(rows)
def test_the_way_there_and_back_is_exact_at_any_epoch(given_rows: list[dict[str, Any]]) -> None:
    scene = canvas.lay_out(run(given_rows))
    got = sent(scene)
    assert got.start == scene.start.tolist()
    assert got.used == (scene.end - scene.start).tolist()
    assert got.kind == scene.kind.tolist()
    assert got.track == scene.track.tolist()


def test_a_window_holds_its_kernels_and_their_places() -> None:
    scene = canvas.lay_out(run([{"start_ns": 10 * i, "dur_ns": 8} for i in range(10)]))
    got = sent(scene, (35, 61))
    assert (got.start, got.place) == ([30, 40, 50, 60], [3, 4, 5, 6])


def test_a_kernel_takes_twelve_bytes() -> None:
    rows = [{"start_ns": 10 * i, "dur_ns": 8} for i in range(1_000)]
    assert len(packing.kernels(canvas.lay_out(run(rows))).blob) <= 12 * 1_000 + 100


def test_the_shares_of_a_run_add_up_to_its_rows_by_track_and_group() -> None:
    rng = np.random.default_rng(3)
    rows = [
        {"start_ns": int(s), "dur_ns": int(d), "group": g, "stream": int(q)}
        for s, d, g, q in zip(
            np.sort(rng.integers(0, 9_000, 300)), rng.integers(0, 60, 300),
            rng.choice(["gemm", "memory"], 300), rng.integers(0, 2, 300), strict=True,
        )
    ]  # fmt: skip
    scene = canvas.lay_out(run(rows))
    part = packing.shares(scene, most=64)
    busy = framed.columns(part.about, part.blob)["busy"].reshape(-1, part.about["bins"])
    assert part.about["bins"] <= 64
    used = scene.end - scene.start
    group = scene.kinds.group[scene.kind]
    for (track, which), bins in zip(part.about["series"], busy, strict=True):
        assert int(bins.sum()) == int(used[(scene.track == track) & (group == which)].sum())
    assert int(busy.sum()) == int(used.sum())


@pytest.mark.parametrize("number", [1, 5_000])
def test_shares_stay_within_their_budget(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing, "BINS_BYTES", 40_000)
    rows = [{"start_ns": 10 * i, "dur_ns": 8, "stream": i % 7} for i in range(number)]
    assert len(packing.shares(canvas.lay_out(run(rows))).blob) <= 40_008


def test_an_empty_run_is_a_part_too() -> None:
    scene = canvas.lay_out(run([]))
    assert sent(scene) == framed.Kernels([], [], [], [], [])
    assert packing.shares(scene).about["series"] == []
    assert packing.legend(scene)["tracks"] == []


def test_the_legend_says_what_the_numbers_stand_for() -> None:
    rows = [
        {"start_ns": 0, "dur_ns": 1, "name": "a", "group": "gemm", "category": "gemv", "module": "m"},
        {"start_ns": 2, "dur_ns": 1, "name": "b", "group": None, "category": None},
        {"start_ns": 4, "dur_ns": 1, "name": "a", "group": "gemm", "category": "gemv", "module": "n"},
    ]
    scene = canvas.lay_out(run(rows))
    legend = packing.legend(scene)
    kinds = [
        (legend["names"][legend["name"][k]], canvas.GROUP_NAMES[legend["group"][k]], legend["category"][k],
         legend["module"][k])
        for k in scene.kind
    ]  # fmt: skip
    assert kinds == [("a", "gemm", "gemv", "m"), ("b", "other", None, None), ("a", "gemm", "gemv", "n")]
    assert legend["kernels"] == [1, 1, 1]
    assert not legend["rounded"]
