"""Which configuration a SplitK GEMM runs with: found by `tune` for this GPU and shape, or the default.

A tile cache is a JSON file, `{"schema_version": 1, "entries": [...]}`, one entry per GPU name, dtype, M, N, K
and fingerprint. The user's (`tiles.json` in KERNELGAP_CACHE or ~/.cache/kernelgap) goes before those that
ship in `tuned/`. An entry counts only with the fingerprint of the kernel and the Triton that run now.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import json
import os
import textwrap
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import triton

from profiler.ops.triton import splitk
from profiler.ops.triton.splitk import Config, Shape
from traces.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from profiler.model import config as models

SCHEMA_VERSION: Final = 1
SHIPPED: Final = Path(__file__).with_name("tuned")
NEAR: Final = 2.0  # above 16 rows an entry serves M up to twice as large or small


@dataclass(frozen=True)
class Entry:
    """What a search found for one shape; times in microseconds a call, L2 cold."""

    gpu: str
    dtype: str  # as torch names it, without "torch."
    shape: Shape
    fingerprint: str
    config: Config | None = None  # the fastest right one; None while the search is unfinished
    us: float | None = None
    default_us: float | None = None
    spread: float | None = None  # A/A: relative difference of two medians of the same configuration
    failed: Mapping[str, int] = field(default_factory=dict)  # configurations that are out, by reason
    trials: Mapping[str, float | None] = field(default_factory=dict)  # first times so far; None if it is out
    tried: int = 0

    @property
    def key(self) -> tuple[str, str, Shape, str]:
        """What makes an entry another one."""
        return self.gpu, self.dtype, self.shape, self.fingerprint


@dataclass(frozen=True)
class Choice:
    """A shape's configuration and where it comes from: `tuned`, `tuned for M<m>` or `default`."""

    config: Config
    source: str
    entry: Entry | None = None


@cache
def fingerprint() -> str:
    """Of the kernels' code, without comments and docstrings, and of Triton's version: 12 hex digits."""
    kernels = (splitk.splitk_gemm_kernel, splitk.splitk_zero_fill_kernel)
    text = "\n".join(code(kernel.fn) for kernel in kernels)
    return hashlib.sha256(f"{triton.__version__}\n{text}".encode()).hexdigest()[:12]


def code(function: Any) -> str:
    """A function's source as Python understands it: no comments, no docstring, no layout."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    (definition,) = tree.body
    assert isinstance(definition, ast.FunctionDef)
    if ast.get_docstring(definition) is not None:
        definition.body = definition.body[1:]
    return ast.unparse(definition)


def user_file() -> Path:
    """Where `tune` keeps what it finds on this machine."""
    named = os.environ.get("KERNELGAP_CACHE")
    folder = Path(named) if named else Path.home() / ".cache" / "kernelgap"
    return folder / "tiles.json"


def read(path: Path) -> list[Entry]:
    """Entries of a tile cache; none if there is no such file.

    Raises:
        InputError: unreadable, not a tile cache, or of another schema version.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        if data["schema_version"] != SCHEMA_VERSION:
            raise ValueError(f"schema_version {data['schema_version']}, this version reads {SCHEMA_VERSION}")
        return [_entry(item) for item in data["entries"]]
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise InputError(f"{path}: cannot read the tile cache ({error.strerror})") from error
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        what = f"{type(error).__name__}: {error}"
        raise InputError(f"{path}: not a tile cache ({what}): repair it, or move it away") from error


def dump(entries: Iterable[Entry]) -> str:
    """The text of a tile cache, entries in a fixed order."""
    items = [_item(e) for e in sorted(entries, key=lambda e: e.key)]
    return json.dumps({"schema_version": SCHEMA_VERSION, "entries": items}, indent=1) + "\n"


def _item(entry: Entry) -> dict[str, Any]:
    item = asdict(entry) | {"shape": list(entry.shape)}
    empty: tuple[object, ...] = (None, {})
    return {name: value for name, value in item.items() if value not in empty}


def _entry(item: dict[str, Any]) -> Entry:
    config = Config(**item["config"]) if "config" in item else None
    whole = [*item["shape"], *(asdict(config).values() if config else ())]
    if not all(isinstance(n, int) and n > 0 for n in whole):
        raise ValueError(f"sizes must be whole numbers above 0: {whole}")
    return Entry(**(item | {"shape": Shape(*item["shape"]), "config": config}))


def known(gpu: str, dtype: str, path: Path | None = None) -> tuple[dict[Shape, Entry], int]:
    """Entries for a GPU and dtype by shape, and how many were left out for their fingerprint.

    From the file at `path` alone, or by default from the user's file over the shipped ones.
    """
    files = [path] if path else [*sorted(SHIPPED.glob("*.json")), user_file()]
    found: dict[Shape, Entry] = {}
    stale = 0
    for entry in (e for file in files for e in read(file)):
        if (entry.gpu, entry.dtype) != (gpu, dtype):
            continue
        if entry.fingerprint != fingerprint():
            stale += 1
        elif entry.config or entry.shape not in found:  # an unfinished search hides no finished one
            found[entry.shape] = entry
    return found, stale


def choose(shape: Shape, entries: Mapping[Shape, Entry], itemsize: int) -> Choice:
    """The configuration for one shape.

    Its own entry, else that of the nearest M with the same N and K: within 1..16 rows any, above at most
    twice as large or small, and never from one side of 16 to the other. Else the default.
    """
    near = [e for e in entries.values() if e.config and _serves(e.shape, shape)]
    if not near:
        return Choice(splitk.default_config(shape.m, itemsize), "default")
    best = min(near, key=lambda e: (_apart(e.shape.m, shape.m), e.shape.m))
    assert best.config is not None
    return Choice(best.config, "tuned" if best.shape == shape else f"tuned for M{best.shape.m}", best)


def _serves(tuned: Shape, wanted: Shape) -> bool:
    decode = [s.m <= splitk.DECODE_ROWS for s in (tuned, wanted)]
    if tuned[1:] != wanted[1:] or decode[0] != decode[1]:
        return False
    return decode[0] or _apart(tuned.m, wanted.m) <= NEAR


def _apart(a: int, b: int) -> float:
    return max(a, b) / min(a, b)


def linear_shapes(config: models.Config, workload: models.Workload) -> list[Shape]:
    """The distinct products of a model's step, decode first, in the order of the layer."""
    weights = [
        (config.qkv_dim, config.dim),
        (config.dim, config.heads * config.head_dim),
        (2 * config.intermediate, config.dim),
        (config.dim, config.intermediate),
    ]
    rows = workload.batch
    decode = [Shape(rows, *w) for w in (*weights, (config.vocab, config.dim))]
    prefill = [Shape(rows * workload.prompt, *w) for w in weights]  # lm_head sees the last position only
    return list(dict.fromkeys(decode + prefill))


def report(choices: Mapping[Shape, Choice], stale: int) -> dict[str, Any]:
    """What runs, as JSON for a run's metadata."""
    return {
        "kernel": fingerprint(),
        "tuned": sum(c.source != "default" for c in choices.values()),
        "default": sum(c.source == "default" for c in choices.values()),
        "other_kernel": stale,  # entries for this GPU that another kernel or Triton was tuned with
        "shapes": {str(s): {"config": str(c.config), "source": c.source} for s, c in choices.items()},
    }


def merge(entries: Sequence[Entry], entry: Entry) -> list[Entry]:
    """`entries` with `entry` in place of the one with its key."""
    return [*(e for e in entries if e.key != entry.key), entry]
