"""Greedy sampling: the index of the first largest logit, and the step forward to the next token."""

import torch
import triton.language as tl

from profiler.ops.triton.common import cdiv, check_inputs, check_shape, custom_op, jit, next_power_of_2

BLOCK = 4096  # logits of one program: 32 programs a row at a vocabulary of 128256


@jit
def argmax_block_kernel(
    x_ptr: tl.tensor, value_ptr: tl.tensor, index_ptr: tl.tensor, size: tl.tensor, BLOCK: tl.constexpr
) -> None:
    """Program (row, block): the largest of BLOCK logits and its index in the row."""
    row = tl.program_id(0).to(tl.int64)
    offs = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * size + offs, mask=offs < size, other=float("-inf")).to(tl.float32)
    value, index = tl.max(x, axis=0, return_indices=True, return_indices_tie_break_left=True)
    part = row * tl.num_programs(1) + tl.program_id(1)
    tl.store(value_ptr + part, value)
    tl.store(index_ptr + part, tl.program_id(1) * BLOCK + index)


@jit
def argmax_merge_kernel(
    value_ptr: tl.tensor, index_ptr: tl.tensor, out_ptr: tl.tensor, parts: tl.tensor, PAD: tl.constexpr
) -> None:
    """Program `row`: the first largest of the blocks' values."""
    row = tl.program_id(0).to(tl.int64)
    offs = tl.arange(0, PAD)
    value = tl.load(value_ptr + row * parts + offs, mask=offs < parts, other=float("-inf"))
    best = tl.argmax(value, axis=0, tie_break_left=True)
    tl.store(out_ptr + row, tl.load(index_ptr + row * parts + best).to(tl.int64))


def argmax_reference(logits: torch.Tensor) -> torch.Tensor:
    """The same in plain PyTorch."""
    return logits.float().argmax(-1)


@custom_op("argmax")
def argmax(logits: torch.Tensor) -> torch.Tensor:
    """Index of the first largest along the last dimension.

    logits[..., V] fp16, bf16 or fp32, without NaN -> [...] int64.

    Raises:
        UsageError: unsupported dtype, or V of 0.
    """
    check_inputs("argmax", logits)
    size = logits.shape[-1]
    check_shape("argmax", size > 0, "the last dimension is empty")
    logits = logits.contiguous()
    out = logits.new_empty(logits.shape[:-1], dtype=torch.int64)
    if rows := out.numel():
        parts = cdiv(size, BLOCK)
        value = logits.new_empty(rows, parts, dtype=torch.float32)
        index = logits.new_empty(rows, parts, dtype=torch.int32)
        argmax_block_kernel[(rows, parts)](logits, value, index, size, BLOCK=BLOCK, num_warps=8)
        argmax_merge_kernel[(rows,)](value, index, out, parts, PAD=next_power_of_2(parts), num_warps=1)
    return out


@argmax.register_fake
def _(logits: torch.Tensor) -> torch.Tensor:
    return logits.new_empty(logits.shape[:-1], dtype=torch.int64)


@jit
def advance_kernel(
    token_ptr: tl.tensor, position_ptr: tl.tensor, chosen_ptr: tl.tensor, size: tl.tensor, PAD: tl.constexpr
) -> None:
    """One program: token = chosen, position += 1."""
    offs = tl.arange(0, PAD)
    tl.store(token_ptr + offs, tl.load(chosen_ptr + offs, mask=offs < size), mask=offs < size)
    tl.store(position_ptr, tl.load(position_ptr) + 1)


def advance_reference(token: torch.Tensor, position: torch.Tensor, chosen: torch.Tensor) -> None:
    """The same in plain PyTorch."""
    token.copy_(chosen)
    position.add_(1)


@custom_op("advance", mutates=("token", "position"))
def advance(token: torch.Tensor, position: torch.Tensor, chosen: torch.Tensor) -> None:
    """In place: token[B, 1] = chosen[B, 1] and position[1] += 1, all int64, contiguous.

    Raises:
        UsageError: another dtype, shapes that do not fit, or inputs that are not contiguous.
    """
    tensors = (token, position, chosen)
    whole = all(t.dtype == torch.int64 and t.is_contiguous() for t in tensors)
    check_shape("advance", whole, "token, position and chosen must be contiguous torch.int64")
    fits = token.shape == chosen.shape and position.numel() == 1
    check_shape("advance", fits, f"token {list(token.shape)}, chosen {list(chosen.shape)} must be equal")
    size = token.numel()
    advance_kernel[(1,)](token, position, chosen, size, PAD=next_power_of_2(size), num_warps=1)
