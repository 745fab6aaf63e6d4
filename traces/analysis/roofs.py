"""The roofs to draw over a run's points: memory bandwidth and peak rates, as stated and as measured."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from traces.analysis.roofline import find, peaks

if TYPE_CHECKING:
    from collections.abc import Iterable

    from traces.store import Run


class Roof(NamedTuple):
    """One ceiling. `dtype` None: memory, `rate` in bytes/s; else compute, `rate` in FLOP/s."""

    dtype: str | None
    rate: float
    measured: bool  # on the run's own machine; it wins over the vendor's
    source: str

    @property
    def said(self) -> str:
        """`4.80 TB/s`, `f16 989 TFLOP/s measured`."""
        rate = f"{self.rate / 1e12:.2f} TB/s" if self.dtype is None else f"{self.rate / 1e12:,.0f} TFLOP/s"
        if self.dtype is not None and self.rate < 1e14:
            rate = f"{self.rate / 1e12:.1f} TFLOP/s"
        return f"{self.dtype + ' ' if self.dtype else ''}{rate}{' measured' if self.measured else ''}"


def roofs(run: Run, dtypes: Iterable[str | None]) -> list[Roof]:
    """The device's bandwidth and its peak rates for `dtypes`: the vendor's, and beside them the measured.

    Empty for a device that nothing is known of.
    """
    device = run.meta["device"]
    name, measured = device.get("name"), device.get("measured")
    out: list[Roof] = []
    for dtype in (None, *sorted({d for d in dtypes if d})):
        stated = peaks(name, dtype) if find(name) else None
        own = peaks(None, dtype, measured) if isinstance(measured, dict) else None
        for found, is_measured in ((stated, False), (own, True)):
            rate = found and (found.bytes_per_s if dtype is None else found.flops_per_s)
            if found and rate:
                out.append(Roof(dtype, rate, is_measured, found.source))
    return out
