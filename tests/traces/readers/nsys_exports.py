"""Small nsys exports made row by row, in the schemas of five years, as SQLite or as a parquetdir folder.

Every export also holds what real ones do and what no run may carry: environments, command lines, process
and host names (`SECRET` in all of them).
"""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from pathlib import Path

SECRET = "hunter2"
YEARS = (2022, 2023, 2024, 2025, 2026)
FORMS = ("sqlite", "parquetdir")
Row = dict[str, Any]

EPOCH = 1_796_058_209_665_244_560
VERSIONS = {2022: ("2022.4.2.1", "3.0.0"), 2023: ("2023.4.4.54", "3.7.2"), 2024: ("2024.6.2.225", "3.16.1"),
            2025: ("2025.1.3.140", "3.17.2"), 2026: ("2026.1.1.204", "3.24.14")}  # fmt: skip
_WHERE = "start end deviceId contextId streamId correlationId globalPid"
_KERNEL = (
    f"{_WHERE} demangledName shortName mangledName launchType cacheConfig registersPerThread "
    "gridX gridY gridZ blockX blockY blockZ staticSharedMemory dynamicSharedMemory localMemoryPerThread "
    "localMemoryTotal gridId sharedMemoryExecuted graphNodeId sharedMemoryLimitConfig"
)
_RUNTIME = "start end eventClass globalTid correlationId nameId returnValue callchainId"
_NVTX = "start end eventType rangeId category color text globalTid endGlobalTid textId domainId jsonText"
_GPUS = "vmId id name busLocation totalMemory smCount uuid cuDevice computeMajor computeMinor"
_UINT64 = {"globalTid", "globalPid", "contextId", "streamId", "demangledName", "nameId", "graphNodeId"}
_TEXT = {
    "text",
    "value",
    "name",
    "jsonText",
    "busLocation",
    "uuid",
    "devStateName",
    "tensorSizeMinusOneElements",
}


def _schema(year: int) -> dict[str, list[str]]:
    green = " greenContextId" if year >= 2023 else ""
    newest = " graphId clusterX clusterY clusterZ tensorSizeMinusOneElements" if year >= 2026 else ""
    tables = {
        "StringIds": "id value",
        "TARGET_INFO_SESSION_START_TIME": "utcEpochNs",
        "TARGET_INFO_SYSTEM_ENV": "devStateName name value",
        "TARGET_INFO_GPU": _GPUS,
        "ANALYSIS_DETAILS": "globalVid duration startTime stopTime",
        "PROCESSES": "globalPid pid name",
        "CUPTI_ACTIVITY_KIND_KERNEL": _KERNEL + green + newest,
        "CUPTI_ACTIVITY_KIND_MEMCPY": f"{_WHERE} bytes copyKind srcKind dstKind graphNodeId{green}",
        "CUPTI_ACTIVITY_KIND_MEMSET": f"{_WHERE} value bytes graphNodeId memKind{green}",
        "CUPTI_ACTIVITY_KIND_RUNTIME": _RUNTIME,
        "NVTX_EVENTS": _NVTX + (" binaryData" if year >= 2024 else ""),
    }
    if year == 2022:
        tables["EXPORT_META_DATA"] = "name value"
    else:
        tables |= {"META_DATA_EXPORT": "name value", "META_DATA_CAPTURE": "name value"}
    if year >= 2024:
        tables["DIAGNOSTIC_EVENT"] = "timestamp severity text globalPid"
        tables["CUPTI_ACTIVITY_KIND_GRAPH_TRACE"] = f"{_WHERE}{green} graphId graphExecId"
    if year >= 2025:
        tables["TARGET_INFO_CUDA_DEVICE"] = "gpuId cudaId pid" + (" uuid" if year >= 2026 else "")
    return {name: columns.split() for name, columns in tables.items()}


class Made:
    """An export under way: rows by table, and strings that get ids."""

    def __init__(self, year: int = 2025) -> None:
        self.year = year
        self.schema = _schema(year)
        self.rows: dict[str, list[Row]] = {name: [] for name in self.schema}
        self._ids: dict[str, int] = {}
        nsys, schema = VERSIONS[year]
        meta = "EXPORT_META_DATA" if year == 2022 else "META_DATA_EXPORT"
        facts = {
            "EXPORT_PRODUCT_VERSION": nsys, "EXPORT_SCHEMA_VERSION": schema, "EXPORT_HOST": SECRET,
            "EXPORT_PARAM_INPUT_PATH": f"/srv/{SECRET}/r.nsys-rep", "EXPORT_TIME": "0.03 sec",
        }  # fmt: skip
        for name, value in facts.items():
            self.add(meta, name=name, value=value)
        if year > 2022:
            for name in ("PROCESS_0:ENVIRONMENT_VARIABLE", "PROCESS_0:COMMAND", "DEVICE_DISPLAY_NAME"):
                self.add("META_DATA_CAPTURE", name=name, value=f"TOKEN={SECRET}")
        self.add("PROCESSES", globalPid=tid(7), pid=7, name=f"/opt/{SECRET}/python3")
        self.add("TARGET_INFO_SYSTEM_ENV", devStateName="SystemEnv", name="Hostname", value=SECRET)
        self.add("TARGET_INFO_SESSION_START_TIME", utcEpochNs=EPOCH)
        gpu = {"id": 0, "cuDevice": 0, "name": "NVIDIA H200", "totalMemory": 150 << 30, "smCount": 132}
        more = {"computeMajor": 9, "computeMinor": 0, "uuid": f"GPU-{SECRET}", "busLocation": f"{SECRET}:00"}
        self.add("TARGET_INFO_GPU", **gpu, **more)
        self.string(f"PATH=/usr/bin\0AWS_SECRET={SECRET}\0")
        if year >= 2024:
            self.add("DIAGNOSTIC_EVENT", timestamp=0, severity=2, text=f"/tmp/{SECRET}: no CUDA events")

    def add(self, table: str, **row: Any) -> Made:
        self.rows.setdefault(table, []).append(row)
        return self

    def string(self, text: str) -> int:
        """Its id in StringIds, made if it is new."""
        if text not in self._ids:
            self._ids[text] = 10 + len(self._ids)
            self.add("StringIds", id=self._ids[text], value=text)
        return self._ids[text]

    def kernel(self, name: str = "k", start: int | None = 10, end: int | None = 15, **more: Any) -> Made:
        known: Row = {
            "start": start, "end": end, "deviceId": 0, "streamId": 7, "correlationId": 1, "globalPid": tid(7),
            "demangledName": self.string(name), "registersPerThread": 32, "gridX": 2, "gridY": 3, "gridZ": 1,
            "blockX": 128, "blockY": 1, "blockZ": 1, "staticSharedMemory": 16, "dynamicSharedMemory": 1024,
        }  # fmt: skip
        return self.add("CUPTI_ACTIVITY_KIND_KERNEL", **known | more)

    def activity(self, table: str, start: int = 10, end: int = 15, **more: Any) -> Made:
        known = {
            "start": start,
            "end": end,
            "deviceId": 0,
            "streamId": 7,
            "correlationId": 1,
            "globalPid": tid(7),
        }
        return self.add(f"CUPTI_ACTIVITY_KIND_{table}", **known | more)

    def call(self, name: str, start: int = 1, end: int = 3, **more: Any) -> Made:
        known = {
            "start": start,
            "end": end,
            "globalTid": tid(7, 8),
            "correlationId": 1,
            "nameId": self.string(name),
        }
        return self.add("CUPTI_ACTIVITY_KIND_RUNTIME", **known | more)

    def range(self, text: str | None, start: int | None, end: int | None, **more: Any) -> Made:
        known = {
            "start": start,
            "end": end,
            "eventType": 59,
            "text": text,
            "globalTid": tid(7, 8),
            "domainId": 0,
        }
        return self.add("NVTX_EVENTS", **known | more)

    def write(self, folder: Path, form: str = "sqlite") -> Path:
        """As nsys does: SQLite, or a folder of Parquet files; tables without rows are absent."""
        tables = {name: rows for name, rows in self.rows.items() if rows}
        path = folder / ("r.sqlite" if form == "sqlite" else "r_pqtdir")
        (_to_sqlite if form == "sqlite" else _to_parquet)(path, tables, self.schema)
        return path


def tid(process: int, thread: int = 0) -> int:
    """A globalTid; its upper bits (host, VM) make it negative as int64."""
    return (0x8100 << 48) | process << 24 | thread


def _columns(name: str, rows: list[Row], schema: dict[str, list[str]]) -> list[str]:
    return list(dict.fromkeys([*schema.get(name, []), *(column for row in rows for column in row)]))


def _to_sqlite(path: Path, tables: dict[str, list[Row]], schema: dict[str, list[str]]) -> None:
    connection = sqlite3.connect(path)
    for name, rows in tables.items():
        columns = _columns(name, rows, schema)
        types = ", ".join(f'"{c}" {"TEXT" if c in _TEXT else "INTEGER"}' for c in columns)
        connection.execute(f'CREATE TABLE "{name}" ({types})')
        marks = ", ".join("?" * len(columns))
        values = [[_signed(row.get(c)) for c in columns] for row in rows]
        connection.executemany(f'INSERT INTO "{name}" VALUES ({marks})', values)
    connection.commit()
    connection.close()


def _to_parquet(path: Path, tables: dict[str, list[Row]], schema: dict[str, list[str]]) -> None:
    path.mkdir()
    for name, rows in tables.items():
        made = {}
        for column in _columns(name, rows, schema):
            kind = pa.string() if column in _TEXT else pa.uint64() if column in _UINT64 else pa.int64()
            if column in ("id", "gridX", "blockX"):
                kind = pa.int32()
            made[column] = pa.array([row.get(column) for row in rows], kind)
        pq.write_table(pa.table(made), path / f"{name}.parquet", row_group_size=2, compression="none")


def _signed(value: Any) -> Any:
    return value - 2**64 if isinstance(value, int) and value >= 2**63 else value
