"""The component's files, and its arithmetic against `traces/`, run in a browser."""

from __future__ import annotations

import base64
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from dashboard import timeline
from tests.dashboard.serving import CHROMIUM, FLAGS
from tests.traces.builders import run
from traces.analysis import canvas, packing, pyramid

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Page

FOLDER = Path(timeline.__file__).parent
GROUPS = len(canvas.GROUP_NAMES)


def test_every_script_is_part_of_the_component() -> None:
    assert {p.stem for p in FOLDER.glob("*.js")} == set(timeline.SCRIPTS)
    assert timeline.script().count("export default") == 1


def test_names_cannot_become_markup_and_nothing_is_fetched() -> None:
    ways = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|Function\(|fetch\(|https?:|import "
    assert not re.findall(ways, timeline.script())
    assert "url(" not in timeline.style()


@pytest.fixture(scope="module")
def blank() -> Iterator[Page]:
    """A page with the component's functions and nothing else."""
    if CHROMIUM is None:
        pytest.skip("Chromium is not on the PATH")
    pytest.importorskip("playwright", reason="playwright is not installed")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        page = browser.new_page()
        names = "unframe, seriesOf, addShares, kernelAt, visible, tickText, duration, matching"
        page.add_script_tag(
            content=timeline.script().replace("export default ", "") + f";window.kg = {{{names}}};"
        )
        yield page
        browser.close()


def scene(seed: int, scale: int) -> canvas.Scene:
    """Random kernels on two streams that overlap; `scale` stretches them beyond 32 bits."""
    rng = np.random.default_rng(seed)
    start = np.sort(rng.integers(0, 3_000, 400)) * scale
    used = rng.integers(0, 12, 400) * scale
    rows = [
        {"start_ns": int(s), "dur_ns": int(u), "stream": int(q), "group": g, "name": f"k{q}"}
        for s, u, q, g in zip(
            start, used, rng.integers(0, 2, 400), rng.choice(["gemm", "memory"], 400), strict=True
        )
    ]
    return canvas.lay_out(run(rows))


def evaluate(page: Page, body: str, message: bytes, *more: Any) -> Any:
    """Run JavaScript with `parts` (of the message) and `more`."""
    return page.evaluate(
        f"""([text, more]) => {{
          const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
          const {{ page, parts }} = kg.unframe(bytes);
          {body}
        }}""",
        [base64.b64encode(message).decode(), list(more)],
    )


@pytest.mark.browser
@pytest.mark.parametrize("scale", [1, 2**21 + 1, 2**31 + 7])
def test_the_browser_reads_every_ns(blank: Page, scale: int) -> None:
    made = scene(1, scale)
    message = packing.frame({"hello": "ü"}, [packing.kernels(made)])
    body = "const p = parts[0]; return [page.hello, ...[p.start, p.end, p.what].map((c) => Array.from(c))];"
    hello, start, end, what = evaluate(blank, body, message)
    assert hello == "ü"
    assert (start, end) == (made.start.tolist(), made.end.tolist())
    assert what == (made.kind | made.track << packing.KIND_BITS).tolist()


@pytest.mark.browser
@pytest.mark.parametrize("scale", [1, 2**21 + 1])
@pytest.mark.parametrize("bins", [False, True])
def test_columns_show_the_busy_time_of_each_group_on_each_track(blank: Page, scale: int, bins: bool) -> None:
    made = scene(2, scale)
    columns, width = 60, 50 * scale
    part = packing.shares(made) if bins else packing.kernels(made)
    body = """
      const [groupOf, groups, columns, width] = more;
      const series = parts[0].type === "bins" ? parts[0].series : kg.seriesOf(parts[0], groupOf, groups);
      return series.map((s) => {
        const out = new Float64Array(columns);
        kg.addShares(parts[0], s, 0, width, columns, out, 0);
        return [s.track, s.group, Array.from(out)];
      });"""
    group_of = made.kinds.group.tolist()
    got = evaluate(blank, body, packing.frame({}, [part]), group_of, GROUPS, columns, width)
    code = made.track * GROUPS + made.kinds.group[made.kind]
    used, series = np.unique(code, return_inverse=True)
    want = pyramid.bins(made.start, made.end, series, (0, columns * width), columns)
    assert want.width == width
    assert [(t * GROUPS + g) for t, g, _ in got] == used.tolist()
    # Inside a bin the time is taken to be spread evenly: a column is off by its two bins at most.
    slack = 2 * part.about["width"] / width if bins else 1e-9
    for row, (track, _, shares) in enumerate(got):
        if not made.tracks[track].overflow:
            assert shares == pytest.approx((want.busy_ns[row] / width).tolist(), abs=slack)


@pytest.mark.browser
def test_the_pointer_finds_the_kernel_under_it(blank: Page) -> None:
    made = scene(3, 1)
    body = "return more[0].map(([track, t]) => kg.kernelAt(parts[0], track, t, 0));"
    asked = [
        (int(made.track[i]), int(made.start[i])) for i in range(made.count) if made.end[i] > made.start[i]
    ]
    got = evaluate(blank, body, packing.frame({}, [packing.kernels(made)]), asked)
    for i, (track, t) in zip(got, asked, strict=True):
        assert made.start[i] <= t < made.end[i]
        assert made.track[i] == track


@pytest.mark.browser
def test_times_are_written_as_by_the_other_views(blank: Page) -> None:
    from dashboard.format import duration

    values = [0, 1, 999, 1_000, 1_500, 999_999, 21_340_000, 3_723_000_000_000, -2_500]
    assert blank.evaluate("values => values.map(kg.duration)", values) == [duration(v) for v in values]
    ticks = blank.evaluate(
        "[[0, 5], [1500, 500], [2e6, 1e6], [1234567, 1], [-3e9, 1e9]].map((a) => kg.tickText(...a))"
    )
    assert ticks == ["0", "1.5 µs", "2 ms", "1.234567 ms", "-3 s"]


@pytest.mark.browser
def test_the_search_takes_the_words_that_the_server_takes(blank: Page) -> None:
    names = ["void Gemm_f16<128>", "gemm f32", "norm", ""]
    legend = {"names": names, "name": [0, 1, 2, 3, 0]}
    for words in ("gemm", "F16 gemm", "norm", "zzz"):
        got = blank.evaluate("([legend, words]) => Array.from(kg.matching(legend, words))", [legend, words])
        want = [all(w in names[n].lower() for w in words.lower().split()) for n in legend["name"]]
        assert got == [int(w) for w in want]
    assert blank.evaluate("kg.matching({ names: [], name: [] }, '  ')") is None
