"""A library of two small runs, and the page opened on it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from streamlit.testing.v1 import AppTest

from tests.dashboard.builders import baseline, candidate
from traces import store

if TYPE_CHECKING:
    from collections.abc import Callable

APP = Path(__file__).parents[2] / "dashboard" / "app.py"


@pytest.fixture(autouse=True)
def main_module(monkeypatch: pytest.MonkeyPatch) -> None:
    """AppTest leaves the page's script as `__main__`, which a process spawned by a later test would run."""
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty store, and no gallery."""
    monkeypatch.setenv("KERNELGAP_STORE", str(tmp_path))
    monkeypatch.setattr(store, "gallery", lambda: tmp_path / "no gallery")
    return tmp_path


@pytest.fixture
def pair(shelf: Path) -> Path:
    """A store with the baseline and the candidate."""
    for each in (baseline(), candidate()):
        store.write(each, shelf / store.file_name(each.meta))
    return shelf


@pytest.fixture
def page() -> Callable[..., AppTest]:
    """Opens the page at an address, given as query parameters."""

    def opened(**address: str | list[str]) -> AppTest:
        at = AppTest.from_file(str(APP), default_timeout=60)
        for name, value in address.items():
            at.query_params[name] = value
        return at.run()

    return opened
