"""Text columns as small numbers: millions of rows share a few hundred names.

Inside the pipeline a text column is a pyarrow dictionary array; the file format stores plain strings.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Codes = NDArray[np.int32]

NONE = -1
TEXT = pa.dictionary(pa.int32(), pa.string())


def nulls(rows: int, kind: pa.DataType) -> pa.Array:
    """All null, in pages that are never written and so take no memory. Fixed-width types and `TEXT`."""
    width = 4 if kind == TEXT else max(1, kind.bit_width // 8)
    zeros = pa.py_buffer(np.zeros(rows * width + 8, np.uint8))
    if kind == TEXT:
        codes = pa.Array.from_buffers(pa.int32(), rows, [zeros, zeros], null_count=rows)
        return pa.DictionaryArray.from_arrays(codes, pa.array([], pa.string()))
    return pa.Array.from_buffers(kind, rows, [zeros, zeros], null_count=rows)


def encode(column: pa.ChunkedArray | pa.Array) -> tuple[Codes, list[str]]:
    """The code of each row (NONE for null) and the distinct texts, of a string or dictionary column."""
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    if isinstance(column, pa.ChunkedArray):
        column = column.unify_dictionaries().combine_chunks()
    if isinstance(column, pa.ChunkedArray):  # an empty one stays chunked
        return np.zeros(0, np.int32), []
    return pc.fill_null(column.indices, NONE).to_numpy().astype(np.int32), column.dictionary.to_pylist()


def decode(codes: NDArray[np.signedinteger], texts: Sequence[str | None]) -> pa.DictionaryArray:
    """The dictionary column that has `texts[code]` in each row; NONE and a text of None are null."""
    distinct = list(dict.fromkeys(t for t in texts if t is not None))
    place = {t: i for i, t in enumerate(distinct)}
    to = np.array([place[t] if t is not None else NONE for t in texts] + [NONE], np.int32)  # [-1] is null
    found = to[codes]
    return pa.DictionaryArray.from_arrays(
        pa.array(found, mask=found == NONE), pa.array(distinct, pa.string())
    )


def number(column: pa.ChunkedArray | pa.Array) -> Codes:
    """Number the distinct values of a column of integers; null is a value like any other."""
    if _constant(column):
        return np.zeros(len(column), np.int32)
    if isinstance(column, pa.ChunkedArray):  # dictionaries that hold null cannot be unified later
        column = pa.concat_arrays(column.chunks) if column.num_chunks else pa.nulls(0, column.type)
    codes: Codes = column.dictionary_encode(null_encoding="encode").indices.to_numpy()
    return codes


def _constant(column: pa.ChunkedArray | pa.Array) -> bool:
    """Whether all rows are alike: ten times faster to see than to number them, and common."""
    if column.null_count:
        return bool(column.null_count == len(column))
    ends = pc.min_max(column)
    return bool(ends["min"].equals(ends["max"]))


def combine(*columns: Codes) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Number the distinct rows of several code columns: (number of each row, first row and count of each)."""
    key = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        low, high = (int(edge) for edge in (column.min(initial=0), column.max(initial=0)))
        if high > low:
            key = key * (high - low + 1) + (column - low)
    if len(key) and key.max() < 4 * len(key):  # few combinations: count them in place of sorting all rows
        counts = np.bincount(key)
        place = np.cumsum(counts > 0) - 1
        numbers, counts = place[key], counts[counts > 0]
        first = np.empty(len(counts), np.int64)
        first[numbers[::-1]] = np.arange(len(key))[::-1]
        return numbers, first, counts
    _, first, numbers, counts = np.unique(key, return_index=True, return_inverse=True, return_counts=True)
    return numbers.reshape(-1), first, counts


def matching(column: pa.ChunkedArray | pa.Array, part: str) -> pa.Array:
    """True where the text holds `part`, in whatever case; false for null."""
    codes, texts = encode(column)
    holds = np.array([part.lower() in t.lower() for t in texts] + [False], dtype=bool)
    return pa.array(holds[codes])
