from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.traces.readers.nsys_exports import EPOCH, FORMS, SECRET, VERSIONS, YEARS, Made, tid
from traces.errors import InputError, MissingToolError
from traces.readers import nsys, nsys_export

if TYPE_CHECKING:
    from traces.readers.timeline import Timeline

SHARED = Path(__file__).parents[4] / "shared"
CASES = SHARED / "cases" / "nsys"


def made() -> Made:
    out = Made(2025).kernel("gemm", 100, 107).call("cudaLaunchKernel_v7000", 90, 95).range("decode_0", 80, 99)
    return out.activity("MEMCPY", 110, 112, bytes=64, copyKind=1)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("year", YEARS)
def test_facts_of_the_session(tmp_path: Path, year: int, form: str) -> None:
    timeline = nsys.read(Made(year).kernel().write(tmp_path, form))
    assert timeline.base_unix_ns == EPOCH
    assert timeline.versions == dict(zip(("nsys", "nsys_schema"), VERSIONS[year], strict=True))
    assert timeline.device == {
        "type": "gpu", "name": "NVIDIA H200", "count": 1, "memory_bytes": 150 << 30, "multiprocessors": 132,
        "compute_capability": "9.0",
    }  # fmt: skip
    assert timeline.captured == {"tool": "nsys"}
    assert timeline.hint == ""


def everything(timeline: Timeline) -> str:
    tables = [getattr(timeline, n) for n in ("gpu", "host", "ops", "ranges")]
    dictionaries = [
        c.dictionary for t in tables for column in t for c in column.chunks if hasattr(c, "dictionary")
    ]
    facts = {k: v for k, v in vars(timeline).items() if k not in ("gpu", "host", "ops", "ranges")}
    return repr([t.to_pylist() for t in tables]) + repr([d.to_pylist() for d in dictionaries]) + repr(facts)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("year", YEARS)
@pytest.mark.parametrize("with_rows", [True, False])
def test_nothing_private_comes_along(tmp_path: Path, year: int, form: str, with_rows: bool) -> None:
    export = Made(year)
    if with_rows:
        export.kernel("gemm").call("cudaLaunchKernel_v7000").range("decode", 0, 9)
    path = export.write(tmp_path, form)
    stored = path.read_bytes() if path.is_file() else b"".join(p.read_bytes() for p in path.iterdir())
    assert stored.count(SECRET.encode()) > 5
    timeline = nsys.read(path)
    assert SECRET not in everything(timeline)
    assert not with_rows or "gemm" in everything(timeline)


def test_a_version_that_is_none_is_left_out(tmp_path: Path) -> None:
    export = Made()
    for row in export.rows["META_DATA_EXPORT"]:
        row["value"] = f"2025.3 {SECRET}"
    assert nsys.read(export.kernel().write(tmp_path)).versions == {}


def test_gzip_is_told_by_content(tmp_path: Path) -> None:
    path = made().write(tmp_path)
    packed = tmp_path / "r.db"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert nsys.recognises(packed)
    assert everything(nsys.read(packed)) == everything(nsys.read(path))
    packed.write_bytes(packed.read_bytes()[:-300])
    with pytest.raises(InputError, match=r"r\.db: truncated gzip"):
        nsys.read(packed)


def test_both_forms_of_an_export_are_the_same(tmp_path: Path) -> None:
    assert everything(nsys.read(made().write(tmp_path))) == everything(
        nsys.read(made().write(tmp_path, "parquetdir"))
    )


def test_what_is_recognised(tmp_path: Path) -> None:
    sqlite, folder = made().write(tmp_path), made().write(tmp_path, "parquetdir")
    report = tmp_path / "renamed"
    report.write_bytes(b"\1\2NVIDIA Tegra Profiler Report 2025@3")
    (tmp_path / "x.nsys-rep").write_bytes(b"")
    (tmp_path / "trace.json").write_text("{}")
    for path in (sqlite, folder, report, tmp_path / "x.nsys-rep", tmp_path / "absent.sqlite"):
        assert nsys.recognises(path), path
    for path in (tmp_path, tmp_path / "trace.json", tmp_path / "absent.json"):
        assert not nsys.recognises(path), path


def test_sha256_of_files_and_folders(tmp_path: Path) -> None:
    sqlite, folder = made().write(tmp_path), made().write(tmp_path, "parquetdir")
    before = nsys.sha256(sqlite), nsys.sha256(folder)
    assert [len(d) for d in before] == [64, 64]
    strings = folder / "StringIds.parquet"
    content = strings.read_bytes()
    strings.write_bytes(content + b"x")
    assert nsys.sha256(folder) != before[1]
    strings.write_bytes(content)
    assert nsys.sha256(folder) == before[1]
    strings.rename(folder / "Strings.parquet")
    assert nsys.sha256(folder) != before[1]


@pytest.mark.parametrize(
    ("content", "meaning"),
    [
        (b"", "empty file"),
        (b"{}", "no nsys trace"),
        (b"SQLite format 3\0" + bytes(9000), "damaged, or no nsys export"),
    ],
)
def test_files_that_are_no_export(tmp_path: Path, content: bytes, meaning: str) -> None:
    path = tmp_path / "r.sqlite"
    path.write_bytes(content)
    with pytest.raises(InputError, match=f"r.sqlite: {meaning}"):
        nsys.read(path)


def test_missing_files_and_foreign_folders(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        nsys.read(tmp_path / "absent.sqlite")
    with pytest.raises(InputError, match="no nsys export"):
        nsys.read(tmp_path)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_a_truncated_file(tmp_path: Path, share: float) -> None:
    path = made().write(tmp_path)
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * share)])
    with pytest.raises(InputError, match="damaged"):
        nsys.read(path)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_damage_anywhere_gives_a_timeline_or_one_line(tmp_path: Path, data: st.DataObject) -> None:
    clean = tmp_path / "r.sqlite"
    content = bytearray((clean if clean.exists() else made().write(tmp_path)).read_bytes())
    begin = data.draw(st.integers(16, len(content) - 1))
    junk = data.draw(st.binary(min_size=1, max_size=200))
    content[begin : begin + len(junk)] = junk[: len(content) - begin]
    bad = tmp_path / "bad.sqlite"
    bad.write_bytes(content)
    try:
        nsys.read(bad)
    except InputError as error:
        assert "\n" not in str(error)  # noqa: PT017


def test_a_report_needs_nsys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv(nsys_export.VARIABLE, raising=False)
    report = tmp_path / "r.nsys-rep"
    report.write_bytes(b"NVIDIA Tegra Profiler Report 2025@3")
    with pytest.raises(MissingToolError, match="nsys export --type sqlite"):
        nsys.read(report)


def test_an_export_that_was_cut_off_is_noted(tmp_path: Path) -> None:
    export = made()
    export.rows["META_DATA_EXPORT"] = [
        r for r in export.rows["META_DATA_EXPORT"] if r["name"] != "EXPORT_TIME"
    ]
    assert nsys.read(export.write(tmp_path)).notes.dropped["unfinished_export"]["count"] == 1


def test_facts_are_those_of_the_gpu_in_use(tmp_path: Path) -> None:
    export = Made().kernel(deviceId=0)
    export.add("TARGET_INFO_GPU", id=3, cuDevice=1, name="NVIDIA L4", totalMemory=24 << 30)
    export.add("TARGET_INFO_CUDA_DEVICE", gpuId=3, cudaId=0, pid=7)  # CUDA_VISIBLE_DEVICES=3
    assert nsys.read(export.write(tmp_path)).device == {
        "type": "gpu", "name": "NVIDIA L4", "count": 2, "memory_bytes": 24 << 30,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("export", "words"),
    [
        (Made(2023), "no CUDA calls at all"),
        (Made(2025).call("cudaLaunchKernel_v7000"), "1 CUDA calls but no GPU work"),
        (Made(2025).call("cudaLaunchKernel_v7000"), "(1 warnings and errors in the report"),
        (Made(2023).call("cudaGraphLaunch_v10000"), "--cuda-graph-trace=node"),
    ],
)
def test_without_gpu_rows_a_hint_says_what_there_is(tmp_path: Path, export: Made, words: str) -> None:
    timeline = nsys.read(export.write(tmp_path))
    assert timeline.gpu.num_rows == 0
    assert words in timeline.hint


def test_the_same_correlation_in_two_processes(tmp_path: Path) -> None:
    export = Made()
    for process in (7, 9):
        export.kernel(f"k{process}", globalPid=tid(process), correlationId=5)
    gpu = nsys.read(export.write(tmp_path)).gpu
    assert list(zip(gpu["process"].to_pylist(), gpu["correlation"].to_pylist(), strict=True)) == [
        (7, 5),
        (9, 5),
    ]


@pytest.mark.skipif(not CASES.is_dir(), reason="no shared cases beside this checkout")
def test_shared_cases_with_right_answers() -> None:
    expected: dict[str, dict[str, Any]] = json.loads((CASES / "EXPECT.json").read_text())
    for name, answer in expected.items():
        gpu = nsys.read(CASES / name).gpu
        kernels = gpu.filter(pc.equal(gpu["kind"], "kernel"))
        assert (kernels.num_rows, pc.sum(kernels["dur"]).as_py()) == (
            answer["kernels"],
            answer["kernel_ns"],
        ), name
