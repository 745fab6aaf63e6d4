"""The runs a person can pick: the store and the gallery, each file a run or a sentence that says why not."""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from dataclasses import dataclass
from pathlib import Path, PosixPath
from typing import TYPE_CHECKING, Final

import streamlit as st

from traces import store
from traces.errors import KernelgapError
from traces.text import plain

if TYPE_CHECKING:
    from collections.abc import Iterable

    from traces.schema import Metadata
    from traces.store import Run

FOLDER: Final = "folder"  # in the page's address
NEWEST: Final = 50  # among so many runs the default pair is looked for
Stamp = tuple[int, int]  # modification time ns, size: a changed file is read again


@dataclass(frozen=True)
class Entry:
    """One Parquet file. `label` is unique and goes into links; exactly one of `meta` and `problem` is set."""

    label: str
    path: Path
    stamp: Stamp
    meta: Metadata | None
    problem: str | None


def folders() -> list[Path]:
    """The folders that the page's address adds to the library."""
    return [Path(text) for text in dict.fromkeys(st.query_params.get_all(FOLDER)) if text]


def is_folder(path: Path) -> bool:
    """Whether it is a folder that can be listed; never raises."""
    try:
        return path.is_dir()
    except (OSError, ValueError):  # too long, a NUL
        return False


def entries(more: Iterable[Path] = ()) -> list[Entry]:
    """Every Parquet file of the store, the gallery and `more` folders, newest first."""
    found: dict[Path, Path] = {}
    for folder in (store.default_store(), store.gallery(), *more):
        with contextlib.suppress(OSError, ValueError):  # a name that the file system does not take
            found |= {p.resolve(): p for p in store.find([folder])}
    times = Counter(p.stem for p in found)
    out = []
    for path in found:
        try:
            stamp = (path.stat().st_mtime_ns, path.stat().st_size)
        except OSError:  # deleted since it was found
            continue
        name = path.stem if times[path.stem] == 1 else f"{path.stem} ({path.parent.name})"
        meta, problem = _peek(path, stamp)
        out.append(Entry(plain(name, 200), path, stamp, meta, problem))
    return _distinct(out)


def load(entry: Entry) -> Run:
    """The run of an entry, read once and shared: never change it. Raises InputError when it is damaged."""
    return _load(entry.path, entry.stamp)


def default_pair(runs: list[Entry]) -> tuple[Entry, Entry]:
    """The two runs that are most alike but for their variant, A of the vendor libraries; newest first."""
    recent = runs[:NEWEST]
    pairs = [(a, b) for a in recent for b in recent if a is not b] or [(runs[0], runs[0])]
    return max(pairs, key=lambda pair: _likeness(*pair))


def sentence(error: KernelgapError, path: Path) -> str:
    """What an error says, without the file's path, which is shown beside it."""
    return plain(str(error).removeprefix(f"{path}: "), 400)


@st.cache_data(max_entries=20_000, show_spinner=False, hash_funcs={PosixPath: os.fsencode})
def _peek(path: Path, stamp: Stamp) -> tuple[Metadata | None, str | None]:
    try:
        return store.read_metadata(path), None
    except KernelgapError as error:
        return None, sentence(error, path)


@st.cache_resource(max_entries=8, show_spinner="Reading the run", hash_funcs={PosixPath: os.fsencode})
def _load(path: Path, stamp: Stamp) -> Run:
    return store.read(path)


def _distinct(found: list[Entry]) -> list[Entry]:
    """Number the labels that are still the same, so that each picks one file."""
    seen: Counter[str] = Counter()
    out = []
    for entry in found:
        seen[entry.label] += 1
        number = seen[entry.label]
        label = entry.label if number == 1 else f"{entry.label} #{number}"
        out.append(Entry(label, entry.path, entry.stamp, entry.meta, entry.problem))
    return out


def _likeness(a: Entry, b: Entry) -> list[bool]:
    """How well B can be held against A, the most important first."""
    x, y = dict(a.meta or {}), dict(b.meta or {})
    same = [x.get(name) == y.get(name) for name in ("model", "device", "mode", "workload")]
    return [*same, x.get("variant") == "cuda", x.get("variant") != y.get("variant")]
