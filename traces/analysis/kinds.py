"""What millions of kernels have in common: their names, groups, categories and modules, each kept once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from traces.attribution.taxonomy import GROUPS
from traces.text import plain

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Int64s = NDArray[np.int64]

MOST_KINDS: Final = 65_536
TEXT_BUDGET: Final = 4_000_000  # characters of all names together, about
NAME_LEAST, NAME_MOST = 100, 2_000
KEYS: Final = ("name", "group", "category", "module")


class Kinds(NamedTuple):
    """Distinct (name, group, category, module): what a kernel's kind number stands for."""

    texts: list[str]  # as plain text; names may be cut, in the middle
    text: Int64s  # per kind, its name: an index into texts
    group: Int64s  # an index into the groups of the taxonomy
    category: list[str | None]
    module: list[str | None]
    kernels: Int64s  # how many kernels are of that kind
    modules_left_out: bool  # more kinds than fit: told apart without their modules
    names_left_out: int  # even so: the rarest names, which share one text per group

    def matching(self, words: str) -> NDArray[np.bool_]:
        """Per kind, whether its name has every word, whatever the case; none without words."""
        low = [w.lower() for w in words.split()]
        names = np.array([bool(low) and all(w in t.lower() for w in low) for t in self.texts], bool)
        return names[self.text] if len(self.text) else np.zeros(0, bool)


def kinds_of(table: pa.Table) -> tuple[Int64s, Kinds]:
    """The kind of each row, and the kinds. `table` needs the columns `KEYS`; unknown groups are `other`."""
    codes = {key: _encode(table[key]) for key in KEYS}
    kind, first = _distinct([codes[k] for k in KEYS], table.num_rows)
    left_out = len(first) > MOST_KINDS
    if left_out:
        kind, first = _distinct([codes[k] for k in KEYS[:3]], table.num_rows)
    count = np.bincount(kind, minlength=len(first))
    known = {key: codes[key][1] for key in KEYS}
    at = {key: codes[key][0][first] for key in KEYS}
    group = _groups(known["group"])[at["group"]] if len(first) else np.zeros(0, np.int64)
    category = [known["category"][i] for i in at["category"]]
    module = [
        None if left_out or known["module"][i] is None else plain(known["module"][i]) for i in at["module"]
    ]
    name = at["name"]
    rare = 0
    if len(first) > MOST_KINDS:
        kind, name, group, category, count, rare = _fold(kind, name, group, category, count)
        module = [None] * len(group)
    used, text = np.unique(name, return_inverse=True)
    limit = min(max(TEXT_BUDGET // max(len(used), 1), NAME_LEAST), NAME_MOST)
    names = known["name"]
    texts = [
        plain(names[i] or "(no name)", limit) if i >= 0 else f"(one of {rare:,} rarer names)" for i in used
    ]
    return kind, Kinds(texts, text.astype(np.int64), group, category, module, count, left_out, rare)


def _encode(column: pa.ChunkedArray) -> tuple[Int64s, list[Any]]:
    coded = pc.dictionary_encode(column.combine_chunks(), null_encoding="encode")
    return coded.indices.to_numpy(zero_copy_only=False).astype(np.int64), coded.dictionary.to_pylist()


def _distinct(columns: list[tuple[Int64s, list[Any]]], rows: int) -> tuple[Int64s, Int64s]:
    """Number the distinct combinations by first appearance: (number of each row, first row of each)."""
    mixed = np.zeros(rows, np.int64)
    for code, values in columns:
        coded = pa.array(mixed * max(len(values), 1) + code).dictionary_encode()
        mixed = coded.indices.to_numpy(zero_copy_only=False).astype(np.int64)  # stays small: no overflow
    first = np.zeros(int(mixed.max(initial=-1)) + 1, np.int64)
    first[mixed[::-1]] = np.arange(rows)[::-1]  # of several writes to a place, the last one stays
    return mixed, first


def _groups(names: list[Any]) -> Int64s:
    order = {g: i for i, g in enumerate(GROUPS)}
    return np.array([order.get(n, order["other"]) for n in names], np.int64)


def _fold(
    kind: Int64s, name: Int64s, group: Int64s, category: list[Any], count: Int64s
) -> tuple[Int64s, Int64s, Int64s, list[Any], Int64s, int]:
    """Keep the kinds with most kernels; the others become one kind per group, without a name (-1)."""
    order = np.argsort(-count, kind="stable")
    kept, lost = order[: MOST_KINDS - len(GROUPS)], order[MOST_KINDS - len(GROUPS) :]
    place = np.empty(len(count), np.int64)
    place[kept] = np.arange(len(kept))
    place[lost] = len(kept) + group[lost]
    extra = np.arange(len(GROUPS))
    folded = place[kind]
    return (
        folded,
        np.concatenate([name[kept], np.full(len(extra), -1)]),
        np.concatenate([group[kept], extra]),
        [*(category[i] for i in kept), *(None for _ in extra)],
        np.bincount(folded, minlength=len(kept) + len(extra)),
        len(np.unique(name[lost])),
    )
