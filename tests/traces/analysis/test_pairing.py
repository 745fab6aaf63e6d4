from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from traces.analysis.pairing import Joined, join
from traces.analysis.points import Point


def point(op: str, shape: str | None, **known: Any) -> Point:
    base = {
        "group": "gemm", "category": "gemm", "dtype": "f16", "n": 1, "helpers": 0, "kernel_ns": 10,
        "work_ns": 10, "exclusive_ns": 10, "flops": 100, "min_bytes": 10, "floor_ns": 1.0,
    }  # fmt: skip
    return Point(op=op, shape=shape, **(base | known))


def pairs(found: list[Joined]) -> list[tuple[str | None, str | None]]:
    return [(j.a.op if j.a else None, j.b.op if j.b else None) for j in found]


def test_builds_name_their_ops_differently_but_the_shape_is_the_same() -> None:
    found = join([point("aten::mm", "M1")], [point("kernelgap::linear", "M1", category="gemv")])
    assert pairs(found) == [("aten::mm", "kernelgap::linear")]
    assert found[0].same_work


def test_equal_ops_pair_before_equal_shapes() -> None:
    a = [point("aten::mm", "M1"), point("aten::addmm", "M1")]
    assert pairs(join(a, [point("aten::mm", "M1")])) == [("aten::mm", "aten::mm"), ("aten::addmm", None)]


def test_nothing_is_guessed_among_several() -> None:
    a = [point("aten::mul", "9", category="elementwise"), point("aten::add", "9", category="elementwise")]
    assert pairs(join(a, [point("fused", "9", category="elementwise")])) == [
        ("aten::mul", None), ("aten::add", None), (None, "fused"),
    ]  # fmt: skip


def test_small_ops_of_one_shape_are_not_the_same() -> None:
    norm = point("norm", "9", group="small_op", category="norm")
    assert pairs(join([norm], [point("silu", "9", group="small_op", category="activation")])) == [
        ("norm", None), (None, "silu"),
    ]  # fmt: skip


def test_points_without_a_shape_stay_alone() -> None:
    assert pairs(join([point("aten::mm", None)], [point("aten::mm", None)])) == [
        ("aten::mm", None), (None, "aten::mm"),
    ]  # fmt: skip


def test_the_same_shape_is_not_always_the_same_work() -> None:
    """Attention over a whole masked cache, and over its used part."""
    whole, used = point("x", "B1", flops=100), point("x", "B1", flops=67)
    assert not join([whole], [used])[0].same_work
    assert join([whole], [point("x", "B1", n=2, flops=204, min_bytes=20)])[0].same_work  # 2 % per call
    assert not join([whole], [point("x", "B1", min_bytes=None)])[0].same_work
    assert not Joined(whole, None).same_work


def test_most_time_comes_first() -> None:
    a = [point("s", "1", exclusive_ns=5), point("l", "2", exclusive_ns=50)]
    assert pairs(join(a, [point("s", "1", exclusive_ns=100)])) == [("s", "s"), ("l", None)]


some = st.builds(
    point,
    st.sampled_from(["p", "q"]),
    st.sampled_from(["1", "2", None]),
    category=st.sampled_from(["gemm", "gemv"]),
    exclusive_ns=st.integers(0, 9),
)


@given(st.lists(some, max_size=8), st.lists(some, max_size=8))
def test_every_point_is_there_once(a: list[Point], b: list[Point]) -> None:
    found = join(a, b)
    for side, given_points in ((0, a), (1, b)):
        ids = [id(j[side]) for j in found if j[side] is not None]
        assert sorted(ids) == sorted(id(p) for p in given_points)
    assert all(j.a is None or j.b is None or j.a.shape == j.b.shape for j in found)
