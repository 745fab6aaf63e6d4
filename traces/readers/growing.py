"""Tables that grow batch by batch without ever being held twice."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from traces.columns import nulls

if TYPE_CHECKING:
    from numpy.typing import NDArray

_FIRST = 1 << 12  # rows


class Growing:
    """Appends tables of one schema (integers, floats, booleans, dictionary strings); `finish` joins them.

    Concatenating a thousand small tables at the end would hold every row twice, and what they leave
    behind in the heap would stay.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self.rows = 0
        self._columns = [_Column(field.type) for field in schema]

    def append(self, table: pa.Table) -> None:
        """Add the rows of `table`, whose schema must be the same."""
        for column, values in zip(self._columns, table.columns, strict=True):
            for chunk in values.chunks:
                column.append(chunk)
        self.rows += table.num_rows

    def finish(self) -> pa.Table:
        """All rows as one table of one chunk; empties this."""
        columns = [column.finish() for column in self._columns]
        self._columns = []
        return pa.table(columns, schema=self.schema)


class _Column:
    def __init__(self, kind: pa.DataType) -> None:
        self.kind = kind
        self.texts: dict[str, int] | None = {} if pa.types.is_dictionary(kind) else None
        self.dtype = np.dtype((kind.index_type if self.texts is not None else kind).to_pandas_dtype())
        self.size = 0
        self.values: NDArray[Any] | None = None  # none while all rows are null
        self.known: NDArray[np.bool_] | None = None  # none while all rows of `values` are known

    def append(self, chunk: pa.Array) -> None:
        begin, self.size = self.size, self.size + len(chunk)
        if chunk.null_count == len(chunk) and self.values is None:
            return
        if self.values is None:
            self.values = np.zeros(max(_FIRST, self.size), self.dtype)
            if begin:
                self.known = np.zeros(len(self.values), dtype=bool)
        if self.known is None and chunk.null_count:
            self.known = np.ones(len(self.values), dtype=bool)
        if self.size > len(self.values):
            self._grow()
        if self.texts is not None:
            chunk = self._recode(chunk)
        if self.known is not None:
            self.known[begin : self.size] = chunk.is_valid().to_numpy(zero_copy_only=False)
        if chunk.null_count:
            chunk = pc.fill_null(chunk, pa.scalar(0).cast(chunk.type))
        self.values[begin : self.size] = chunk.to_numpy(zero_copy_only=False)

    def _grow(self) -> None:
        room = 2 * self.size  # pages never written to take no memory
        for name in ("values", "known"):
            old = getattr(self, name)
            if old is not None:
                new = np.empty(room, old.dtype)
                new[: len(old)] = old
                if name == "known":
                    new[len(old) :] = True
                setattr(self, name, new)

    def _recode(self, chunk: pa.DictionaryArray) -> pa.Array:
        """The chunk's indices in the dictionary of all."""
        assert self.texts is not None
        ours = [self.texts.setdefault(t, len(self.texts)) for t in chunk.dictionary.to_pylist()]
        return pa.array(ours, pa.int32()).take(chunk.indices)

    def finish(self) -> pa.Array:
        if self.values is None:
            return nulls(self.size, self.kind)
        mask = None if self.known is None else ~self.known[: self.size]
        values = self.values[: self.size]
        self.values = self.known = None
        if self.texts is None:
            return pa.array(values, self.kind, mask=mask)
        codes = pa.array(values, pa.int32(), mask=mask)
        return pa.DictionaryArray.from_arrays(codes, pa.array(list(self.texts), pa.string()))
