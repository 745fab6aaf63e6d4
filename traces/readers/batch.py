"""The rows of one stretch of a trace, and what was wrong with its events."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa
    from numpy.typing import NDArray

    from traces.readers.events import Event
    from traces.readers.salvage import Notes


@dataclass
class Batch:
    """`dropped` and `repaired` count by reason; `first` is the number of the first event of each."""

    events: int
    tables: dict[str, pa.Table]
    dropped: Counter[str]
    repaired: Counter[str]
    first: dict[str, int]

    def report(self, notes: Notes, place: Callable[[int], int]) -> None:
        """Add the counts to `notes`; `place` tells where in the whole text an event begins."""
        for counts, noted, note in (
            (self.dropped, notes.dropped, notes.drop),
            (self.repaired, notes.repaired, notes.repair),
        ):
            for reason, count in counts.items():  # finding the place takes time: only for the first
                note(reason, 0 if reason in noted else place(self.first[reason]), count)


class Faults:
    """Collects what is wrong with `events`, the ones that are being made into rows."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.dropped: Counter[str] = Counter()
        self.repaired: Counter[str] = Counter()
        self._seen: dict[str, list[Event]] = {}

    def drop(self, reason: str, which: NDArray[np.bool_] | list[bool]) -> None:
        """Count the events that were lost."""
        self._count(self.dropped, reason, which)

    def repair(self, reason: str, which: NDArray[np.bool_] | list[bool]) -> None:
        """Count the events that were kept without what was wrong."""
        self._count(self.repaired, reason, which)

    def _count(self, counts: Counter[str], reason: str, which: Any) -> None:
        at = np.flatnonzero(which)
        if len(at):
            counts[reason] += len(at)
            self._seen.setdefault(reason, []).append(self.events[at[0]])

    def first(self, events: list[Event]) -> dict[str, int]:
        """The number of the first event of each reason among all `events`."""
        wanted = {reason: set(map(id, seen)) for reason, seen in self._seen.items()}
        return {
            reason: next(i for i, event in enumerate(events) if id(event) in ids)
            for reason, ids in wanted.items()
        }
