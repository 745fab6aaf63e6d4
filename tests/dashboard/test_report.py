"""The page of a comparison: the dashboard's numbers, in one file that asks for nothing."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from dashboard.report import content, page
from dashboard.rows import rows_of
from tests.dashboard.builders import HOSTILE, baseline, candidate, made
from tests.traces.builders import run
from traces import store
from traces.analysis.compare import compare
from traces.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from traces.store import Run


def built(a: Run, b: Run, phase: str | None = None) -> str:
    """The page without its scripts, which are megabytes."""
    return re.sub(r"<script>.*?</script>\n", "", content.build(a, b, phase), flags=re.DOTALL)


def figures(text: str) -> dict[str, Any]:
    found = re.findall(r'<script type="application/json" data-figure="(\w+)">(.*?)</script>', text, re.DOTALL)
    return {name: json.loads(data) for name, data in found}


def test_it_says_what_the_dashboard_says() -> None:
    text = built(baseline(), candidate())
    result = compare(baseline(), candidate())
    assert page.text(result.sentence.split(":")[0]) in text
    for said in ("12.00 µs", "91.7 %", "Kernels per token", "Trace health of A: ✓ nothing lost", "≠"):
        assert said in text
    for row in rows_of(result):
        assert f"<td>{page.text(row.name)}</td>" in text
    assert list(figures(text)) == ["waterfall", "groups", "timeline"]


def test_the_timeline_draws_each_kernel_of_one_step() -> None:
    drawn = figures(built(baseline(), candidate()))["timeline"]["data"]
    assert sum(len(t["customdata"]) for t in drawn) == 6


def test_too_many_kernels_become_shares() -> None:
    many = made("cuda", [("mm", "gemm", 1)] * 1_600, 2_000)
    text = built(many, many)
    assert "shown as busy shares" in text
    bars = figures(text)["timeline"]["data"]
    assert len(bars) < 20


def test_only_its_own_scripts_may_run_and_nothing_is_fetched() -> None:
    text = content.build(baseline(), candidate())
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert policy.count("sha256-") == 2
    shell = built(baseline(), candidate())
    assert not re.findall(r"(?:src|href|action)=", shell)
    assert "prefers-color-scheme: dark" in shell


def test_hostile_names_are_text() -> None:
    evil = made("cuda", [(name, "gemm", 900 - 100 * i) for i, name in enumerate(HOSTILE)], 5_000,
                model=HOSTILE[0], mode=HOSTILE[2], health={"notes": [HOSTILE[0]]})  # fmt: skip
    text = built(evil, candidate())
    assert "<img" not in text
    assert text.count("<script") == text.count("</script>") == 3
    assert "\u202e" not in text
    assert "\x00" not in text


@pytest.mark.parametrize("known", [{"steps": []}, {"device": {"type": "cpu"}}, {"workload": None}])
def test_runs_that_know_little_make_a_page(known: dict[str, Any]) -> None:
    text = built(baseline(**known), candidate(**known))
    assert "The same from the command line" in text
    assert ("CPU, not a GPU latency" in text) == ("device" in known)


def test_runs_without_modules_have_no_table_of_them() -> None:
    bare = run([{"start_ns": 0, "dur_ns": 5}])
    text = built(bare, bare)
    assert "By module" not in text
    assert "By category" in text
    assert "The runs are not files." in text


def test_an_empty_run_and_an_unknown_phase_are_refused() -> None:
    one = baseline()
    with pytest.raises(UsageError, match="empty run"):
        content.build(store.Run(one.table.slice(0, 0), one.meta), one)
    with pytest.raises(UsageError):
        content.build(one, one, "nope")


def test_the_same_run_twice_differs_by_nothing(tmp_path: Path) -> None:
    path = store.write(baseline(), tmp_path / "a b.parquet")
    one = store.read(path)
    text = built(one, one)
    assert "takes exactly as long" in text
    assert "python -m profiler export &#x27;a b.parquet&#x27; &#x27;a b.parquet&#x27; --to html" in text
