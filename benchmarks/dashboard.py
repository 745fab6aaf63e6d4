"""How fast the dashboard's timeline is in a real browser, by the number of kernels in each of the two runs.

    python -m benchmarks.dashboard [--kernels 200000 1000000 5000000] [-n 3] [--json FILE]

Both runs are synthetic (`benchmarks.timelines`, seeds 7 and 8), written to a temporary folder and removed.
Each of the n rounds starts a server and a browser of its own. What is measured:

    cold         navigation to the first picture: the server has read nothing yet
    warm         the same in a second tab: the server has both runs, the browser nothing
    frame        from one frame to the next while zooming over the whole runs, 160 frames, 16.7 ms at best
    draw         of that, the time in which the picture is drawn
    rerun        from telling the server of another window to its numbers on the page, in the warm tab
    MB           what the first picture needs over the web socket
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from benchmarks import timelines
from traces import store

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Page

ROOT: Final = Path(__file__).parents[1]
FLAGS: Final = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking")
SIZE: Final = {"width": 1400, "height": 1100}
START_S, DRAW_MS = 60, 180_000
_HERE: Final = (
    "document.querySelector('[data-testid=stBidiComponentIsolated]')?.shadowRoot"
    "?.querySelector('.kg')?.timeline"
)
_FRAMES: Final = """async (root) => {
  const tl = root.timeline, frames = [], draws = [];
  const next = () => new Promise(requestAnimationFrame);
  tl.show(tl.whole.lo, tl.whole.hi);
  let before = await next();
  for (let i = 0; i < 160; i++) {
    tl.zoom(i % 80 < 40 ? 0.85 : 1 / 0.85);
    const now = await next();
    frames.push(now - before);
    draws.push(tl.frameMs);
    before = now;
  }
  return { frames, draws };
}"""
_RERUN: Final = """async (root) => {
  const tl = root.timeline, wide = tl.view.hi - tl.view.lo;
  tl.show(tl.view.lo + wide / 10, tl.view.hi + wide / 10);
  const began = performance.now(), wanted = Math.round(tl.view.lo);
  tl.report();
  while (tl.page.totals.of[0] !== wanted) await new Promise((done) => setTimeout(done, 4));
  return performance.now() - began;
}"""
ROWS: Final = (
    ("cold", "s", "cold_s"), ("warm", "s", "warm_s"), ("frame p50", "ms", "frame_p50_ms"),
    ("frame p95", "ms", "frame_p95_ms"), ("draw p95", "ms", "draw_p95_ms"), ("rerun", "ms", "rerun_ms"),
    ("socket", "MB", "socket_mb"), ("browser heap", "MB", "heap_mb"), ("server RSS", "MB", "server_mb"),
)  # fmt: skip


def case(kernels: int, rounds: int) -> dict[str, Any]:
    """Measure one size; returns every single measurement by name."""
    out: dict[str, Any] = {"kernels": kernels, "load_average": os.getloadavg()[0], "rounds": []}
    with tempfile.TemporaryDirectory() as folder:
        for name, seed, faster in (("a", 7, 1.0), ("b", 8, 1.3)):
            variant = "cuda" if name == "a" else "triton"
            store.write(timelines.made(kernels, seed, variant, faster), Path(folder) / f"{name}.parquet")
        for _ in range(rounds):
            with served(Path(folder)) as (address, server), chromium() as browser:
                out["rounds"].append(measured(browser, address) | {"server_mb": rss_mb(server)})
            print(f"  {kernels:,} kernels: {out['rounds'][-1]}", file=sys.stderr)
    return out


def measured(browser: Browser, address: str) -> dict[str, float]:
    """One round: a cold tab, then a warm one in which the rest is measured."""
    found: dict[str, float] = {}
    for name in ("cold_s", "warm_s"):
        with browser.new_context(viewport=SIZE) as context:  # type: ignore[arg-type]
            page = context.new_page()
            received = heard(page)
            began = time.perf_counter()
            page.goto(f"{address}?view=Timeline&a=a&b=b")
            page.wait_for_function(f"{_HERE}?.frames > 0", timeout=DRAW_MS)
            found[name] = time.perf_counter() - began
            found["socket_mb"] = sum(received) / 1e6
            page.wait_for_timeout(2_000)
            if name == "warm_s":
                found |= used(page)
    return found


def used(page: Page) -> dict[str, float]:
    """What zooming and telling the server cost in a page that is drawn."""
    root = page.locator(".kg")
    reruns = [root.evaluate(_RERUN) for _ in range(5)]
    times = root.evaluate(_FRAMES)
    frames, draws = sorted(times["frames"]), sorted(times["draws"])
    page.wait_for_timeout(1_000)
    return {
        "frame_p50_ms": statistics.median(frames), "frame_p95_ms": quantile(frames, 0.95),
        "draw_p95_ms": quantile(draws, 0.95), "rerun_ms": statistics.median(reruns),
        "heap_mb": page.evaluate("performance.memory.usedJSHeapSize") / 1e6,
    }  # fmt: skip


def heard(page: Page) -> list[int]:
    """A list that grows by the bytes of each message the page gets over its web sockets."""
    sizes: list[int] = []
    page.on("websocket", lambda ws: ws.on("framereceived", lambda data: sizes.append(len(data))))
    return sizes


def quantile(ordered: list[float], share: float) -> float:
    """By nearest rank (Hyndman & Fan 1996, type 1)."""
    return ordered[max(-int(-share * len(ordered) // 1), 1) - 1]


@contextlib.contextmanager
def served(runs: Path) -> Iterator[tuple[str, int]]:
    """A dashboard over a folder of runs: its address and process."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "streamlit", "run", "dashboard/app.py", "--server.headless", "true"]
    options = ["--server.port", str(port), "--server.fileWatcherType", "none"]
    server = subprocess.Popen(
        [*command, *options], cwd=ROOT, env={**os.environ, "KERNELGAP_STORE": str(runs)},
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        await_health(server, f"http://127.0.0.1:{port}/_stcore/health")
        yield f"http://127.0.0.1:{port}/", server.pid
    finally:
        server.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            server.wait(10)
        server.kill()
        server.wait()


def await_health(server: subprocess.Popen[bytes], url: str) -> None:
    """Return once the server answers. Raises RuntimeError if it ends or stays silent."""
    end = time.monotonic() + START_S
    while time.monotonic() < end and server.poll() is None:
        with contextlib.suppress(urllib.error.URLError, ConnectionError), urllib.request.urlopen(url):
            return
        time.sleep(0.1)
    raise RuntimeError("streamlit did not start")


@contextlib.contextmanager
def chromium() -> Iterator[Browser]:
    """A headless browser. Raises SystemExit without one."""
    from playwright.sync_api import sync_playwright

    path = next(
        (p for n in ("chromium", "chromium-browser", "google-chrome") if (p := shutil.which(n))), None
    )
    if path is None:
        raise SystemExit("Chromium is not on the PATH; install it to measure the dashboard")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        try:
            yield browser
        finally:
            browser.close()


def rss_mb(process: int) -> float:
    """The resident memory of a process now. Linux only."""
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def table(cases: list[dict[str, Any]]) -> str:
    """A Markdown table: medians over the rounds, with least and most in brackets."""
    lines = [
        "| | " + " | ".join(f"2 × {c['kernels']:,} kernels" for c in cases) + " |",
        "|---|" + "--:|" * len(cases),
    ]
    for name, unit, key in ROWS:
        cells = []
        for each in cases:
            values = [r[key] for r in each["rounds"]]
            digits = 2 if unit == "s" else 1 if unit == "ms" else 0
            least, middle, most = (f"{f(values):,.{digits}f}" for f in (min, statistics.median, max))
            cells.append(f"{middle} ({least}–{most})")
        lines.append(f"| {name}, {unit} | " + " | ".join(cells) + " |")
    lines.append("| rounds | " + " | ".join(str(len(c["rounds"])) for c in cases) + " |")
    lines.append("| load average before | " + " | ".join(f"{c['load_average']:.1f}" for c in cases) + " |")
    return "\n".join(lines)


def main(words: list[str] | None = None) -> None:
    """Measure, print the table, and write the single measurements if asked to."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--kernels", type=int, nargs="+", default=[200_000, 1_000_000, 5_000_000])
    parser.add_argument("-n", type=int, default=3, help="rounds, each with a server of its own")
    parser.add_argument("--json", type=Path, help="write the single measurements here")
    asked = parser.parse_args(words)
    cases = [case(kernels, asked.n) for kernels in asked.kernels]
    machine = {"cpus": os.cpu_count(), "python": platform.python_version(), "system": platform.platform()}
    print(table(cases))
    print("\n" + ", ".join(f"{name} {value}" for name, value in machine.items()))
    if asked.json:
        asked.json.write_text(json.dumps({"machine": machine, "cases": cases}, indent=1))


if __name__ == "__main__":
    main()
