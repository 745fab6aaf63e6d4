"""The five products of a model's step, by cuBLAS, by SplitK and inside the fused kernels.

The fused kernels do more than the product, as they do in the model; cuBLAS and SplitK do the product alone
(and the bias, where the model has one). Fused decode kernels overlap by programmatic dependent launch, as in
the model, but are not told of the next weight: a prefetch would warm the L2.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Final

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from profiler.bench.case import Case, Contender, Setting
from profiler.bench.table import Work
from profiler.ops.triton import splitk, tiles
from profiler.ops.triton.fused import linear_add, norm_gate_up, norm_head, norm_qkv_rope
from profiler.ops.triton.fused.stream import Stream, stream_reference

if TYPE_CHECKING:
    from profiler.model.config import Config

PDL: Final = True
NORM: Final = "RMSNorm before"
DOES: Final = {
    "QKV": f"{NORM}, RoPE, KV cache write",
    "O": "residual sum, input of the next norm",
    "gate+up": f"{NORM}, SiLU and product",
    "down": "residual sum, input of the next norm",
    "lm_head": NORM,
}


@dataclass(frozen=True)
class Product:
    """x[M, K] by weight[N, K] transposed, `calls` times in a decode step."""

    name: str
    n: int
    k: int
    calls: int
    bias: bool

    def work(self, m: int, itemsize: int) -> Work:
        """Inputs, weight and output once."""
        return Work((m * self.k + self.n * self.k + m * self.n) * itemsize, 2 * m * self.n * self.k)


@dataclass(frozen=True)
class Inputs:
    """One copy of all that a product works on; residual and gamma only where they are used."""

    stream: Stream  # x [M, K] and its norm's inputs
    weight: Tensor
    bias: Tensor | None
    residual: Tensor | None
    gamma: Tensor | None


def products(config: Config) -> list[Product]:
    """In the order of the layer, lm_head last."""
    heads, attention, mlp = config.heads * config.head_dim, config.attention_bias, config.mlp_bias
    return [
        Product("QKV", config.qkv_dim, config.dim, config.layers, attention),
        Product("O", config.dim, heads, config.layers, attention),
        Product("gate+up", 2 * config.intermediate, config.dim, config.layers, mlp),
        Product("down", config.dim, config.intermediate, config.layers, mlp),
        Product("lm_head", config.vocab, config.dim, 1, False),
    ]


def case(setting: Setting, product: Product, phase: str) -> Case:
    """One product with the rows of a decode step or of a prefill."""
    rows = setting.workload.batch if phase == "decode" else setting.prompt_rows
    work = product.work(rows, setting.dtype.itemsize)
    copies = setting.copies(work.bytes)
    made = [_inputs(setting, product, rows) for _ in range(copies)]
    contenders = [
        Contender("cuBLAS", False, lambda i: F.linear(made[i].stream.x, made[i].weight, made[i].bias)),
        _splitk(setting, product, made),
    ]
    if (
        phase == "decode" or product.name != "lm_head"
    ):  # a prefill needs the logits of the last position alone
        contenders.append(_fused(setting, product, phase, made))
    shape = f"M{rows} N{product.n} K{product.k}"
    calls = product.calls if phase == "decode" else 1
    return Case(f"{phase} {product.name}", shape, work, copies, contenders, calls=calls)


def _inputs(setting: Setting, product: Product, rows: int) -> Inputs:
    n, k = product.n, product.k
    x = setting.normal(rows, k)
    needs_norm = product.name in FROM_NORM
    gamma = setting.normal(k if needs_norm else n)
    # as many parts as `linear_add` leaves, whose tiles are 32 columns wide in decode and 256 in prefill
    width = 32 if rows <= splitk.DECODE_ROWS else 256
    parts = k // width if k % width == 0 else 1
    stream = stream_reference(x, gamma, parts) if needs_norm else Stream(x, x, x)
    return Inputs(
        stream,
        setting.weight(n, k),
        setting.normal(n) if product.bias else None,
        None if needs_norm else setting.normal(rows, n),
        None if needs_norm else gamma,
    )


def _splitk(setting: Setting, product: Product, made: list[Inputs]) -> Contender:
    """The published method, with the configuration that `tune` found, or the default one."""
    rows = made[0].stream.x.shape[0]
    shape = splitk.Shape(rows, product.n, product.k)
    choice = tiles.choose(shape, _tuned(setting.device, setting.workload.dtype), setting.dtype.itemsize)

    def run(i: int) -> Tensor:
        return splitk.splitk_gemm(made[i].stream.x, made[i].weight, choice.config, made[i].bias)

    def expected() -> Tensor:
        return splitk.splitk_linear_reference(made[0].stream.x, made[0].weight, made[0].bias)

    return Contender(f"SplitK ({choice.source})", True, run, expected)


@cache
def _tuned(device: str, dtype: str) -> Mapping[splitk.Shape, tiles.Entry]:
    if device == "cpu":
        return {}
    gpu = torch.cuda.get_device_properties(torch.cuda.current_device()).name
    return tiles.known(gpu, dtype)[0]


def _fused(setting: Setting, product: Product, phase: str, made: list[Inputs]) -> Contender:
    name, run, expected = _MAKERS[product.name](setting, phase, made)
    return Contender(name, True, run, expected, DOES[product.name])


Made = tuple[str, Callable[[int], Tensor], Callable[[], Tensor]]


def _qkv(setting: Setting, phase: str, made: list[Inputs]) -> Made:
    config, work = setting.config, setting.workload
    tokens = 1 if phase == "decode" else work.prompt
    begin = work.prompt if phase == "decode" else 0
    positions = torch.arange(begin, begin + tokens, device=setting.device)
    table = setting.normal(work.length, config.head_dim)
    k_cache, v_cache = (
        torch.zeros(
            work.batch,
            config.kv_heads,
            work.length,
            config.head_dim,
            device=setting.device,
            dtype=setting.dtype,
        )
        for _ in range(2)
    )

    def run(i: int) -> Tensor:
        s = made[i].stream
        return norm_qkv_rope.norm_qkv_rope(
            s.scaled, s.squares, made[i].weight, made[i].bias, table, positions, k_cache, v_cache,
            config.heads, config.norm_eps, PDL,
        )  # fmt: skip

    def expected() -> Tensor:
        s = made[0].stream
        return norm_qkv_rope.norm_qkv_rope_reference(
            s.scaled, s.squares, made[0].weight, made[0].bias, table, positions, k_cache, v_cache,
            config.heads, config.norm_eps,
        )  # fmt: skip

    return "norm_qkv_rope", run, expected


def _add(setting: Setting, phase: str, made: list[Inputs]) -> Made:
    def run(i: int) -> Tensor:
        of, residual, gamma = made[i], made[i].residual, made[i].gamma
        assert residual is not None
        assert gamma is not None
        return linear_add.linear_add(of.stream.x, of.weight, of.bias, residual, gamma, None, 0, PDL)[0]

    def expected() -> Tensor:
        of, residual, gamma = made[0], made[0].residual, made[0].gamma
        assert residual is not None
        assert gamma is not None
        return linear_add.linear_add_reference(of.stream.x, of.weight, of.bias, residual, gamma).x

    return "linear_add", run, expected


def _gate_up(setting: Setting, phase: str, made: list[Inputs]) -> Made:
    eps = setting.config.norm_eps

    def run(i: int) -> Tensor:
        s = made[i].stream
        return norm_gate_up.norm_gate_up_silu(s.scaled, s.squares, made[i].weight, made[i].bias, eps, PDL)

    def expected() -> Tensor:
        s = made[0].stream
        return norm_gate_up.norm_gate_up_silu_reference(
            s.scaled, s.squares, made[0].weight, made[0].bias, eps
        )

    return "norm_gate_up_silu", run, expected


def _lm_head(setting: Setting, phase: str, made: list[Inputs]) -> Made:
    eps = setting.config.norm_eps

    def run(i: int) -> Tensor:
        s = made[i].stream
        return norm_head.norm_lm_head(s.scaled, s.squares, made[i].weight, eps, PDL)

    def expected() -> Tensor:
        s = made[0].stream
        return norm_head.norm_lm_head_reference(s.scaled, s.squares, made[0].weight, eps)

    return "norm_lm_head", run, expected


_MAKERS: Final = {"QKV": _qkv, "O": _add, "gate+up": _gate_up, "down": _add, "lm_head": _lm_head}
FROM_NORM: Final = frozenset({"QKV", "gate+up", "lm_head"})
