"""The page in a real browser: charts are drawn, nothing fails or leaves the machine, names stay text."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.dashboard.builders import HOSTILE, baseline, candidate, made
from traces import store

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, ConsoleMessage, Dialog, Page, Request

pytestmark = pytest.mark.browser

ROOT = Path(__file__).parents[2]
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-sync",
         "--disable-component-update", "--no-first-run"]  # fmt: skip
START_S, DRAW_MS = 60, 60_000


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A running dashboard on a store with two runs, a hostile one and a broken file."""
    if CHROMIUM is None:
        pytest.skip("Chromium is not on the PATH")
    pytest.importorskip("playwright", reason="playwright is not installed")
    shelf = tmp_path_factory.mktemp("runs")
    store.write(baseline(), shelf / "base.parquet")
    store.write(candidate(), shelf / "cand.parquet")
    evil = [(name, "gemm", 900 - 100 * i) for i, name in enumerate(HOSTILE)]
    store.write(made("cuda", evil, 5_000, model=HOSTILE[0], mode=HOSTILE[1]), shelf / "evil.parquet")
    (shelf / "<img src=x onerror=alert(1)>.parquet").write_bytes(b"?")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "streamlit", "run", "dashboard/app.py", "--server.headless", "true"]
    server = subprocess.Popen(
        [*command, "--server.port", str(port), "--server.fileWatcherType", "none"],
        cwd=ROOT, env={**os.environ, "KERNELGAP_STORE": str(shelf)},
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        await_health(server, f"http://127.0.0.1:{port}/_stcore/health")
        yield f"http://127.0.0.1:{port}/"
    finally:
        server.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            server.wait(10)
        server.kill()
        server.wait()


def await_health(server: subprocess.Popen[bytes], url: str) -> None:
    end = time.monotonic() + START_S
    while time.monotonic() < end:
        assert server.poll() is None, "streamlit ended before it served"
        with (
            contextlib.suppress(urllib.error.URLError, ConnectionError),
            urllib.request.urlopen(url) as answer,
        ):
            if answer.status == 200:
                return
        time.sleep(0.2)
    pytest.fail(f"streamlit did not answer within {START_S} s")


@pytest.fixture(scope="module")
def browser(address: str) -> Iterator[Browser]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield chromium
        chromium.close()


@pytest.fixture
def tab(browser: Browser, address: str) -> Iterator[Page]:
    """A fresh page that fails the test on console errors, dialogs and requests to anywhere else."""
    page = browser.new_page()
    wrong: list[str] = []
    home = (address, address.replace("http", "ws", 1), "data:", "blob:")

    def heard(message: ConsoleMessage) -> None:
        if message.type == "error":
            wrong.append(f"console: {message.text}")

    def asked(request: Request) -> None:
        if not request.url.startswith(home):
            wrong.append(f"request: {request.url}")

    def opened(dialog: Dialog) -> None:
        wrong.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    page.on("console", heard)
    page.on("pageerror", lambda error: wrong.append(f"error: {error}"))
    page.on("request", asked)
    page.on("dialog", opened)
    yield page
    page.close()
    assert not wrong


def at(address: str, **query: str) -> str:
    return f"{address}?{urllib.parse.urlencode(query)}"


@pytest.mark.parametrize("view", ["Waterfall", "Timeline"])
def test_charts_are_drawn(tab: Page, address: str, view: str) -> None:
    tab.goto(at(address, a="base", b="cand", view=view))
    tab.wait_for_selector(".js-plotly-plot .bars path", timeout=DRAW_MS, state="attached")
    assert tab.locator(".js-plotly-plot").count() == 1


@pytest.mark.parametrize(
    "view", ["Overview", "Waterfall", "Icicle", "Kernels", "Layer", "Timeline", "Library"]
)
def test_hostile_names_run_no_script_and_fetch_nothing(tab: Page, address: str, view: str) -> None:
    tab.goto(at(address, a="evil", b="cand", view=view, by="kernel name"))
    tab.wait_for_selector("[data-testid=stCode]", timeout=DRAW_MS)
    if view in ("Waterfall", "Timeline"):
        tab.wait_for_selector(".js-plotly-plot .bars path", timeout=DRAW_MS, state="attached")
        tab.locator(".js-plotly-plot .nsewdrag").first.hover()
        tab.wait_for_timeout(300)
    if view == "Icicle":
        tab.locator(".js-plotly-plot .slice").nth(2).hover(timeout=DRAW_MS)
        tab.wait_for_timeout(300)
    assert tab.locator("img[src=x], a[href^=javascript]").count() == 0
    assert view != "Waterfall" or "<img src=x" in tab.locator(".js-plotly-plot").inner_text()


def test_the_view_and_the_runs_survive_a_reload(tab: Page, address: str) -> None:
    tab.goto(at(address, a="cand", b="base"))
    tab.get_by_text("Waterfall", exact=True).click(timeout=DRAW_MS)
    tab.wait_for_selector("h4:has-text('faster than A')", timeout=DRAW_MS)
    tab.wait_for_function("location.search.includes('view=Waterfall')", timeout=DRAW_MS)
    tab.reload()
    tab.wait_for_selector(".js-plotly-plot .bars path", timeout=DRAW_MS, state="attached")
    assert {"a=cand", "b=base", "view=Waterfall"} <= set(urllib.parse.urlsplit(tab.url).query.split("&"))
    assert "faster than A" in tab.locator("h4").first.inner_text()


def test_a_click_on_a_bar_lists_its_kernels_and_stays_in_the_address(tab: Page, address: str) -> None:
    tab.goto(at(address, a="base", b="cand", view="Waterfall"))
    tab.wait_for_selector(".js-plotly-plot .bars path", timeout=DRAW_MS, state="attached")
    tab.locator(".js-plotly-plot .bars path").nth(2).click(force=True)
    tab.wait_for_function("location.search.includes('part=')", timeout=DRAW_MS)
    tab.reload()
    tab.wait_for_selector("text=/kernels of .*, per step/", timeout=DRAW_MS)


@pytest.mark.parametrize("shape", ["Icicle", "Treemap"])
def test_a_click_on_a_part_looks_into_it_and_stays_in_the_address(
    tab: Page, address: str, shape: str
) -> None:
    tab.goto(at(address, a="base", b="cand", view="Icicle", side="A", shape=shape))
    tab.wait_for_selector(".js-plotly-plot .slice", timeout=DRAW_MS, state="attached")
    tab.wait_for_timeout(1_000)  # the listener looks for the chart now and then
    tab.locator(".js-plotly-plot .slice").nth(1).click(position={"x": 8, "y": 8})
    tab.wait_for_function("location.search.includes('at=')", timeout=DRAW_MS)
    tab.reload()
    crumb = tab.get_by_role("button", name="layers.0.mlp")
    crumb.wait_for(timeout=DRAW_MS)
    tab.get_by_role("button", name="decode step").click()
    tab.wait_for_function("!location.search.includes('at=')", timeout=DRAW_MS)
