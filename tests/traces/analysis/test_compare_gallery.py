"""The runs that ship with the repository: every pair is explained by module, exactly."""

from __future__ import annotations

from itertools import permutations

import pytest

from traces import store
from traces.analysis.compare import compare

RUNS = sorted(store.gallery().glob("*.parquet"))


@pytest.mark.parametrize(("one", "other"), list(permutations(RUNS, 2)), ids=lambda p: p.stem[:30])
def test_a_decode_step_is_in_modules_of_both_but_for_what_one_fused(one: object, other: object) -> None:
    a, b = (store.read(p) for p in (one, other))  # type: ignore[arg-type]
    got = compare(a, b)
    if (got.phase, a.meta["model"]) != ("decode", b.meta["model"]):
        pytest.skip("not two decode runs of one model")
    assert (got.aligned_by, got.by) == ("module", ("module", "category"))
    # the fused build has no norms, RoPE, SiLU or embedding lookup of their own: they are in one run only
    fused = [m["variant"] == "triton" for m in (a.meta, b.meta)]
    assert got.aligned_share >= (0.95 if fused[0] != fused[1] else 0.99)
    if fused == [False, True]:
        alone = {str(r["key"]["module"]) for r in got.rows if r["status"] == "only_a"}
        assert all("norm" in module or module == "None" for module in alone)
    for side in ("a", "b", "delta"):
        assert sum(r[side] for r in got.rows) + got.idle[side] == got.total[side]
    word = "slower" if got.total["delta"] > 0 else "faster"
    assert f"/token {word} than" in got.sentence
