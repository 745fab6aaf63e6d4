"""Windows of a scene as bytes for a browser: 12 bytes per kernel, integer ns exact at any epoch.

A part is JSON that says what it is and where its columns lie, and the columns, little-endian. Several of them
travel in one frame. A kernel is three uint32: ns since its epoch, ns long, kind and track. Epochs begin where
an offset would pass 32 bits (4.29 s); longer kernels have their length in a list of their own.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from traces.analysis import canvas
from traces.analysis.pyramid import bins

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from traces.analysis.canvas import Scene

    Int64s = NDArray[np.int64]

MAGIC: Final = b"KGT1"
KIND_BITS: Final = 16  # the others are for the track
LONG: Final = 2**32 - 1  # this length, or more: look in the list of long kernels
BINS: Final = 131_072  # per series at most, and
BINS_BYTES: Final = 8_000_000  # of all series together


class Part(NamedTuple):
    """JSON that says what it is (its `columns`: per name the dtype, place and length), and the columns."""

    about: dict[str, Any]
    blob: bytes


def kernels(scene: Scene, window: tuple[int, int] | None = None) -> Part:
    """The kernels that overlap a window, or all; times are ns of the run."""
    place = np.arange(scene.count) if window is None else canvas.inside(scene, *window)
    start, used = scene.start[place], scene.end[place] - scene.start[place]
    first, base = _epochs(start)
    offset = start - np.repeat(base, np.diff(np.append(first, len(start))))
    long = np.flatnonzero(used >= LONG)
    columns = {
        "start": offset.astype("<u4"),
        "used": np.minimum(used, LONG).astype("<u4"),
        "what": (scene.kind[place] | scene.track[place] << KIND_BITS).astype("<u4"),
        "epoch_at": first.astype("<u4"), "epoch_ns": base.astype("<f8"),  # whole below 2**53
        "long_at": long.astype("<u4"), "long_ns": used[long].astype("<f8"),
    }  # fmt: skip
    if window is not None:
        columns["place"] = place.astype("<u4")
    return _part({"type": "kernels", "window": list(window or scene.span), "count": len(place)}, columns)


def shares(scene: Scene, most: int = BINS) -> Part:
    """Busy ns per bin of the whole run, one series for each group on each track."""
    code = scene.track * len(canvas.GROUP_NAMES) + scene.kinds.group[scene.kind]
    used, series = np.unique(code, return_inverse=True)
    number = min(most, max(BINS_BYTES // (4 * max(len(used), 1)), 256))
    made = bins(scene.start, scene.end, series.astype(np.int64), scene.span, number)
    kept = "<u4" if made.width < 2**32 and int(made.busy_ns.max(initial=0)) < 2**32 else "<f8"
    about = {
        "type": "bins", "window": list(scene.span), "first": made.first, "width": made.width,
        "bins": made.busy_ns.shape[1],
        "series": [[int(c) // len(canvas.GROUP_NAMES), int(c) % len(canvas.GROUP_NAMES)] for c in used],
    }  # fmt: skip
    return _part(about, {"busy": made.busy_ns.ravel().astype(kept)})


def legend(scene: Scene) -> dict[str, Any]:
    """What the numbers of `kernels` and `shares` stand for: tracks, kinds, names."""
    kinds = scene.kinds
    return {
        "span": list(scene.span), "count": scene.count, "unusable": scene.unusable,
        "devices": len(scene.devices), "overflow": scene.overflow,
        "tracks": [list(t) for t in scene.tracks],
        "names": kinds.texts, "name": kinds.text.tolist(), "group": kinds.group.tolist(),
        "category": kinds.category, "module": kinds.module, "kernels": kinds.kernels.tolist(),
        "names_left_out": kinds.names_left_out, "modules_left_out": kinds.modules_left_out,
        "rounded": bool(scene.count and max(map(abs, scene.span)) >= 2**53),
    }  # fmt: skip


def frame(page: dict[str, Any], parts: Iterable[Part]) -> bytes:
    """One message: the magic, the number of chunks as uint32, and each chunk after its length as uint64.

    Chunks are padded with zeros to a multiple of 8 bytes. The page's JSON comes first; each part is two
    chunks: its JSON, its columns.
    """
    chunks = [_json(page)]
    for part in parts:
        chunks += [_json(part.about), part.blob]
    out = [MAGIC, len(chunks).to_bytes(4, "little")]
    for chunk in chunks:
        out += [len(chunk).to_bytes(8, "little"), chunk, bytes(-len(chunk) % 8)]
    return b"".join(out)


def _epochs(start: Int64s) -> tuple[Int64s, Int64s]:
    """Where each epoch begins among the kernels, and its time in ns."""
    first, at = [], 0
    while at < len(start):
        first.append(at)
        at = int(np.searchsorted(start, start[at] + 2**32, "left"))
    found = np.array(first, np.int64)
    return found, start[found]


def _part(about: dict[str, Any], columns: dict[str, Any]) -> Part:
    places, blob, at = {}, [], 0
    for name, column in columns.items():
        data = column.tobytes()
        places[name] = [column.dtype.str, at, len(column)]
        blob += [data, bytes(-len(data) % 8)]
        at += len(data) + -len(data) % 8
    return Part({**about, "columns": places}, b"".join(blob))


def _json(value: dict[str, Any]) -> bytes:
    return json.dumps(value, ensure_ascii=True, separators=(",", ":")).encode()
