"""Kernels of two runs paired by their order inside a layer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from tests.traces.analysis.decoder import CUDA, TRITON, decoder
from tests.traces.builders import run
from traces.analysis.order import borrowed, labels

if TYPE_CHECKING:
    from traces.store import Run


def slots(*categories: str, layer: int | None = 0, steps: int = 1) -> Run:
    return run([
        {"start_ns": i, "dur_ns": 1, "category": c, "layer": layer, "step": s, "phase": "decode"}
        for s in range(steps) for i, c in enumerate(categories, s * 100)
    ])  # fmt: skip


def paired(a: Run, b: Run) -> tuple[list[str], list[str]]:
    left, right = labels(a.table, b.table)
    return [x.removeprefix("layers.0.") for x in left], [x.removeprefix("layers.0.") for x in right]


def test_reductions_belong_to_their_product_and_small_ops_between_are_one_slot() -> None:
    a = slots("norm", "gemm", "gemm_reduce", "elementwise", "copy", "attention", "attention_reduce", "gemm")
    b = slots("norm", "gemm", "rope", "attention", "gemm", "memset", "gemm_reduce")
    left, right = paired(a, b)
    assert left == ["small#1", "gemm#1", "gemm#1", "small#2", "small#2", *["attention#1"] * 2, "gemm#2"]
    assert right == ["small#1", "gemm#1", "small#2", "attention#1", "gemm#2", "small#3", "gemm#2"]


def test_three_projections_meet_a_fused_one() -> None:
    left, right = paired(slots("norm", "gemm", "gemm", "gemm", "attention", "gemm"),
                         slots("norm", "gemm", "attention", "gemm"))  # fmt: skip
    assert left == ["small#1", "gemm#1", "gemm#1", "gemm#1", "attention#1", "gemm#2"]
    assert right == ["small#1", "gemm#1", "attention#1", "gemm#2"]


def test_a_kernel_that_one_run_fused_away_has_no_partner_and_shifts_nothing() -> None:
    left, right = paired(slots("norm", "gemm", "attention", "gemm", "norm", "gemm", "activation", "gemm"),
                         slots("gemm", "attention", "gemm", "gemm", "gemm"))  # fmt: skip
    assert [x for x in left if x.startswith("gemm")] == ["gemm#1", "gemm#2", "gemm#3", "gemm#4"]
    assert right == ["gemm#1", "attention#1", "gemm#2", "gemm#3", "gemm#4"]


def test_a_step_with_an_extra_kernel_is_read_like_the_others() -> None:
    usual, odd = ["norm", "gemm", "attention"], ["norm", "gemm", "collective", "attention"]
    rows = [
        {"start_ns": s * 10 + i, "dur_ns": 1, "category": c, "layer": 0, "step": s}
        for s, plan in enumerate((usual, odd, usual)) for i, c in enumerate(plan)
    ]  # fmt: skip
    left, right = paired(run(rows), slots(*usual))
    assert left == [*right, *right[:2], "collective (extra)", right[2], *right]


def test_rows_outside_the_layers_are_before_or_after_them() -> None:
    a = decoder(CUDA, modules=False, steps=1).table
    left, right = labels(a, a)
    assert left == right
    assert left[0] == "before.small#1"
    assert left[len(CUDA) * 3 + 1] == "after.gemm#1"


def test_a_layer_that_one_run_lacks_has_no_partner() -> None:
    left, right = labels(slots("gemm", layer=4).table, slots("gemm", layer=5).table)
    assert (left, right) == (["layers.4.gemm#1"], ["layers.5.gemm#1"])


def test_modules_are_borrowed_by_slot_and_category() -> None:
    a, b = decoder(CUDA, steps=1).table, decoder(TRITON, steps=1, modules=False).table
    left, right = labels(a, b)
    names = borrowed(b, right, a, left)
    truth = decoder(TRITON, steps=1).table["module"].to_pylist()
    wrong = {(t, name) for t, name in zip(truth, names, strict=True) if t != name}
    # The residual add that CUDA fuses goes with the norm it stands beside.
    assert wrong == {(f"layers.{i}", f"layers.{i}.mlp_norm") for i in range(3)}


CATEGORIES = st.lists(
    st.sampled_from(["gemm", "gemm_reduce", "norm", "attention", "collective", "copy"]), max_size=9
)


@given(CATEGORIES, CATEGORIES)
def test_every_row_gets_a_name_and_order_is_kept(a: list[str], b: list[str]) -> None:
    left, right = labels(slots(*a).table, slots(*b).table)
    assert (len(left), len(right)) == (len(a), len(b))
    common = [x for x in dict.fromkeys(left) if x in right]
    assert common == [x for x in dict.fromkeys(right) if x in left]
    assert all(x == y for x, y in zip(*labels(slots(*a).table, slots(*a).table), strict=True))
