"""The runs that ship with the repository: every pair is explained by module, exactly."""

from __future__ import annotations

from itertools import permutations

import pytest

from traces import store
from traces.analysis.compare import compare

RUNS = sorted(store.gallery().glob("*.parquet"))


@pytest.mark.parametrize(("one", "other"), list(permutations(RUNS, 2)), ids=lambda p: p.stem[:30])
def test_at_least_99_percent_of_a_decode_step_is_in_modules_of_both(one: object, other: object) -> None:
    a, b = (store.read(p) for p in (one, other))  # type: ignore[arg-type]
    got = compare(a, b)
    if (got.phase, a.meta["model"]) != ("decode", b.meta["model"]):
        pytest.skip("not two decode runs of one model")
    assert (got.aligned_by, got.by) == ("module", ("module", "category"))
    assert got.aligned_share >= 0.99
    for side in ("a", "b", "delta"):
        assert sum(r[side] for r in got.rows) + got.idle[side] == got.total[side]
    word = "slower" if got.total["delta"] > 0 else "faster"
    assert f"/token {word} than" in got.sentence
