"""PyTorch's attention kernels as the CUDA variant may use them, and the measurement that picks one per phase.

Decode attends to the first `position + 1` slots of a cache, a number that lives on the device. SDPA knows no
lengths, so a backend needs a mask over the whole cache, which flash attention does not take. Its ragged form,
`aten::_flash_attention_forward`, reads lengths on the device, but took twice as long as cuDNN on an H200 with
batch 2 and 641 keys: 19.0 against 10.0 us. A backend may see the query heads of one KV head as rows of one
query ("packed"), which needs no grouped-query support.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import torch
from torch.nn import functional as F  # noqa: N812
from torch.nn.attention import SDPBackend, sdpa_kernel

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from torch import Tensor

    from profiler.model.config import Config, Workload

DEFAULT: Final = "default"
ROUNDS: Final = 9
_COLD_BYTES: Final = 256 << 20  # caches walked between two uses of the same one: more than any L2
_PIECE: Final = 256  # queries whose scores the reference holds at a time
_TOLERANCE: Final = {torch.float16: 4e-3, torch.bfloat16: 3e-2, torch.float32: 1e-4}


@dataclass(frozen=True)
class Backend:
    """One way to attend. `visible(positions [T], k_cache [B, Hkv, L, D])` is made once a step, for `run`.

    `run(q [B, H, T, D], k, v [B, Hkv, L, D], visible)` -> [B, H, T, D].
    """

    run: Callable[[Tensor, Tensor, Tensor, Tensor | None], Tensor]
    visible: Callable[[Tensor, Tensor], Tensor | None] = lambda _positions, _cache: None


def additive_mask(positions: Tensor, cache: Tensor) -> Tensor:
    """[T, L] in the cache's dtype, 0 where key j <= positions[i], else -inf (bool costs a cast a layer)."""
    keys = torch.arange(cache.shape[2], device=positions.device)
    mask = torch.zeros(len(positions), len(keys), dtype=cache.dtype, device=positions.device)
    return mask.masked_fill(keys > positions[:, None], float("-inf"))


def _grouped(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, *, backend: SDPBackend | None = None
) -> Tensor:
    """SDPA's own grouped-query form; without a mask, causal."""
    attend = partial(
        F.scaled_dot_product_attention, q, k, v, attn_mask=mask, is_causal=mask is None, enable_gqa=True
    )
    if backend is None:
        return attend()
    with sdpa_kernel(backend):
        return attend()


def _repeated(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, *, backend: SDPBackend) -> Tensor:
    """For backends without grouped queries: each KV head copied for its query heads."""
    group = q.shape[1] // k.shape[1]
    return _grouped(q, k.repeat_interleave(group, 1), v.repeat_interleave(group, 1), mask, backend=backend)


def _packed(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, *, backend: SDPBackend) -> Tensor:
    """One query a head: the heads of a KV head become rows of one query, under the same mask."""
    batch, heads, _, size = q.shape
    rows = q.reshape(batch, k.shape[1], heads // k.shape[1], size)
    with sdpa_kernel(backend):
        out = F.scaled_dot_product_attention(rows, k, v, attn_mask=mask)
    return out.reshape(batch, heads, 1, size)


PREFILL: Final[dict[str, Backend]] = {
    DEFAULT: Backend(_grouped),
    "cudnn": Backend(partial(_grouped, backend=SDPBackend.CUDNN_ATTENTION)),
    "flash": Backend(partial(_grouped, backend=SDPBackend.FLASH_ATTENTION)),
    "efficient": Backend(partial(_repeated, backend=SDPBackend.EFFICIENT_ATTENTION)),
    "math": Backend(partial(_grouped, backend=SDPBackend.MATH)),
}
DECODE: Final[dict[str, Backend]] = {
    DEFAULT: Backend(_grouped, additive_mask),
    "cudnn": Backend(partial(_grouped, backend=SDPBackend.CUDNN_ATTENTION), additive_mask),
    "cudnn packed": Backend(partial(_packed, backend=SDPBackend.CUDNN_ATTENTION), additive_mask),
    "efficient packed": Backend(partial(_packed, backend=SDPBackend.EFFICIENT_ATTENTION), additive_mask),
    "math packed": Backend(partial(_packed, backend=SDPBackend.MATH), additive_mask),
}


@torch.no_grad()
def measure(config: Config, workload: Workload) -> dict[str, Any]:
    """The fastest backend of each phase on this GPU, at the workload's shapes; decode in mid-generation.

    Returns per phase `chosen` and, for each backend, `median_us` of a call or why it is out: `not supported`
    or `wrong result`. Backends take turns over several rounds, on caches that the L2 no longer holds.
    """
    dtype = getattr(torch, workload.dtype)
    middle = workload.prompt + workload.new_tokens // 2
    phases = {
        "prefill": (PREFILL, workload.prompt, range(workload.prompt)),
        "decode": (DECODE, workload.length, [middle]),
    }
    out = {}
    for phase, (backends, length, at) in phases.items():
        q, caches = _tensors(config, workload.batch, len(at), length, dtype)
        positions = torch.tensor(at, device="cuda")
        out[phase] = _fastest(backends, q, caches, positions)
    return out


def _tensors(
    config: Config, batch: int, tokens: int, length: int, dtype: torch.dtype
) -> tuple[Tensor, list[tuple[Tensor, Tensor]]]:
    """A query, and enough caches to outgrow the L2, all token by token in memory as the model has them."""

    def heads(count: int, positions: int) -> Tensor:
        return torch.randn(batch, positions, count, config.head_dim, device="cuda", dtype=dtype).transpose(
            1, 2
        )

    size = 2 * batch * length * config.kv_heads * config.head_dim * dtype.itemsize
    copies = min(max(2, -(-_COLD_BYTES // size)), 32)
    return heads(config.heads, tokens), [
        (heads(config.kv_heads, length), heads(config.kv_heads, length)) for _ in range(copies)
    ]


def _fastest(
    backends: Mapping[str, Backend], q: Tensor, caches: list[tuple[Tensor, Tensor]], positions: Tensor
) -> dict[str, Any]:
    k, v = caches[0]
    expected = reference(q.float(), k.float(), v.float(), positions)
    found: dict[str, Any] = {}
    graphs: dict[str, torch.cuda.CUDAGraph] = {}
    for name, backend in backends.items():
        if name == DEFAULT:  # it is one of the others
            continue
        try:
            result = backend.run(q, k, v, backend.visible(positions, k))
            if not (result.float() - expected).abs().max() <= _TOLERANCE[q.dtype]:
                found[name] = "wrong result"
                continue
            graphs[name] = _graph(backend, q, caches, positions)
        except RuntimeError:  # what PyTorch raises where no kernel takes the inputs
            found[name] = "not supported"
    times = {name: sorted(t) for name, t in _rounds(graphs).items()}
    found |= {n: {"median_us": round(statistics.median(t) / len(caches), 2)} for n, t in times.items()}
    chosen = min(times, key=lambda n: statistics.median(times[n]), default=DEFAULT)
    return {"chosen": chosen, "backends": found}


def reference(q: Tensor, k: Tensor, v: Tensor, positions: Tensor) -> Tensor:
    """softmax(q k^T / sqrt(D)) v in fp32, key j visible to query i iff j <= positions[i].

    A piece of the queries at a time: the scores of a long prompt would take more memory than the model.
    """
    group = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    keys = torch.arange(k.shape[2], device=q.device)
    pieces = []
    for begin in range(0, len(positions), _PIECE):
        rows, at = q[:, :, begin : begin + _PIECE], positions[begin : begin + _PIECE]
        scores = (rows @ k.transpose(-1, -2)) * q.shape[-1] ** -0.5
        pieces.append(scores.masked_fill(keys > at[:, None], float("-inf")).softmax(-1) @ v)
    return torch.cat(pieces, dim=2)


def _graph(
    backend: Backend, q: Tensor, caches: list[tuple[Tensor, Tensor]], positions: Tensor
) -> torch.cuda.CUDAGraph:
    """One call on each cache, with the output as the next projection takes it: [B, T, H*D]."""

    def calls() -> None:
        visible = backend.visible(positions, caches[0][0])
        for k, v in caches:
            backend.run(q, k, v, visible).transpose(1, 2).reshape(q.shape[0], q.shape[2], -1)

    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        calls()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        calls()
    return graph


def _rounds(graphs: Mapping[str, torch.cuda.CUDAGraph]) -> dict[str, list[float]]:
    """Microseconds of each graph's replays, taken in turns; the first round only warms up."""
    times: dict[str, list[float]] = {name: [] for name in graphs}
    for turn in range(ROUNDS + 1):
        for name, graph in graphs.items():
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
            begin.record()
            graph.replay()
            end.record()
            torch.cuda.synchronize()
            if turn:
                times[name].append(begin.elapsed_time(end) * 1000)
    return times
