"""The difference between two runs in one sentence, as a person would say it.

    B (triton) is 0.35 ms/token faster than A (cuda) (-6.9%, unprofiled wall, noise 6.50 us): -0.26 norms,
    +0.20 gaps, -0.14 attention, -0.08 attn.o GEMM at 2.95 TB/s (A 2.43 TB/s), -0.07 all else (ms).

Parts are the comparison's rows with layers folded together (all `layers.*.mlp.down` are one "down GEMM",
its split-K reduction included); parts and "all else" add up to the difference. Rates are those of
`traces.analysis.achieved`: the bytes that the work moves at least, over its time; where it is compute-bound
(more than 200 operations a byte, near the ridge of current data-centre GPUs), TFLOP/s instead.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from traces.analysis import achieved
from traces.analysis.units import over_layers
from traces.attribution.taxonomy import GROUP_OF
from traces.text import plain

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traces.analysis.compare import Comparison

IDLE: Final = "gaps"
_MOST: Final = 4
_SMALL: Final = 0.05  # of the largest part: not worth a name
_SAME_WORK: Final = 0.05  # by which the work of two sides may differ for their rates to be compared
_COVERED: Final = 0.75  # of a part's time must know its work before a rate is given
_MOSTLY: Final = 0.9  # of the kernel time in rows of both runs goes without saying
_RIDGE: Final = 200  # operations per byte
_SLOW: Final = 100  # GB/s
_UNITS: Final = ((100_000, 1e6, "ms"), (1_000, 1e3, "us"), (0, 1.0, "ns"))
_SLOT: Final = re.compile(r"(layers\.\*|before|after)\.gemm#(\d+)")  # of traces.analysis.order
_OUTSIDE: Final = {"before": " before the layers", "after": " after the layers"}
_LIMIT: Final = 60
_TELLING: Final = 2  # letters; a shorter name needs its parent's
_GROUPS: Final = {
    "gemm": "GEMM", "attention": "attention", "small_op": "small ops", "communication": "communication",
    "memory": "memory copies", "other": "other",
}  # fmt: skip
_CATEGORIES: Final = {
    "norm": "norms", "rope": "RoPE", "kv_cache": "KV cache", "copy": "copies", "activation": "activations",
    "collective": "collectives", "unknown": "unknown kernels", "sampling": "sampling",
}  # fmt: skip


@dataclass
class Half:
    """One run's part: its time, ns per step, and the sums of `achieved` over all its `steps`."""

    steps: int = 1
    ns: int = 0
    sums: dict[str, Any] = field(default_factory=dict)

    def add(self, ns: int, sums: dict[str, Any] | None = None) -> None:
        """Count a row in."""
        self.ns += ns
        for name, value in (sums or {}).items():
            if value is not None:
                self.sums[name] = (self.sums.get(name) or 0) + value

    @property
    def moved(self) -> float:
        """Bytes that the known work moves at least, per step."""
        return float(self.sums.get("min_bytes") or 0) / self.steps

    @property
    def rate(self) -> str:
        """`2.94 TB/s, 61% of roofline` or `610 TFLOP/s, ...`; empty where too little of the work is known."""
        known: dict[str, Any] = dict.fromkeys((*achieved.SUMMED, "exclusive_ns"), 0)
        found = achieved.rates({**known, "flops": None, "min_bytes": None, **self.sums})
        if found["with_work"] < _COVERED:
            return ""
        flops, moved = found["flops"] or 0, found["min_bytes"] or 0
        if flops > _RIDGE * moved:
            rate = f"{found['tflops']:,.0f} TFLOP/s" if found["tflops"] else ""
        elif speed := found["gb_per_s"]:
            rate = f"{speed / 1e3:.2f} TB/s" if speed >= _SLOW else f"{speed:.1f} GB/s"
        else:
            rate = ""
        share = found["roofline"]
        return rate + (f", {share:.0%} of roofline" if rate and share is not None else "")


@dataclass
class Part:
    """Rows that a person would name together, in A and in B."""

    a: Half = field(default_factory=Half)
    b: Half = field(default_factory=Half)

    @property
    def delta(self) -> int:
        """How much longer it takes in B, ns per step."""
        return self.b.ns - self.a.ns


def say(result: Comparison) -> str:
    """One line of plain text that is right for any two runs: equal, faster, slower, within noise, unlike."""
    return " ".join((headline(result), *doubts(result)))


def headline(result: Comparison) -> str:
    """How B's step differs from A's, and the largest parts of the difference."""
    parts = parts_of(result)
    unit = _unit([result.total["delta"], *(p.delta for p in parts.values())])
    return f"{_head(result, unit)}{_named(parts, result.total['delta'], unit)}."


def parts_of(result: Comparison) -> dict[str, Part]:
    """All rows by the name of their part, and idle as `gaps`; the deltas sum to the total's."""
    steps = [max(len(side.tiles), 1) for side in (result.a, result.b)]
    out: defaultdict[str, Part] = defaultdict(lambda: Part(*map(Half, steps)))
    for row in result.rows:
        others = "phase" in row
        part = out["other phases" if others else _name(row["key"])]
        key = tuple(row["key"].values())
        part.a.add(row["a"], None if others else result.a.work.get(key))
        part.b.add(row["b"], None if others else result.b.work.get(key))
    out[IDLE].a.add(result.idle["a"])
    out[IDLE].b.add(result.idle["b"])
    return dict(out)


def _names(result: Comparison) -> tuple[str, str]:
    """A and B, with what tells them apart: model, variant or mode, where all that differs is known."""
    a, b = ([side.run.meta[fact] for fact in ("model", "variant", "mode")] for side in (result.a, result.b))
    apart = [(x, y) for x, y in zip(a, b, strict=True) if x != y]
    if not apart or not all(x and y for x, y in apart):
        return "A", "B"
    told = [plain(" ".join(str(pair[side]) for pair in apart)) for side in (0, 1)]
    return f"A ({told[0]})", f"B ({told[1]})"


def _head(result: Comparison, unit: Unit) -> str:
    names = _names(result)
    base, delta = result.total["a"], result.total["delta"]
    per = {"decode": "/token", None: ""}.get(result.phase, "/step")
    basis = f"{result.basis} wall"
    if (most := max(result.a.devices, result.b.devices)) > 1:
        basis += f" summed over {most} devices"
    if delta == 0:
        wall = _unit([base]).text(base)
        return f"{names[1]} takes exactly as long as {names[0]} ({wall}{per}, {basis})"
    change = f"{100 * delta / base:+,.1f}%, " if base else ""
    noise = result.noise
    known = "noise unknown" if noise.ns is None else f"noise {_unit([noise.ns]).text(noise.ns)}"
    n = f", n {noise.n[0]} and {noise.n[1]}" if noise.ns is None else ""
    within = "No difference outside noise: " if noise.hides(delta) else ""
    word = "slower" if delta > 0 else "faster"
    return (
        f"{within}{names[1]} is {unit.text(abs(delta))}{per} {word} than {names[0]} "
        f"({change}{basis}, {known}{n})"
    )


def _named(parts: dict[str, Part], total: int, unit: Unit) -> str:
    """The largest parts with sign and rate, and what is left."""
    order = sorted(parts.items(), key=lambda p: (-abs(p[1].delta), p[0] == IDLE, p[0]))
    least = _SMALL * abs(order[0][1].delta)
    top = [
        (name, part)
        for i, (name, part) in enumerate(order[:_MOST])
        if unit.shows(part.delta) and (i < _MOST - 1 or abs(part.delta) >= least)
    ]
    said = [f"{unit.signed(part.delta)} {name}{_rates(part)}" for name, part in top]
    rest = total - sum(part.delta for _, part in top)
    if said and unit.shows(rest):
        said.append(f"{unit.signed(rest)} all else")
    return f": {', '.join(said)} ({unit.name})" if said else ""


def _rates(part: Part) -> str:
    """The rates of both sides. Of other work (a whole cache against its used part) they would mislead."""
    if not part.b.rate:
        return ""
    if part.a.rate and abs(part.a.moved - part.b.moved) > _SAME_WORK * part.b.moved:
        return " (known work differs: no rates)"
    return f" at {part.b.rate}" + (f" (A {part.a.rate})" if part.a.rate else "")


def doubts(result: Comparison) -> Iterator[str]:
    """What a reader must know before believing the headline, a sentence each."""
    if negative := result.idle.get("negative"):
        whose = " and ".join(side.upper() for side in negative)
        times = " and ".join(_unit([result.idle[s]]).text(result.idle[s]) for s in negative)
        why = (
            "the kernels outlast, under the profiler, the step without one"
            if result.basis == "unprofiled"
            else "kernels run beyond their steps"
        )
        yield f"Gaps of {whose} are negative ({times}): {why}."
    if result.aligned_share < _MOSTLY:
        yield f"Only {result.aligned_share:.1%} of the kernel time is in rows that both runs have."
    if found := result.not_comparable:
        more = f"; and {len(found) - 2} more" if len(found) > 2 else ""
        yield f"Beware: {plain('; '.join(found[:2]), 300)}{more}."


def _name(key: dict[str, Any]) -> str:
    """The part that a row belongs to, in words."""
    module, category = key.get("module"), key.get("category")
    group = key.get("group") or GROUP_OF.get(str(category))
    words = []
    if "category" in key or "group" in key:
        words.append(_kind(category if "category" in key else None, group))
    if module is not None and not words:
        words.append(over_layers(str(module)))
    elif module is not None and group == "gemm":
        place = _SLOT.fullmatch(over_layers(str(module)))
        words = [f"GEMM #{place[2]}{_OUTSIDE.get(place[1], '')}"] if place else [_short(str(module)), *words]
    named = ("module", "category", "group")
    words += [
        f"no {c}" if v is None else f"{c} {v}" if c in ("layer", "step") else str(v)
        for c, v in key.items()
        if c not in named
    ]
    return plain(" ".join(words) or "no module", _LIMIT)


def _kind(category: str | None, group: str | None) -> str:
    if group in ("gemm", "attention") or category is None:
        return _GROUPS.get(str(group), "unknown kernels")
    return _CATEGORIES.get(category, category)


def _short(module: str) -> str:
    """`down_proj` for `layers.3.mlp.down_proj`, `attn.o` for `layers.3.attn.o`."""
    folded = over_layers(module)
    parts = [p for p in folded.split(".") if p != "*"] or [folded]
    return parts[-1] if len(parts[-1]) > _TELLING else ".".join(parts[-2:])


@dataclass(frozen=True)
class Unit:
    """A unit of time for all numbers of one sentence."""

    ns: float
    name: str

    def text(self, ns: float) -> str:
        """`0.35 ms`."""
        return f"{self.number(ns)} {self.name}"

    def signed(self, ns: float) -> str:
        """`+0.35`."""
        return f"{'+' if ns > 0 else ''}{self.number(ns)}"

    def shows(self, ns: float) -> bool:
        """Whether anything but zeros is left of it."""
        return any(digit in "123456789" for digit in self.number(ns))

    def number(self, ns: float) -> str:
        """`0.35`; whole ns."""
        return f"{ns / self.ns:,.2f}" if self.ns > 1 else f"{ns:,.0f}"


def _unit(values: list[int]) -> Unit:
    most = max(map(abs, values), default=0)
    return next(Unit(ns, name) for least, ns, name in _UNITS if most >= least)
