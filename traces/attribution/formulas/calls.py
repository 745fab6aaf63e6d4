"""One call of an op, as the profiler recorded its inputs, and the work that follows from it.

PyTorch's profiler writes, with `record_shapes`, four parallel lists: `Input Dims`, `Input type`,
`Input Strides` and `Concrete Inputs` (the scalars as text). Tensors are told from scalars by their type.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from math import prod
from typing import Any, Final, NamedTuple

MOST: Final = 2**63  # no machine does this; the recorded shape is damaged

# c10 type names as Kineto writes them: short name and bytes per element.
DTYPES: Final[dict[str, tuple[str, int]]] = {
    "c10::Half": ("f16", 2), "c10::BFloat16": ("bf16", 2), "float": ("f32", 4), "double": ("f64", 8),
    "c10::Float8_e4m3fn": ("f8e4m3", 1), "c10::Float8_e5m2": ("f8e5m2", 1),
    "c10::Float8_e4m3fnuz": ("f8e4m3", 1), "c10::Float8_e5m2fnuz": ("f8e5m2", 1),
    "c10::Float8_e8m0fnu": ("f8e8m0", 1),
    "signed char": ("i8", 1), "unsigned char": ("u8", 1), "short": ("i16", 2), "short int": ("i16", 2),
    "int": ("i32", 4), "long": ("i64", 8), "long int": ("i64", 8), "long long": ("i64", 8),
    "bool": ("bool", 1),
    "c10::complex<float>": ("c64", 8), "c10::complex<double>": ("c128", 16),
}  # fmt: skip


class Work(NamedTuple):
    """FLOPs, least bytes to move from and to device memory, and a shape such as `M2 N6144 K4096 f16`.

    FLOPs are those of matrix products and convolutions, a multiply-add counting as two; None for ops that
    have none, and where the shapes do not tell (a mask that is not known). Bytes are None where even the
    least is not known. Each input and output counts once, whatever a kernel reads again.
    """

    flops: int | None
    min_bytes: int | None
    shape: str | None


class Tensor(NamedTuple):
    """An input: its shape, the short name of its dtype, bytes per element, and strides where recorded."""

    shape: tuple[int, ...]
    dtype: str
    size: int
    strides: tuple[int, ...] | None = None

    @property
    def elements(self) -> int:
        """Elements by shape."""
        return prod(self.shape)

    @property
    def stored(self) -> int:
        """Bytes in memory: an expanded dimension (stride 0) is stored once."""
        if self.strides is None:
            return self.elements * self.size
        return self.size * prod(n for n, step in zip(self.shape, self.strides, strict=True) if step)


@dataclass(frozen=True)
class Call:
    """The inputs of one call. `tensors[i]` is None where input i is no tensor (or one of unknown dtype)."""

    tensors: tuple[Tensor | None, ...]
    present: tuple[bool, ...]  # whether an optional tensor was given
    concrete: tuple[str, ...]  # scalars as text, "" for tensors and where nothing was recorded

    def tensor(self, at: int) -> Tensor:
        """Input `at`. Raises LookupError if it is not a tensor whose shape and dtype are known."""
        found = self.tensors[at] if at < len(self.tensors) else None
        if found is None:
            raise LookupError(f"input {at} is no tensor")
        return found

    def optional(self, at: int) -> Tensor | None:
        """Input `at`, or None where it was not given. Raises LookupError if it was, but is not understood."""
        return self.tensor(at) if self.given(at) else None

    def given(self, at: int) -> bool:
        """Whether a tensor was passed for input `at`."""
        return at < len(self.present) and self.present[at]

    def scalar(self, at: int) -> str:
        """The text of scalar `at`: "True", "0.5", "[1, 1]"; empty where it was not recorded."""
        return self.concrete[at] if at < len(self.concrete) else ""


def read(dims: str | None, types: str | None, strides: str | None, concrete: str | None) -> Call | None:
    """The call from the JSON texts of the trace; None if dims or types are missing or make no sense."""
    try:
        shapes, kinds = json.loads(dims or ""), json.loads(types or "")
        if not isinstance(shapes, list) or not isinstance(kinds, list) or len(shapes) != len(kinds):
            return None
        steps = _list(strides, len(shapes))
        tensors = tuple(_tensor(*x) for x in zip(shapes, kinds, steps, strict=True))
        scalars = tuple(s if isinstance(s, str) else "" for s in _list(concrete, len(shapes)))
    except (ValueError, TypeError, RecursionError):
        return None
    return Call(tensors, tuple(_is_tensor(k) for k in kinds), scalars)


def _list(text: str | None, length: int) -> list[Any]:
    """A JSON list of `length`; of None where it is absent, unreadable or of another length."""
    try:
        found = json.loads(text or "")
    except (ValueError, RecursionError):
        found = None
    return found if isinstance(found, list) and len(found) == length else [None] * length


def _is_tensor(kind: object) -> bool:
    return isinstance(kind, str) and kind not in ("", "Scalar", "ScalarList", "None")


def _tensor(shape: object, kind: object, strides: object) -> Tensor | None:
    if kind not in DTYPES or not isinstance(shape, list):
        return None
    if not all(isinstance(n, int) and not isinstance(n, bool) and n >= 0 for n in shape):
        return None
    name, size = DTYPES[str(kind)]
    steps = strides if isinstance(strides, list) and len(strides) == len(shape) else None
    if steps is not None and not all(isinstance(n, int) for n in steps):
        steps = None
    return Tensor(tuple(shape), name, size, tuple(steps) if steps is not None else None)


def label(shape: tuple[int, ...], dtype: str) -> str:
    """`2x512x4096 f16`; a single element is `1 f16`."""
    return f"{'x'.join(map(str, shape)) or '1'} {dtype}"


def plausible(work: Work) -> bool:
    """Whether the numbers fit the columns of a run: not negative, below 2^63."""
    return all(n is None or 0 <= n < MOST for n in (work.flops, work.min_bytes))
