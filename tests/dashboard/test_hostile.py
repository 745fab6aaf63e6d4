"""Sixty hostile names, every view and the HTML page in Chromium: no script runs, nothing is fetched."""

from __future__ import annotations

import ast
import urllib.parse
from typing import TYPE_CHECKING

import pytest

from tests.dashboard.builders import HOSTILE, WORK
from tests.dashboard.serving import DRAW_MS, ROOT, browser_window, guarded, served
from tests.traces.builders import run, step
from traces import store

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser

BEACON = "http://198.51.100.7/"  # TEST-NET-2: must never be asked
# Each would call `alert`, which fails the test as a dialog, or fetch the beacon, which fails it as a request.
NAMES = [
    *HOSTILE,
    "<script>alert(1)</script>",
    "<ScRiPt>alert(1)</sCrIpT>",
    "<script src=//198.51.100.7/x.js></script>",
    "<svg onload=alert(1)>",
    "<svg/onload=alert(1)//",
    "<svg><script>alert(1)</script></svg>",
    "<body onload=alert(1)>",
    "<iframe src=javascript:alert(1)>",
    "<iframe srcdoc='<script>alert(1)</script>'>",
    "<img src=http://198.51.100.7/a.png>",
    "<img src=x onerror=\"alert('1')\">",
    "<IMG SRC=x ONERROR=alert(1)>",
    "<input autofocus onfocus=alert(1)>",
    "<details open ontoggle=alert(1)>",
    "<video><source onerror=alert(1)>",
    "<audio src=x onerror=alert(1)>",
    "<object data=http://198.51.100.7/>",
    "<embed src=http://198.51.100.7/>",
    "<link rel=stylesheet href=http://198.51.100.7/a.css>",
    "<style>@import 'http://198.51.100.7/a.css';</style>",
    '<div style="background:url(http://198.51.100.7/b.png)">',
    "<base href=http://198.51.100.7/>",
    "<meta http-equiv=refresh content='0;url=http://198.51.100.7/'>",
    "<form action=http://198.51.100.7/>",
    "<a href=javascript:alert(1)>x</a>",
    "<a href=http://198.51.100.7/ ping=http://198.51.100.7/>x</a>",
    "<math><mi xlink:href=data:x,<script>alert(1)</script>>",
    "<template><img src=x onerror=alert(1)></template>",
    '<noscript><p title="</noscript><img src=x onerror=alert(1)>">',
    "<marquee onstart=alert(1)>",
    "<b>bold</b><br><sup>1</sup>",
    '<a href="https://198.51.100.7/">plotly link</a>',
    "%{x} %{customdata}",
    "<extra></extra>%{y}",
    "![x](http://198.51.100.7/c.png)",
    "[x](http://198.51.100.7/)",
    "<http://198.51.100.7/>",
    "http://198.51.100.7/auto",
    "www.198.51.100.7.example",
    "# heading",
    "> quote",
    "| a | b |",
    "- [ ] task",
    "```\ncode\n```",
    ":material/home: :smile: :red-background[x]",
    "$$\\href{javascript:alert(1)}{x}$$",
    "\\[\\href{http://198.51.100.7/}{x}\\]",
    "<!--",
    "--><script>alert(1)</script>",
    "]]><script>alert(1)</script>",
    "';alert(1);//",
    '";alert(1);//',
    "`${alert(1)}`",
    "{{constructor.constructor('alert(1)')()}}",
    "javascript:alert(1)",
    "&lt;img src=x onerror=alert(1)&gt;",
    "&#60;img src=x onerror=alert(1)&#62;",
    "\u2028alert(1)\u2029",
    "\ufeff\u200b\u200d\U000e0041",
    "🏳️‍🌈\u0301\u0301\u0301",
    '=HYPERLINK("http://198.51.100.7/")',
    "<",
    "constructor",
    "__proto__",
]


def evil() -> store.Run:
    """Every name as kernel, module, op, shape, backend and launch call, over two steps."""
    rows = []
    for number in range(2):
        for i, name in enumerate(NAMES):
            at = number * 100_000 + i * 1_000
            rows.append(
                {
                    "start_ns": at, "dur_ns": 900 - i, "name": name, "op": name,
                    "module": f"layers.{i % 4}.{name}",
                    "phase": "decode", "step": number, "layer": i % 4, "link": "launch", "shape": name,
                    "backend": name, "rule": name, "category": "gemm" if i % 2 else name, "gap_cause": "host",
                    "group": "gemm" if i % 2 else "other", "launch_start_ns": at - 500, "launch_dur_ns": 100,
                    "launch_api": name, "process": 1, "thread": 1, "flops": 10**6, "min_bytes": 10**4,
                }
            )  # fmt: skip
    tiles = [step("decode", n, n * 100_000, (n + 1) * 100_000, complete=not n) for n in range(2)]
    device = {"type": "cuda", "name": NAMES[5], NAMES[8]: NAMES[9]}
    return run(
        rows, steps=tiles, model=NAMES[10], variant=NAMES[13], mode=NAMES[14], tool=NAMES[15], workload=WORK,
        device=device, versions={NAMES[6]: NAMES[7]}, source={"file": NAMES[0], "sha256": "0" * 64},
        health={
            "notes": NAMES[5:20], NAMES[5]: NAMES[6], "dropped": {NAMES[5]: {"count": 1, "first_offset": 2}},
        },
    )  # fmt: skip


def views() -> list[str]:
    """The names of all views, from the page's own list; importing it would draw the page."""
    tree = ast.parse((ROOT / "dashboard" / "app.py").read_text("utf-8"))
    (table,) = (
        n.value
        for n in tree.body
        if isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name) and n.target.id == "VIEWS"
    )
    assert isinstance(table, ast.Dict)
    return [k.value for k in table.keys if isinstance(k, ast.Constant)] + ["Library"]  # type: ignore[misc]


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    store.write(evil(), folder / "evil.parquet")
    store.write(evil(), folder / "<img src=x onerror=alert(1)> __x__.parquet")
    (folder / "<svg onload=alert(1)>.parquet").write_bytes(b"?")
    return folder


@pytest.fixture(scope="module")
def address(shelf: Path) -> Iterator[str]:
    with served(shelf) as url:
        yield url


@pytest.fixture(scope="module")
def browser(address: str) -> Iterator[Browser]:
    with browser_window() as window:
        yield window


def unharmed(tab: Page) -> None:
    """Nothing of the names became an element that could act."""
    found = tab.evaluate(
        """() => [...document.querySelectorAll(
                "img, iframe, object, embed, base, form, svg, a, [onerror], [onload]")]
            .map((e) => [e.tagName, ...[...e.attributes].map((a) => a.name + "=" + a.value)].join(" "))
            .filter((t) => /198\\.51\\.100\\.7|alert\\(|javascript:/.test(t))"""
    )
    assert found == []


def test_there_are_at_least_sixty_names() -> None:
    assert len(set(NAMES)) >= 60


@pytest.mark.parametrize("view", views())
@pytest.mark.parametrize("by", ["kernel name", "module"])
def test_no_view_runs_or_fetches_anything(browser: Browser, address: str, view: str, by: str) -> None:
    query = {"a": "evil", "b": "evil", "view": view, "by": by, "health": "true", "q": "", "side": "B"}
    with guarded(browser, address) as tab:
        tab.goto(f"{address}?{urllib.parse.urlencode(query)}")
        tab.wait_for_selector("[data-testid=stCode]", timeout=DRAW_MS)
        tab.wait_for_load_state("networkidle")
        for chart in tab.locator(".js-plotly-plot .nsewdrag").all()[:3]:
            chart.hover(force=True, timeout=5_000)
            tab.wait_for_timeout(200)
        unharmed(tab)
        assert tab.locator("[data-testid=stException]").count() == 0


def test_the_html_page_runs_and_fetches_nothing(browser: Browser, shelf: Path, tmp_path: Path) -> None:
    from dashboard.report.content import build

    path = tmp_path / "page.html"
    one = store.read(shelf / "evil.parquet")
    path.write_text(build(one, one), "utf-8")
    with guarded(browser, path.as_uri()) as tab:
        tab.goto(path.as_uri())
        tab.wait_for_selector("body[data-drawn=all]", timeout=DRAW_MS, state="attached")
        for chart in tab.locator(".nsewdrag").all():
            chart.hover(force=True)
            tab.wait_for_timeout(200)
        unharmed(tab)
        assert tab.locator(".figure .main-svg").count() >= 3
        assert "<script>alert(1)</script>" in tab.locator("body").inner_text()


def test_the_policy_of_the_html_page_stops_what_its_escaping_would_miss(
    browser: Browser, tmp_path: Path
) -> None:
    from dashboard.report import page

    path = tmp_path / "page.html"
    bad = "<script>document.title = 'ran'</script><img src=x onerror=\"document.title = 'ran'\">"
    path.write_text(page.page("safe", f"{bad}<img src='{BEACON}x.png'>"), "utf-8")
    tab = browser.new_page()
    asked: list[str] = []
    tab.on("requestfinished", lambda request: asked.append(request.url))
    tab.goto(path.as_uri())
    tab.wait_for_selector("body[data-drawn=all]", timeout=DRAW_MS, state="attached")
    assert tab.title() == "safe"
    assert asked == [path.as_uri()]
    tab.close()
