"""The page in a real browser: charts are drawn, nothing fails or leaves the machine, links hold."""

from __future__ import annotations

import re
import urllib.parse
from typing import TYPE_CHECKING, Literal

import pytest

from tests.dashboard.builders import HOSTILE, baseline, candidate, made
from tests.dashboard.serving import DRAW_MS, browser_window, guarded, served
from traces import store

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A running dashboard on a store with two runs, a hostile one and a broken file."""
    shelf = tmp_path_factory.mktemp("runs")
    store.write(baseline(), shelf / "base.parquet")
    store.write(candidate(), shelf / "cand.parquet")
    evil = [(name, "gemm", 900 - 100 * i) for i, name in enumerate(HOSTILE)]
    store.write(made("cuda", evil, 5_000, model=HOSTILE[0], mode=HOSTILE[1]), shelf / "evil.parquet")
    (shelf / "broken.parquet").write_bytes(b"?")
    with served(shelf) as url:
        yield url


@pytest.fixture(scope="module")
def browser(address: str) -> Iterator[Browser]:
    with browser_window() as window:
        yield window


@pytest.fixture
def tab(browser: Browser, address: str) -> Iterator[Page]:
    """A fresh page that fails the test on console errors, dialogs and requests to anywhere else."""
    with guarded(browser, address) as page:
        yield page


def at(address: str, **query: str) -> str:
    return f"{address}?{urllib.parse.urlencode(query)}"


@pytest.mark.parametrize("view", ["Overview", "Waterfall"])
def test_charts_are_drawn(tab: Page, address: str, view: str) -> None:
    tab.goto(at(address, a="base", b="cand", view=view))
    tab.wait_for_selector(".js-plotly-plot .bars path", timeout=DRAW_MS, state="attached")
    assert tab.locator(".js-plotly-plot").count() == 1


def test_the_view_and_the_runs_survive_a_reload(tab: Page, address: str) -> None:
    tab.goto(at(address, a="cand", b="base"))
    tab.get_by_text("Waterfall", exact=True).click(timeout=DRAW_MS)
    tab.wait_for_selector("h4:has-text('faster than A')", timeout=DRAW_MS)
    tab.wait_for_function("location.search.includes('view=Waterfall')", timeout=DRAW_MS)
    tab.reload()
    tab.wait_for_selector(".js-plotly-plot .bars path", timeout=DRAW_MS, state="attached")
    assert {"a=cand", "b=base", "view=Waterfall"} <= set(urllib.parse.urlsplit(tab.url).query.split("&"))
    assert "faster than A" in tab.locator("h4").first.inner_text()


def test_digits_are_keys_of_the_views(tab: Page, address: str) -> None:
    tab.goto(at(address, a="base", b="cand"))
    tab.wait_for_selector("[data-testid=stMetric]", timeout=DRAW_MS)
    tab.wait_for_load_state("networkidle")
    tab.keyboard.press("2")
    tab.wait_for_function("location.search.includes('view=Waterfall')", timeout=DRAW_MS)


def test_the_link_to_copy_is_the_address_with_every_choice(tab: Page, address: str) -> None:
    tab.goto(at(address, a="base", b="cand", view="Kernels", q="mm", side="B"))
    tab.wait_for_selector("[data-testid=stDataFrame]", timeout=DRAW_MS)
    tab.get_by_role("button", name="Link").click()
    shown = tab.locator("[data-testid=stPopoverBody] code")
    shown.wait_for(timeout=DRAW_MS)
    assert urllib.parse.parse_qs(urllib.parse.urlsplit(shown.inner_text().strip()).query) == {
        "a": ["base"], "b": ["cand"], "view": ["Kernels"], "q": ["mm"], "side": ["B"],
    }  # fmt: skip


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


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_both_themes_draw_on_their_own_ground(
    tab: Page, address: str, theme: Literal["light", "dark"]
) -> None:
    tab.emulate_media(color_scheme=theme)
    tab.goto(at(address, a="base", b="cand", view="Waterfall"))
    tab.wait_for_selector(".js-plotly-plot .bars path", timeout=DRAW_MS, state="attached")
    ground = tab.evaluate("getComputedStyle(document.querySelector('[data-testid=stApp]')).backgroundColor")
    shades = [int(n) for n in re.findall(r"\d+", ground)[:3]]
    assert (sum(shades) < 380) == (theme == "dark")


def test_an_uploaded_trace_becomes_a_run_and_a_broken_one_a_sentence(
    tab: Page, address: str, tmp_path: Path
) -> None:
    (tmp_path / "half.json").write_text('{"traceEvents": [')
    store.write(candidate(run_id="fromafar"), tmp_path / "up.parquet")
    tab.goto(at(address, a="base", b="cand", view="Library"))
    tab.wait_for_selector("[data-testid=stFileUploader]", timeout=DRAW_MS)
    tab.set_input_files(
        "[data-testid=stFileUploader] input[type=file]", [tmp_path / "half.json", tmp_path / "up.parquet"]
    )
    tab.locator("[data-testid=stAlert]").nth(1).wait_for(timeout=DRAW_MS)
    broken, fine = (tab.locator("[data-testid=stAlert]").nth(n).inner_text() for n in range(2))
    assert "no trace events" in broken
    assert "fromafar" in fine
