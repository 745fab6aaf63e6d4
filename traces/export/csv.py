"""A run's rows as CSV: the columns of `traces.schema`, integer ns, empty where unknown."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Final

import pyarrow.csv as pacsv

from traces.schema import SCHEMA

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traces.store import Run

_BATCH: Final = 65_536


def export(run: Run) -> Iterator[bytes]:
    """The rows in pieces, header first. An empty text is `""`, an unknown value nothing."""
    table = run.table.select(SCHEMA.names)
    for first in range(0, max(table.num_rows, 1), _BATCH):
        out = io.BytesIO()
        part = table.slice(first, _BATCH).cast(SCHEMA)
        pacsv.write_csv(part, out, pacsv.WriteOptions(include_header=not first))
        yield out.getvalue()
