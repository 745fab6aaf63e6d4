"""The kernels of one decoder layer at decode, in the layout of the published study's figure 8.

"CUDA-Free Inference for LLMs" (PyTorch blog, 2024) lists QKV, attention, O, gate+up and down of Llama3-8B at
batch 1 and prompt 44 on an H100. Its ratio is Triton's time over CUDA's; here a ratio above 1 means that
Triton is faster. Attention is that of the first decode step: prompt + 1 keys, in a cache with room for more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from profiler.bench.attention import decode
from profiler.bench.products import case, products

if TYPE_CHECKING:
    from collections.abc import Iterator

    from profiler.bench.case import Case, Setting


def cases(setting: Setting) -> Iterator[Case]:
    """QKV, attention, O, gate+up, down."""
    work = setting.workload
    qkv, *rest, _lm_head = products(setting.config)
    yield case(setting, qkv, "decode")
    yield decode(setting, slots=work.length, position=work.prompt, every=False)
    for product in rest:
        yield case(setting, product, "decode")
