"""The published CUDA-free configuration of the model's operators.

"CUDA-Free Inference for LLMs" (PyTorch blog, 2024): SplitK GEMMs tuned per layer shape, Triton flash
attention as a custom op, and torch.compile for everything small.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from profiler.ops.triton import flash, rms_norm, silu_mul, splitk, tiles
from profiler.ops.triton.variant import TritonOps

if TYPE_CHECKING:
    from torch import Tensor

    from profiler.model.config import Config, Workload


class BlogOps(TritonOps):
    """`profiler.ops.Ops` as the study ran it; every GPU kernel is Triton, ours or Inductor's.

    GEMMs and attention are custom ops in every mode. RMSNorm and SiLU-mul join the small ops that are plain
    ATen under torch.compile, for Inductor to generate and fuse; in eager mode they are our own kernels.
    """

    def prepare(self, config: Config, workload: Workload, *, device: str) -> dict[str, Any]:
        """See `Ops.prepare`: select the tuned configuration of each shape, on a GPU, and say which it is.

        Raises InputError if a tile cache is damaged.
        """
        super().prepare(config, workload, device=device)
        gpu = torch.cuda.get_device_properties(torch.cuda.current_device()).name if device == "cuda" else ""
        entries, stale = tiles.known(gpu, workload.dtype) if gpu else ({}, 0)
        itemsize = getattr(torch, workload.dtype).itemsize
        shapes = tiles.linear_shapes(config, workload)
        choices = {shape: tiles.choose(shape, entries, itemsize) for shape in shapes}
        splitk.select({shape: choice.config for shape, choice in choices.items()})
        return {"gemm": tiles.report(choices, stale)}

    def rms_norm(self, x: Tensor, weight: Tensor, eps: float) -> Tensor:
        """See `Ops.rms_norm`."""
        run = self._aten.rms_norm if torch.compiler.is_compiling() else rms_norm.rms_norm
        return run(x, weight, eps)

    def linear(self, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        """See `Ops.linear`."""
        return splitk.splitk_linear(x, weight, bias)

    def attention(
        self, q: Tensor, k: Tensor, v: Tensor, positions: Tensor, visible: Tensor | None, *, causal: bool
    ) -> Tensor:
        """See `Ops.attention`; positions say all that `visible` and `causal` do."""
        return flash.flash_attention(q, k, v, positions)

    def silu_mul(self, gate_up: Tensor) -> Tensor:
        """See `Ops.silu_mul`."""
        run = self._aten.silu_mul if torch.compiler.is_compiling() else silu_mul.silu_mul
        return run(gate_up)
