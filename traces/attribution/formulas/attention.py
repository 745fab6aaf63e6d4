"""Attention: Q K^T and P V are 2 FLOPs per multiply-add; Q, K, V, the mask and the result moved once.

With grouped query heads K and V count once, not once per query head. What the softmax costs is left out, as
FlashAttention's own benchmark does (Dao 2023, arXiv 2307.08691, section 4.1).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from traces.attribution.formulas.calls import Tensor, Work

if TYPE_CHECKING:
    from collections.abc import Callable

    from traces.attribution.formulas.calls import Call


class Form(NamedTuple):
    """How an op takes its inputs: q, k, v first, as [B, H, T, D] or, `token_major`, [B, T, H, D]."""

    causal: int | None  # where the scalar that says so stands; None: no such input is known
    mask: int | None = None
    lengths: tuple[int, ...] = ()  # tensors that say how much of K and V is used: not in the shapes
    windows: tuple[int, ...] = ()
    token_major: bool = False


_ATEN: Final = "aten::_scaled_dot_product_"
# From the operators' schemas (torch 2.13, aten/src/ATen/native/native_functions.yaml); `_flash_attn_forward`
# from flash-attn 2.8, flash_attn/flash_attn_interface.py.
FORMS: Final = {
    "aten::scaled_dot_product_attention": Form(5, mask=3),
    f"{_ATEN}flash_attention": Form(4),
    f"{_ATEN}flash_attention_for_cpu": Form(4),
    f"{_ATEN}efficient_attention": Form(6, mask=3),
    f"{_ATEN}cudnn_attention": Form(6, mask=3),
    f"{_ATEN}fused_attention_overrideable": Form(5, mask=3),
    "aten::_cudnn_attention_forward": Form(10, mask=3, lengths=(4, 5)),
    # input 10 is a tensor only in the fp8 overload, whose further inputs stand elsewhere
    "aten::_flash_attention_forward": Form(8, None, (3, 4, 10, 13, 15), (11, 12), True),
    "aten::_efficient_attention_forward": Form(9, 3, (4, 5, 12), (13,), True),
    "flash_attn::_flash_attn_forward": Form(5, None, (), (6, 7), True),
}
# q [B, H, T, D], k and v [B, Hkv, L, D], positions [T]: query i sees the keys up to positions[i].
OURS: Final = ("kernelgap::attention", "kernelgap::flash_attention", "kernelgap::decode_attention")


def attention(op: str, call: Call) -> Work | None:
    """One of `FORMS`. A causal mask over a square of T queries and keys leaves T (T + 1) / 2 pairs.

    FLOPs are None where the number of visible pairs is unknown: whether the mask is causal was not recorded,
    it is causal but not square (its alignment differs between kernels), or there is a window. A mask that is
    a tensor is data: its hidden pairs count, and so does all of a KV cache under it. Where lengths on the
    device say how much of K and V is used, only the shape is known.
    """
    form = FORMS[op]
    q, k, v = (_head_major(call.tensor(i), form.token_major) for i in range(3))
    sizes = Sizes.of(q, k, v)
    if sizes is None or any(call.given(i) for i in form.lengths):
        return _unknown(q, k, sizes)
    mask = call.optional(form.mask) if form.mask is not None else None
    pairs = _pairs(call, form, sizes, masked=mask is not None)
    return sizes.work(pairs, sizes.length, mask.stored if mask is not None else 0)


def positioned(op: str, call: Call, visible: int | None = None) -> Work | None:
    """One of `OURS`: a whole prompt where T == L, else one query over a cache of L slots.

    The shapes do not say how much of a cache is filled. `visible`, the keys that the query sees at least,
    gives the least work; without it only the shape is known.
    """
    q, k, v = (call.tensor(i) for i in range(3))
    sizes = Sizes.of(q, k, v)
    if sizes is None:
        return None
    if sizes.tokens == sizes.length:
        return sizes.work(_triangle(sizes.tokens), sizes.length)
    if sizes.tokens > 1 or visible is None or not 0 < visible <= sizes.length:
        return _unknown(q, k, sizes)
    return sizes.work(visible, visible)


class Sizes(NamedTuple):
    """B, H, Hkv, T, L, D of Q and K, D of V, and the dtype."""

    batch: int
    heads: int
    kv_heads: int
    tokens: int
    length: int
    size: int
    value_size: int
    dtype: str
    itemsize: int

    @classmethod
    def of(cls, q: Tensor, k: Tensor, v: Tensor) -> Sizes | None:
        """From head-major tensors; None unless they fit together."""
        if not len(q.shape) == len(k.shape) == len(v.shape) == 4 or not q.elements * k.elements * v.elements:
            return None
        (batch, heads, tokens, size), (kv_batch, kv_heads, length, kv_size) = q.shape, k.shape
        if (kv_batch, kv_size) != (batch, size) or v.shape[:3] != k.shape[:3] or heads % kv_heads:
            return None
        return cls(batch, heads, kv_heads, tokens, length, size, v.shape[3], q.dtype, q.size)

    def work(self, pairs: int | None, keys: int, mask_bytes: int = 0) -> Work:
        """`pairs` of query and visible key per head; `keys` of K and V are read."""
        both = self.size + self.value_size
        flops = None if pairs is None else 2 * self.batch * self.heads * pairs * both
        rows = self.batch * both * (self.heads * self.tokens + self.kv_heads * keys)
        return Work(flops, rows * self.itemsize + mask_bytes, self.label())

    def label(self) -> str:
        """`B2 H32/8 T1 L768 D128 f16`; H alone where each query head has its own keys."""
        heads = str(self.heads) if self.heads == self.kv_heads else f"{self.heads}/{self.kv_heads}"
        return f"B{self.batch} H{heads} T{self.tokens} L{self.length} D{self.size} {self.dtype}"


def _pairs(call: Call, form: Form, sizes: Sizes, *, masked: bool) -> int | None:
    """Pairs of query and visible key per head; None where unknown."""
    if any(call.scalar(i) not in ("", "-1") for i in form.windows):
        return None
    full = sizes.tokens * sizes.length
    said = call.scalar(form.causal) if form.causal is not None else ""
    if said in ("False", "0") or masked:
        return full
    if said:
        return _triangle(sizes.tokens) if sizes.tokens == sizes.length else None
    return full if sizes.tokens == 1 else None  # the one newest query sees every key, causal or not


def _triangle(n: int) -> int:
    return n * (n + 1) // 2


def _head_major(tensor: Tensor, token_major: bool) -> Tensor:
    if not token_major or len(tensor.shape) != 4:
        return tensor
    b, t, h, d = tensor.shape
    return tensor._replace(shape=(b, h, t, d), strides=None)


def _unknown(q: Tensor, k: Tensor, sizes: Sizes | None) -> Work | None:
    if sizes is not None:
        return Work(None, None, sizes.label())
    if len(q.shape) == len(k.shape) == 3:  # sequences laid end to end: [tokens, H, D]
        (tokens, heads, size), (length, kv_heads, _) = q.shape, k.shape
        return Work(None, None, f"H{heads}/{kv_heads} T{tokens} L{length} D{size} {q.dtype}")
    return None


FORMULAS: Final[dict[str, Callable[[str, Call], Work | None]]] = dict.fromkeys(FORMS, attention)
