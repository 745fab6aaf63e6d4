"""A trace becomes a run: reader -> linking -> attribution -> ledger -> Parquet."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any, Final

import pyarrow.compute as pc

from traces.assemble import assemble
from traces.attribution import launch_log, patience
from traces.attribution.classify import default_classifier
from traces.columns import encode
from traces.errors import InputError
from traces.readers import kineto, nsys
from traces.readers.files import Source
from traces.readers.times import saturate
from traces.schema import KINDS, SCHEMA_VERSION, Metadata
from traces.store import Run

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa

    from traces.attribution.classify import Classifier
    from traces.readers.timeline import Timeline

_HINT: Final = "was the CUDA activity profiled (ProfilerActivity.CUDA), and did the program use the GPU?"


def ingest(path: Path, log: Path | None = None, classifier: Classifier | None = None) -> Run:
    """Read one trace into a run; a launch log gives its CUDA-graph replays modules and shapes.

    `path` is a torch.profiler trace (.json, .json.gz) or one of Nsight Systems (.sqlite, a parquetdir folder,
    .nsys-rep), told apart by content. Text columns of the run are dictionary-encoded (`schema.COMPACT`); on
    disk they are plain strings.

    Raises InputError when a file is missing, unreadable, or without GPU rows, MissingToolError when a report
    needs nsys and there is none, UsageError when a user's rule takes for ever.
    """
    lines = launch_log.read(log) if log else None
    timeline, digest = _read(path)
    if not timeline.gpu.num_rows:
        raise InputError(f"{path}: no GPU rows among {timeline.events:,} events; {timeline.hint or _HINT}")
    classifier = classifier or default_classifier()
    if classifier.user is not None:
        patience.check(classifier, _counts(timeline.gpu["name"]), _counts(timeline.ops["name"]))
    made = assemble(timeline, classifier, lines)
    meta = _metadata(timeline, {"file": path.name, "sha256": digest})
    meta["time_base_unix_ns"] = saturate(timeline.base_unix_ns + made.first)
    meta["steps"] = made.steps
    meta["health"] = _health(timeline, made.table)
    meta["health"]["notes"] = made.notes
    if classifier.user is not None:
        if any(rule.user for rule in classifier.rules):
            meta["health"]["rules"] = classifier.user
        else:
            made.notes.append(f"rules: {classifier.user['file']} holds none; the shipped ones decided")
    if made.layers is not None:
        meta["health"]["layers"] = made.layers
    if made.log_health is not None:
        meta["health"]["launch_log"] = made.log_health
    return Run(made.table, meta)


def _read(path: Path) -> tuple[Timeline, str]:
    """The decoded trace and the sha256 of its source."""
    try:
        of_nsys = nsys.recognises(path)
    except OSError as error:  # a name that the file system does not take
        raise InputError(f"{path}: cannot open ({error.strerror or error})") from error
    if of_nsys:
        return nsys.read(path), nsys.sha256(path)
    with Source(path) as source:
        timeline = kineto.read(source)
        digest = source.sha256()
    on_cpu = timeline.captured.get("device", {}).get("type") == "cpu"
    if on_cpu and not timeline.gpu.num_rows:
        timeline.gpu = kineto.outermost_ops(timeline)
    return timeline, digest


def _metadata(timeline: Timeline, source: dict[str, Any]) -> Metadata:
    """Our own capture's facts where the trace carries them, else what the trace itself says."""
    known = timeline.captured
    return {
        "schema_version": SCHEMA_VERSION,
        "run_id": uuid.uuid4().hex[:8],
        "model": known.get("model"),
        "variant": known.get("variant"),
        "mode": known.get("mode"),
        "tool": known.get("tool") or "torch",
        "workload": known.get("workload"),
        "choices": known.get("choices"),
        "weights": known.get("weights"),
        "device": known.get("device") or timeline.device,
        "versions": timeline.versions | (known.get("versions") or {}),
        "source": source,
        "time_base_unix_ns": 0,
        "steps": [],
        "unprofiled": known.get("unprofiled"),
        "health": {},
    }


def _health(timeline: Timeline, table: pa.Table) -> dict[str, Any]:
    """What was read, lost, mended or is in doubt, so that nothing is silent."""
    doubts: dict[str, int] = {}
    for flag, count in _counts(table["flag"]).items():
        for reason in flag.split(","):
            doubts[reason] = doubts.get(reason, 0) + count
    kinds = _counts(table["kind"])
    unknown = table["exclusive_ns"].filter(pc.equal(table["category"], "unknown"))
    return {
        "events": timeline.events,
        "rows": {k: kinds[k] for k in KINDS if k in kinds},
        "dropped": timeline.notes.dropped,
        "repaired": timeline.notes.repaired,
        "flagged": dict(sorted(doubts.items())),
        "orphans": _counts(table["link"]).get("orphan", 0),
        "disagreed": sum(count for rule, count in _counts(table["rule"]).items() if rule.endswith("!")),
        "unknown": {"rows": len(unknown), "exclusive_ns": pc.sum(unknown).as_py() or 0},
    }


def _counts(column: pa.ChunkedArray) -> dict[str, int]:
    """How often each text occurs; null is not counted."""
    codes, texts = encode(column)
    counts = pc.value_counts(codes[codes >= 0]).to_pylist()
    return {texts[c["values"]]: c["counts"] for c in counts}
