"""The timeline in a real browser: keys, search, ranges and links; its sums are those of `traces/`."""

from __future__ import annotations

import urllib.parse
from typing import TYPE_CHECKING, Any

import pytest

from tests.dashboard.builders import HOSTILE, baseline, candidate
from tests.dashboard.test_browser import DRAW_MS, address, at, browser, tab  # noqa: F401
from traces.analysis import canvas

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

pytestmark = pytest.mark.browser

Address = str
DRAWN = "document.querySelector('[data-testid=stBidiComponentIsolated]')?.shadowRoot" \
        "?.querySelector('.kg')?.timeline?.frames > 0"  # fmt: skip


def opened(page: Page, where: str, **query: str) -> Locator:
    """The timeline, with the keys on it."""
    page.goto(at(where, **{"a": "base", "b": "cand", "view": "Timeline", **query}))
    page.wait_for_function(DRAWN, timeout=DRAW_MS)
    stage = page.locator(".kg-stage")
    stage.focus()
    return stage


def query(page: Page) -> dict[str, str]:
    return dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(page.url).query))


def window(page: Page) -> tuple[int, int]:
    low, _, high = query(page)["window"].partition("..")
    return int(low), int(high)


def state(page: Page) -> dict[str, Any]:
    """What the picture shows now."""
    found: dict[str, Any] = page.locator(".kg").evaluate(
        "e => ({lo: e.timeline.view.lo, hi: e.timeline.view.hi, selected: e.timeline.selected})"
    )
    return found


def until(page: Page, text: str) -> None:
    page.wait_for_function(f"location.search.includes('{text}')", timeout=DRAW_MS)


def test_keys_zoom_and_the_address_follows_and_a_reload_shows_the_same(tab: Page, address: Address) -> None:  # noqa: F811
    opened(tab, address, step="1")
    until(tab, "window=0..12000")
    for key in ("w", "ArrowUp", "d"):
        tab.keyboard.press(key)
    tab.wait_for_function("!location.search.includes('window=0..12000')", timeout=DRAW_MS)
    low, high = window(tab)
    assert 0 < low < high < 12_000
    tab.reload()
    tab.wait_for_function(DRAWN, timeout=DRAW_MS)
    assert window(tab) == (low, high)
    now = state(tab)
    assert (round(now["lo"]), round(now["hi"])) == (low, high)
    assert query(tab)["step"] == "1"


def test_a_plain_wheel_scrolls_and_one_with_ctrl_zooms(tab: Page, address: Address) -> None:  # noqa: F811
    stage = opened(tab, address, step="1")
    stage.hover()
    before, top = state(tab), stage.bounding_box()
    assert top is not None
    tab.mouse.wheel(0, 200)
    tab.wait_for_timeout(300)
    assert state(tab) == before
    moved = stage.bounding_box()
    assert moved is not None
    assert moved["y"] < top["y"], "the page did not scroll"
    tab.mouse.wheel(0, -200)
    tab.wait_for_timeout(300)
    stage.hover()
    tab.keyboard.down("Control")
    tab.mouse.wheel(0, -200)
    tab.keyboard.up("Control")
    tab.wait_for_function(
        f"document.querySelector('[data-testid=stBidiComponentIsolated]').shadowRoot"
        f".querySelector('.kg').timeline.view.hi < {before['hi']}",
        timeout=DRAW_MS,
    )


def test_dot_and_comma_go_through_the_kernels_of_a_name(tab: Page, address: Address) -> None:  # noqa: F811
    opened(tab, address, step="1", kernel="a:3")
    tab.wait_for_selector(".kg-below h4:has-text('A: mm')", timeout=DRAW_MS)
    tab.keyboard.press(".")
    until(tab, "kernel=a%3A6")
    low, high = window(tab)
    assert low <= 10_000 < high, "the next one is in view"
    tab.keyboard.press(",")
    tab.keyboard.press(",")
    until(tab, "kernel=a%3A0")
    assert state(tab)["selected"]["place"] == 0


def test_search_counts_and_enter_goes_around(tab: Page, address: Address) -> None:  # noqa: F811
    opened(tab, address, step="0")
    tab.keyboard.press("/")
    tab.keyboard.type("m")
    assert tab.locator(".kg-count").inner_text() == "6 found (A 3, B 3)"
    seen = []
    for _ in range(7):
        tab.keyboard.press("Enter")
        tab.wait_for_timeout(60)
        kernel = state(tab)["selected"]
        seen.append((kernel["run"], kernel["place"]))
    assert seen == [(0, 0), (0, 3), (0, 6), (1, 0), (1, 3), (1, 6), (0, 0)]
    assert tab.locator(".kg-count").inner_text() == "1 of 6 found (A 3, B 3)"
    tab.keyboard.press("Shift+Enter")
    tab.wait_for_timeout(60)
    assert (state(tab)["selected"]["run"], state(tab)["selected"]["place"]) == (1, 6)
    until(tab, "find=m")


def test_a_dragged_range_is_added_up_as_by_the_ledger(tab: Page, address: Address) -> None:  # noqa: F811
    stage = opened(tab, address, step="1")
    box = stage.bounding_box()
    assert box is not None
    y = box["y"] + 120
    tab.mouse.move(box["x"] + 300, y)
    tab.mouse.down()
    tab.mouse.move(box["x"] + 600, y)
    tab.mouse.up()
    until(tab, "range=")
    low, _, high = query(tab)["range"].partition("..")
    tab.wait_for_selector(".kg-below h4:text-matches('^Range: [^…]*$')", timeout=DRAW_MS)
    origins = {"A": 10_000, "B": 12_000}
    for i, (side, run) in enumerate((("A", baseline()), ("B", candidate()))):
        want = canvas.totals(canvas.lay_out(run), int(low) + origins[side], int(high) + origins[side])
        assert column(tab, 1 + 2 * i) == {**want.busy, "idle": want.idle_ns, "kernels": want.kernels}


def column(page: Page, number: int) -> dict[str, int]:
    """One column of the table of sums, without the groups that did not run."""
    rows = page.locator(".kg-below tbody tr")
    found = {}
    for i in range(rows.count()):
        cells = rows.nth(i).locator("th, td").all_inner_texts()
        value = int(cells[number].replace(",", ""))
        if value or cells[0] in ("idle", "kernels"):
            found[cells[0]] = value
    return found


def test_a_click_shows_what_is_known_of_a_kernel(tab: Page, address: Address) -> None:  # noqa: F811
    stage = opened(tab, address, step="1")
    box = stage.bounding_box()
    assert box is not None
    tab.mouse.click(box["x"] + 200, box["y"] + 110)
    details = tab.locator(".kg-below dl")
    details.get_by_text("device 0, stream 7").wait_for(timeout=DRAW_MS)
    text = details.inner_text()
    for part in ("gemm", "layers.0.mlp", "0 ns on the axis, 10,000 ns in the run", "6.00 µs (6,000 ns)"):
        assert part in text
    until(tab, "kernel=a%3A3")
    tab.keyboard.press("Escape")
    tab.wait_for_function("!location.search.includes('kernel=')", timeout=DRAW_MS)


def test_the_picker_and_the_brackets_change_the_step(tab: Page, address: Address) -> None:  # noqa: F811
    opened(tab, address, step="0")
    tab.keyboard.press("]")
    until(tab, "step=1")
    tab.get_by_label("Step at the origin of the axis").select_option("")
    until(tab, "step=whole")
    tab.get_by_label("Show the whole runs").click()
    tab.wait_for_timeout(100)
    assert state(tab)["hi"] >= 35_000


def test_the_keys_are_listed_and_the_picture_is_described(tab: Page, address: Address) -> None:  # noqa: F811
    stage = opened(tab, address, step="1")
    assert tab.locator(".kg-keys").is_hidden()
    tab.keyboard.press("?")
    assert "next, previous kernel of the same name" in tab.locator(".kg-keys").inner_text()
    label = stage.get_attribute("aria-label") or ""
    assert label.startswith("Timeline of both runs, streams by time.")
    assert "A 4 kernels, busy 11.00 µs" in label


def test_hostile_names_stay_text_in_the_tooltip_and_the_details(tab: Page, address: Address) -> None:  # noqa: F811
    stage = opened(tab, address, a="evil", b="cand", step="0")
    box = stage.bounding_box()
    assert box is not None
    tab.mouse.move(box["x"] + 120, box["y"] + 110)
    tab.locator(".kg-tip").wait_for(timeout=DRAW_MS)
    assert HOSTILE[0] in tab.locator(".kg-tip").inner_text()
    tab.mouse.click(box["x"] + 120, box["y"] + 110)
    tab.wait_for_selector(f".kg-below h4:has-text('{HOSTILE[0]}')", timeout=DRAW_MS)
    assert tab.locator(".kg img, .kg script, .kg a").count() == 0


@pytest.mark.parametrize(("theme", "dark"), [("light", False), ("dark", True)])
def test_the_ground_follows_the_theme(tab: Page, address: Address, theme: Any, dark: bool) -> None:  # noqa: F811
    tab.emulate_media(color_scheme=theme)
    opened(tab, address, step="1")
    pixel = tab.locator(".kg-stage canvas").evaluate(
        "c => [...c.getContext('2d').getImageData(1, 60, 1, 1).data]"
    )
    assert (sum(pixel[:3]) < 380) == dark
