"""The timeline's numbers, parts and links against `traces/`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from dashboard.timeline import page as timeline
from dashboard.timeline.address import View
from tests.dashboard.builders import baseline, candidate, made, texts
from tests.traces.analysis import framed
from tests.traces.builders import run
from traces import ledger, store

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from streamlit.testing.v1 import AppTest

    from traces.store import Run


def sent(at: AppTest) -> tuple[dict[str, Any], list[Any]]:
    """What the browser gets: the page, and the parts."""
    return framed.unframe(at.get("bidi_component")[0].proto.bytes)


def busy(one: Run, first: int, last: int) -> dict[str, int]:
    """Per group, by the ledger."""
    exclusive, _ = ledger.close_windows(one.table, [(first, last)])
    found: dict[str, int] = {}
    for group, ns in zip(one.table["group"].to_pylist(), exclusive.tolist(), strict=True):
        if ns:
            found[group] = found.get(group, 0) + ns
    return found


def test_the_first_complete_step_is_shown_with_the_numbers_of_the_ledger(
    pair: Path, page: Callable[..., AppTest]
) -> None:
    found, parts = sent(page(view="Timeline"))
    assert found["view"] == {"step": "decode:0", "lo": 0, "hi": 12_000, "range": None, "find": ""}
    assert [r["busy"] for r in found["totals"]["runs"]] == [
        busy(baseline(), 0, 12_000),
        busy(candidate(), 0, 12_000),
    ]
    assert [about["key"] for about, _ in parts] == [r["base"] for r in found["runs"]]
    got = framed.kernels(parts[0][1])
    assert (got.start, got.used) == (
        baseline().table["start_ns"].to_pylist(), baseline().table["used_ns"].to_pylist(),
    )  # fmt: skip


def test_a_range_is_added_up_in_both_runs_from_their_own_step_on(
    pair: Path, page: Callable[..., AppTest]
) -> None:
    found, _ = sent(page(view="Timeline", step="1", range="500..7250"))
    a, b = found["totals"]["runs"]
    assert found["totals"]["of"] == [500, 7_250]
    assert a["busy"] == busy(baseline(), 10_500, 17_250)
    assert b["busy"] == busy(candidate(), 12_500, 19_250)
    assert (a["kernels"], b["kernels"], a["span"]) == (3, 1, 6_750)
    assert all(sum(r["busy"].values()) + r["idle"] == r["span"] for r in (a, b))


def test_the_table_lists_the_kernels_of_the_range(pair: Path, page: Callable[..., AppTest]) -> None:
    at = page(view="Timeline", step="1", range="500..6500")
    table = at.dataframe[0].value
    rows = list(zip(table["run"], table["start ns"], table["duration ns"], table["kernel"], strict=True))
    assert rows == [("A", 0, 6_000, "mm"), ("A", 6_000, 1_000, "ln"), ("B", 0, 8_000, "_mm")]
    assert "A in the range: 2 kernels in 6.00 µs, busy 6.00 µs, idle 0 ns" in texts(at)


def test_the_address_holds_what_is_shown(pair: Path, page: Callable[..., AppTest]) -> None:
    at = page(view="Timeline", step="2", window="100..900", range="200..300", find="mm", kernel="b:4")
    assert {k: at.query_params[k] for k in ("step", "window", "range", "find", "kernel")} == {
        "step": "2", "window": "100..900", "range": "200..300", "find": "mm", "kernel": "b:4",
    }  # fmt: skip
    found, _ = sent(at)
    assert found["view"] == {"step": "decode:2", "lo": 100, "hi": 900, "range": [200, 300], "find": "mm"}
    assert found["details"]["kernel"]["start"] == candidate().table["start_ns"][4].as_py()


def test_a_link_that_makes_no_sense_shows_the_step_and_says_so(
    pair: Path, page: Callable[..., AppTest]
) -> None:
    found, _ = sent(page(view="Timeline", step="99", window="<b>", kernel="a:99999"))
    assert found["view"]["step"] == "decode:0"
    assert found["view"]["hi"] == 12_000
    assert found["details"] is None
    assert found["notes"] == [
        "The link's window makes no sense and is left out.",
        "The link names a step that neither run has: decode:99.",
    ]


def test_another_phase_brings_its_own_first_step(shelf: Path, page: Callable[..., AppTest]) -> None:
    for name, one in (("a", two_phases(1)), ("b", two_phases(2))):
        store.write(one, shelf / f"{name}.parquet")
    at = page(view="Timeline", window="0..7")
    assert sent(at)[0]["view"]["step"] == "decode:5"
    at.selectbox(key="phase").set_value("prefill").run()
    found, _ = sent(at)
    assert (found["view"]["step"], found["view"]["hi"], found["nav"]) == ("prefill:0", 200, "prefill")


def two_phases(scale: int) -> Run:
    rows = [
        {"start_ns": 0, "dur_ns": 90 * scale, "phase": "prefill", "step": 0},
        {"start_ns": 1_000, "dur_ns": 9 * scale, "phase": "decode", "step": 5},
    ]
    steps = [
        {"phase": p, "step": n, "start_ns": s, "end_ns": s + d * scale, "complete": True, "inferred": False}
        for p, n, s, d in (("prefill", 0, 0, 100), ("decode", 5, 1_000, 10))
    ]
    return run(rows, steps=steps)


def test_runs_without_steps_are_shown_whole(shelf: Path, page: Callable[..., AppTest]) -> None:
    for name, length in (("a", 50), ("b", 80)):
        store.write(run([{"start_ns": 0, "dur_ns": length}]), shelf / f"{name}.parquet")
    at = page(view="Timeline", a="a", b="b")
    found, _ = sent(at)
    assert found["view"] == {"step": "", "lo": 0, "hi": 80, "range": None, "find": ""}
    assert not at.exception


def test_the_same_run_twice_is_sent_once(pair: Path, page: Callable[..., AppTest]) -> None:
    label = next(pair.glob("*.parquet")).stem
    found, parts = sent(page(view="Timeline", a=label, b=label))
    assert found["runs"][0]["base"] == found["runs"][1]["base"]
    assert len(parts) == 1


def test_runs_without_kernels_say_what_to_do(shelf: Path, page: Callable[..., AppTest]) -> None:
    store.write(run([]), shelf / "none.parquet")
    at = page(view="Timeline")
    assert not at.exception
    assert "Neither run has a kernel with a usable time" in texts(at)


def test_a_long_run_is_sent_as_shares_and_the_window_as_kernels(
    pair: Path, page: Callable[..., AppTest], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timeline, "SHIPPED", 5)
    monkeypatch.setattr(timeline, "EXACT", 4)
    _, whole = sent(page(view="Timeline", step="whole"))
    assert [about["type"] for about, _ in whole] == ["bins", "bins"]
    assert int(whole[0][1]["busy"].sum()) == 27_000
    found, parts = sent(page(view="Timeline", step="1", window="0..7000"))
    assert [about["type"] for about, _ in parts] == ["bins", "kernels", "bins", "kernels"]
    got = framed.kernels(parts[1][1])
    assert {10_000, 16_000} <= set(got.start)
    assert [r["detail"] is not None for r in found["runs"]] == [True, True]


def test_the_browser_is_told_in_words(pair: Path, page: Callable[..., AppTest]) -> None:
    found, _ = sent(page(view="Timeline"))
    assert found["summary"] == (
        "Timeline of both runs, streams by time. Window of 12.00 µs, axis from the start of decode 0: "
        "A 4 kernels, busy 11.00 µs, idle 1.00 µs; B 3 kernels, busy 11.00 µs, idle 1.00 µs. "
        "Press ? for the keys."
    )


SAME: dict[str, Any] = {"n": 3, "run": 0, "place": 0, "direction": 1, "what": "same"}


@pytest.mark.parametrize(
    "ask", [None, {}, {"n": 1}, SAME | {"run": 9}, SAME | {"what": "find", "place": -1, "from": "x"}]
)
def test_questions_that_make_no_sense_have_no_answer(ask: Any) -> None:
    assert timeline.answer(both(), timeline.step_view(both(), "decode:0"), ask) is None


def test_the_server_finds_the_next_kernel_for_a_browser_that_has_not_all() -> None:
    view = View("decode:0", (0, 12_000), find="mm")
    assert timeline.answer(both(), view, SAME)["kernel"]["place"] == 3  # type: ignore[index]
    assert timeline.answer(both(), view, SAME | {"place": 6}) == {"n": 3, "kernel": None}
    find = {"n": 4, "run": 0, "place": 6, "direction": 1, "what": "find"}
    found = timeline.answer(both(), view, find)["kernel"]  # type: ignore[index]
    assert (found["run"], found["place"]) == (1, 0)
    fresh = timeline.answer(both(), view, find | {"place": -1, "from": 10_000})["kernel"]  # type: ignore[index]
    assert (fresh["run"], fresh["place"]) == (0, 3)


def both() -> list[timeline.Side]:
    runs = {"a": baseline(), "b": candidate()}
    return [timeline.side(name, f"{name}{id(one)}", one) for name, one in runs.items()]  # type: ignore[arg-type]


def test_hostile_names_reach_the_browser_as_plain_text(shelf: Path, page: Callable[..., AppTest]) -> None:
    evil = "</script><img src=x onerror=alert(1)>\u202e\u0000"
    store.write(made("cuda", [(evil, "gemm", 900)], 1_000), shelf / "evil.parquet")
    _, parts = sent(page(view="Timeline"))
    assert parts[0][0]["legend"]["names"] == ["</script><img src=x onerror=alert(1)>⟨202E⟩⟨0000⟩"]
