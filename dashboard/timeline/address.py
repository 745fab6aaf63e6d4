"""What part of the timeline is shown, as the page's address and the browser say it: neither is trusted."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

WHOLE: Final = "whole"  # in the address: each run from its own start
FIND_MOST: Final = 200
_INTERVAL: Final = re.compile(r"(-?\d{1,18})\.\.(-?\d{1,18})")
_KERNEL: Final = re.compile(r"([ab]):(\d{1,10})")
_NUMBER: Final = re.compile(r"-?\d{1,9}")
_MOST_NS: Final = 10**18

Window = tuple[int, int]


@dataclass(frozen=True)
class View:
    """A step (`phase:number`, or "") at the origin of the axis, and ns on that axis."""

    step: str
    window: Window
    range: Window | None = None
    find: str = ""
    kernel: tuple[str, int] | None = None  # side, place in its scene

    @property
    def shown(self) -> Window:
        """What the numbers below the picture are about: the range if one is selected."""
        return self.range or self.window


@dataclass(frozen=True)
class Wish:
    """The same as an address may have it: None where it says nothing usable."""

    step: str | None
    window: Window | None
    range: Window | None
    find: str
    kernel: tuple[str, int] | None
    unread: tuple[str, ...]  # names of parameters that make no sense


def read(query: Mapping[str, str], phase: str | None) -> Wish:
    """Understand the parameters of an address; a bare step number is one of the phase."""
    step, unread = query.get("step"), []
    if step == WHOLE:
        step = ""
    elif step is not None and _NUMBER.fullmatch(step):
        step = f"{phase}:{int(step)}" if phase is not None else None
    elif step is not None and ":" not in step:
        step = None
        unread.append("step")
    window, span = _interval(query.get("window")), _interval(query.get("range"))
    kernel = _KERNEL.fullmatch(query.get("kernel", ""))
    found = {"window": window, "range": span, "kernel": kernel}
    unread += [name for name, value in found.items() if value is None and query.get(name)]
    chosen = (kernel[1], int(kernel[2])) if kernel else None
    return Wish(step, window, span, query.get("find", "")[:FIND_MOST], chosen, tuple(unread))


def write(view: View, phase: str | None) -> dict[str, str]:
    """The parameters of the address that shows a view; an empty text means none."""
    named, _, number = view.step.rpartition(":")
    step = number if phase is not None and named == phase else view.step
    return {
        "step": step or WHOLE,
        "window": "{}..{}".format(*view.window),
        "range": "{}..{}".format(*view.range) if view.range else "",
        "find": view.find,
        "kernel": "{}:{}".format(*view.kernel) if view.kernel else "",
    }


def heard(state: Any) -> View | None:
    """What the browser says it shows; None unless it makes sense."""
    try:
        step, low, high = state["step"], _ns(state["lo"]), _ns(state["hi"])
        span = state["range"] and (_ns(state["range"][0]), _ns(state["range"][1]))
        kernel = _KERNEL.fullmatch(state["kernel"] or "")
        find = state["find"]
    except (TypeError, KeyError, ValueError, IndexError):
        return None
    if not isinstance(step, str) or not isinstance(find, str) or low >= high:
        return None
    chosen = (kernel[1], int(kernel[2])) if kernel else None
    return View(step, (low, high), span or None, find[:FIND_MOST], chosen)


def _interval(text: str | None) -> Window | None:
    match = _INTERVAL.fullmatch(text or "")
    if not match:
        return None
    low, high = int(match[1]), int(match[2])
    return (low, high) if low < high else None


def _ns(value: Any) -> int:
    """A whole number of ns. Raises ValueError or TypeError for anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or abs(value) > _MOST_NS:
        raise ValueError
    return int(value)
