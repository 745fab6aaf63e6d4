from __future__ import annotations

import random

import pyarrow as pa
import pytest

from traces.readers.growing import Growing

TEXT = pa.dictionary(pa.int32(), pa.string())
SCHEMA = pa.schema(
    [("i", pa.int64()), ("s", pa.int32()), ("f", pa.float32()), ("b", pa.bool_()), ("t", TEXT)]
)


def table(rng: random.Random, rows: int, nulls: float) -> pa.Table:
    def maybe(value: object) -> object:
        return None if rng.random() < nulls else value

    return pa.table(
        {
            "i": pa.array([maybe(rng.randrange(-(2**63), 2**63)) for _ in range(rows)], pa.int64()),
            "s": pa.array([maybe(rng.randrange(100)) for _ in range(rows)], pa.int32()),
            "f": pa.array([maybe(rng.random()) for _ in range(rows)], pa.float32()),
            "b": pa.array([maybe(rng.random() < 0.5) for _ in range(rows)], pa.bool_()),
            "t": pa.array(
                [maybe(f"name {rng.randrange(9)}") for _ in range(rows)], pa.string()
            ).dictionary_encode(),
        },
        schema=SCHEMA,
    )


@pytest.mark.parametrize("seed", range(6))
def test_growing_is_concatenating(seed: int) -> None:
    rng = random.Random(seed)
    parts = [table(rng, rng.choice([0, 1, 700, 3000]), rng.choice([0, 0.3, 1])) for _ in range(12)]
    growing = Growing(SCHEMA)
    for part in parts:
        growing.append(part)
    made = growing.finish()
    made.validate(full=True)
    assert made.schema == SCHEMA
    assert made.to_pylist() == pa.concat_tables(parts).to_pylist()
    assert all(column.num_chunks <= 1 for column in made.columns)
    names = made["t"].combine_chunks().dictionary.to_pylist() if made.num_rows else []
    assert len(set(names)) == len(names)


def test_nothing_appended_is_an_empty_table() -> None:
    made = Growing(SCHEMA).finish()
    assert (made.num_rows, made.schema) == (0, SCHEMA)
