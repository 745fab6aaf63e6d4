"""A decoder layer in five kernels, in decode and in prefill; one file per fused operation.

Each file holds the kernels, the plain PyTorch reference, and the op with its shapes. What passes between them
is a `stream.Stream`: the residual and what the next norm needs of it, so that no norm is a kernel of its own.
"""
