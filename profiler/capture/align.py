"""Modules for the kernels of compiled code, which enters no module.

They come from an eager run of the same step, profiled beside it: the calls that both runs make (products,
attention, custom ops) come in the same order, and a kernel between two of them belongs to the module whose
result it feeds. And from Inductor's own provenance (`profiler.capture.provenance`): the module of the last
operation that went into a generated kernel. The first names every kernel, so it decides. The second knows
nothing of it, so the two are compared, and it stands in where the runs do not align.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from itertools import groupby, zip_longest
from typing import TYPE_CHECKING, Any, Final

from profiler.capture.launches import ATTENTION, BATCHED, PRODUCT, kind_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from profiler.capture.launches import Launch
    from profiler.capture.provenance import Origin

Segment = tuple[str | None, list["Launch"]]
# A backend may turn these into each other, or into kernels of its own; they lie between two products anyway.
_OPTIONAL: Final = frozenset({ATTENTION, BATCHED})
_GENERATED: Final = "triton_"  # how Inductor begins the names of its kernels; ours say what they do first


def assign_modules(compiled: Sequence[Launch], eager: Sequence[Launch]) -> list[Launch] | None:
    """`compiled` with the modules of `eager`; None if the calls they should share differ."""
    shared = _shared(compiled, eager)
    if not shared:
        return None
    ours, theirs = _segments(compiled, shared), _segments(eager, shared)
    if [call for call, _ in ours] != [call for call, _ in theirs]:
        return None
    placed = [
        replace(launch, module=_module(segment))
        for (_, mine), (_, segment) in zip(ours, theirs, strict=True)
        for launch in mine
    ]
    return filled(placed)


def filled(launches: Sequence[Launch]) -> list[Launch]:
    """A kernel without a module (a mask for all layers, a copy) takes the next one's, whom it serves."""
    out: list[Launch] = []
    known = next((x.module for x in reversed(launches) if x.module), None)
    for launch in reversed(launches):
        known = launch.module or known
        out.append(replace(launch, module=known))
    return out[::-1]


def between_products(launches: Sequence[Launch]) -> Sequence[Launch]:
    """`filled`, where each product has its module: else the next one known may lie far from a kernel."""
    products = [x for x in launches if x.call and _is_product(x.call.kind)]
    return filled(launches) if products and all(x.module for x in products) else launches


def by_provenance(launches: Sequence[Launch], origins: Sequence[Origin]) -> list[str | None]:
    """The module of each launch as Inductor knows it; None where it says nothing.

    Calls are told apart by their order among those of the same kernel or op; where the counts of a kernel or
    op differ, none of them gets a module.
    """
    said: dict[str, list[str | None]] = defaultdict(list)
    for origin in origins:
        said[_key(origin.kernel)].append(origin.module)
    made: dict[str, list[list[int]]] = defaultdict(list)
    at = 0
    for call in _by_call(launches):
        key = call[0].call.kind if call[0].call else call[0].name
        made[key].append(list(range(at, at + len(call))))
        at += len(call)
    out: list[str | None] = [None] * len(launches)
    for key, calls in made.items():
        if len(calls) == len(said[key]):
            for places, module in zip(calls, said[key], strict=True):
                for place in places:
                    out[place] = module
    return out


def placed(launches: Sequence[Launch], modules: Sequence[str | None]) -> list[Launch]:
    """The launches in these modules, left open where it is None."""
    return [replace(launch, module=module) for launch, module in zip(launches, modules, strict=True)]


def agreement(aligned: Sequence[Launch], told: Sequence[str | None]) -> dict[str, int]:
    """Generated kernels for which Inductor names the module that the alignment gave, another, or none."""
    counts = {"agree": 0, "differ": 0, "missing": 0}
    for launch, module in zip(aligned, told, strict=True):
        if launch.name.startswith(_GENERATED):
            counts["missing" if module is None else "agree" if module == launch.module else "differ"] += 1
    return counts


def difference(compiled: Sequence[Launch], eager: Sequence[Launch]) -> str:
    """In words, the first product at which two runs part that `assign_modules` could not align."""
    ours, theirs = (
        [f"{c.kind} {c.dims}" for group in _by_call(run) if (c := group[0].call) and _is_product(c.kind)]
        for run in (compiled, eager)
    )
    for n, (mine, other) in enumerate(zip_longest(ours, theirs, fillvalue="nothing more"), 1):
        if mine != other:
            return f"product {n} of {len(theirs)} is {mine} where eager has {other}"
    return "their products agree, other calls come in another order"


def disagreements(aligned: Sequence[Launch], told: Sequence[str | None]) -> Iterator[str]:
    """In words, each generated kernel for which Inductor names another module than the alignment."""
    for launch, module in zip(aligned, told, strict=True):
        if launch.name.startswith(_GENERATED) and module not in (None, launch.module):
            yield f"{launch.name} in {launch.module}, Inductor says {module}"


def _shared(compiled: Sequence[Launch], eager: Sequence[Launch]) -> set[str]:
    """Kinds of calls to align by: those of both runs. Empty where products of one run are not calls there.

    Without its products as fixed points a run says nothing about the kernels between them.
    """
    ours, theirs = _signatures(compiled), _signatures(eager)
    if any(_is_product(kind) for kind in ours.keys() ^ theirs.keys()):
        return set()
    return {k for k in ours.keys() & theirs.keys() if k not in _OPTIONAL or ours[k] == theirs[k]}


def _signatures(launches: Sequence[Launch]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for call in _by_call(launches):
        if first := call[0].call:
            found[first.kind].append(first.dims)
    return found


def _is_product(kind: str) -> bool:
    return kind == PRODUCT or "linear" in kind


def _by_call(launches: Sequence[Launch]) -> Iterator[list[Launch]]:
    """Kernels of one shared call together, all others alone."""
    for row, group in groupby(launches, key=lambda x: x.call.row if x.call else None):
        kernels = list(group)
        yield from [[x] for x in kernels] if row is None else [kernels]


def _segments(launches: Sequence[Launch], shared: Collection[str]) -> list[Segment]:
    """The launches, cut at the shared calls: each such call by what both runs must agree on."""
    segments: list[Segment] = [(None, [])]
    for group in _by_call(launches):
        call = group[0].call
        if call is not None and call.kind in shared:
            segments += [(f"{call.kind} {call.dims}", group), (None, [])]
        else:
            segments[-1][1].extend(group)
    return segments


def _module(segment: Sequence[Launch]) -> str | None:
    return next((x.module for x in reversed(segment) if x.module), None)


def _key(kernel: str) -> str:
    """Inductor's name of a call as `by_provenance` counts it: a kind of call, or the generated kernel."""
    kind: Any = None
    if kernel.startswith("extern_kernels."):
        kind = kind_of("aten::" + kernel.removeprefix("extern_kernels.").removeprefix("bias_"))
    elif kernel.startswith("torch.ops."):
        namespace, name, *_ = kernel.removeprefix("torch.ops.").split(".")
        kind = kind_of(f"{namespace}::{name}")
    return kind or kernel
