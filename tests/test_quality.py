"""The checks that hold the code's shape: style, types, the direction of imports, and what README promises."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize(
    "command",
    [
        ["ruff", "check", "."],
        ["ruff", "format", "--check", "."],
        ["mypy"],
        ["importlinter.cli", "lint-imports"],
    ],
    ids=["style", "format", "types", "imports"],
)
def test_static_checks(command: list[str]) -> None:
    if command[0] == "importlinter.cli":
        run = [sys.executable, "-c", "from importlinter.cli import lint_imports_command as c; c()"]
    else:
        run = [sys.executable, "-m", *command]
    found = subprocess.run(run, cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert found.returncode == 0, found.stdout + found.stderr


def test_ci_runs_the_test_command_of_the_readme() -> None:
    commands = re.findall(r"^    (python3 -m venv .*)$", (ROOT / "README.md").read_text(), re.MULTILINE)
    (tests,) = [c for c in commands if c.endswith("pytest -n auto")]
    assert tests in (ROOT / ".ci" / "run").read_text()


def test_importing_traces_is_light() -> None:
    check = (
        "import sys, traces, traces.store, traces.ingest, traces.analysis.compare\n"
        "print({'torch', 'triton', 'streamlit', 'plotly', 'pandas'} & set(sys.modules))"
    )
    begin = time.monotonic()
    found = subprocess.run(
        [sys.executable, "-c", check], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert found.stdout.strip() == "set()"
    assert time.monotonic() - begin < 30  # a hang, not a benchmark


def test_the_repository_names_no_machine_paths() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout.split("\0")
    texts = [p for p in listed if p.endswith((".py", ".md", ".toml", ".jsonl", ".tsv"))]
    private = re.compile(r"(?<![\w.])/(?:root|home|work|Users)/\w")
    assert [p for p in texts if private.search((ROOT / p).read_text())] == []
