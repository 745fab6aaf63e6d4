"""What all kernel files share: the typed decorator, checks of inputs, sizes of the machine."""

from collections.abc import Callable
from typing import Any, Final, ParamSpec, Protocol, TypeVar, cast

import torch
import triton

from traces.errors import MissingToolError, UsageError

DTYPES: Final = (torch.float16, torch.bfloat16, torch.float32)
SM_COUNT: Final = 132  # H100 and H200 SXM; the fixed configurations are chosen for it
LOG2_E: Final = 1.4426950408889634


P = ParamSpec("P")
R = TypeVar("R")


class CustomOp(Protocol[P, R]):
    """A registered op: call it like the function it was made from."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run the op."""

    def register_fake(self, fake: Callable[P, R], /) -> object:
        """Tell the compiler the output's shape, strides and dtype."""


def custom_op(name: str, mutates: tuple[str, ...] = ()) -> Callable[[Callable[P, R]], CustomOp[P, R]]:
    """`torch.library.custom_op("kernelgap::<name>")` that keeps the function's type."""
    op: Any = torch.library.custom_op(f"kernelgap::{name}", mutates_args=mutates)
    return cast("Callable[[Callable[P, R]], CustomOp[P, R]]", op)


def jit(kernel: Callable[..., Any]) -> Any:
    """`triton.jit` with a type."""
    return triton.jit(kernel)


def cdiv(a: int, b: int) -> int:
    """a / b, rounded up."""
    return -(-a // b)


def next_power_of_2(n: int) -> int:
    """The smallest power of 2 that is at least `n`; 1 for `n` < 1."""
    return 1 << max(n - 1, 0).bit_length()


def check_inputs(op: str, *tensors: torch.Tensor) -> None:
    """Refuse what no kernel here can read.

    Raises:
        UsageError: a dtype that is not fp16, bf16 or fp32, or inputs of several dtypes or devices.
        MissingToolError: CPU tensors without Triton's interpreter.
    """
    dtypes, devices = {t.dtype for t in tensors}, {t.device for t in tensors}
    if len(dtypes) > 1 or not dtypes <= set(DTYPES):
        found = ", ".join(sorted(str(d) for d in dtypes))
        raise UsageError(f"{op}: inputs are {found}; use one of torch.float16, torch.bfloat16, torch.float32")
    if len(devices) > 1:
        found = ", ".join(sorted(str(d) for d in devices))
        raise UsageError(f"{op}: inputs are on {found}; move them to one device")
    if tensors[0].device.type == "cpu" and not triton.knobs.runtime.interpret:
        raise MissingToolError(
            f"{op}: Triton on the CPU needs its interpreter; set TRITON_INTERPRET=1 and restart"
        )


def check_shape(op: str, ok: bool, message: str) -> None:
    """Raise UsageError(`op`: `message`) unless `ok`."""
    if not ok:
        raise UsageError(f"{op}: {message}")


def interpretable(*tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """The tensors as a kernel with a dot can take them: bf16 on the CPU is widened to fp32.

    Triton 3.6's interpreter keeps bf16 as raw uint16, and its dot multiplies those integers.
    """
    return tuple(t.float() if t.device.type == "cpu" and t.dtype == torch.bfloat16 else t for t in tensors)
