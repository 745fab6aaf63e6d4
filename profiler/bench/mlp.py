"""The feed-forward block as a whole, fused against cuBLAS and ATen, and bias, GELU and dropout in one pass.

Both sides of the block do the same: RMSNorm, gate and up, SiLU times up, down, residual sum. The fused
kernels find the sums of squares ready, as the kernel before them leaves them, and leave those of the next
norm.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import torch
from torch.nn import functional as F  # noqa: N812

from profiler.bench.case import Case, Contender, Setting, size_of
from profiler.bench.products import PDL
from profiler.bench.table import Work
from profiler.ops.triton import bias_gelu_dropout as gelu
from profiler.ops.triton import splitk
from profiler.ops.triton.fused import linear_add, norm_gate_up
from profiler.ops.triton.fused.stream import stream_reference

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import Tensor

P: Final = 0.1
SEED: Final = 1


def cases(setting: Setting) -> Iterator[Case]:
    """The block in each phase; then GELU, as training would run it, on the rows of a prefill."""
    yield _block(setting, "decode", setting.workload.batch)
    yield _block(setting, "prefill", setting.prompt_rows)
    yield _gelu(setting)


def _block(setting: Setting, phase: str, rows: int) -> Case:
    c, size = setting.config, setting.dtype.itemsize
    e, f, eps = c.dim, c.intermediate, c.norm_eps
    # x, the residual's sum and the weights; what goes between the kernels is no work of the block
    work = Work((2 * rows * e + 3 * e * f + e) * size, 6 * rows * e * f)
    copies = setting.copies(work.bytes)
    width = 32 if rows <= splitk.DECODE_ROWS else 256
    parts = e // width if e % width == 0 else 1
    gammas, streams, weights = [], [], []
    for _ in range(copies):
        gammas.append(setting.normal(e))
        streams.append(stream_reference(setting.normal(rows, e), gammas[-1], parts))
        biases = (setting.normal(2 * f), setting.normal(e)) if c.mlp_bias else (None, None)
        weights.append((setting.weight(2 * f, e), setting.weight(e, f), *biases))

    def aten(i: int) -> Tensor:
        gate_up, down, bias_gate_up, bias_down = weights[i]
        x = F.rms_norm(streams[i].x, (e,), gammas[i], eps)
        gate, up = F.linear(x, gate_up, bias_gate_up).chunk(2, dim=-1)
        return F.linear(F.silu(gate) * up, down, bias_down) + streams[i].x

    def fused(i: int) -> Tensor:
        (x, scaled, squares), (gate_up, down, bias_gate_up, bias_down) = streams[i], weights[i]
        y = norm_gate_up.norm_gate_up_silu(scaled, squares, gate_up, bias_gate_up, eps, PDL)
        return linear_add.linear_add(y, down, bias_down, x, gammas[i], None, 0, PDL)[0]

    def expected() -> Tensor:
        (x, scaled, squares), (gate_up, down, bias_gate_up, bias_down) = streams[0], weights[0]
        y = norm_gate_up.norm_gate_up_silu_reference(scaled, squares, gate_up, bias_gate_up, eps)
        return linear_add.linear_add_reference(y, down, bias_down, x, gammas[0]).x

    contenders = [
        Contender("cuBLAS + ATen", False, aten, expected),
        Contender("norm_gate_up_silu + linear_add", True, fused, expected, "input of the next norm"),
    ]
    calls = c.layers if phase == "decode" else 1
    return Case(f"{phase} MLP", f"M{rows} E{e} F{f}", work, copies, contenders, calls=calls)


def _gelu(setting: Setting) -> Case:
    rows, width = setting.prompt_rows, setting.config.intermediate
    xs, biases = [setting.normal(rows, width)], [setting.normal(width)]
    work = Work(2 * size_of(xs[0]) + size_of(biases[0]))
    copies = setting.copies(work.bytes)
    xs += [setting.normal(rows, width) for _ in range(copies - 1)]
    biases += [setting.normal(width) for _ in range(copies - 1)]

    def aten(i: int) -> Tensor:
        return F.dropout(F.gelu(xs[i] + biases[i], approximate="tanh"), P, training=True)

    def expected() -> Tensor:
        kept = gelu.bias_gelu_dropout(torch.full_like(xs[0], 8.0), torch.zeros_like(biases[0]), P, SEED) != 0
        return gelu.bias_gelu_dropout_reference(xs[0], biases[0], kept, P, "tanh")

    contenders = [
        Contender("ATen add, gelu, dropout", False, aten),
        Contender(
            "bias_gelu_dropout", True, lambda i: gelu.bias_gelu_dropout(xs[i], biases[i], P, SEED, "tanh"),
            expected,
        ),
    ]  # fmt: skip
    return Case("bias+GELU+dropout", f"{rows} x {width}", work, copies, contenders)
