from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest

from tests.traces.readers.nsys_exports import Made
from traces.errors import InputError, MissingToolError
from traces.readers import nsys, nsys_export

# What nsys printed for each cause (2022.4.2, 2023.4.4), and words of our sentence.
SAID = [
    ("Exportation error: Version number is invalid: 2023@4@4@54-234433681190v0", "recorded by a newer nsys"),
    ("Exportation error: Report was created in Nsight Systems version (2026.1.2.63-261237296639v0), newer "
     "than your current version (2023.4.4.54-234433681190v0).", "recorded by a newer nsys"),
    ("Qdstrm version 2023.4.4 is not supported. The QdstrmImporter and qdstrm file versions must match to "
     "import successfully.", "raw data of another nsys version"),
    ("Exportation error: File already exists: 'r2.sqlite'. Use --force-overwrite true", "exists already"),
    ("Exportation error: Section Table Reference magic number mismatch.", "cut off or damaged"),
    ("Cannot read from stream.", "no nsys report"),
    ("File not found", "not found by nsys"),
    ("Unsupported export type option: 'sqlite'", "too old"),
    ("write failed: No space left on device", "disk of temporary files is full"),
]  # fmt: skip


@pytest.fixture
def report(tmp_path: Path) -> Path:
    path = tmp_path / "-r one.nsys-rep"
    path.write_bytes(b"\0\0NVIDIA Tegra Profiler Report 2026@1@2@63-261237296639v0." + bytes(90))
    return path


def program(tmp_path: Path, body: str) -> str:
    """A stand-in for nsys; in it $4... are: export --type sqlite --output OUT REPORT."""
    path = tmp_path / "fake nsys"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return str(path)


def test_a_report_is_exported_and_read(tmp_path: Path, report: Path) -> None:
    made = Made().kernel("from a report").write(tmp_path)
    asked = tmp_path / "asked"
    fake = program(tmp_path, f"printf '%s\\n' \"$@\" > '{asked}'\ncp '{made}' \"$5\"")
    assert nsys.read(report, nsys=fake).gpu["name"].to_pylist() == ["from a report"]
    verb, *options, out, name = asked.read_text().splitlines()
    assert (verb, options) == ("export", ["--type", "sqlite", "--output"])
    assert name == str(report)
    assert not os.path.exists(out)  # the temporary export is gone


def test_where_the_program_is_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = program(tmp_path, "exit 0")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv(nsys_export.VARIABLE, raising=False)
    with pytest.raises(MissingToolError, match="no nsys program on PATH"):
        nsys_export.find()
    monkeypatch.setenv(nsys_export.VARIABLE, fake)
    assert nsys_export.find() == fake
    with pytest.raises(MissingToolError, match="no nsys program given"):
        nsys_export.find(str(tmp_path / "absent"))
    monkeypatch.setenv(nsys_export.VARIABLE, str(tmp_path))  # a folder is no program
    with pytest.raises(MissingToolError, match="in KERNELGAP_NSYS") as found:
        nsys_export.find()
    assert found.value.exit_code == 5


@pytest.mark.parametrize(("said", "meaning"), SAID, ids=[m for _, m in SAID])
def test_known_failures_say_what_to_do(tmp_path: Path, report: Path, said: str, meaning: str) -> None:
    (tmp_path / "said").write_text(said)
    fake = program(tmp_path, f"cat '{tmp_path / 'said'}' >&2; exit 1")
    with pytest.raises(InputError, match=meaning) as found:
        nsys.read(report, nsys=fake)
    assert str(found.value).startswith(f"{report}: ")
    assert "\n" not in str(found.value)


@pytest.mark.parametrize(
    ("body", "meaning"),
    [
        (
            "echo one; printf 'last\\033[31m word\\n'; exit 3",
            r"ended with code 3 and no usable output: last\[31m word",
        ),
        ("kill -9 $$", "killed by signal 9 and no usable output"),
        ("exit 0", "ended with code 0 and no usable output"),
        (': > "$5"', "ended with code 0 and no usable output"),
        ('echo x > "$5"; exit 1', "ended with code 1"),
    ],
)
def test_other_failures_say_how_it_ended(tmp_path: Path, report: Path, body: str, meaning: str) -> None:
    with pytest.raises(InputError, match=meaning):
        nsys.read(report, nsys=program(tmp_path, body))


def test_half_an_export_is_an_error(tmp_path: Path, report: Path) -> None:
    made = Made().kernel().write(tmp_path)
    size = made.stat().st_size // 2
    fake = program(tmp_path, f"head -c {size} '{made}' > \"$5\"")
    with pytest.raises(InputError, match=r"one\.nsys-rep: damaged"):
        nsys.read(report, nsys=fake)


def test_one_that_hangs_is_stopped_with_its_children(tmp_path: Path, report: Path) -> None:
    child = tmp_path / "child"
    fake = program(tmp_path, f"sleep 60 & echo $! > '{child}'; wait")
    begin = time.monotonic()
    with pytest.raises(InputError, match=r"did not end within 0.5 s"):
        nsys_export.export(report, tmp_path, fake, timeout_s=0.5)
    assert time.monotonic() - begin < 20
    assert not _alive(int(child.read_text()))


def _alive(process: int) -> bool:
    for _ in range(100):  # the kernel reaps it soon
        try:
            state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return False
        if state == "Z":
            return False
        time.sleep(0.05)
    return True


def test_one_that_cannot_start(tmp_path: Path, report: Path) -> None:
    path = tmp_path / "broken"
    path.write_bytes(b"#!/does/not/exist\n")
    path.chmod(0o755)
    with pytest.raises(MissingToolError, match="cannot be started"):
        nsys_export.export(report, tmp_path, str(path))


@pytest.mark.skipif(not shutil.which("nsys"), reason="no nsys on this machine")
def test_a_real_nsys_refuses_what_is_no_report(tmp_path: Path, report: Path) -> None:
    with pytest.raises(InputError):
        nsys_export.export(report, tmp_path)
