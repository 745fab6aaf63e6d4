"""Module and transformer layer of each row, from the ranges around its launch on the launching thread.

The innermost one counts. Paths come whole (ours, hooks that push NVTX ranges, `record_function`) or as the
chain of `nn.Module: <Class>_<n>` rows that torch.profiler writes with `with_stack=True`. Backward passes
run on a thread of their own, outside all modules, and stay without one.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from traces.attribution.module_names import MODULE_PREFIX, Said, layer_of, read
from traces.columns import NONE, combine, decode, encode
from traces.nesting import Nest, enclosing, moments, never_closed, thread_keys

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    Int64s = NDArray[np.int64]

__all__ = ["MODULE_PREFIX", "Modules", "assign", "layer_of", "layers", "say"]

_DEPTH: Final = 64  # of nested modules; no model has more
_INSTANCE: Final = re.compile(r"(?P<cls>.+)_(?P<number>\d{1,5})")
_LAYER_CLASS: Final = re.compile(r".*(?:Layer|Block)(?:V\d+)?")


class Modules(NamedTuple):
    """Per row: its module (text, a dotted path) and transformer layer (int16), null where nothing says it."""

    module: pa.DictionaryArray
    layer: pa.Array


class Path(NamedTuple):
    """A module's dotted path, its layer, and whether plain ranges inside name its parts."""

    text: str
    layer: int | None
    open: bool = False


Level = list[tuple["Path | None", int]]  # the path around a range, and the code of its name


def say(ranges: pa.Table) -> NDArray[np.bool_]:
    """Which ranges name modules, and so never a phase."""
    codes, names = encode(ranges["name"])
    told = [s is not None and s.kind != "inner" for s in read(names)]
    return np.array([*told, False], dtype=bool)[codes]


def assign(rows: pa.Table, ranges: pa.Table) -> Modules:
    """The module and layer of each row (columns launch_start, process, thread).

    A whole path wins over a chain of classes. A range that was never closed counts only outside all
    ranges that were.
    """
    codes, names = encode(ranges["name"])
    said = read(names)
    kinds = np.array([s.kind if s else "" for s in said] + [""])[codes]
    whole = np.isin(kinds, ("path", "open"))
    parts: list[tuple[Int64s, list[Path]]] = []
    if whole.any():
        mine = whole | (kinds == "inner")
        parts.append(
            _around(rows, ranges.filter(pa.array(mine)), codes[mine], lambda x: _whole_paths(x, said))
        )
    if (mine := kinds == "class").any():
        parts.append(_around(rows, ranges.filter(pa.array(mine)), codes[mine], _Chain(said).paths))
    found = np.full(rows.num_rows, NONE, np.int64)
    paths: list[Path] = []
    for which, texts in parts:
        new = (found == NONE) & (which != NONE)
        found[new] = which[new] + len(paths)
        paths += texts
    layer = pa.array([p.layer for p in paths], pa.int16()).take(pa.array(found, mask=found == NONE))
    return Modules(decode(found, [p.text for p in paths]), layer)


def layers(modules: pa.DictionaryArray) -> pa.Array:
    """The transformer layer (int16) of each dotted module path; null where the path names none."""
    codes, paths = encode(modules)
    known = pa.array([layer_of(p) for p in paths], pa.int16())
    return known.take(pa.array(codes, mask=codes == NONE))


def _around(
    rows: pa.Table,
    ranges: pa.Table,
    codes: NDArray[np.int32],
    extend: Callable[[Level], list[Path | None]],
) -> tuple[Int64s, list[Path]]:
    """For each row the number of the path around its launch (or NONE), and the paths. `codes` are names."""
    keys, at = thread_keys(ranges, rows)
    keep = ~_lies(ranges, keys)
    ranges, codes, keys = ranges.filter(pa.array(keep)), codes[keep], keys[keep]
    of_range, paths = _paths(ranges, keys, codes, extend)
    tells = np.flatnonzero(of_range != NONE)
    told = ranges.take(pa.array(tells))
    when, known = moments(rows)
    found = enclosing(told, keys[tells], when, np.where(known, at, NONE))
    free = np.flatnonzero(pc.is_null(told["thread"]).to_numpy(zero_copy_only=False))
    if len(free):  # start/end ranges of NVTX belong to no thread
        left = np.flatnonzero(known & (found == NONE))
        theirs, asked = (pc.fill_null(t["process"], NONE).to_numpy() for t in (told, rows))
        hit = enclosing(told.take(pa.array(free)), theirs[free], when[left], asked[left])
        found[left[hit != NONE]] = free[hit[hit != NONE]]
    return np.append(of_range[tells], NONE)[found], paths


def _lies(ranges: pa.Table, keys: Int64s) -> NDArray[np.bool_]:
    """Ranges said to be open to the end although one around them was closed (pytorch#193440)."""
    lies = never_closed(ranges)
    if lies.any():
        closed, suspect = np.flatnonzero(~lies), np.flatnonzero(lies)
        begins = ranges["start"].to_numpy()[suspect]
        lies[suspect] = enclosing(ranges.take(pa.array(closed)), keys[closed], begins, keys[suspect]) != NONE
    return lies


def _paths(
    ranges: pa.Table, keys: Int64s, codes: NDArray[np.int32], extend: Callable[[Level], list[Path | None]]
) -> tuple[Int64s, list[Path]]:
    """The number of each range's path (NONE: it names none) and the paths; outer ranges first."""
    start, dur = ranges["start"].to_numpy(), ranges["dur"].to_numpy()
    parent = _parents(start, dur, keys)
    unknown = NONE - 1
    of_range = np.full(len(start), unknown, np.int64)
    numbers: dict[Path, int] = {}
    waiting = np.argsort(start, kind="stable")
    for _ in range(_DEPTH):
        above = np.where(parent[waiting] == NONE, NONE, of_range[parent[waiting]])
        ready, above = waiting[above != unknown], above[above != unknown]
        if not len(ready):
            break
        pair, first, _ = combine(above, codes[ready])
        by_time = np.argsort(first)
        paths = [*numbers, None]
        made = extend([(paths[above[i]], int(codes[ready[i]])) for i in first[by_time]])
        chosen = np.full(len(first), NONE, np.int64)
        for i, path in zip(by_time, made, strict=True):
            if path is not None:
                chosen[i] = numbers.setdefault(path, len(numbers))
        of_range[ready] = chosen[pair]
        waiting = waiting[of_range[waiting] == unknown]
    return np.maximum(of_range, NONE), list(numbers)


def _parents(start: Int64s, dur: Int64s, keys: Int64s) -> Int64s:
    """For each range the one around all of it on its thread (process and thread are one key), or NONE."""
    parent, end = np.full(len(start), NONE, np.int64), start + dur
    for key in np.unique(keys):
        mine = np.flatnonzero(keys == key)
        nest = Nest(start[mine], dur[mine], mine)
        parent[nest.rows] = np.append(nest.rows, NONE)[nest.parent]
    # The one before may end just when this one starts.
    short = np.flatnonzero(parent != NONE)
    for _ in range(_DEPTH):
        short = short[end[parent[short]] < end[short]]
        parent[short] = parent[parent[short]]
        short = short[parent[short] != NONE]
    parent[short] = NONE
    return parent


def _whole_paths(level: Level, said: Sequence[Said | None]) -> list[Path | None]:
    """Paths as they are written; a plain range inside an open one names a part of that module."""
    made: list[Path | None] = []
    for above, name in level:
        it = said[name]
        if it is None or (it.kind == "inner" and not (above and above.open)):
            made.append(None)
        elif it.kind == "inner" and above:
            made.append(above._replace(text=f"{above.text}.{it.path}"))
        else:
            made.append(Path(it.path, layer_of(it.path), it.kind == "open"))
    return made


class _Chain:
    """Paths of nested `nn.Module: <Class>_<n>` rows: `LlamaForCausalLM_0.LlamaModel_0.LlamaDecoderLayer_3`.

    Kineto numbers the instances of each class. The layer is that number of the outermost class that is named
    a layer or block and has several instances. Where layers of several classes alternate in one module, their
    order counts instead.
    """

    def __init__(self, said: Sequence[Said | None]) -> None:
        self.names = [s.path if s and s.kind == "class" else "" for s in said]
        found = [_INSTANCE.fullmatch(n) for n in self.names]
        self.instance = [
            (f["cls"], int(f["number"])) if f else (n, 0) for f, n in zip(found, self.names, strict=True)
        ]
        count = Counter(cls for cls, _ in set(self.instance))
        self.repeats = {cls for cls, n in count.items() if n > 1 and _LAYER_CLASS.fullmatch(cls)}

    def paths(self, level: Level) -> list[Path | None]:
        """Extend each path by a class; the layers of one module all come at once."""
        children: dict[Path | None, dict[int, None]] = defaultdict(dict)
        for above, name in level:
            if self.instance[name][0] in self.repeats:
                children[above][name] = None
        made: list[Path | None] = []
        for above, name in level:
            layer = above.layer if above else None
            if layer is None and name in children[above]:
                layer = self._number(name, list(children[above]))
            text = f"{above.text}.{self.names[name]}" if above else self.names[name]
            made.append(Path(text, layer if layer is not None and layer < 2**15 else None))
        return made

    def _number(self, name: int, siblings: list[int]) -> int:
        alike = len({self.instance[s][0] for s in siblings}) == 1
        return self.instance[name][1] if alike else siblings.index(name)
