"""Whether a difference between two runs is more than noise: the wider interquartile range (IQR) of the two.

Spread and noise are of the wall time that the comparison is based on: steps timed without a profiler where
both runs have them, else the profiled tiles. One step has no spread, so its noise is unknown, which is said
and never taken for zero without a word.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

_ENOUGH: Final = 2  # steps that have a spread


@dataclass(frozen=True)
class Noise:
    """The wider IQR of two runs, ns per step summed over devices (None: a run has fewer than two steps)."""

    ns: int | None
    n: tuple[int, int]

    def hides(self, delta: int) -> bool | None:
        """Whether a difference (ns) lies within the noise; None where the noise is unknown."""
        return None if self.ns is None else abs(delta) <= self.ns

    def __str__(self) -> str:
        """`12,000 ns (the wider IQR, n 48 and 48)`."""
        n = f"n {self.n[0]} and {self.n[1]}"
        return f"unknown ({n})" if self.ns is None else f"{self.ns:,} ns (the wider IQR, {n})"


@dataclass(frozen=True)
class Gate:
    """The answer to `--fail-over`, and why in one line; true where it failed."""

    failed: bool
    why: str

    def __bool__(self) -> bool:
        return self.failed


def spread_of(tiles: Sequence[int]) -> dict[str, Any]:
    """Median and IQR of profiled steps' wall time, ns; of at least one step."""
    low, mid, high = (float(q) for q in np.percentile(tiles, [25, 50, 75]))
    return {"basis": "profiled", "n": len(tiles), "median_ns": round(mid), "iqr_ns": round(high - low)}


def noise_of(a: dict[str, Any], b: dict[str, Any], devices: tuple[int, int]) -> Noise:
    """From the spreads of two runs; those of unprofiled steps are per device and count for each."""
    n = a["n"], b["n"]
    if min(n) < _ENOUGH:
        return Noise(None, n)
    scale = [d if s["basis"] == "unprofiled" else 1 for s, d in zip((a, b), devices, strict=True)]
    return Noise(max(s["iqr_ns"] * k for s, k in zip((a, b), scale, strict=True)), n)


def gate(total: dict[str, int], noise: Noise, percent: float) -> Gate:
    """Fail if B is slower than A by more than `percent` of A and not within the noise.

    Unknown noise excuses nothing: then the limit alone decides, and the line says so.
    """
    base, delta = total["a"], total["delta"]
    change = f"{100 * delta / base:+.2f}% ({delta:+,} ns)" if base else f"{delta:+,} ns"
    facts = f"B - A is {change} a step, limit +{percent:g}%, noise {noise}"
    over = delta > base * percent / 100
    if over and noise.hides(delta):
        return Gate(False, f"passed: {facts}; over the limit, but within the noise")
    if over:
        unknown = "" if noise.ns is not None else "; one step has no spread, so the limit alone decides"
        return Gate(True, f"failed: {facts}{unknown}")
    return Gate(False, f"passed: {facts}")
