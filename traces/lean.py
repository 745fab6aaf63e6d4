"""Start-up cost that a process can do without."""

from __future__ import annotations

import contextlib
import ctypes
import sys
from typing import Any, Final

import pyarrow as pa

_MMAP_THRESHOLD: Final = -3  # M_MMAP_THRESHOLD of malloc.h
_LARGE: Final = 8 << 20  # smaller blocks cost more to map than they waste


class _NoPandas:
    """An import hook that says pandas is not installed."""

    def find_spec(self, name: str, *_: object) -> None:
        if name == "pandas":
            raise ModuleNotFoundError(name)


def system_memory() -> None:
    """Let Arrow and NumPy take memory from the C library, and that give large blocks back at once.

    Arrow's own allocator keeps them: a tenth more at the peak of an ingest, for no less time. glibc puts
    blocks of up to 32 MB on its heap once one was freed, where holes stay: a tenth more at 4 GB of trace.
    """
    pa.set_memory_pool(pa.system_memory_pool())
    with contextlib.suppress(OSError, AttributeError):  # not glibc
        ctypes.CDLL(None).mallopt(_MMAP_THRESHOLD, _LARGE)


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
