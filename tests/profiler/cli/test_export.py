"""`export`: one file, whole or not at all, and the same exit codes as elsewhere."""

from __future__ import annotations

import gzip
import json
import re
import sys
from typing import TYPE_CHECKING

import pytest

from profiler.__main__ import main
from tests.dashboard.builders import baseline, candidate
from tests.traces.builders import run
from traces import store

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def pair(tmp_path: Path) -> tuple[str, str]:
    a, b = (store.write(r, tmp_path / f"{n}.parquet") for n, r in (("a", baseline()), ("b", candidate())))
    return str(a), str(b)


def test_perfetto_gets_a_gzip_named_after_the_run(
    pair: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["export", pair[0], "--to", "perfetto"]) == 0
    out, err = capsys.readouterr()
    assert out == "a.json.gz\n"
    assert re.fullmatch(r"kernelgap: a\.json\.gz: [\d,]+ bytes\n", err)
    events = json.loads(gzip.decompress((tmp_path / "a.json.gz").read_bytes()))["traceEvents"]
    assert sum(e.get("cat") == "kernel" for e in events) == 9


@pytest.mark.parametrize("name", ["x.json", "x.json.gz", "x.csv", "x.csv.gz"])
def test_the_output_names_the_format_and_is_the_same_every_time(
    pair: tuple[str, str], tmp_path: Path, name: str
) -> None:
    target = tmp_path / "new" / name
    assert main(["export", pair[0], "-o", str(target)]) == 0
    first = target.read_bytes()
    assert main(["export", pair[0], "-o", str(target), "--force"]) == 0
    assert target.read_bytes() == first
    assert [p.name for p in target.parent.iterdir()] == [name]


def test_a_folder_and_standard_output(
    pair: tuple[str, str], tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert main(["export", pair[0], "--to", "csv", "-o", str(tmp_path)]) == 0
    written = (tmp_path / "a.csv").read_bytes()
    capfdbinary.readouterr()
    assert main(["export", pair[0], "--to", "csv", "-o", "-"]) == 0
    assert capfdbinary.readouterr().out == written


@pytest.mark.parametrize(
    ("words", "code", "why"),
    [
        (["{a}"], 2, "--to: name a format"),
        (["{a}", "{b}", "--to", "csv"], 2, "takes one run; 2 were named"),
        (["{a}", "--to", "html"], 2, "takes two runs, A and B; 1 were named"),
        (["{a}", "--to", "csv", "--phase", "decode"], 2, "writes the whole run"),
        (["{d}/none.parquet", "-o", "{d}/x.csv"], 4, "no such file"),
        (["{d}/bad.parquet", "-o", "{d}/x.json"], 4, "not a readable Parquet file"),
        (["{d}/none.parquet", "{b}", "-o", "{d}/x.html"], 4, "no such file"),
        (["{a}", "{b}", "-o", "{d}/x.html", "--phase", "nope"], 2, "nope"),
        (["{a}", "-o", "{d}/there.csv"], 1, "exists already; pass --force"),
        (["{a}", "-o", "{d}/a.parquet/x.csv"], 1, "cannot"),
        (["{a}", "-o", "{d}/" + "x" * 300 + ".csv"], 1, "cannot"),
    ],
)  # fmt: skip
def test_what_cannot_be_done_is_one_line_and_leaves_nothing(
    pair: tuple[str, str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    code: int,
    why: str,
) -> None:
    (tmp_path / "bad.parquet").write_bytes(b"?")
    (tmp_path / "there.csv").write_text("mine")
    before = sorted(p.name for p in tmp_path.iterdir())
    a, b = pair
    assert main(["export", *(w.format(a=a, b=b, d=tmp_path) for w in words)]) == code
    out, err = capsys.readouterr()
    assert why in err
    assert (out, err.count("\n")) == ("", 1)
    assert sorted(p.name for p in tmp_path.iterdir()) == before
    assert (tmp_path / "there.csv").read_text() == "mine"


def test_rows_that_are_left_out_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{"start_ns": 0, "dur_ns": 1}, {"start_ns": -9, "dur_ns": 0, "flag": "zero_time"}]
    path = store.write(run(rows), tmp_path / "a.parquet")
    assert main(["export", str(path), "-o", str(tmp_path / "x.json")]) == 0
    assert "left out: 1 x zero_time" in capsys.readouterr().err
    path = store.write(run(rows[1:]), tmp_path / "b.parquet")
    assert main(["export", str(path), "-o", str(tmp_path / "y.json")]) == 4
    assert "no row with a usable time" in capsys.readouterr().err


@pytest.mark.parametrize("package", ["plotly", "streamlit"])
def test_html_without_the_dashboards_packages_says_what_to_install(
    pair: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch, package: str,
) -> None:  # fmt: skip
    monkeypatch.setitem(sys.modules, package, None)
    assert main(["export", *pair, "-o", str(tmp_path / "x.html")]) == 5
    assert f"{package} is not installed: pip install 'kernelgap[dashboard]'" in capsys.readouterr().err


def test_html_is_one_page(pair: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("streamlit")
    assert main(["export", *pair, "-o", str(tmp_path / "x.html")]) == 0
    out, err = capsys.readouterr()
    assert out == f"{tmp_path / 'x.html'}\n"
    assert err.count("\n") == 1
    page = (tmp_path / "x.html").read_text()
    assert page.startswith("<!doctype html>")
    assert str(tmp_path) not in page  # where the files lay is nobody's business
    assert "python -m profiler compare a.parquet b.parquet" in page
