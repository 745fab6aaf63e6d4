"""The check by hand in docs/attribution.md holds for the gallery as it is."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

ROOT = Path(__file__).parents[3]


def test_the_decode_step_checked_by_hand(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "attribution.md").read_text(), re.DOTALL)
    exec(compile(code, "docs/attribution.md", "exec"), {})
    assert "TB/s" in capsys.readouterr().out
