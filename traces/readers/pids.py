"""What the pids of a trace say when ranks were merged into one file.

Kineto writes the process id on host rows and the device number on GPU rows. Merging programs put a label
before both (`[TP01] 1234`: sglang's profile merger), or write the process on GPU rows too.
"""

from __future__ import annotations

import re
from typing import Any, Final

import pyarrow as pa

from traces.columns import TEXT
from traces.readers.events import integer
from traces.readers.times import INT64_MAX

LABEL: Final = pa.field("label", TEXT)  # a further column of what `columns` makes
# A label holds a number itself: `GPU 0` and `python 12` say nothing of a rank.
_LABELLED: Final = re.compile(r"([^0-9]*[0-9].*[^0-9])([0-9]{1,18})", re.DOTALL)


def split(pids: list[Any]) -> tuple[list[Any], pa.Array]:
    """Each pid without its label, and the labels (null where there is none)."""
    texts = {p for p in set(pids) if isinstance(p, str) and integer(p) is None}
    parts = {t: found.groups() for t in texts if (found := _LABELLED.fullmatch(t))}
    if not parts:
        return pids, pa.nulls(len(pids), TEXT)
    labels = {t: label.encode(errors="replace").decode().strip() for t, (label, _) in parts.items()}
    numbers = {t: int(number) for t, (_, number) in parts.items()}
    found_labels = pa.array([labels.get(p) for p in pids], pa.string())
    return [numbers.get(p, p) for p in pids], found_labels.dictionary_encode()


def owners(pids: list[Any], devices: list[Any]) -> pa.Array:
    """The pid of each GPU row where that is not its device, else null; int64."""
    if pids == devices:
        return pa.nulls(len(pids), pa.int64())
    owned = [
        p if isinstance(p, int) and p != d and 0 <= p <= INT64_MAX else None
        for p, d in zip(pids, devices, strict=True)
    ]
    return pa.array(owned, pa.int64())
