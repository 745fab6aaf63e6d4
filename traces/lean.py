"""Start-up cost that a process can do without."""

from __future__ import annotations

import sys
from typing import Any

import pyarrow as pa


class _NoPandas:
    """An import hook that says pandas is not installed."""

    def find_spec(self, name: str, *_: object) -> None:
        if name == "pandas":
            raise ModuleNotFoundError(name)


def system_memory() -> None:
    """Let Arrow take memory from the C library, which gives large blocks back to the system at once.

    Arrow's own allocator keeps them: a tenth more at the peak of an ingest, for no less time.
    """
    pa.set_memory_pool(pa.system_memory_pool())


def without_pandas() -> None:
    """Keep pyarrow from importing pandas (0.4 s, 50 MB) only to ask whether a list is a Series.

    It asks once; `to_pandas()` still works afterwards. For processes that never hand pandas to pyarrow.
    """
    hook: Any = _NoPandas()
    sys.meta_path.insert(0, hook)
    try:
        pa.array([0])
    finally:
        sys.meta_path.remove(hook)
