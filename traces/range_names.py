"""What the name of a host range says: which phase, which step."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Int64s = NDArray[np.int64]

OURS: Final = re.compile(r"kernelgap\.(?P<phase>.+)#(?P<step>\d{1,10})\Z")
PROFILER_STEP: Final = re.compile(r"(?P<phase>ProfilerStep)\s*#\s*(?P<step>\d{1,10})\Z")
_NUMBER = re.compile(r"(?<!\d)\d{1,10}\Z")
_NEVER = re.compile(r"## |nccl:|Optimizer\.|enumerate\(DataLoader\)|\[pytorch\||Torch-Compiled Region")
_MAX_STEP: Final = 2**31 - 1

Parsed = tuple[str, int | None] | None


class Labels(NamedTuple):
    """Phase and step of each range, and the phases whose numbers came again and were counted instead."""

    labels: list[tuple[str | None, int | None]]
    recounted: list[str]


def parse(name: str) -> Parsed:
    """The phase a range names and its trailing number; None for ranges that never name a phase."""
    if _NEVER.match(name):
        return None
    found = OURS.match(name) or PROFILER_STEP.match(name)
    if found:
        phase, step = found["phase"], int(found["step"])
    elif (number := _NUMBER.search(name)) and (phase := name[: number.start()].rstrip(" \t_-#:.")):
        step = int(number[0])
    else:
        return name, None
    return (phase, step) if step <= _MAX_STEP else (name, None)


def label(parsed: Sequence[Parsed], start: Int64s, end: Int64s) -> Labels:
    """Number what the names leave open.

    Ranges without a number count their occurrences. Where a numbered step comes again later (a second
    generation starts at `decode_0`), the whole phase counts occurrences, so that two steps never merge;
    ranges that overlap in time are one occurrence (threads, ranks).
    """
    by_phase: dict[str, list[int]] = defaultdict(list)
    for i in np.argsort(start, kind="stable"):
        if (found := parsed[i]) is not None:
            by_phase[found[0]].append(int(i))
    labels: list[tuple[str | None, int | None]] = [(None, None)] * len(parsed)
    recounted = []
    for phase, ranges in by_phase.items():
        numbers = [(parsed[i] or ("", None))[1] for i in ranges]
        if _come_again(ranges, numbers, end, start):
            recounted.append(phase)
            numbers = _occurrences(ranges, numbers, end, start)
        count = 0
        for i, number in zip(ranges, numbers, strict=True):
            labels[i] = (phase, count if number is None else number)
            count += number is None
    return Labels(labels, recounted)


def _come_again(ranges: list[int], numbers: list[int | None], end: Int64s, start: Int64s) -> bool:
    last: dict[int, int] = {}
    for i, number in zip(ranges, numbers, strict=True):
        if number is None:
            continue
        if number in last and start[i] >= last[number]:
            return True
        last[number] = max(last.get(number, int(end[i])), int(end[i]))
    return False


def _occurrences(
    ranges: list[int], numbers: list[int | None], end: Int64s, start: Int64s
) -> list[int | None]:
    """A number for each range in order of start; one that overlaps its namesake shares its number."""
    open_: dict[int | None, tuple[int, int]] = {}
    out: list[int | None] = []
    count = 0
    for i, number in zip(ranges, numbers, strict=True):
        seen = open_.get(number)
        if seen is not None and start[i] < seen[0]:
            mine = seen[1]
        else:
            mine, count = count, count + 1
        open_[number] = (max(int(end[i]), seen[0] if seen else 0), mine)
        out.append(mine)
    return out
