"""Kernel 0: the rows of the tokens, as the first `Stream`."""

import torch
import triton.language as tl

from profiler.ops.triton.common import check_inputs, check_shape, custom_op, jit, next_power_of_2
from profiler.ops.triton.fused.launch import follow
from profiler.ops.triton.fused.stream import Stream, leave, stream_reference, wait


@jit
def embed_stream_kernel(
    tokens_ptr: tl.tensor, table_ptr: tl.tensor, gamma_ptr: tl.tensor, x_ptr: tl.tensor,
    scaled_ptr: tl.tensor, squares_ptr: tl.tensor, E: tl.constexpr, BLOCK: tl.constexpr,
    ahead_ptr: tl.tensor, LINES: tl.constexpr, ROW: tl.constexpr, COLUMNS: tl.constexpr,
    SECOND: tl.constexpr, LINE: tl.constexpr, PDL: tl.constexpr,
) -> None:  # fmt: skip
    """One program, one token."""
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    inside = cols < E
    gamma = tl.load(gamma_ptr + cols, mask=inside, other=0.0).to(tl.float32)
    wait(PDL)
    leave(ahead_ptr, LINES, ROW, COLUMNS, SECOND, LINE, PDL)
    token = tl.load(tokens_ptr + row)
    x = tl.load(table_ptr + token * E + cols, mask=inside, other=0.0)
    tl.store(x_ptr + row * E + cols, x, mask=inside)
    wide = x.to(tl.float32)
    tl.store(scaled_ptr + row * E + cols, (wide * gamma).to(x_ptr.dtype.element_ty), mask=inside)
    tl.store(squares_ptr + row, tl.sum(wide * wide, axis=0))


def launch(tokens: torch.Tensor, table: torch.Tensor, gamma: torch.Tensor, *, pdl: bool = True) -> Stream:
    """tokens int64 [M], table[N, E], gamma[E]: a stream of M rows."""
    m, e = tokens.shape[0], table.shape[1]
    x, scaled = table.new_empty(m, e), table.new_empty(m, e)
    squares = table.new_empty(1, m, dtype=torch.float32)
    embed_stream_kernel[(m,)](
        tokens, table, gamma, x, scaled, squares, E=e, BLOCK=next_power_of_2(e), num_warps=8,
        **follow(table, m, pdl=pdl),
    )  # fmt: skip
    return Stream(x, scaled, squares)


def embed_reference(tokens: torch.Tensor, table: torch.Tensor, gamma: torch.Tensor) -> Stream:
    """The same in plain PyTorch."""
    return stream_reference(table[tokens], gamma, parts=1)


@custom_op("embed")
def embed(
    tokens: torch.Tensor, table: torch.Tensor, gamma: torch.Tensor, pdl: bool
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Rows of `table` by `tokens`, and what the first norm, of weight `gamma`, needs of them: a `Stream`.

    tokens[M] int64 in [0, N), table[N, E], gamma[E] fp16, bf16 or fp32 -> x [M, E], scaled [M, E], squares
    fp32 [1, M]. `pdl`: see `stream`.

    Raises:
        UsageError: unsupported or mixed dtypes, or shapes that do not fit.
    """
    check_inputs("embed", table, gamma)
    fits = tokens.dim() == 1 and tokens.dtype == torch.int64 and gamma.shape == table.shape[1:]
    found = f"tokens {tokens.dtype}{list(tokens.shape)}, table {list(table.shape)}, gamma {list(gamma.shape)}"
    check_shape("embed", fits, f"{found} do not fit; use torch.int64[M], [N, E], [E]")
    x, scaled, squares = launch(tokens.contiguous(), table, gamma, pdl=pdl)
    return x, scaled, squares


@embed.register_fake
def _(
    tokens: torch.Tensor, table: torch.Tensor, gamma: torch.Tensor, pdl: bool
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    m, e = tokens.shape[0], table.shape[1]
    return table.new_empty(m, e), table.new_empty(m, e), table.new_empty(1, m, dtype=torch.float32)
