"""A run's rows as CSV: the columns of `traces.schema`, integer ns, empty where unknown."""

from __future__ import annotations

from typing import TYPE_CHECKING, BinaryIO, Final

import pyarrow.csv as pacsv

from traces.schema import SCHEMA

if TYPE_CHECKING:
    from traces.store import Run

_BATCH: Final = 65_536


def export(run: Run, out: BinaryIO) -> None:
    """Write the rows, header first. An empty string is `""`, a null is nothing."""
    table = run.table.select(SCHEMA.names)
    with pacsv.CSVWriter(out, SCHEMA) as writer:
        for first in range(0, table.num_rows, _BATCH):
            writer.write_table(table.slice(first, _BATCH).cast(SCHEMA))
