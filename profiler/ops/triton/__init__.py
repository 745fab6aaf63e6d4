"""Every op of the step as a Triton kernel: one file is one op.

A file holds the kernel, a plain PyTorch reference in fp32 beside it, and the custom op `kernelgap::<name>`
that launches it. Kernels run on a CUDA device, or on the CPU under Triton's interpreter.

The interpreter is chosen when triton is first imported. So on a machine without a GPU this package asks for
it, unless TRITON_INTERPRET is set already; on a machine with a GPU set TRITON_INTERPRET=1 to run on the CPU.
"""

import os

import torch

if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")
