from __future__ import annotations

import json

import pytest

from tests.traces.attribution.formulas.calls import Input, text, work
from traces.attribution.work import of_op, product

X: Input = ([2, 1, 4096], "f16")
W: Input = ([6144, 4096], "f16")
BYTES = 2 * (2 * 4096 + 6144 * 4096 + 2 * 6144)
FLOPS = 2 * 2 * 6144 * 4096


@pytest.mark.parametrize(
    ("op", "inputs", "expected"),
    [
        ("aten::mm", [([2, 4096], "f16"), ([4096, 6144], "f16")], (FLOPS, BYTES, "M2 N6144 K4096 f16")),
        ("kernelgap::linear", [X, W], (FLOPS, BYTES, "M2 N6144 K4096 f16")),
        ("kernelgap::linear", [X, W, ([6144], "f16")], (FLOPS, BYTES + 2 * 6144, "M2 N6144 K4096 f16")),
        (
            "kernelgap::linear", [X, W, None, ([2, 1, 6144], "f16")],
            (FLOPS, BYTES + 4 * 6144, "M2 N6144 K4096 f16"),
        ),
        ("aten::linear", [X, W, None], (FLOPS, BYTES, "M2 N6144 K4096 f16")),
        (
            "aten::addmm", [([3], "f32"), ([5, 7], "f32"), ([7, 3], "f32"), "1", "1"],
            (2 * 5 * 7 * 3, 4 * (3 + 35 + 21 + 15), "M5 N3 K7 f32"),
        ),
        (
            "aten::bmm", [([4, 5, 7], "bf16"), ([4, 7, 3], "bf16")],
            (4 * 2 * 5 * 7 * 3, 2 * 4 * (35 + 21 + 15), "B4 M5 N3 K7 bf16"),
        ),
        (
            "aten::_scaled_mm",
            [([5, 32], "f8"), ([32, 16], "f8"), ([1], "f32"), ([1], "f32"), None, None, "15", "True"],
            (2 * 5 * 32 * 16, 5 * 32 + 32 * 16 + 4 + 4 + 2 * 5 * 16, "M5 N16 K32 f8e4m3"),
        ),
        (
            "aten::_grouped_mm", [([64, 32], "bf16"), ([8, 32, 16], "bf16"), ([8], "i32"), None, None],
            (2 * 64 * 32 * 16, None, "G8 M64 N16 K32 bf16"),
        ),
    ],
)  # fmt: skip
def test_products(op: str, inputs: list[Input], expected: tuple[int, int, str]) -> None:
    assert work(op, *inputs) == expected


@pytest.mark.parametrize(
    ("op", "inputs"),
    [
        ("aten::mm", [([2, 3], "f16"), ([4, 5], "f16")]),
        ("aten::mm", [([2], "f16"), ([2, 5], "f16")]),
        ("aten::mm", [([2, 3], "f16")]),
        ("aten::mm", [([0, 3], "f16"), ([3, 5], "f16")]),
        ("aten::bmm", [([4, 5, 7], "f16"), ([3, 7, 3], "f16")]),
        ("aten::view", [([2, 3], "f16"), ([3, 5], "f16")]),
    ],
)
def test_what_does_not_fit_is_no_product(op: str, inputs: list[Input]) -> None:
    assert work(op, *inputs) is None


def test_product_is_of_op_for_products_alone() -> None:
    of = text(([2, 3], "f16"), ([3, 5], "f16"))
    assert product("aten::mm", of["dims"], of["types"]) == of_op("aten::mm", of["dims"], of["types"])
    assert product("aten::add", of["dims"], of["types"]) is None


def test_an_expanded_operand_is_read_once() -> None:
    strides = json.dumps([[12, 4, 1], [0, 5, 1]])
    found = work("aten::bmm", ([9, 3, 4], "f32"), ([9, 4, 5], "f32"), strides=strides)
    assert found is not None
    assert found.min_bytes == 4 * (9 * 12 + 20 + 9 * 15)


def test_a_convolution_needs_its_scalars() -> None:
    inputs: list[Input] = [
        ([1, 3, 1008, 1008], "bf16"), ([1024, 3, 14, 14], "bf16"), "[0, 0]", "[14, 14]", "[1, 1]", "1",
    ]  # fmt: skip
    found = work("aten::cudnn_convolution", *inputs)
    out = 72 * 72 * 1024
    assert found == (
        2 * out * 3 * 14 * 14,
        2 * (3 * 1008 * 1008 + 1024 * 3 * 14 * 14 + out),
        "conv 1x3x1008x1008x1024x14x14 bf16",
    )
    assert work("aten::cudnn_convolution", *inputs, concrete=None) is None
    grouped: list[Input] = [([2, 8, 9], "f32"), ([8, 1, 3], "f32"), None, "[1]", "[2]", "[1]", "8"]
    depthwise = work("aten::miopen_convolution", *grouped)
    assert depthwise is not None
    assert depthwise.flops == 2 * (2 * 8 * 5) * 3
