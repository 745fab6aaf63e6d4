"""Calls as Kineto records them, from short notation."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from traces.attribution.work import of_op

if TYPE_CHECKING:
    from traces.attribution.work import Work

NAMES = {
    "f16": "c10::Half", "bf16": "c10::BFloat16", "f32": "float", "f64": "double", "i64": "long int",
    "i32": "int", "u8": "unsigned char", "bool": "bool", "f8": "c10::Float8_e4m3fn",
}  # fmt: skip
Input = tuple[list[int], str] | str | None


def text(*inputs: Input) -> dict[str, str]:
    """Inputs are (shape, dtype) of a tensor, the text of a scalar, or None for an optional not given."""
    dims, types, concrete = [], [], []
    for value in inputs:
        tensor = isinstance(value, tuple)
        dims.append(value[0] if isinstance(value, tuple) else [])
        types.append(NAMES[value[1]] if isinstance(value, tuple) else "Scalar" if value is not None else "")
        concrete.append("" if tensor or value is None else value)
    return {"dims": json.dumps(dims), "types": json.dumps(types), "concrete": json.dumps(concrete)}


def work(op: str, *inputs: Input, **known: Any) -> Work | None:
    """The work of one call."""
    return of_op(op, **{**text(*inputs), **known})
