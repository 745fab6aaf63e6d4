from __future__ import annotations

import json

import pytest

from tests.traces.attribution.formulas.calls import Input, work

X: Input = ([4, 8], "f16")


@pytest.mark.parametrize(
    ("op", "inputs", "moved", "shape"),
    [
        ("aten::silu", [X], 2 * 64, "4x8 f16"),
        ("aten::add", [X, X, "1"], 3 * 64, "4x8 f16"),
        ("aten::add_", [X, ([4, 8], "f32"), "1"], 64 + 128 + 64, "4x8 f16"),
        ("aten::add", [X, ([4, 8], "f32"), "1"], 64 + 128 + 128, "4x8 f32"),
        ("aten::add", [X, ([4, 8], "bf16"), "1"], 64 + 64 + 128, "4x8 f32"),
        ("aten::mul", [X, ([8], "f16")], 64 + 16 + 64, "4x8 f16"),
        ("aten::mul", [X, ([], "f64")], 2 * 64, "4x8 f16"),  # a number of the program
        ("aten::mul", [([4, 8], "i64"), ([], "f64")], 256 + 128, "4x8 f32"),
        ("aten::div", [([4, 8], "i64"), ([4, 8], "i64")], 2 * 256 + 128, "4x8 f32"),
        ("aten::gt", [X, X], 2 * 64 + 32, "4x8 bool"),
        ("aten::where", [([4, 1], "bool"), X, ([], "f16")], 4 + 64 + 64, "4x8 f16"),
        ("aten::clamp", [X, "0", "1", X], 2 * 64, "4x8 f16"),  # the last is that of `out=`
        ("aten::pow", ["2", X], 2 * 64, "4x8 f16"),
        ("aten::copy_", [([4, 8], "f32"), X, "False"], 64 + 128, "4x8 f32"),
        ("aten::fill_", [X, "0"], 64, "4x8 f16"),
        ("aten::sum", [X, "[1]", "True", None], 64, "4x8 f16"),
        ("aten::argmax", [X, "1", "False"], 64, "4x8 f16"),
        ("aten::_softmax", [X, "1", "False"], 2 * 64, "4x8 f16"),
        ("aten::native_layer_norm", [X, "[8]", ([8], "f16"), ([8], "f16"), "1e-5"], 2 * 64 + 32, "4x8 f16"),
        ("kernelgap::rms_norm", [X, ([8], "f16"), "1e-5"], 2 * 64 + 16, "4x8 f16"),
        ("_C::fused_add_rms_norm", [X, X, ([8], "f16"), "1e-5"], 4 * 64 + 16, "4x8 f16"),
        ("kernelgap::silu_mul", [X], 64 + 32, "4x8 f16"),
        ("kernelgap::add", [X, X], 3 * 64, "4x8 f16"),
        ("kernelgap::argmax", [X], 64, "4x8 f16"),
        ("kernelgap::embedding", [([2, 1], "i64"), ([99, 8], "f16")], 16 + 4 * 16, "2x1x8 f16"),
        ("aten::index_select", [([99, 8], "f16"), "0", ([2], "i64")], 16 + 4 * 16, "2x8 f16"),
        ("aten::gather", [([5], "f32"), "0", ([100], "i64"), "False"], 800 + 4 * 105, "100 f32"),
        ("aten::index_copy_", [X, "0", ([1], "i64"), ([1, 8], "f16")], 2 * 16 + 8, "1x8 f16"),
        ("aten::_index_put_impl_", [([4, 9, 8], "f16"), None, ([4, 1, 8], "f16")], 128, "4x1x8 f16"),
        (
            "kernelgap::rope",
            [([2, 4, 1, 8], "f16"), ([2, 2, 1, 8], "f16"), ([1, 4], "f16"), ([1, 4], "f16")],
            2 * (2 * 64 + 2 * 32 + 8), "2x4x1x8 f16",
        ),
        (
            "kernelgap::write_kv",
            [*[([2, 2, 9, 8], "f16")] * 2, *[([2, 2, 1, 8], "f16")] * 2, ([1], "i64")],
            2 * 2 * 64, "2x2x1x8 f16",
        ),
        (
            "_C_cache_ops::reshape_and_cache_flash",
            [([5, 1, 64], "bf16"), ([5, 1, 64], "bf16"), ([99, 16, 1, 64], "u8"), ([99, 16, 1, 64], "u8")],
            2 * 320 * 2 + 2 * 320, "5x1x64 bf16",
        ),
    ],
)  # fmt: skip
def test_least_bytes(op: str, inputs: list[Input], moved: int, shape: str) -> None:
    assert work(op, *inputs) == (None, moved, shape)


@pytest.mark.parametrize(
    ("op", "inputs"),
    [
        ("aten::add", [([4, 8], "f16"), ([3], "f16")]),
        ("aten::max", [X, X]),  # of two tensors: elementwise under a reduction's name
        ("aten::index_select", [([4, 8], "f16"), "1", ([2], "i64")]),
        ("aten::_index_put_impl_", [X, None, ([], "f16")]),
        ("aten::where", [X]),
        ("aten::add", [None, None]),
    ],
)
def test_nothing_is_said_of_what_is_not_understood(op: str, inputs: list[Input]) -> None:
    assert work(op, *inputs) is None


def test_copying_an_expanded_tensor_reads_it_once() -> None:
    """As `repeat_kv` does: every KV head copied for its query heads."""
    shape = [2, 8, 4, 16, 32]
    strides = json.dumps([[16384, 2048, 512, 32, 1], [4096, 512, 0, 32, 1], []])
    found = work("aten::copy_", (shape, "f16"), (shape, "f16"), "False", strides=strides)
    assert found is not None
    assert found.min_bytes == 2 * (2 * 8 * 16 * 32) * (4 + 1)
