"""Runs as files: one self-describing Parquet per run, written atomically, read back, listed.

A run is mailed, dropped in a bucket or committed, so a reader must never see half of one: the file is
written beside its final place, synced, and renamed over it.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import re
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from traces import checks
from traces.errors import InputError, OutputError
from traces.schema import COMPACT, METADATA_KEY, SCHEMA, Metadata

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

ROW_GROUP = 131_072
# Times and counters grow steadily: deltas pack far better than a dictionary does.
_DELTA = ("start_ns", "dur_ns", "used_ns", "exclusive_ns", "gap_ns", "launch_start_ns", "launch_dur_ns",
          "correlation")  # fmt: skip
_FINDABLE = ["start_ns", "dur_ns", "used_ns", "step", "layer", "rank", "device"]  # with least and most
_SMALL = 4096  # texts


@dataclass(frozen=True)
class Run:
    """One run: the kernel timeline (`traces.schema.SCHEMA`), its metadata, and where it was read from."""

    table: pa.Table
    meta: Metadata
    path: Path | None = None

    @property
    def title(self) -> str:
        """A short human name: model, variant and mode, or the source's file name."""
        parts = [self.meta.get("model"), self.meta.get("variant"), self.meta.get("mode")]
        known = [p for p in parts if p]
        return " ".join(known) if known else str(self.meta["source"].get("file") or self.meta["run_id"])


def gallery() -> Path:
    """The folder of real captures that ships in the repository (absent from wheels)."""
    return Path(__file__).parent / "gallery"


def default_store() -> Path:
    """Where runs go unless told otherwise: `KERNELGAP_STORE`, else `./runs`."""
    return Path(os.environ.get("KERNELGAP_STORE") or "runs")


def file_name(meta: Metadata) -> str:
    """The canonical name of a run's file, safe on every file system.

    Captured: `<model>_<variant>_<mode>_<tool>_<gpu>_<run id>.parquet`; ingested:
    `<stem>_<first 8 of the source's sha256>.parquet`.
    """
    if meta["model"] and meta["variant"]:
        gpu = str(meta["device"].get("name") or "unknown")
        parts = [meta["model"], meta["variant"], meta["mode"] or "mode", meta["tool"], gpu, meta["run_id"]]
        return "_".join(slug(p) for p in parts) + ".parquet"
    stem = re.sub(r"(\.pt)?(\.trace)?\.(json|sqlite|nsys-rep)(\.gz)?$", "", str(meta["source"]["file"]))
    return f"{slug(stem, keep_underscore=True)}_{slug(str(meta['source']['sha256']))[:8]}.parquet"


def write(run: Run, path: Path, *, force: bool = False) -> Path:
    """Write a run atomically and return its path.

    Raises OutputError if `path` exists (without `force`), is a folder, or cannot be written.
    """
    if not force or path.is_dir():
        refuse_existing(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic(path) as temporary:
            _write_groups(run, temporary)
    except OSError as error:
        raise OutputError(f"{path}: cannot write ({error.strerror or error}); nothing was changed") from error
    return path


def is_file_target(path: Path) -> bool:
    """Whether `-o` names one file (it ends in .parquet), not a folder. Raises OutputError if it cannot be."""
    try:
        return path.suffix == ".parquet" and not path.is_dir()
    except OSError as error:
        raise OutputError(f"{path}: cannot be written ({error.strerror or error})") from error


def place(target: Path, meta: Metadata) -> Path:
    """Where a run goes when `-o` names `target`: that file, or its canonical name in that folder."""
    return target if is_file_target(target) else target / file_name(meta)


def refuse_existing(path: Path) -> None:
    """Raise OutputError if something is there already, were it a dangling link."""
    try:
        if path.is_dir():
            raise OutputError(f"{path}: is a folder; name a file ending in .parquet")
        if os.path.lexists(path):
            raise OutputError(f"{path}: exists already; pass --force to overwrite it")
    except OSError as error:
        raise OutputError(f"{path}: cannot be written ({error.strerror or error})") from error


def check_writable(folder: Path) -> None:
    """Raise OutputError now if nothing can be written into `folder` later."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise OutputError(f"{folder}: cannot write there ({error.strerror or error})") from error


def _write_groups(run: Run, path: Path) -> None:
    """Dictionary columns go to the file as they are, which reads back as plain text; large ones as text."""
    table = run.table.select(SCHEMA.names)
    schema = pa.schema([(f.name, _written(table, f)) for f in SCHEMA])
    with (
        path.open("wb") as file,
        pq.ParquetWriter(
            file,  # pyarrow takes no path whose name is not UTF-8
            schema,
            compression="zstd",
            use_dictionary=[n for n in SCHEMA.names if n not in _DELTA],
            column_encoding=dict.fromkeys(_DELTA, "DELTA_BINARY_PACKED"),
            sorting_columns=[pq.SortingColumn(SCHEMA.get_field_index("start_ns"))],
            write_statistics=_FINDABLE,
            write_page_checksum=True,
            store_schema=False,  # the columns' types are Parquet's own, whatever they were in memory
        ) as writer,
    ):
        for first in range(0, max(table.num_rows, 1), ROW_GROUP):
            group = table.slice(first, ROW_GROUP).cast(schema).replace_schema_metadata(None)
            writer.write_table(group, row_group_size=ROW_GROUP)
        writer.add_key_value_metadata({METADATA_KEY: json.dumps(run.meta, ensure_ascii=True)})


def _written(table: pa.Table, field: pa.Field) -> pa.DataType:
    """The type that a column is written from: every row group repeats a dictionary, so only a small one."""
    column = table[field.name]
    if not pa.types.is_dictionary(column.type):
        return field.type
    small = column.num_chunks and max(len(c.dictionary) for c in column.chunks) <= _SMALL
    return COMPACT.field(field.name).type if small else field.type


def copy(source: Path, target: Path, *, compress: bool = False) -> Path:
    """Put a file beside a run, whole or not at all; `compress` makes it gzip. Raises OutputError."""
    try:
        opener = gzip.open if compress else open
        with atomic(target) as temporary, source.open("rb") as data, opener(temporary, "wb") as out:
            shutil.copyfileobj(data, out)
    except OSError as error:
        raise OutputError(f"{target}: cannot write ({error.strerror or error})") from error
    return target


@contextlib.contextmanager
def atomic(path: Path) -> Iterator[Path]:
    """A temporary file in the same folder that replaces `path` only once it is whole and on disk."""
    handle, name = tempfile.mkstemp(prefix=f".{path.stem[:80]}.", suffix=".tmp", dir=path.parent)
    temporary = Path(name)
    os.close(handle)
    try:
        yield temporary
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        temporary.chmod(0o666 & ~_umask())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def read(path: Path) -> Run:
    """Read a run. Raises InputError when it is missing, a folder, damaged, foreign, too new or impossible."""
    meta = read_metadata(path)
    try:
        with path.open("rb") as file:
            stored = pq.read_table(file, columns=SCHEMA.names, page_checksum_verification=True)
    except (OSError, ValueError, pa.ArrowException) as error:
        raise InputError(
            f"{path}: damaged Parquet ({_first_line(error)}); copy or ingest it again"
        ) from error
    try:
        table = stored.replace_schema_metadata(None).cast(SCHEMA)
        table.validate(full=True)
    except (ValueError, pa.ArrowException) as error:
        raise InputError(f"{path}: its columns are not those of a run; ingest the trace again") from error
    checks.table(path, table)
    return Run(table, meta, path)


def read_metadata(path: Path) -> Metadata:
    """Only the metadata of a run: cheap enough to list a folder. Raises InputError as `read` does."""
    try:
        if path.is_dir():
            raise InputError(f"{path}: is a folder; name one run (.parquet)")
        if not path.exists():
            raise InputError(f"{path}: no such file")
        with path.open("rb") as file:
            schema = pq.read_schema(file)
    except (OSError, ValueError, pa.ArrowException) as error:
        raise InputError(
            f"{path}: not a readable Parquet file ({_first_line(error)}); "
            "turn a trace into a run with `python -m profiler ingest`"
        ) from error
    return _checked(path, schema)


def _checked(path: Path, schema: pa.Schema) -> Metadata:
    raw = (schema.metadata or {}).get(METADATA_KEY.encode())
    if raw is None:
        raise InputError(f"{path}: a Parquet file, but not a kernelgap run; make one with `profiler ingest`")
    known = checks.metadata(path, raw)
    checks.columns(path, schema)
    return known


def find(folders: Iterable[Path]) -> list[Path]:
    """Every run file (`*.parquet`) in the folders, newest first, looking one folder deep; missing is fine."""
    found: dict[Path, float] = {}
    for folder in folders:
        for path in [*folder.glob("*.parquet"), *folder.glob("*/*.parquet")]:
            with contextlib.suppress(OSError):  # deleted while we looked
                found[path] = path.stat().st_mtime
    return sorted(found, key=lambda p: (-found[p], p.name))


def slug(text: str, *, keep_underscore: bool = False) -> str:
    """A file name of ASCII letters, digits, dots and dashes, at most 100 long; never empty or hidden."""
    allowed = r"[^A-Za-z0-9._-]+" if keep_underscore else r"[^A-Za-z0-9.-]+"
    return re.sub(allowed, "-", text).strip("-.")[:100] or "unnamed"


def _first_line(error: BaseException) -> str:
    return str(error).splitlines()[0][:200] if str(error) else type(error).__name__
