"""`compare` on the command line: what is said first, the gate and its reason, and its output."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from profiler.__main__ import main
from tests.traces.analysis.decoder import CUDA, TRITON, decoder
from traces import store

if TYPE_CHECKING:
    from pathlib import Path

    from traces.store import Run


@pytest.fixture
def pair(tmp_path: Path) -> tuple[str, str]:
    return written(
        tmp_path, decoder(CUDA, variant="cuda", model="m"), decoder(TRITON, variant="triton", model="m")
    )


def written(folder: Path, a: Run, b: Run) -> tuple[str, str]:
    return str(store.write(a, folder / "a.parquet")), str(store.write(b, folder / "b.parquet"))


def timed(median: int, iqr: int = 1, n: int = 9) -> Run:
    return decoder(CUDA, unprofiled={"decode": {"n": n, "median_ns": median, "iqr_ns": iqr}})


def test_the_sentence_comes_first_and_the_ledger_last(
    pair: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", *pair]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(
        "B (triton) is 6 ns/token slower than A (cuda) (+1.2%, profiled wall, noise 0 ns): "
    )
    assert any("layers.*.mlp.down" in line and "+9 ns" in line for line in lines)
    assert (
        "ledger: rows + idle = total, to the ns; 100.00% of the time is in matched rows, aligned by module"
        in lines
    )
    assert (
        lines[-1]
        == "note: layers are added up; --by layer,module,category keeps them apart, --json has every row"
    )


def test_json_keeps_its_contract(pair: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", *pair, "--json"]) == 0
    got: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert {
        "a", "b", "phase", "basis", "total", "rows", "idle", "aligned_share", "profiler_overhead", "spread",
        "not_comparable", "sentence", "aligned_by",
    } <= set(got)  # fmt: skip
    assert {"key", "a", "b", "delta", "status"} == set(got["rows"][0])
    for side in ("a", "b", "delta"):
        assert sum(r[side] for r in got["rows"]) + got["idle"][side] == got["total"][side]


@pytest.mark.parametrize(
    ("a", "b", "limit", "code", "why"),
    [
        (timed(1000), timed(1060), "5%", 3, "failed: B - A is +6.00% (+60 ns) a step, limit +5%, noise 1 ns"),
        (timed(1000), timed(1060, iqr=80), "5", 0, "passed: B - A is +6.00%"),
        (timed(1000), timed(1040), "5", 0, "passed: B - A is +4.00%"),
        (timed(1060), timed(1000), "0", 0, "passed: B - A is -5.66%"),
        (timed(1000, n=1), timed(1060, n=1), "5", 3, "noise unknown (n 1 and 1); one step has no spread"),
    ],
)
def test_the_gate_says_why(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], a: Run, b: Run, limit: str, code: int, why: str
) -> None:
    paths = written(tmp_path, a, b)
    for shape in ([], ["--json"], ["--markdown"]):
        assert main(["compare", *paths, "--fail-over", limit, *shape]) == code
        err = capsys.readouterr().err
        assert err.count("\n") == 1
        assert why in err


def test_the_gate_passes_on_what_is_not_comparable(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = written(tmp_path, decoder(CUDA, model="x"), decoder(CUDA, model="y"))
    assert main(["compare", *paths, "--fail-over", "5"]) == 0
    assert capsys.readouterr().err.endswith("; beware: model differs: x against y\n")


def test_an_empty_run_is_refused_whatever_the_gate(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    full = decoder(CUDA)
    paths = written(tmp_path, full, type(full)(full.table.slice(0, 0), full.meta))
    assert main(["compare", *paths, "--fail-over", "5"]) == 2
    found = capsys.readouterr()
    assert (found.out, "empty run" in found.err) == ("", True)


def test_layers_without_modules_are_pointed_at(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = written(tmp_path, decoder(CUDA, modules=False), decoder(TRITON, modules=False))
    assert main(["compare", *paths]) == 0
    assert "--by module,category pairs their kernels by module or by order" in capsys.readouterr().out
    assert main(["compare", *paths, "--by", "module,category"]) == 0
    out = capsys.readouterr().out
    assert "aligned by order in the layer" in out
    assert "layers.*.gemm#4" in out


def test_markdown_for_a_pull_request(pair: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", *pair, "--markdown", "--top", "3"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(
        "**B (triton) is 6 ns/token slower than A (cuda) (+1.2%, profiled wall, noise 0 ns): "
    )
    table = [line for line in lines if line.startswith("|")]
    assert table[2] == "| **total** | 502 ns | 508 ns | +6 ns |  |"
    assert table[3] == "| `layers.*.mlp.gate_up` `gemm` | 180 ns | 210 ns | +30 ns | A and B |"
    assert len(table) == 2 + 1 + 3 + 2
    assert table[-2].startswith("| 12 more rows |")
    assert lines[-2].startswith("- ledger: rows + idle = total")


def test_json_and_markdown_exclude_each_other(pair: tuple[str, str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["compare", *pair, "--json", "--markdown"])
