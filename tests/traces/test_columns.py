from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from traces import columns


@given(st.lists(st.one_of(st.none(), st.sampled_from("abc")), max_size=12), st.booleans())
def test_texts_survive_coding(texts: list[str | None], as_dictionary: bool) -> None:
    column = pa.chunked_array([pa.array(texts[:5], pa.string()), pa.array(texts[5:], pa.string())])
    codes, distinct = columns.encode(column.dictionary_encode() if as_dictionary else column)
    assert columns.decode(codes, distinct).to_pylist() == texts


@given(st.lists(st.tuples(st.integers(-1, 3), st.integers(-1, 200_000)), min_size=1, max_size=40))
def test_combine_numbers_distinct_rows_in_order(rows: list[tuple[int, int]]) -> None:
    parts = [np.array(c, np.int32) for c in zip(*rows, strict=True)]
    numbers, first, counts = columns.combine(*parts)
    assert [rows[first[n]] for n in numbers] == rows
    assert all(rows.index(rows[i]) == i for i in first)
    assert counts.tolist() == [rows.count(rows[i]) for i in first]
    assert len(set(numbers.tolist())) == len(set(rows)) == len(first)


def test_numbers_of_nothing_and_of_null() -> None:
    assert columns.number(pa.chunked_array([], pa.int64())).tolist() == []
    assert columns.number(pa.array([7, None, 7, None])).tolist() == [0, 1, 0, 1]
    assert columns.matching(pa.array(["cudaGraphLaunch", None, "x"]), "graphlaunch").to_pylist() == [
        True,
        False,
        False,
    ]
