"""What the timeline is told: the runs' kernels, which it keeps, and the numbers of what it shows."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import streamlit as st

from dashboard import charts
from dashboard.format import duration
from dashboard.pair import SIDES
from dashboard.timeline.address import View
from dashboard.timeline.kernel import lines
from traces.analysis import canvas, packing
from traces.text import plain

if TYPE_CHECKING:
    from dashboard.pair import Pair, SideName
    from dashboard.timeline.address import Window
    from traces.analysis.canvas import Range, Scene
    from traces.analysis.packing import Part
    from traces.store import Run

SHIPPED: Final = 1_000_000  # kernels of a run that the browser gets once and for all
EXACT: Final = 50_000  # of a longer run, so many in view are sent one by one


@dataclass(frozen=True)
class Side:
    """One of the two runs, laid out."""

    name: SideName
    run: Run
    key: str  # changes with the file
    scene: Scene
    steps: dict[str, Window]  # by name, ns of the run

    def step(self, name: str) -> Window | None:
        """Start and end of a step (`phase:number`), ns of the run; None if the run lacks it."""
        return self.steps.get(name)

    def origin(self, view: View) -> int:
        """Where 0 of the axis lies, ns of the run: the start of the step, else of the run."""
        step = self.step(view.step)
        return step[0] if step else self.scene.span[0]

    def absolute(self, view: View, window: Window) -> Window:
        """A window of the axis in ns of the run."""
        origin = self.origin(view)
        return window[0] + origin, window[1] + origin


def sides(pair: Pair) -> list[Side]:
    """Both runs, laid out once per file. Raises InputError when one is damaged."""
    out = []
    for name in SIDES:
        entry, run = pair.entries[name], pair.run(name)
        key = hashlib.sha256(f"{entry.path} {entry.stamp}".encode("utf-8", "surrogatepass")).hexdigest()[:12]
        out.append(side(name, key, run))
    return out


def side(name: SideName, key: str, run: Run) -> Side:
    """A run, laid out unless it is already under its key."""
    return Side(name, run, key, _scene(key, run), _steps(key, run))


def step_name(phase: str, number: int) -> str:
    """A step as the picker and the address name it."""
    return f"{plain(phase)}:{number}"


def first_view(both: list[Side], phase: str | None) -> View:
    """The first step of the phase that is complete in both runs, else that both have, else the whole runs."""
    found: dict[str, list[bool]] = {}
    for side in both:
        for step in side.run.meta["steps"]:
            if step["phase"] == phase:
                found.setdefault(step_name(step["phase"], step["step"]), []).append(step["complete"])
    most = max(map(len, found.values()), default=0)
    shared = [name for name, complete in found.items() if len(complete) == most]
    whole = [name for name in shared if all(found[name])]
    return step_view(both, next(iter(whole or shared), ""))


def step_view(both: list[Side], step: str) -> View:
    """A step, as long as it is in the run where it is longest; "" for the whole runs."""
    tiles = [tile for side in both if (tile := side.step(step))]
    length = max((last - first for first, last in tiles), default=0)
    if length > 0:
        return View(step, (0, length))
    longest = max(side.scene.span[1] - side.scene.span[0] for side in both)
    return View(step if tiles else "", (0, max(longest, 1)))


def totals(side: Side, view: View) -> Range:
    """What ran in the range, or else in view."""
    return _totals(side.key, side.absolute(view, view.shown), side.scene)


def message(both: list[Side], view: View, nav: str, state: Any, notes: list[str]) -> bytes:
    """The page for the browser, with the parts that it does not have yet."""
    asked = state if isinstance(state, dict) else {}
    have = {key for key in asked.get("have") or () if isinstance(key, str)}
    parts: dict[str, Part] = {}
    runs = []
    for side in both:
        wanted = _parts(side, view)
        parts |= wanted
        runs.append(
            {
                "side": side.name.upper(),
                "title": _title(side),
                **dict(zip(("base", "detail"), wanted, strict=False)),
            }
        )
    page = {
        "nav": nav, "groups": [[g, charts.colour(g)] for g in canvas.GROUP_NAMES],
        "idle": charts.colour("idle"),
        "runs": runs, "most": EXACT, "notes": notes, "summary": summary(both, view),
        "view": {
            "step": view.step, "lo": view.window[0], "hi": view.window[1], "range": view.range,
            "find": view.find,
        },
        "totals": {"of": view.shown, "runs": [_sums(side, totals(side, view)) for side in both]},
        "details": _details(both, view), "answer": answer(both, view, asked.get("ask")),
    }  # fmt: skip
    return packing.frame(page, [part for key, part in parts.items() if key not in have])


def summary(both: list[Side], view: View) -> str:
    """The picture in words, for those who cannot see it."""
    what = f"{'Range' if view.range else 'Window'} of {duration(view.shown[1] - view.shown[0])}"
    where = f", axis from the start of {view.step.replace(':', ' ')}" if view.step else ""
    said = []
    for side in both:
        sums = totals(side, view)
        times = f"busy {duration(sums.busy_ns)}, idle {duration(sums.idle_ns)}"
        said.append(f"{side.name.upper()} {sums.kernels:,} kernels, {times}")
    return f"Timeline of both runs, streams by time. {what}{where}: {'; '.join(said)}. Press ? for the keys."


def _title(side: Side) -> str:
    gpu = side.run.meta["device"].get("name")
    return plain(f"{side.run.title}{f' on {gpu}' if gpu else ''}, {side.scene.count:,} kernels", 200)


def _parts(side: Side, view: View) -> dict[str, Part]:
    """The base of a run, and what is needed beyond it, by the keys that the browser keeps them under."""
    out = {side.key: _base(side.key, side.scene, side.run)}
    if side.scene.count > SHIPPED and (window := _exact(side, view)):
        key = f"{side.key}:{window[0]}:{window[1]}"
        part = packing.kernels(side.scene, window)
        out[key] = packing.Part({**part.about, "key": key}, part.blob)
    return out


def _exact(side: Side, view: View) -> Window | None:
    """The window whose kernels are few enough to be sent: wider than what is shown, if that fits too."""
    first, last = side.absolute(view, view.window)
    wide = last - first
    for window in ((first - wide, last + wide), (first, last)):
        if canvas.about(side.scene, *window) <= EXACT or len(canvas.inside(side.scene, *window)) <= EXACT:
            return window
    return None


def _sums(side: Side, sums: Range) -> dict[str, Any]:
    return {
        "side": side.name.upper(), "kernels": sums.kernels, "busy": sums.busy, "idle": sums.idle_ns,
        "span": sums.span_ns,
    }  # fmt: skip


def _kernel(both: list[Side], which: int, place: int) -> dict[str, int]:
    """A kernel as the browser knows it."""
    scene = both[which].scene
    return {
        "run": which, "place": place, "start": int(scene.start[place]), "end": int(scene.end[place]),
        "kind": int(scene.kind[place]), "track": int(scene.track[place]),
    }  # fmt: skip


def _details(both: list[Side], view: View) -> dict[str, Any] | None:
    if view.kernel is None:
        return None
    which = SIDES.index("a" if view.kernel[0] == "a" else "b")
    side, place = both[which], view.kernel[1]
    if place >= side.scene.count:
        return None
    row = canvas.details(side.scene, side.run, place)
    return {
        "kernel": _kernel(both, which, place), "base": side.key, "run": which, "place": place,
        "lines": lines(row),
    }  # fmt: skip


def answer(both: list[Side], view: View, ask: Any) -> dict[str, Any] | None:
    """The next kernel that the browser, which has not all of them, asks for; nothing it says is trusted."""
    try:
        number, which, place, what = int(ask["n"]), int(ask["run"]), int(ask["place"]), ask["what"]
        direction = 1 if ask["direction"] > 0 else -1
        scene = both[which if which >= 0 else len(both)].scene
        if place < 0 and what == "find":
            place = int(np.searchsorted(scene.start, int(ask["from"]))) - (direction > 0)
    except (TypeError, KeyError, ValueError, IndexError, OverflowError):
        return None
    if what == "find":
        return {"n": number, "kernel": _found(both, view, which, place, direction)}
    at = canvas.neighbour(scene, place, direction) if 0 <= place < scene.count else None
    return {"n": number, "kernel": None if at is None else _kernel(both, which, at)}


def _found(both: list[Side], view: View, which: int, place: int, direction: int) -> dict[str, int] | None:
    """The next kernel that the search finds: in this run, then the other, then around."""
    for _ in range(len(both) + 1):
        scene = both[which].scene
        at = canvas.neighbour(scene, place, direction, scene.kinds.matching(view.find))
        if at is not None:
            return _kernel(both, which, at)
        which = (which + direction) % len(both)
        place = -1 if direction > 0 else both[which].scene.count
    return None


# Arguments with an underscore are not hashed; the key changes with the file.
@st.cache_resource(max_entries=4, show_spinner="Laying out the timeline")
def _scene(key: str, _run: Run) -> Scene:
    return canvas.lay_out(_run)


@st.cache_resource(max_entries=4, show_spinner=False)
def _steps(key: str, _run: Run) -> dict[str, Window]:
    found = {
        step_name(s["phase"], s["step"]): (s["start_ns"], s["end_ns"]) for s in reversed(_run.meta["steps"])
    }
    return dict(reversed(found.items()))


@st.cache_resource(max_entries=4, show_spinner=False)
def _base(key: str, _scene: Scene, _run: Run) -> Part:
    part = packing.kernels(_scene) if _scene.count <= SHIPPED else packing.shares(_scene)
    steps = [[plain(s["phase"]), s["step"], s["start_ns"], s["end_ns"]] for s in _run.meta["steps"]]
    return packing.Part(
        {**part.about, "key": key, "legend": packing.legend(_scene), "steps": steps}, part.blob
    )


@st.cache_data(max_entries=512, show_spinner=False)
def _totals(key: str, window: Window, _scene: Scene) -> Range:
    return canvas.totals(_scene, *window)
