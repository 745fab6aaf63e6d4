"""`ingest --rules FILE`: a user's rules decide first, and the run says whose rules they were."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import pytest

from profiler.__main__ import main
from tests.traces.traces import host, kernel, trace, two_steps, write
from traces import store
from traces.attribution import patience

if TYPE_CHECKING:
    from pathlib import Path

MINE = '[[rule]]\nid = "mine"\npattern = "gemm"\ncategory = "gemv"\nbackend = "other"\n'


def test_rules_decide_and_are_named_without_their_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rules = tmp_path / "mine.toml"
    rules.write_text(MINE.replace('"gemm"', '"."'))
    out = tmp_path / "run.parquet"
    assert (
        main(["ingest", str(write(tmp_path / "t.json", two_steps())), "-o", str(out), "--rules", str(rules)])
        == 0
    )
    digest = hashlib.sha256(rules.read_bytes()).hexdigest()[:12]
    made = store.read(out)
    assert made.meta["health"]["rules"] == {"file": "mine.toml", "sha256": digest}
    assert set(made.table["category"].to_pylist()) == {"gemv"}
    assert set(made.table["rule"].to_pylist()) == {"mine"}
    assert f"rules: mine.toml (sha256 {digest}) decided before the shipped rules" in capsys.readouterr().err


def test_without_rules_health_names_none(tmp_path: Path) -> None:
    out = tmp_path / "run.parquet"
    assert main(["ingest", str(write(tmp_path / "t.json", two_steps())), "-o", str(out)]) == 0
    assert "rules" not in store.read(out).meta["health"]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (None, "cannot read the rules"),
        ("[[rule", "not a TOML file"),
        (MINE.replace("gemv", "gemvv"), "rule 'mine': unknown category 'gemvv'"),
        (MINE.replace('"gemm"', '"("'), "rule 'mine': bad regular expression"),
        (MINE.replace('"gemm"', '"a{99999999999}"'), "rule 'mine': bad regular expression"),
        ("a = " + "[" * 5000, "not a TOML file"),
    ],
)
def test_bad_rules_are_one_line_and_code_2_before_any_trace_is_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str | None, complaint: str
) -> None:
    rules = tmp_path / "mine.toml"
    if text is not None:
        rules.write_text(text)
    assert main(["ingest", str(tmp_path / "absent.json"), "--rules", str(rules)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    (line,) = captured.err.strip().splitlines()
    assert complaint in line
    assert "mine.toml" in line


def test_capture_checks_its_rules_before_it_runs_anything(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = tmp_path / "none.toml"
    assert main(["capture", "--device", "cpu", "-o", str(tmp_path / "runs"), "--rules", str(missing)]) == 2
    assert f"cannot read the rules {missing}" in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()


def test_a_pattern_that_never_ends_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patience, "SECONDS", 1.0)
    rules = tmp_path / "mine.toml"
    fine, endless = MINE, MINE.replace("mine", "endless").replace('"gemm"', '"^(a+)+$"\non = "full"')
    rules.write_text(fine + endless)
    source = write(tmp_path / "t.json", trace(kernel("a" * 60 + "!", 1, 2)))
    assert main(["ingest", str(source), "-o", str(tmp_path / "o.parquet"), "--rules", str(rules)]) == 2
    assert "mine.toml, rule 'endless': its pattern takes more than 1 s" in capsys.readouterr().err
    assert not (tmp_path / "o.parquet").exists()


def test_rules_that_are_none_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rules = tmp_path / "mine.toml"
    rules.write_text("# nothing yet\n")
    source, out = write(tmp_path / "t.json", two_steps()), tmp_path / "o.parquet"
    assert main(["ingest", str(source), "-o", str(out), "--rules", str(rules)]) == 0
    assert "rules: mine.toml holds none; the shipped ones decided" in capsys.readouterr().err
    health = store.read(out).meta["health"]
    assert "rules" not in health
    assert health["notes"] == ["rules: mine.toml holds none; the shipped ones decided"]


@pytest.mark.parametrize(
    ("events", "told"),
    [
        (two_steps()["traceEvents"], "launch log: 3 of 3 steps differ from it"),
        (
            [host("cudaLaunchKernel", 1, 2, 1), kernel("k", 5, 1, 1)],
            "launch log: not used, the trace has neither",
        ),
        (
            [host("cudaGraphLaunch", 1, 2, 1), kernel("k", 5, 1, 1)],
            "launch log: 1 of 1 replays differ from it",
        ),
    ],
)
@pytest.mark.parametrize("lines", ["", '{"graph": 0, "ordinal": 0, "name": "other"}\n'])
def test_a_launch_log_that_fits_nothing_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], events: list[Any], told: str, lines: str
) -> None:
    log, out = tmp_path / "x.launches.jsonl", tmp_path / "o.parquet"
    log.write_text(lines)
    source = write(tmp_path / "t.json", trace(*events))
    assert main(["ingest", str(source), "-o", str(out), "--log", str(log)]) == 0
    assert told in capsys.readouterr().err
    health = store.read(out).meta["health"]
    assert health["launch_log"]["matched"] == 0
    assert main(["show", str(out)]) == 0
    assert told in capsys.readouterr().out
