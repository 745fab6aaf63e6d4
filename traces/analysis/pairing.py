"""Which points of two rooflines are the same work: joined by op and shape, never by kernel name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from traces.analysis.points import Point

ALIKE: Final = 0.05  # work per call that differs by more is not the same work: its rates do not compare
# Groups whose shape says what the work is, whatever the category: M2 products are `gemm` here, `gemv` there.
_BY_SHAPE: Final = ("gemm", "attention")


class Joined(NamedTuple):
    """One op and shape in A, in B, or in both."""

    a: Point | None
    b: Point | None

    @property
    def same_work(self) -> bool:
        """Whether both sides have it and do, within `ALIKE`, the same work per call."""
        if self.a is None or self.b is None:
            return False
        pairs = ((self.a.flops, self.b.flops), (self.a.min_bytes, self.b.min_bytes))
        return all(_alike(x, self.a.n, y, self.b.n) for x, y in pairs)


def join(a: Sequence[Point], b: Sequence[Point]) -> list[Joined]:
    """Pair the points of two runs; those without a partner stay alone. Most time (of A and B) first.

    Two points pair if category, op, shape and dtype are equal, else if they are the only ones left in their
    runs with that shape and dtype and that category (of GEMMs and attention: that group). Points without a
    shape never pair: nothing says that they do the same.
    """
    left, right = list(a), list(b)
    out: list[Joined] = []
    for key in (_exactly, _by_shape):
        found = _unique_pairs(left, right, key)
        out += found
        left = [p for p in left if not any(p is j.a for j in found)]
        right = [p for p in right if not any(p is j.b for j in found)]
    out += [Joined(p, None) for p in left] + [Joined(None, p) for p in right]
    return sorted(out, key=lambda j: -sum(p.exclusive_ns for p in j if p is not None))


def _exactly(p: Point) -> tuple[Any, ...]:
    return p.category, p.op, p.shape, p.dtype


def _by_shape(p: Point) -> tuple[Any, ...]:
    return p.group if p.group in _BY_SHAPE else p.category, p.shape, p.dtype


def _unique_pairs(
    a: Sequence[Point], b: Sequence[Point], key: Callable[[Point], tuple[Any, ...]]
) -> list[Joined]:
    mine, theirs = _alone(a, key), _alone(b, key)
    return [Joined(p, theirs[k]) for k, p in mine.items() if k in theirs]


def _alone(points: Sequence[Point], key: Callable[[Point], tuple[Any, ...]]) -> dict[tuple[Any, ...], Point]:
    """The points whose key no other of them has."""
    found: dict[tuple[Any, ...], list[Point]] = {}
    for p in points:
        if p.shape is not None:
            found.setdefault(key(p), []).append(p)
    return {k: ps[0] for k, ps in found.items() if len(ps) == 1}


def _alike(x: int | None, n: int, y: int | None, m: int) -> bool:
    if x is None or y is None:
        return x is y
    per_call = sorted((x / n, y / m))
    return per_call[1] <= per_call[0] * (1 + ALIKE)
