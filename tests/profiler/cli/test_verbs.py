"""The command line as a user meets it: exit codes, one clear line on stderr, data on stdout."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from profiler.__main__ import main
from tests.traces.builders import run, step
from tests.traces.traces import host, kernel, op, trace, two_steps, user_range, write
from traces import store

ROOT = Path(__file__).parents[3]


@pytest.fixture
def made(tmp_path: Path) -> Path:
    main(["ingest", str(write(tmp_path / "t.json", two_steps())), "-o", str(tmp_path / "run.parquet")])
    return tmp_path / "run.parquet"


def failure(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str]:
    """The exit code, and the single line that stderr must hold."""
    capsys.readouterr()
    code = main(argv)
    captured = capsys.readouterr()
    assert captured.out == ""
    lines = captured.err.strip().splitlines()
    assert len(lines) == 1, lines
    return code, lines[0]


def test_ingest_writes_the_canonical_name_into_a_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sources = [str(write(tmp_path / f"{n}.json.gz", two_steps())) for n in ("a", "b")]
    assert main(["ingest", *sources, "-o", str(tmp_path / "out"), "--json"]) == 0
    paths = json.loads(capsys.readouterr().out)["runs"]
    assert sorted(Path(p).name[:2] for p in paths) == ["a_", "b_"]
    assert all(store.read(Path(p)).table.num_rows == 6 for p in paths)


def test_ingest_refuses_bad_input_with_code_4(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = ["-o", str(tmp_path / "x.parquet")]
    cpu_only = write(tmp_path / "cpu.json", trace(op("aten::mm", 0, 5)))
    text = write(tmp_path / "text.json", b"hello")
    for source, word in (
        (cpu_only, "no GPU rows"),
        (text, "no trace events"),
        (tmp_path, "folder"),
        (tmp_path / "no.json", "no such file"),
    ):
        code, line = failure(capsys, "ingest", str(source), *out)
        assert (code, word in line) == (4, True), line
    assert not (tmp_path / "x.parquet").exists()


def test_an_existing_output_is_kept(made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = made.read_bytes()
    code, line = failure(capsys, "ingest", str(tmp_path / "t.json"), "-o", str(made))
    assert (code, "--force" in line) == (1, True)
    assert made.read_bytes() == before
    assert main(["ingest", str(tmp_path / "t.json"), "-o", str(made), "--force"]) == 0


def test_one_bad_input_does_not_stop_the_others(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good, bad = write(tmp_path / "good.json", two_steps()), write(tmp_path / "bad.json", b"x")
    assert main(["ingest", str(bad), str(good), "-o", str(tmp_path / "out")]) == 4
    captured = capsys.readouterr()
    assert "good_" in captured.out
    assert "bad.json" in captured.err


def test_two_inputs_do_not_fit_one_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = str(write(tmp_path / "a.json", two_steps()))
    assert failure(capsys, "ingest", source, source, "-o", str(tmp_path / "x.parquet"))[0] == 2


def test_show_prints_a_table_that_closes(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", str(made), "--phase", "decode", "--by", "group,name"]) == 0
    out = capsys.readouterr().out
    assert "nvjet" in out
    assert "ledger: busy 40,000 + idle 89,500 = span 129,500 ns" in out


def test_show_json(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", str(made), "--json", "--by", "step"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["idle_ns"] + sum(r["exclusive_ns"] for r in shown["rows"]) == shown["span_ns"]
    assert shown["run"]["schema_version"] == 1


def test_show_refuses_unknown_columns_phases_and_files(
    made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert failure(capsys, "show", str(made), "--by", "colour")[0] == 2
    assert failure(capsys, "show", str(made), "--phase", "train")[0] == 2
    assert failure(capsys, "show", str(tmp_path / "absent.parquet"))[0] == 4
    assert failure(capsys, "show", str(tmp_path / "t.json"))[0] == 4
    assert failure(capsys, "show", str(tmp_path))[0] == 4


def test_compare_a_run_with_itself(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", str(made), str(made), "--json"]) == 0
    got = json.loads(capsys.readouterr().out)
    assert got["total"]["delta"] == got["idle"]["delta"] == 0
    assert {r["status"] for r in got["rows"]} == {"matched"}
    assert main(["compare", str(made), str(made)]) == 0
    assert "rows + idle = total" in capsys.readouterr().out


def test_compare_fails_over_a_limit_with_code_3(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def decode(median: int, name: str) -> str:
        timing = {"decode": {"n": 9, "median_ns": median, "iqr_ns": 1}}
        rows = [{"start_ns": 0, "dur_ns": 50, "phase": "decode", "step": 0}]
        made = run(rows, steps=[step("decode", 0, 0, 50, complete=False)], unprofiled=timing)
        return str(store.write(made, tmp_path / name))

    a, b = decode(100, "a.parquet"), decode(120, "b.parquet")
    assert main(["compare", a, b, "--fail-over", "5%"]) == 3
    assert main(["compare", a, b, "--fail-over", "25"]) == 0
    assert main(["compare", b, a, "--fail-over", "5"]) == 0
    with pytest.raises(SystemExit, match="2"):
        main(["compare", a, b, "--fail-over", "lots"])


@pytest.mark.parametrize(
    ("argv", "code"),
    [
        (["capture", "--model", "nope"], 2),
        (["capture", "--variant", "nope"], 2),
        (["capture", "--device", "tpu"], 2),
        (["capture", "--tool", "vtune"], 2),
        (["capture", "--mode", "warp"], 2),
        (["capture", "--model", "tiny", "--device", "cpu", "--mode", "graph"], 2),
        (["capture", "--model", "tiny", "--device", "cpu", "--prompt", "100000"], 2),
        (["capture", "--model", "llama3-8b", "--device", "cpu"], 5),
        (["capture", "--variant", "cuda,triton", "-o", "x.parquet"], 2),
    ],
)
def test_capture_refuses_before_it_starts(
    argv: list[str],
    code: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert failure(capsys, *argv)[0] == code
    assert list(tmp_path.iterdir()) == []


def test_help_is_complete_and_needs_no_heavy_import() -> None:
    check = (
        "import sys\nfrom profiler.cli import build_parser\nprint(build_parser().format_help())\n"
        "heavy = {'torch', 'pandas', 'pyarrow', 'numpy', 'rich'} & set(sys.modules)\nassert not heavy, heavy"
    )
    found = subprocess.run(
        [sys.executable, "-c", check], cwd=ROOT, capture_output=True, text=True, check=True
    )
    for verb in ("capture", "ingest", "show", "compare"):
        assert verb in found.stdout


def test_a_closed_pipe_is_no_error(made: Path) -> None:
    command = f"{sys.executable} -m profiler show {made} --json --by name | head -c 1"
    found = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command}"], cwd=ROOT, capture_output=True, text=True
    )
    assert found.stderr == ""
    assert found.returncode == 0


@pytest.mark.parametrize(
    "argv",
    [
        ["capture", "--variant", ","],
        ["capture", "--seed", "9" * 30],
        ["capture", "--batch", "1000000000000"],
        ["show", "x.parquet", "--by", ","],
        ["show", "x.parquet", "--phase", ""],
    ],
)
def test_flags_that_say_nothing_sensible_are_usage_errors(argv: list[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(argv)


def test_names_are_shown_as_text_whatever_they_hold(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = "[red]k[/x]\x1b[31m\nnext :smile:"
    events = [user_range("[/x]_0", 0, 9), host("cudaLaunchKernel", 1, 1, 1), kernel(name, 5, 2, 1)]
    source = write(tmp_path / "t.json", trace(*events))
    assert main(["ingest", str(source), "-o", str(tmp_path / "r.parquet")]) == 0
    assert main(["show", str(tmp_path / "r.parquet"), "--by", "name", "--phase", "[/x]"]) == 0
    assert main(["compare", *[str(tmp_path / "r.parquet")] * 2]) == 0
    out = capsys.readouterr().out
    assert "[red]k[/x]⟨001B⟩[31m⟨000A⟩next :smile:" in out
    assert "phase [/x]" in out


def test_rows_of_other_phases_are_called_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{"start_ns": 0, "dur_ns": 5, "phase": "d", "step": 0}, {"start_ns": 5, "dur_ns": 5}]
    made = run(rows, steps=[step("d", 0, 0, 10, complete=False)])
    path = str(store.write(made, tmp_path / "r.parquet"))
    for argv in (["show", path, "--phase", "d"], ["compare", path, path, "--by", "op"]):
        assert main(argv) == 0
        assert "(other phases)" in capsys.readouterr().out


def test_paths_no_file_system_takes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    long = str(tmp_path / ("a" * 300 + ".parquet"))
    source = str(write(tmp_path / "t.json", two_steps()))
    assert failure(capsys, "show", long)[0] == 4
    assert failure(capsys, "ingest", long, "-o", str(tmp_path))[0] == 4
    assert failure(capsys, "ingest", source, "-o", long)[0] == 1


def test_a_name_that_is_not_utf8_works(tmp_path: Path) -> None:
    odd = os.fsencode(tmp_path) + b"/out\xff.parquet"
    write(tmp_path / "t.json", two_steps())
    for argv in ([b"ingest", b"t.json", b"-o", odd], [b"show", odd]):
        found = subprocess.run(
            [sys.executable.encode(), b"-m", b"profiler", *argv],
            cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, check=False,
        )  # fmt: skip
        assert (found.returncode, found.stderr) == (0, b"")


def test_output_that_cannot_be_written_is_one_line(made: Path) -> None:
    with Path("/dev/full").open("w") as full:
        found = subprocess.run(
            [sys.executable, "-m", "profiler", "show", str(made)],
            cwd=ROOT, stdout=full, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    assert found.returncode == 1
    assert found.stderr == "kernelgap: cannot write the output (No space left on device)\n"


def test_capture_looks_for_a_writable_place_before_it_starts(capsys: pytest.CaptureFixture[str]) -> None:
    code, line = failure(capsys, "capture", "--model", "tiny", "--device", "cpu", "-o", "/proc/nope")
    assert (code, "cannot write there" in line) == (1, True)


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="looks into the process as Linux shows it")
@pytest.mark.parametrize(("library", "after"), [("_multiarray", 0), ("libtorch", 0), ("libtorch", 2.0)])
def test_interrupted_is_130_and_leaves_nothing(tmp_path: Path, library: str, after: float) -> None:
    """While it imports, and while it works: how far it got shows in what it has loaded."""
    command = [sys.executable, "-m", "profiler", "capture", "--model", "tiny", "--device", "cpu"]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)}
    child = subprocess.Popen(
        [*command, "--prompt", "64", "--new-tokens", "60", "-o", str(tmp_path / "runs")],
        cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    maps, patience = Path(f"/proc/{child.pid}/maps"), time.monotonic() + 60
    while library not in maps.read_text() and time.monotonic() < patience:
        time.sleep(0.01)
    time.sleep(after)
    child.send_signal(signal.SIGINT)
    _, stderr = child.communicate(timeout=60)
    assert child.returncode == 130
    assert stderr.splitlines()[-1] == "kernelgap: interrupted"
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith("kernelgap")] == []
    assert list((tmp_path / "runs").glob("*")) == []
