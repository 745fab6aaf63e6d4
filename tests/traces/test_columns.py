from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
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


@pytest.mark.parametrize("kind", [pa.int64(), pa.int32(), pa.int16(), pa.float32(), pa.bool_(), columns.TEXT])
@pytest.mark.parametrize("rows", [0, 1, 9, 1000])
def test_nulls_are_those_of_arrow(kind: pa.DataType, rows: int) -> None:
    made = columns.nulls(rows, kind)
    made.validate(full=True)
    assert made.type == kind
    assert made.null_count == rows
    assert made.to_pylist() == [None] * rows


@pytest.mark.parametrize("values", [[], [3, 3, 3], [None, None], [3, None, 3], [1, 2, 1], [-5, -5]])
def test_numbering_a_constant_column_is_numbering(values: list[int | None]) -> None:
    known = {value: place for place, value in enumerate(dict.fromkeys(values))}
    for column in (pa.array(values, pa.int64()), pa.chunked_array([pa.array(values, pa.int64())])):
        assert columns.number(column).tolist() == [known[v] for v in values]


@given(st.lists(st.tuples(st.integers(-2, 2), st.just(7), st.integers(0, 1)), max_size=30))
def test_combining_is_the_same_with_constant_columns(rows: list[tuple[int, int, int]]) -> None:
    parts = [np.array([r[i] for r in rows], np.int32) for i in range(3)]
    numbers, first, counts = columns.combine(*parts)
    assert len({*zip(rows, numbers.tolist(), strict=True)}) == len(set(rows)) == len(first)
    assert [rows.index(rows[i]) for i in first] == first.tolist()
    assert counts.tolist() == [rows.count(rows[i]) for i in first]
