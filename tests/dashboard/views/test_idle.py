"""The idle view against the ledger."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

import pytest

from dashboard.idle_figures import NAMES
from tests.dashboard import builders
from tests.dashboard.builders import HOSTILE, WORK, baseline, candidate, charts, texts, words
from tests.traces.builders import run, step
from traces import store
from traces.analysis.breakdown import breakdown
from traces.analysis.idle import CAUSES, by_cause, counted_windows, pieces
from traces.analysis.overlap import overlaps

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from streamlit.testing.v1 import AppTest

    from traces.store import Run

    Page = Callable[..., AppTest]

H200 = {"type": "cuda", "name": "NVIDIA H200"}


def made(variant: str, wait: int, *, devices: int = 1, **known: Any) -> Run:
    """Three steps of 20 us: a kernel, `wait` ns host-bound, a collective, 300 ns of kernel wait, a kernel."""
    rows, tiles = [], []
    for number in range(3):
        opens = number * 20_000
        for device in range(devices):
            at = opens
            for name, ns, gap, cause, group in (
                ("first", 5_000, 0, "step_end", "gemm"), ("second", 2_000, wait, "host", "communication"),
                ("third", 1_000, 300, "launch", "gemm"),
            ):  # fmt: skip
                at += gap
                late = {"host": wait - 100, "launch": -400}.get(cause, -700)
                rows.append(
                    {
                        "start_ns": at, "dur_ns": ns, "name": f"{variant} {name}", "group": group,
                        "category": "gemm" if group == "gemm" else "collective", "device": device,
                        "phase": "decode", "step": number, "module": f"layers.{number}", "link": "launch",
                        "gap_cause": cause, "launch_start_ns": at - gap + late, "process": 1,
                    }
                )  # fmt: skip
                at += ns
        tiles.append(step("decode", number, opens, opens + 20_000, complete=number < 2))
    base = {"model": "small", "variant": variant, "mode": "eager", "workload": WORK, "device": H200}
    return run(rows, **(base | {"steps": tiles, "run_id": f"{variant}-1"} | known))


def opened(shelf: Path, page: Page, a: Run, b: Run, **address: str) -> AppTest:
    return builders.opened(shelf, page, a, b, view="Idle", **address)


def test_the_bars_add_up_to_the_ledgers_idle_time(shelf: Path, page: Page) -> None:
    a, b = made("cuda", 1_000), made("triton", 4_000)
    at = opened(shelf, page, a, b)
    bars = {t["marker"]["color"]: t for t in charts(at)[0]["data"]}
    assert len(bars) == 2
    for some, bar in zip((b, a), bars.values(), strict=True):  # drawn from below
        cut = pieces(some, counted_windows(some, "decode")[0])
        assert sum(bar["x"]) == pytest.approx(cut.idle_ns / 2 / 1e6)
        told = {NAMES[c.name]: c.ns / 2 / 1e6 for c in by_cause(cut)}
        assert {y: x for y, x in zip(bar["y"], bar["x"], strict=True) if x} == pytest.approx(told)
    shown = words(at)
    # step 0: 5 + 1 + 2 + 0.3 + 1 us, then idle until 20 us
    assert "A, n = 2 complete steps: busy 16,000 + idle 24,000 = span 40,000 ns" in shown
    assert "idle = between steps 21,400 + host-bound 2,000 + kernel wait 600 ns in 6 gaps" in shown


def test_the_answer_comes_first(shelf: Path, page: Page) -> None:
    shown = words(opened(shelf, page, made("cuda", 1_000), made("triton", 4_000)))
    assert "A 12.00 µs of 20.00 µs (60.0 %), 89.2 % of it between steps" in shown
    assert "B 12.00 µs of 20.00 µs (60.0 %), 64.2 % of it between steps" in shown


def test_what_it_is_without_a_profiler_is_said(shelf: Path, page: Page) -> None:
    known = {"decode": {"n": 9, "median_ns": 10_000, "iqr_ns": 10}}
    short = {"decode": {"n": 9, "median_ns": 7_000, "iqr_ns": 10}}
    shown = words(
        opened(shelf, page, made("cuda", 1_000, unprofiled=known), made("triton", 1_000, unprofiled=short))
    )
    assert "a step of A takes 10.00 µs, 2.00 µs (20.0 %) of it idle" in shown
    assert "a step of B takes 7.00 µs, less than its kernels take under one" in shown


def test_runs_that_were_only_profiled_say_so(shelf: Path, page: Page) -> None:
    shown = words(opened(shelf, page, made("cuda", 1_000), made("triton", 1_000)))
    assert "A was not timed without a profiler" in shown


def test_the_longest_gaps_open_the_timeline_at_their_window(shelf: Path, page: Page) -> None:
    at = opened(shelf, page, made("cuda", 1_000), made("triton", 4_000))
    shown = at.dataframe[0].value
    assert shown["cause"].tolist() == ["between steps"] * 2 + ["host-bound"] * 2 + ["kernel wait"] * 2
    row = shown.iloc[3]
    assert (row["step"], row["at µs"], row["idle µs"]) == (1, 5.0, 4.0)
    assert (row["kernel before"], row["kernel after"]) == ("triton first", "triton second")
    assert (row["module"], row["launched µs"]) == ("layers.1", 3.9)
    query = parse_qs(row["timeline"].removeprefix("?"))
    assert query == {
        "a": ["a"], "b": ["b"], "view": ["Timeline"], "phase": ["decode"], "step": ["1"],
        "window": ["0..14000"],
    }  # fmt: skip
    assert shown["timeline"][0] in words(at)  # a link that keys and screen readers reach
    other = page(a="a", b="b", view="Idle", idle_side="A").dataframe[0].value
    assert other["idle µs"].tolist()[2:4] == [1.0, 1.0]


def test_launch_delays_and_gap_lengths_are_counted(shelf: Path, page: Page) -> None:
    at = opened(shelf, page, made("cuda", 1_000), made("triton", 4_000))
    lengths, delays = charts(at)[1:3]
    assert sum(sum(t["y"]) for t in lengths["data"]) == pytest.approx(2 * 12_000 / 1e6)
    assert [sum(t["y"]) for t in delays["data"]] == [6, 6]
    shown = words(at)
    assert "A gaps: n = 6" in shown
    assert "A launches: n = 6, median 700 ns" in shown


def test_graph_replays_stand_apart(shelf: Path, page: Page) -> None:
    a = made("cuda", 1_000)
    index = a.table.schema.get_field_index("link")
    graph = store.Run(a.table.set_column(index, "link", [["graph"] * a.table.num_rows]), a.meta)
    at = opened(shelf, page, graph, made("triton", 4_000))
    assert [[sum(t["y"]) for t in charts(at)[2]["data"]][i] for i in (0, 3)] == [0, 0]
    assert "A graph replays: n = 6" in words(at)


def test_devices_show_exposed_and_hidden_communication(shelf: Path, page: Page) -> None:
    a, b = made("cuda", 1_000), made("triton", 1_000, devices=2)
    at = opened(shelf, page, a, b)
    figure = charts(at)[3]
    assert figure["data"][0]["y"] == ["A device 0", "B device 0", "B device 1"]
    (part,) = overlaps(a, counted_windows(a, "decode")[0])
    drawn = {t["name"]: t["x"][0] for t in figure["data"]}
    assert drawn["exposed communication"] == pytest.approx(part.exposed_ns / 2 / 1e6) == 0.002
    assert sum(drawn.values()) == pytest.approx(0.02)
    assert "device" in at.dataframe[0].value.columns


def test_without_communication_on_one_device_there_is_no_such_chart(shelf: Path, page: Page) -> None:
    assert "Hidden" not in words(opened(shelf, page, baseline(), candidate()))


def test_runs_that_are_never_idle_say_so(shelf: Path, page: Page) -> None:
    rows = [{"start_ns": 10 * i, "dur_ns": 10, "phase": "d", "step": 0} for i in range(3)]
    some = run(rows, steps=[step("d", 0, 0, 30)], device=H200)
    at = opened(shelf, page, some, some)
    assert "never idle" in at.info[0].value
    assert not charts(at)
    assert "A 0 ns of 30 ns" in words(at)
    assert "3 rows without a launch in the trace" in words(at)


def test_runs_without_steps_are_shown_whole(shelf: Path, page: Page) -> None:
    a, b = made("cuda", 1_000, steps=[]), made("triton", 4_000, steps=[])
    at = opened(shelf, page, a, b)
    told = breakdown(a)
    assert (
        f"the whole run: busy {told.busy_ns:,} + idle {told.idle_ns:,} = span {told.span_ns:,} ns"
        in words(at)
    )
    query = parse_qs(at.dataframe[0].value["timeline"][0].removeprefix("?"))
    assert query["step"] == ["whole"]


def test_a_cpu_run_has_no_causes(shelf: Path, page: Page) -> None:
    cpu = {"type": "cpu", "name": "Some CPU"}
    rows = [{"start_ns": 50 * i, "dur_ns": 10, "kind": "cpu_op"} for i in range(3)]
    at = opened(shelf, page, run(rows, device=cpu), run(rows, device=cpu))
    assert "100.0 % of it launch unknown" in words(at)


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_text(shelf: Path, page: Page, name: str) -> None:
    a = made("cuda", 1_000)
    index = a.table.schema.get_field_index("name")
    evil = store.Run(a.table.set_column(index, "name", [[name] * a.table.num_rows]), a.meta)
    at = opened(shelf, page, evil, evil)
    shown = at.dataframe[0].value["kernel after"][0]
    assert shown.isprintable()
    assert len(shown) < 2_000
    assert "<img" not in texts(at) + str(charts(at))


def test_every_cause_has_a_name() -> None:
    assert set(NAMES) == set(CAUSES)
