"""Nsight Systems traces: SQLite (plain or gzip), a parquetdir folder, or a report that nsys exports first.

Of the file's facts about the machine only the GPU's name and size and the versions of nsys are taken;
environments, command lines, process and host names stay where they are.
"""

from __future__ import annotations

import hashlib
import re
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from traces.errors import InputError, OutputError
from traces.readers import nsys_export, nsys_nvtx, nsys_rows
from traces.readers.files import Source
from traces.readers.nsys_sources import ParquetTables, SqliteTables
from traces.readers.nsys_tables import Export
from traces.readers.salvage import Notes
from traces.readers.timeline import Timeline

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traces.readers.nsys_sources import Tables

_SQLITE: Final = b"SQLite format 3\0"
_REPORT: Final = b"NVIDIA Tegra Profiler Report"
_REPORTS: Final = (".nsys-rep", ".qdrep", ".qdstrm")
_HEAD: Final = 4096
_VERSION: Final = re.compile(r"\d+(\.\d+)*")
_WARNING: Final = (2, 3)  # severities of DIAGNOSTIC_EVENT: warning, error


def recognises(path: Path) -> bool:
    """Whether this looks like an nsys export or report: by content, else by its suffix."""
    if path.is_dir():
        return any(path.glob("CUPTI_ACTIVITY_KIND_*.parquet")) or (path / "StringIds.parquet").is_file()
    try:
        with Source(path) as source:
            head = source.read(_HEAD)[:_HEAD]
    except InputError:
        head = b""
    return head.startswith(_SQLITE) or _REPORT in head or path.name.endswith((*_REPORTS, ".sqlite"))


def sha256(path: Path) -> str:
    """Of a file as it lies on disk, or of a folder: the names, sizes and contents of its files, sorted.

    Raises InputError if it cannot be read.
    """
    if not path.is_dir():
        with Source(path) as source:
            return source.sha256()
    digest = hashlib.sha256()
    for file in sorted(p for p in path.iterdir() if p.is_file()):
        with Source(file) as source:
            digest.update(f"{file.name}\0{source.sha256()}\0".encode(errors="surrogateescape"))
    return digest.hexdigest()


def read(path: Path, *, nsys: str | None = None) -> Timeline:
    """Read one nsys trace; `nsys` names the program that exports a report (else `KERNELGAP_NSYS`, PATH).

    Raises InputError if it is missing, damaged, unfinished or no nsys trace, MissingToolError if a report
    needs nsys and there is none. Without GPU rows `hint` says what the trace holds instead.
    """
    with _tables(path, nsys) as tables:
        return _timeline(Export(tables, Notes()))


@contextmanager
def _tables(path: Path, nsys: str | None) -> Iterator[Tables]:
    """The tables of a folder, a SQLite file, a compressed one, or a report."""
    if path.is_dir():
        yield ParquetTables(path)
        return
    with tempfile.TemporaryDirectory(prefix="kernelgap-") as folder:
        yield SqliteTables(_sqlite(path, Path(folder), nsys), path)


def _sqlite(path: Path, folder: Path, nsys: str | None) -> Path:
    """The SQLite file behind `path`; what has to be made for that lies in `folder`."""
    with Source(path) as source:
        head = source.read(_HEAD)
        compressed = source.compressed
    if not head:
        raise InputError(f"{path}: empty file; export the report again with nsys export --type sqlite")
    is_report = not head.startswith(_SQLITE) and (
        _REPORT in head[:_HEAD] or path.name.removesuffix(".gz").endswith(_REPORTS)
    )
    if not is_report and not head.startswith(_SQLITE):
        raise InputError(f"{path}: no nsys trace (neither SQLite, nor a parquetdir folder, nor a .nsys-rep)")
    if is_report:
        nsys_export.find(nsys)  # before any work
    plain = _inflated(path, folder / "input") if compressed else path
    return nsys_export.export(plain, folder, nsys, shown=path) if is_report else plain


def _inflated(path: Path, target: Path) -> Path:
    with Source(path) as source:
        try:
            with target.open("wb") as out:
                while block := source.read(1 << 20):
                    out.write(block)
        except OSError as error:
            raise OutputError(
                f"{path}: cannot be unpacked to {target.parent} ({error.strerror or error})"
            ) from error
        if source.damage:
            raise InputError(f"{path}: {source.damage.replace('_', ' ')}; copy or compress it again")
    return target


def _timeline(export: Export) -> Timeline:
    gpu, host = nsys_rows.gpu(export), nsys_rows.host(export)
    nvtx = nsys_nvtx.read(export, nsys_nvtx.last_time(gpu, host), _session_ends(export))
    if lost := nsys_rows.lost_replays(gpu, host):
        export.notes.drop("graph_replay_without_rows", 0, lost)
    return Timeline(
        gpu=gpu,
        host=host,
        ops=nvtx.ops,
        ranges=nvtx.ranges,
        base_unix_ns=_first(export.read("TARGET_INFO_SESSION_START_TIME", ["utcEpochNs"])) or 0,
        events=gpu.num_rows + host.num_rows + nvtx.events,
        notes=export.notes,
        device=_device(export, gpu),
        versions=_versions(export),
        captured={"tool": "nsys"},
        hint=_hint(export, host, lost) if not gpu.num_rows else "",
    )


def _first(table: pa.Table) -> int | None:
    known = table.column(0).drop_null()
    return known[0].as_py() if len(known) else None


def _session_ends(export: Export) -> list[int]:
    """When the session may have ended: its clock began at the profiler's or at the capture's start."""
    table = export.read("ANALYSIS_DETAILS", ("duration", "stopTime"))
    return [v for row in table.to_pylist() for v in (row["duration"], row["stopTime"]) if v]


def _device(export: Export, gpu: pa.Table) -> dict[str, Any]:
    """The GPU that the first row ran on; with several processes a device number alone may be ambiguous."""
    numbers = ("id", "cuDevice", "totalMemory", "smCount", "computeMajor", "computeMinor")
    found = export.read("TARGET_INFO_GPU", numbers, ("name",)).to_pylist()
    if not found:
        return {}
    used = gpu["device"].drop_null()
    cuda = used[0].as_py() if len(used) else 0
    links = export.read("TARGET_INFO_CUDA_DEVICE", ("gpuId", "cudaId")).to_pylist()
    ids = [link["gpuId"] for link in links if link["cudaId"] == cuda]
    first = next(
        (g for g in found if g["id"] in ids), next((g for g in found if g["cuDevice"] == cuda), found[0])
    )
    facts = {
        "type": "gpu",
        "name": first["name"],
        "count": len(found),
        "memory_bytes": first["totalMemory"],
        "multiprocessors": first["smCount"],
    }
    if first["computeMajor"] is not None:
        facts["compute_capability"] = f"{first['computeMajor']}.{first['computeMinor'] or 0}"
    return {k: v for k, v in facts.items() if v is not None}


def _versions(export: Export) -> dict[str, Any]:
    """The exporting nsys and its schema; also notes an export that was cut off before its last record."""
    table = "META_DATA_EXPORT" if export.find("META_DATA_EXPORT") else "EXPORT_META_DATA"
    rows = export.read(table, (), ("name", "value"))
    facts = dict(zip(rows["name"].to_pylist(), rows["value"].to_pylist(), strict=True))
    if table in export.names and "EXPORT_TIME" not in facts:  # its last row
        export.notes.drop("unfinished_export", 0)
    wanted = {"nsys": "EXPORT_PRODUCT_VERSION", "nsys_schema": "EXPORT_SCHEMA_VERSION"}
    return {k: facts[n] for k, n in wanted.items() if _VERSION.fullmatch(facts.get(n) or "")}


def _hint(export: Export, host: pa.Table, lost: int) -> str:
    """One sentence on why there may be no GPU rows; never the report's own texts, which hold paths."""
    severity = export.read("DIAGNOSTIC_EVENT", ["severity"])["severity"]
    warnings = int(pc.sum(pc.is_in(severity, pa.array(_WARNING, pa.int64()))).as_py() or 0)
    if lost:
        why = f"{lost:,} CUDA graph launches but none of their kernels: record with --cuda-graph-trace=node"
    elif host.num_rows:
        why = f"{host.num_rows:,} CUDA calls but no GPU work: tracing may have failed, or begun too late"
    else:
        why = "no CUDA calls at all: was it recorded with --trace=cuda, and of the process that uses the GPU?"
    told = f" ({warnings:,} warnings and errors in the report; open it in Nsight Systems)" if warnings else ""
    return f"it holds {why}{told}"
