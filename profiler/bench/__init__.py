"""Kernels against what PyTorch would run in their place, one file per benchmark.

A benchmark is `cases(setting)`: each case names an operation and its shape, and holds the contenders as
functions of the copy of the inputs that they work on. `timing` times them, `table` turns times into rows.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

from traces.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from profiler.bench.case import Case, Setting

NAMES: Final = ("gemm", "attention", "norm", "mlp", "softmax", "decode", "ops")


def check_names(names: Iterable[str]) -> list[str]:
    """`names` without repetitions; UsageError lists the known ones."""
    asked = list(dict.fromkeys(names))
    for name in asked:
        if name not in NAMES:
            raise UsageError(f"unknown benchmark {name!r}: choose from {', '.join(NAMES)}")
    return asked


def cases(name: str, setting: Setting) -> Iterator[Case]:
    """The cases of one benchmark other than `decode`; their tensors exist only while one is in use."""
    found: Iterator[Case] = import_module(f"profiler.bench.{name}").cases(setting)
    return found
