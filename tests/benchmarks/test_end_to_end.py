"""The benchmark itself, on the CPU: it runs, takes turns, and its table says what its JSON says."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from benchmarks import end_to_end

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_runs_on_the_cpu(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = tmp_path / "report.json"
    code = end_to_end.main(
        [
            *("--model", "tiny", "--variant", "cuda,triton", "--mode", "eager", "--device", "cpu"),
            *("--rounds", "2", "--steps", "1", "--requests", "1", "--json", str(report)),
        ]
    )
    assert code == 0
    results = json.loads(report.read_text())["results"]
    assert [r["variant"] for r in results] == ["cuda", "cuda'", "triton"]
    assert [r["decode"]["n"] for r in results] == [2, 2, 2]
    assert all(r["request"]["n"] == 1 and r["tokens_per_s"] > 0 for r in results)
    rows = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| ")]
    assert len(rows) == 4
    assert "1.000x | 1.000x | 1.000x" in rows[1]


def test_unknown_variant_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert end_to_end.main(["--model", "tiny", "--variant", "nope"]) == 2
    assert "unknown variant 'nope'" in capsys.readouterr().err


def test_summary() -> None:
    assert end_to_end.summary([1.0, 2.0, 3.0, 4.0, 5.0]) == {"n": 5, "median_ms": 3.0, "iqr_ms": 2.0}
    assert end_to_end.summary([2.0]) == {"n": 1, "median_ms": 2.0, "iqr_ms": 0.0}
