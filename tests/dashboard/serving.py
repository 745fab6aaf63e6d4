"""A running dashboard and a browser that notices scripts, errors and requests to anywhere else."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, ConsoleMessage, Dialog, Page, Request

ROOT = Path(__file__).parents[2]
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-sync",
         "--disable-component-update", "--no-first-run"]  # fmt: skip
START_S, DRAW_MS = 60, 60_000


@contextlib.contextmanager
def served(shelf: Path) -> Iterator[str]:
    """The address of a dashboard on this store; started elsewhere, as its settings lie beside the page."""
    if CHROMIUM is None:
        pytest.skip("Chromium is not on the PATH")
    pytest.importorskip("playwright", reason="playwright is not installed")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "streamlit", "run", str(ROOT / "dashboard" / "app.py")]
    flags = ["--server.headless", "true", "--server.fileWatcherType", "none"]
    server = subprocess.Popen(
        [*command, *flags, "--server.port", str(port)],
        cwd=shelf, env={**os.environ, "KERNELGAP_STORE": str(shelf)},
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        _await_health(server, f"http://127.0.0.1:{port}/_stcore/health")
        yield f"http://127.0.0.1:{port}/"
    finally:
        server.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            server.wait(10)
        server.kill()
        server.wait()


def _await_health(server: subprocess.Popen[bytes], url: str) -> None:
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


@contextlib.contextmanager
def browser_window() -> Iterator[Browser]:
    """Headless Chromium."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield chromium
        chromium.close()


@contextlib.contextmanager
def guarded(browser: Browser, *homes: str) -> Iterator[Page]:
    """A fresh page; on leaving, console errors, dialogs and requests beyond `homes` fail the test."""
    page = browser.new_page()
    wrong: list[str] = []
    known = (*homes, *(h.replace("http", "ws", 1) for h in homes), "data:", "blob:")

    def heard(message: ConsoleMessage) -> None:
        if message.type == "error":
            wrong.append(f"console: {message.text}")

    def asked(request: Request) -> None:
        if not request.url.startswith(known):
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
