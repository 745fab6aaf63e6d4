"""What counts as the same part of the model in two runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.traces.analysis.decoder import CUDA, TRITON, decoder
from tests.traces.builders import run
from traces.analysis.compare import compare

if TYPE_CHECKING:
    from traces.analysis.compare import Comparison
    from traces.store import Run

BY = ("module", "category")
HUGGING_FACE = {
    "attn_norm": "input_layernorm", "attn.o": "self_attn.o_proj", "attn": "self_attn",
    "mlp_norm": "post_attention_layernorm", "mlp.down": "mlp.down_proj", "attn.qkv": "self_attn.q_proj",
    "mlp.gate_up": "mlp.up_proj", "mlp": "mlp.act_fn",
}  # fmt: skip
VLLM = {
    "attn_norm": "input_layernorm", "attn.o": "self_attn.o_proj", "attn": "self_attn.attn",
    "mlp_norm": "post_attention_layernorm", "mlp.down": "mlp.down_proj", "attn.qkv": "self_attn.qkv_proj",
    "mlp.gate_up": "mlp.gate_up_proj", "mlp": "mlp.act_fn",
}  # fmt: skip
CLASSES = {
    "attn_norm": "RMSNorm_0", "attn.o": "LlamaAttention_0.Linear_3", "attn": "LlamaAttention_0",
    "mlp_norm": "RMSNorm_1", "mlp.down": "LlamaMLP_0.Linear_6", "attn.qkv": "LlamaAttention_0.Linear_0",
    "mlp.gate_up": "LlamaMLP_0.Linear_4", "mlp": "LlamaMLP_0",
}  # fmt: skip


def rows(result: Comparison) -> dict[tuple[Any, ...], tuple[int, int, str]]:
    return {tuple(r["key"].values()): (r["a"], r["b"], r["status"]) for r in result.rows}


def exact(result: Comparison) -> None:
    for side in ("a", "b", "delta"):
        assert sum(r[side] for r in result.rows) + result.idle[side] == result.total[side]
    for side in ("a", "b"):
        only = sum(r[side] for r in result.rows if r["status"] == f"only_{side}")
        assert result.unaligned[side] == only


def test_a_row_of_a_module_that_both_runs_have_is_matched_though_one_side_has_nothing_there() -> None:
    got = compare(decoder(CUDA), decoder(TRITON))
    exact(got)
    found = rows(got)
    assert (got.by, got.aligned_by, got.aligned_share) == (BY, "module", 1.0)
    assert found["layers.0.attn.o", "gemm_reduce"] == (2, 0, "matched")
    assert found["layers.0.attn.qkv", "gemm_reduce"] == (0, 1, "matched")
    # CUDA fuses the residual add into the norm; `layers.0` is there as the parent of all its modules.
    assert found["layers.0", "elementwise"] == (0, 1, "matched")


def test_only_modules_that_one_run_lacks_are_its_own() -> None:
    extra = (*TRITON, ("adapter.lora_a", "gemm", 5))
    got = compare(decoder(CUDA), decoder(extra))
    exact(got)
    assert {k for k, r in rows(got).items() if r[2] == "only_b"} == {
        (f"layers.{i}.adapter.lora_a", "gemm") for i in range(3)
    }
    assert got.unaligned == {"a": 0, "b": 15}


def test_without_module_the_key_decides() -> None:
    got = compare(decoder(CUDA), decoder(TRITON), ["category"])
    exact(got)
    assert rows(got)["elementwise",] == (0, 3, "only_b")
    assert got.aligned_by == "category"
    assert compare(decoder(CUDA), decoder(TRITON), ["name"]).aligned_by == "key"


@pytest.mark.parametrize("names", [HUGGING_FACE, VLLM])
def test_frameworks_name_the_same_modules_differently(names: dict[str, str]) -> None:
    got = compare(decoder(CUDA), decoder(TRITON, names=names, root="model.layers"))
    exact(got)
    assert (got.aligned_by, got.aligned_share) == ("module name", 1.0)
    assert rows(got)["layers.2.mlp.down", "gemm"] == (30, 33, "matched")
    row = next(r for r in got.rows if r["key"] == {"module": "layers.2.mlp.down", "category": "gemm"})
    assert row["modules"] == {"a": ["layers.2.mlp.down"], "b": ["model.layers.2.mlp.down_proj"]}
    assert ("lm_head", "gemm") in rows(got)


def test_fused_projections_are_one_unit_with_the_separate_ones() -> None:
    separate = (
        ("attn.q_proj", "gemm", 12), ("attn.k_proj", "gemm", 6), ("attn.v_proj", "gemm", 6), *CUDA[2:],
    )  # fmt: skip
    got = compare(decoder(separate), decoder(CUDA[1:]))
    exact(got)
    assert rows(got)["layers.1.attn.qkv", "gemm"] == (24, 20, "matched")
    both = compare(decoder(separate), decoder(separate))
    assert rows(both)["layers.1.attn.k_proj", "gemm"] == (6, 6, "matched")
    assert both.aligned_by == "module"


def test_class_paths_meet_dotted_ones_by_the_block_of_the_layer() -> None:
    def named(layer: int) -> str:
        return f"LlamaForCausalLM_0.LlamaModel_0.LlamaDecoderLayer_{layer}"

    a = decoder(CUDA)
    b = decoder(TRITON, names=CLASSES)
    paths = [
        p if p is None or not p.startswith("layers.") else named(int(p.split(".")[1])) + "." * ("." in p[7:])
        + ".".join(p.split(".")[2:])
        for p in b.table["module"].to_pylist()
    ]  # fmt: skip
    at = b.table.schema.get_field_index("module")
    b = type(b)(b.table.set_column(at, "module", [paths]), b.meta)
    got = compare(a, b)
    exact(got)
    assert got.aligned_by == "block of the layer"
    assert rows(got)["layers.0.mlp", "gemm"] == (90, 103, "matched")


@pytest.mark.parametrize("knows", [(False, False), (True, False), (False, True)])
def test_layers_without_modules_are_paired_by_order(knows: tuple[bool, bool]) -> None:
    a, b = decoder(CUDA, modules=knows[0]), decoder(TRITON, modules=knows[1])
    assert compare(a, b).by == ("category",)
    got = compare(a, b, BY)
    exact(got)
    assert got.aligned_by == "order in the layer"
    assert got.aligned_share > 0.99
    down = "layers.1.mlp.down" if any(knows) else "layers.1.gemm#4"
    assert rows(got)[down, "gemm"] == (30, 33, "matched")
    # the reduction that CUDA's o needs stands beside the product that does without
    o = "layers.1.attn.o" if any(knows) else "layers.1.gemm#2"
    assert rows(got)[o, "gemm_reduce"] == (2, 0, "matched")


def test_nothing_known_leaves_the_category() -> None:
    a, b = decoder(CUDA), decoder(TRITON, modules=False, known_layers=False)
    got = compare(a, b, BY)
    exact(got)
    assert got.aligned_by == "category"
    assert rows(got)[None, "gemm"] == (376, 412, "matched")
    assert rows(compare(a, b, ["module"]))["gemm",] == (376, 412, "matched")


def test_modules_that_never_meet_are_compared_by_category() -> None:
    made = [run([{"start_ns": 0, "dur_ns": 5, "module": m}]) for m in ("conv1", "stem")]
    got = compare(*made)
    assert (got.by, got.aligned_by) == (BY, "category")
    assert rows(got)[None, "gemm"] == (5, 5, "matched")


def test_kernel_names_play_no_part() -> None:
    a = decoder(CUDA)
    at = a.table.schema.get_field_index("name")
    renamed = type(a)(a.table.set_column(at, "name", [[str(i) for i in range(a.table.num_rows)]]), a.meta)
    assert rows(compare(a, renamed)) == rows(compare(a, a))


MODULES = st.sampled_from([None, "layers.0.attn.qkv", "layers.0.attn.q", "model.layers.0.self_attn.o_proj",
                           "layers.0", "layers.1.mlp", "x", "lm_head"])  # fmt: skip
ROW = st.tuples(MODULES, st.sampled_from(["gemm", "gemm_reduce", "norm", None]), st.integers(0, 50),
                st.sampled_from([None, 0, 1]), st.integers(0, 60))  # fmt: skip


def made(rows: list[tuple[str | None, str | None, int, int | None, int]]) -> Run:
    return run([
        {"start_ns": at, "dur_ns": ns, "module": module, "category": category, "layer": layer}
        for module, category, ns, layer, at in [("x", "gemm", 1, None, 0), *rows]
    ])  # fmt: skip


@given(st.lists(ROW, max_size=8), st.lists(ROW, max_size=8), st.sampled_from([BY, ("module",), ("category",),
       ("layer", "module"), ("name",)]))  # fmt: skip
def test_any_two_runs_sum_exactly_and_each_row_has_a_side(
    a: list[Any], b: list[Any], by: tuple[str, ...]
) -> None:
    got = compare(made(a), made(b), by)
    exact(got)
    for row in got.rows:
        assert row["status"] != "only_a" or row["b"] == 0
        assert row["status"] != "only_b" or row["a"] == 0
    assert 0 <= got.aligned_share <= 1
    assert got.sentence
