"""Layers added up for reading, with equal sums."""

from __future__ import annotations

from tests.traces.analysis.decoder import CUDA, TRITON, decoder
from traces.analysis.compare import compare
from traces.analysis.fold import folded


def test_layers_are_one_row_and_nothing_is_lost() -> None:
    got = compare(decoder(CUDA), decoder((*TRITON, ("x", "gemm", 1)), layers=4))
    rows = folded(got.rows)
    for side in ("a", "b", "delta"):
        assert sum(r[side] for r in rows) == sum(r[side] for r in got.rows)
    down = next(r for r in rows if r["key"] == {"module": "layers.*.mlp.down", "category": "gemm"})
    assert (down["a"], down["b"], down["count"], down["status"]) == (90, 132, 4, "partly")
    assert sum(r["count"] for r in rows) == len(got.rows)


def test_other_columns_stay_apart() -> None:
    got = compare(decoder(CUDA), decoder(CUDA), ["layer", "module"])
    assert len([r for r in folded(got.rows) if r["key"]["module"] == "layers.*.mlp.down"]) == 3
