"""Modules for compiled kernels, on traces made by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from profiler.capture.align import agreement, assign_modules, by_provenance, filled, placed
from profiler.capture.launches import read_launches
from profiler.capture.provenance import Origin
from tests.profiler.capture.steps import DOWN, QKV, Trace, compiled_step, eager_step

if TYPE_CHECKING:
    from profiler.capture.launches import Launch

ORIGINS = [
    Origin("triton_red_fused_rms_norm_0", "layers.0.attn_norm"),
    Origin("extern_kernels.mm", "layers.0.attn.qkv"),
    Origin("triton_poi_fused_mul_1", "layers.0.mlp"),
    Origin("torch.ops.aten._scaled_dot_product_cudnn_attention.default", "layers.0.attn"),
    Origin("extern_kernels.mm", "layers.0.mlp.down"),
    Origin("triton_red_fused_add_rms_norm_2", None),
]


def launches(trace: Trace) -> list[Launch]:
    return read_launches(trace.close(), "step")


def modules(compiled: Trace, eager: Trace) -> list[str | None] | None:
    named = assign_modules(launches(compiled), launches(eager))
    return named and [x.module for x in named]


def test_compiled_kernels_get_the_modules_of_the_eager_run() -> None:
    assert modules(compiled_step(), eager_step()) == [
        "layers.0.attn_norm",
        "layers.0.attn.qkv",
        "layers.0.attn",
        "layers.0.attn",
        "layers.0.attn",
        "layers.0.mlp.down",
        "layers.0.mlp.down",
        "sample",
        "sample",
    ]


@pytest.mark.parametrize("eager_op", ["aten::mm", "aten::addmm"])
@pytest.mark.parametrize("compiled_op", ["aten::mm", "aten::addmm"])
def test_bias_and_residual_may_be_inside_the_product_or_beside_it(eager_op: str, compiled_op: str) -> None:
    def product(trace: Trace, op: str, module: str | None = None) -> Trace:
        dims = [[128], *QKV[1]] if op == "aten::addmm" else QKV[1]
        return trace.op(op, ["gemm"], dims, module)

    eager = product(Trace(), eager_op, "qkv").op("aten::add", ["bias"], module="qkv")
    compiled = product(Trace(), compiled_op).op("triton_poi_fused_add_0", ["triton_poi_fused_add_0"])
    assert modules(compiled, eager) == ["qkv", "qkv"]


def test_attention_may_take_another_backend_or_become_other_kernels() -> None:
    others = [
        compiled_step(attention="aten::_flash_attention_forward"),
        compiled_step(attention="triton_per_fused_softmax_3"),
        compiled_step(attention="aten::bmm"),
    ]
    assert {str(modules(x, eager_step())) for x in others} == {str(modules(compiled_step(), eager_step()))}


def test_anchors_of_one_run_only_are_passed_over() -> None:
    """A custom op that the compiler replaced by a kernel of its own."""
    eager = (
        Trace()
        .op("kernelgap::embedding", ["embed"], module="embed")
        .op("kernelgap::splitk_linear", ["gemm"], module="layers.0.attn.qkv")
        .op("kernelgap::rope", ["rope"], module="layers.0.attn")
        .op("kernelgap::flash_attention", ["flash"], module="layers.0.attn")
        .op("kernelgap::add", ["add"], module="layers.0")
    )
    compiled = (
        Trace()
        .op("triton_poi_embedding", ["triton_poi_embedding"])
        .op("kernelgap::splitk_linear", ["gemm"])
        .op("triton_poi_mul", ["triton_poi_mul"])
        .op("kernelgap::flash_attention", ["flash"])
        .op("triton_poi_add", ["triton_poi_add"])
    )
    expected = ["embed", "layers.0.attn.qkv", "layers.0.attn", "layers.0.attn", "layers.0"]
    assert modules(compiled, eager) == expected


def test_what_a_call_clears_first_does_not_name_the_kernel_before_it() -> None:
    def step(norm: str, module: str | None, linear_module: str | None) -> Trace:
        trace = Trace().op(norm, [norm], module=module)
        trace.op("kernelgap::linear", ["gemm"], module=linear_module)
        return trace.inside("aten::zero_", "fill")

    found = modules(step("triton_red_norm", None, None), step("aten::rms_norm", "norm", "lm_head"))
    assert found == ["norm", "lm_head", "lm_head"]


def test_a_kernel_of_the_model_itself_serves_the_next_module() -> None:
    eager = Trace().op("aten::le", ["mask"]).op(*DOWN[:1], ["gemm"], DOWN[1], module="down")
    compiled = (
        Trace()
        .op("triton_poi_fused_le_0", ["triton_poi_fused_le_0"])
        .op(*DOWN[:1], ["gemm"], DOWN[1])
        .op("triton_poi_copy", ["triton_poi_copy"])
    )
    assert modules(compiled, eager) == ["down", "down", "down"]


def test_runs_that_call_different_products_share_no_modules() -> None:
    eager, compiled = launches(eager_step()), launches(compiled_step())
    assert assign_modules([x for x in compiled if x.name != "nvjet"], eager) is None
    reshaped = [
        replace(x, call=x.call._replace(dims="[[2, 64], [64, 256]]")) if x.name == "nvjet" and x.call else x
        for x in compiled
    ]
    assert assign_modules(reshaped, eager) is None


def test_products_that_are_no_calls_in_one_run_align_nothing() -> None:
    """Custom products in eager code, kernels of Inductor's in compiled code: nothing holds the order."""
    eager = Trace().op("kernelgap::linear", ["gemm"], module="a").op("kernelgap::add", ["add"], module="b")
    compiled = Trace().op("triton_tem_fused_mm", ["triton_tem_fused_mm"]).op("kernelgap::add", ["add"])
    assert modules(compiled, eager) is None
    assert modules(Trace().op("triton_x", ["triton_x"]), Trace().op("aten::add", ["add"], module="a")) is None


def test_provenance_finds_calls_by_kind_and_kernels_by_name() -> None:
    found = by_provenance(launches(compiled_step()), ORIGINS)
    assert found == [
        "layers.0.attn_norm",
        "layers.0.attn.qkv",
        "layers.0.mlp",
        "layers.0.attn",
        "layers.0.attn",
        "layers.0.mlp.down",
        "layers.0.mlp.down",
        None,
        None,
    ]


def test_provenance_of_another_number_of_calls_is_not_used() -> None:
    found = by_provenance(launches(compiled_step()), [*ORIGINS, Origin("extern_kernels.mm", "lm_head")])
    assert [found[i] for i in (1, 5, 6)] == [None] * 3
    assert found[0] == "layers.0.attn_norm"
    assert by_provenance(launches(compiled_step()), []) == [None] * 9


def test_provenance_and_eager_run_are_compared_on_generated_kernels() -> None:
    named = assign_modules(launches(compiled_step()), launches(eager_step()))
    assert named is not None
    assert agreement(named, by_provenance(named, ORIGINS)) == {"agree": 1, "differ": 1, "missing": 1}
    assert agreement(named, [None] * 9) == {"agree": 0, "differ": 0, "missing": 3}


def test_holes_are_filled_from_behind() -> None:
    made = launches(compiled_step())
    some = placed(made, [None, "a", None, "b", *[None] * 5])
    assert [x.module for x in filled(some)] == ["a", "a", "b", "b", *["b"] * 5]
    assert [x.module for x in filled(made)] == [None] * 9
