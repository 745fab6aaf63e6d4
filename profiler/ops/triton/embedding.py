"""Row lookup: y = table[token]. Serves the token embedding and the RoPE table."""

import torch
import triton.language as tl

from profiler.ops.triton.common import cdiv, check_inputs, check_shape, custom_op, jit

BLOCK = 1024


@jit
def embedding_kernel(
    tokens_ptr: tl.tensor, table_ptr: tl.tensor, out_ptr: tl.tensor, width: tl.tensor, BLOCK: tl.constexpr
) -> None:
    """One program, BLOCK columns of one token's row."""
    token = tl.load(tokens_ptr + tl.program_id(0))
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = cols < width
    row = tl.load(table_ptr + token * width + cols, mask=inside, other=0.0)
    tl.store(out_ptr + tl.program_id(0).to(tl.int64) * width + cols, row, mask=inside)


def embedding_reference(tokens: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
    """The same in plain PyTorch."""
    return table[tokens]


@custom_op("embedding")
def embedding(tokens: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
    """Rows of `table` by `tokens`.

    tokens[...] int64 in [0, N), table[N, E] fp16, bf16 or fp32 -> [..., E], contiguous, table's dtype.

    Raises:
        UsageError: unsupported dtypes, or a table that is not [N, E].
    """
    check_inputs("embedding", table)
    check_shape("embedding", tokens.dtype == torch.int64, f"tokens are {tokens.dtype}; use torch.int64")
    check_shape("embedding", table.dim() == 2, f"table is {list(table.shape)}; it must be [N, E]")
    tokens, table, width = tokens.contiguous(), table.contiguous(), table.shape[1]
    out = table.new_empty(*tokens.shape, width)
    if out.numel():
        grid = (tokens.numel(), cdiv(width, BLOCK))
        embedding_kernel[grid](tokens, table, out, width, BLOCK=BLOCK, num_warps=4)
    return out


@embedding.register_fake
def _(tokens: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
    return table.new_empty(*tokens.shape, table.shape[1])
