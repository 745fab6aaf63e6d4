from __future__ import annotations

import pytest

from tests.traces.attribution.formulas.calls import Input, work

B, H, HKV, T, D = 2, 32, 8, 512, 128
PAIRS = T * (T + 1) // 2
Q: Input = ([B, H, T, D], "f16")
KV: Input = ([B, HKV, T, D], "f16")
LEAST = 2 * B * D * T * (2 * H + 2 * HKV)  # q, out, k, v
SHAPE = "B2 H32/8 T512 L512 D128 f16"


def cudnn(q: Input, k: Input, mask: Input, causal: str) -> list[Input]:
    return [q, k, k, mask, None, None, "512", "512", "False", "0.", causal, "False", None]


def flash(q: Input, k: Input, causal: str, *more: Input) -> list[Input]:
    return [q, k, k, None, None, "512", "512", "0.", causal, "False", "0.088", *more]


@pytest.mark.parametrize(
    ("op", "inputs", "pairs"),
    [
        ("aten::_cudnn_attention_forward", cudnn(Q, KV, None, "True"), PAIRS),
        ("aten::_cudnn_attention_forward", cudnn(Q, KV, None, "False"), T * T),
        ("aten::_scaled_dot_product_flash_attention", [Q, KV, KV, "0.", "True", "False"], PAIRS),
        ("aten::_scaled_dot_product_cudnn_attention", [Q, KV, KV, None, "False", "0.", "True"], PAIRS),
        ("aten::_scaled_dot_product_efficient_attention", [Q, KV, KV, None, "False", "0.", "True"], PAIRS),
        ("kernelgap::attention", [Q, KV, KV, ([T], "i64")], PAIRS),
        ("kernelgap::flash_attention", [Q, KV, KV, ([T], "i64")], PAIRS),
    ],
)
def test_a_prompt_counts_its_visible_pairs_and_each_kv_head_once(
    op: str, inputs: list[Input], pairs: int
) -> None:
    assert work(op, *inputs) == (4 * B * H * D * pairs, LEAST, SHAPE)


def test_flash_and_efficient_kernels_take_tokens_before_heads() -> None:
    q, kv = ([B, T, H, D], "f16"), ([B, T, HKV, D], "f16")
    expected = (4 * B * H * D * PAIRS, LEAST, SHAPE)
    assert work("aten::_flash_attention_forward", *flash(q, kv, "True")) == expected
    efficient: list[Input] = [q, kv, kv, None, None, None, None, None, "0.", "1", "False"]
    assert work("aten::_efficient_attention_forward", *efficient) == expected
    assert work("flash_attn::_flash_attn_forward", q, kv, kv, "0.", "0.1", "True", "-1", "-1") == expected


def test_decode_under_a_mask_reads_the_whole_cache() -> None:
    cache, mask = ([B, HKV, 768, D], "f16"), ([1, 1, 1, 768], "f16")
    found = work("aten::_cudnn_attention_forward", *cudnn(([B, H, 1, D], "f16"), cache, mask, "False"))
    moved = 2 * B * D * (2 * H + 2 * HKV * 768) + 2 * 768
    assert found == (4 * B * H * D * 768, moved, "B2 H32/8 T1 L768 D128 f16")


def test_without_the_causal_scalar_flops_of_a_prompt_are_unknown_but_bytes_are_not() -> None:
    found = work("aten::_cudnn_attention_forward", *cudnn(Q, KV, None, "True"), concrete=None)
    assert found == (None, LEAST, SHAPE)
    one = work(
        "aten::_cudnn_attention_forward", *cudnn(([B, H, 1, D], "f16"), KV, None, "True"), concrete=None
    )
    assert one is not None
    assert one.flops == 4 * B * H * D * T  # the newest query sees every key either way


def test_a_causal_rectangle_and_a_window_have_unknown_flops() -> None:
    wide = work("aten::_cudnn_attention_forward", *cudnn(([B, H, 4, D], "f16"), KV, None, "True"))
    assert wide is not None
    assert wide.flops is None
    q, kv = ([B, T, H, D], "f16"), ([B, T, HKV, D], "f16")
    local = work("aten::_flash_attention_forward", *flash(q, kv, "True", "128", "0"))
    assert local is not None
    assert (local.flops, local.min_bytes) == (None, LEAST)


def test_lengths_on_the_device_leave_only_the_shape() -> None:
    packed = ([40, H, D], "bf16"), ([900, HKV, D], "bf16")
    inputs: list[Input] = [
        packed[0],
        packed[1],
        packed[1],
        ([3], "i32"),
        ([3], "i32"),
        "20",
        "450",
        "0.",
        "True",
    ]
    assert work("aten::_flash_attention_forward", *inputs) == (None, None, "H32/8 T40 L900 D128 bf16")
    q, cache = ([B, 1, H, D], "f16"), ([B, 768, HKV, D], "f16")
    used = flash(q, cache, "False", None, None, ([B], "i32"))
    assert work("aten::_flash_attention_forward", *used) == (None, None, "B2 H32/8 T1 L768 D128 f16")


def test_our_decode_knows_only_what_it_is_told_of_the_cache() -> None:
    inputs: list[Input] = [([B, H, 1, D], "f16"), *[([B, HKV, 768, D], "f16")] * 2, ([1], "i64")]
    shape = "B2 H32/8 T1 L768 D128 f16"
    assert work("kernelgap::attention", *inputs) == (None, None, shape)
    assert work("kernelgap::attention", *inputs, visible=769) == (None, None, shape)
    moved = 2 * B * D * (2 * H + 2 * HKV * 513)
    assert work("kernelgap::attention", *inputs, visible=513) == (4 * B * H * D * 513, moved, shape)


def test_values_may_have_another_size() -> None:
    found = work(
        "aten::_scaled_dot_product_flash_attention",
        ([1, 4, 8, 192], "bf16"), ([1, 4, 8, 192], "bf16"), ([1, 4, 8, 128], "bf16"), "0.", "False",
    )  # fmt: skip
    assert found == (2 * 4 * 64 * (192 + 128), 2 * 4 * 8 * (2 * 192 + 2 * 128), "B1 H4 T8 L8 D192 bf16")


@pytest.mark.parametrize(
    "inputs",
    [
        [([2, 6, 1, 8], "f16"), ([2, 4, 9, 8], "f16"), ([2, 4, 9, 8], "f16")],
        [([2, 8, 1, 8], "f16"), ([3, 4, 9, 8], "f16"), ([3, 4, 9, 8], "f16")],
        [([2, 8, 1], "f16"), ([3, 4, 9, 8], "f16"), ([3, 4, 9, 8], "f16")],
    ],
)
def test_what_does_not_fit_is_no_attention(inputs: list[Input]) -> None:
    assert work("kernelgap::attention", *inputs, ([1], "i64")) is None
