"""A whole run laid out for drawing: tracks that hide no kernel, names once, and windows of it as bytes.

`lay_out` is done once per run; everything else takes time in proportion to what a window holds.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from traces import ledger
from traces.analysis.kinds import Kinds, kinds_of
from traces.analysis.timeline import lanes
from traces.attribution.taxonomy import GROUPS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from traces.store import Run

    Int64s = NDArray[np.int64]
    Bools = NDArray[np.bool_]

MOST_TRACKS: Final = 64  # beyond these, and beyond MOST_LANES on a stream, kernels share the overflow track
MOST_LANES: Final = 8
BLOCK: Final = 4_096
GROUP_NAMES: Final = tuple(GROUPS)


class Track(NamedTuple):
    """One line of the picture: a lane of a stream, or (`overflow`) all that found no line of its own."""

    rank: int | None
    device: int | None
    stream: int | None
    lane: int
    overflow: bool
    kernels: int


@dataclass(frozen=True)
class Device:
    """The kernels of one device, by start, and what makes adding them up quick once it is first asked for."""

    place: Int64s  # in the scene
    start: Int64s
    end: Int64s
    reach: Int64s  # the latest end up to each
    group: Int64s

    @cached_property
    def clusters(self) -> Int64s:
        """Where the longest runs of kernels that overlap each other begin, and the number of kernels."""
        return np.flatnonzero(np.concatenate([[True], self.start[1:] >= self.reach[:-1], [True]]))

    @cached_property
    def exclusive(self) -> Int64s:
        """The share of busy time of each, ns, as the ledger splits the whole run."""
        return ledger.split(self.start, self.end, (int(self.start[0]), int(self.reach[-1]))).exclusive

    @cached_property
    def sums(self) -> Int64s:
        """(groups, blocks + 1): exclusive ns of all the blocks of BLOCK kernels before."""
        blocks = len(self.place) // BLOCK
        out = np.zeros((len(GROUP_NAMES), blocks + 1), np.int64)
        for g in range(len(GROUP_NAMES)):
            mine = np.where(self.group == g, self.exclusive, 0)[: blocks * BLOCK]
            out[g, 1:] = np.cumsum(mine.reshape(-1, BLOCK).sum(axis=1))
        return out


@dataclass(frozen=True)
class Scene:
    """The usable kernels of a run by start (then end), each with its track and its kind."""

    row: Int64s  # of the run's table
    start: Int64s  # ns
    end: Int64s
    reach: Int64s  # the latest end up to each
    track: Int64s
    tracks: list[Track]
    kind: Int64s
    kinds: Kinds
    devices: list[Device]
    unusable: int  # rows that the ledger leaves out, so that they are not drawn

    @property
    def count(self) -> int:
        """How many kernels there are."""
        return len(self.start)

    @property
    def span(self) -> tuple[int, int]:
        """First start and last end, ns."""
        return (int(self.start[0]), int(self.reach[-1])) if self.count else (0, 0)

    @property
    def overflow(self) -> int:
        """How many kernels share the overflow track."""
        return sum(t.kernels for t in self.tracks if t.overflow)


@dataclass(frozen=True)
class Range:
    """What ran in a window, ns; rows that overlap share time as in the ledger: busy + idle == span."""

    first: int
    last: int
    kernels: int
    busy: dict[str, int]  # per group, those that ran
    span_ns: int  # the window's length times the devices

    @property
    def busy_ns(self) -> int:
        """The time in which a device ran something, summed over the devices."""
        return sum(self.busy.values())

    @property
    def idle_ns(self) -> int:
        """The rest of the span."""
        return self.span_ns - self.busy_ns


def lay_out(run: Run) -> Scene:
    """Lay out every usable kernel of a run."""
    start, end = ledger.intervals(run.table)
    good = ledger.usable(run.table)
    row = np.flatnonzero(good)
    start, end = start[row], end[row]
    steps = np.diff(start)
    if (steps < 0).any() or ((steps == 0) & (np.diff(end) < 0)).any():
        order = np.lexsort((end, start))
        row, start, end = row[order], start[order], end[order]
    table = run.table if len(row) == run.table.num_rows and (np.diff(row) == 1).all() else run.table.take(row)
    kind, kinds = kinds_of(table)
    track, tracks = _tracks(table, start, end)
    group = kinds.group[kind]
    orders = (place[_as_given(place, row, start)] for _, _, place in ledger.devices(table))
    devices = [_device(place, start, end, group) for place in orders]
    reach = np.maximum.accumulate(end) if len(end) else end
    lost = run.table.num_rows - len(row)
    return Scene(row, start, end, reach, track, tracks, kind, kinds, devices, lost)


def _tracks(table: pa.Table, start: Int64s, end: Int64s) -> tuple[Int64s, list[Track]]:
    """The track of each kernel: its stream's lane, or the overflow track, which comes last."""
    queue, queues = _queues(table)
    lane = lanes(start, end, queue, MOST_LANES)  # type: ignore[arg-type]
    code = queue * (MOST_LANES + 1) + lane
    held = np.bincount(code, minlength=len(queues) * (MOST_LANES + 1))
    held[MOST_LANES :: MOST_LANES + 1] = 0
    chosen = np.argsort(-held, kind="stable")[:MOST_TRACKS]
    chosen = np.sort(chosen[held[chosen] > 0])
    place = np.full(len(held), len(chosen))
    place[chosen] = np.arange(len(chosen))
    track = place[code]
    found = []
    for c in chosen.tolist():
        rank, device, stream = queues[c // (MOST_LANES + 1)]
        found.append(Track(rank, device, stream, c % (MOST_LANES + 1), False, int(held[c])))
    if more := int((track == len(chosen)).sum()):
        found.append(Track(None, None, None, 0, True, more))
    return track, found


def _queues(table: pa.Table) -> tuple[Int64s, list[tuple[int | None, int | None, int | None]]]:
    """The queue of each row as a number, and (rank, device, stream) of each, sorted, unknown first."""
    names = ("rank", "device", "stream")
    codes = [pc.dictionary_encode(table[n].combine_chunks(), null_encoding="encode") for n in names]
    mixed = np.zeros(table.num_rows, np.int64)
    for c in codes:
        mixed = mixed * max(len(c.dictionary), 1) + c.indices.to_numpy(zero_copy_only=False)
    whole = pa.array(mixed).dictionary_encode()
    number = whole.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    keys = []
    for value in whole.dictionary.to_pylist():
        parts = []
        for c in reversed(codes):
            value, at = divmod(value, len(c.dictionary))
            parts.append(c.dictionary[at].as_py())
        keys.append((parts[2], parts[1], parts[0]))
    order = sorted(range(len(keys)), key=lambda i: [(v is not None, v or 0) for v in keys[i]])
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    return (place[number] if len(number) else number), [keys[i] for i in order]


def _as_given(place: Int64s, row: Int64s, start: Int64s) -> Int64s | slice:
    """The order in which the ledger takes rows: by start, those that start together as the table has them."""
    mine = row[place]
    return np.lexsort((mine, start[place])) if (np.diff(mine) < 0).any() else slice(None)


def _device(place: Int64s, start: Int64s, end: Int64s, group: Int64s) -> Device:
    finish = end[place]
    return Device(place, start[place], finish, np.maximum.accumulate(finish), group[place])


def inside(scene: Scene, first: int, last: int) -> Int64s:
    """Places of the kernels that overlap [first, last) ns, by start; empty ones count where they start."""
    low = int(np.searchsorted(scene.reach, first, "left"))
    high = int(np.searchsorted(scene.start, last, "left"))
    start, end = scene.start[low:high], scene.end[low:high]
    out: Int64s = low + np.flatnonzero((end > first) | ((start == end) & (start >= first)))
    return out


def about(scene: Scene, first: int, last: int) -> int:
    """At least as many as overlap [first, last) ns, found without looking at each."""
    return int(np.searchsorted(scene.start, last, "left") - np.searchsorted(scene.reach, first, "left"))


def totals(scene: Scene, first: int, last: int) -> Range:
    """Add up the part of a window (ns) that lies within the run, device by device, to the ns."""
    low, high = scene.span
    first, last = min(max(first, low), high), max(min(last, high), low)
    if first >= last:
        return Range(first, first, 0, {}, 0)
    time = np.zeros(len(GROUP_NAMES), np.int64)
    for device in scene.devices:
        time += _busy(device, first, last)
    busy = {g: int(ns) for g, ns in zip(GROUP_NAMES, time, strict=True) if ns}
    return Range(first, last, len(inside(scene, first, last)), busy, (last - first) * len(scene.devices))


def _busy(device: Device, first: int, last: int) -> Int64s:
    """Exclusive ns per group of one device in a window.

    How the ledger splits a cluster depends on that cluster alone, so that in a long window only those cut by
    its edges are split anew; the others have been added up in blocks.
    """
    running = int(np.searchsorted(device.reach, first, "right"))
    begun, stop = (int(np.searchsorted(device.start, edge, "left")) for edge in (first, last))
    if stop - running <= 4 * BLOCK:
        return _split(device, running, stop, first, last)
    left = int(device.clusters[np.searchsorted(device.clusters, begun, "left")])
    right = stop
    if device.reach[stop - 1] > last:
        right = int(device.clusters[np.searchsorted(device.clusters, stop - 1, "right") - 1])
    if left >= right:
        return _split(device, running, stop, first, last)
    edges = _split(device, running, left, first, last) + _split(device, right, stop, first, last)
    return edges + _whole(device, left, right)


def _split(device: Device, low: int, high: int, first: int, last: int) -> Int64s:
    """Exclusive ns per group of some kernels in a window, by the ledger."""
    near = low + np.flatnonzero(device.end[low:high] > first)
    begin, finish = np.maximum(device.start[near], first), np.minimum(device.end[near], last)
    return _by_group(device.group[near], ledger.split(begin, finish, (first, last)).exclusive)


def _whole(device: Device, left: int, right: int) -> Int64s:
    """Exclusive ns per group of the kernels from `left` to `right`."""
    a, b = -(-left // BLOCK), right // BLOCK
    if a >= b:
        return _by_group(device.group[left:right], device.exclusive[left:right])
    out: Int64s = device.sums[:, b] - device.sums[:, a]
    for rows in (slice(left, a * BLOCK), slice(b * BLOCK, right)):
        out = out + _by_group(device.group[rows], device.exclusive[rows])
    return out


def _by_group(group: Int64s, time: Int64s) -> Int64s:
    return np.array([time[group == g].sum() for g in range(len(GROUP_NAMES))], np.int64)


def neighbour(scene: Scene, place: int, direction: int, wanted: Bools | None = None) -> int | None:
    """The next (direction 1) or previous (-1) kernel whose kind is wanted: by default, of the same name."""
    if wanted is None:
        wanted = scene.kinds.text == scene.kinds.text[scene.kind[place]]
    hits = np.flatnonzero(wanted[scene.kind])
    at = int(np.searchsorted(hits, place, "right" if direction > 0 else "left")) - (direction < 0)
    return int(hits[at]) if 0 <= at < len(hits) else None


def details(scene: Scene, run: Run, place: int) -> dict[str, Any]:
    """The whole row of one kernel, by column."""
    row: dict[str, Any] = run.table.slice(int(scene.row[place]), 1).to_pylist()[0]
    return row
