"""Module names of different frameworks mean the same units."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from traces.analysis.units import block_of, over_layers, units_of, within


@pytest.mark.parametrize(
    ("unit", "spellings"),
    [
        ("layers.3.attn.qkv",
         "layers.3.attn.qkv model.layers.3.self_attn.qkv_proj model.layers.3.self_attn.k_proj "
         "transformer.h.3.attn.c_attn layers.3.attention.wv gpt_neox.layers.3.attention.query_key_value "
         "decoder.layers.3.self_attention.linear_qkv bert.encoder.layer.3.attention.self.query "
         "_orig_mod.model.layers.3.self_attn.q_proj module.layers.3.attn.q"),
        ("layers.3.attn.o",
         "layers.3.attn.o model.layers.3.self_attn.o_proj transformer.h.3.attn.c_proj layers.3.attention.wo "
         "gpt_neox.layers.3.attention.dense bert.encoder.layer.3.attention.output.dense"),
        ("layers.3.attn", "layers.3.attn model.layers.3.self_attn model.layers.3.self_attn.attn "
         "model.layers.3.self_attn.rotary_emb"),
        ("layers.3.mlp.gate_up", "layers.3.mlp.gate_up model.layers.3.mlp.up_proj layers.3.feed_forward.w3 "
         "transformer.h.3.mlp.c_fc bert.encoder.layer.3.intermediate.dense"),
        ("layers.3.mlp.down", "model.layers.3.mlp.down_proj layers.3.feed_forward.w2 "
         "transformer.h.3.mlp.c_proj "
         "bert.encoder.layer.3.output.dense"),
        ("layers.3.mlp", "model.layers.3.mlp model.layers.3.mlp.act_fn"),
        ("layers.3.attn_norm", "model.layers.3.input_layernorm transformer.h.3.ln_1"),
        ("layers.3.mlp_norm", "model.layers.3.post_attention_layernorm layers.3.ffn_norm"),
        ("layers.3", "layers.3 model.layers.3 transformer.h.3 model.layers.03"),
        ("embed", "model.embed_tokens embed transformer.wte"),
        ("norm", "model.norm norm transformer.ln_f model.decoder.final_layer_norm"),
        ("lm_head", "lm_head output"),
        ("model", "model model.model"),
        ("layers.3.mlp.experts.5.w1", "model.layers.3.mlp.experts.5.w1"),
        ("conv.stem", "conv.stem"),
        ("layers.3.attn.qkv", "Llama_0.LlamaDecoderLayer_3.LlamaAttention_3.QKVParallelLinear_3"),
        ("layers.3.attn", "Gpt_0.TransformerBlock_3.OAIAttention_3 "
         "Gpt_0.TransformerBlock_3.OAIAttention_3.Attention_3"),
        ("layers.3.mlp.Linear", "Gpt_0.TransformerBlock_3.MLPBlock_3.Linear_7"),
        ("layers.3.RMSNorm", "Gpt_0.TransformerBlock_3.RMSNorm_6"),
        ("embed", "GptOssForCausalLM_0.VocabParallelEmbedding_0"),
    ],
)  # fmt: skip
def test_spellings_of_one_unit(unit: str, spellings: str) -> None:
    for path in spellings.split():
        assert units_of([path])[path] == unit


def test_towers_stay_apart() -> None:
    paths = ["vision.encoder.layers.0.mlp.fc1", "language_model.layers.0.mlp.fc1", "lm_head"]
    assert list(units_of(paths).values()) == [
        "vision.encoder.layers.0.mlp.gate_up", "language_model.layers.0.mlp.gate_up", "lm_head",
    ]  # fmt: skip


@given(st.lists(st.text("abq.0123_ph|", min_size=1, max_size=24), max_size=6))
def test_a_unit_is_its_own_unit_and_never_empty(paths: list[str]) -> None:
    units = units_of(paths)
    assert all(units.values())


@pytest.mark.parametrize(
    "path", ["model.layers.3.self_attn.o_proj", "transformer.wte", "h.0.attn.attn", "a.b.c"]
)
def test_units_are_canonical(path: str) -> None:
    unit = units_of([path])[path]
    assert units_of([unit]) == {unit: unit}


def test_blocks_and_folded_layers() -> None:
    assert block_of("layers.3.attn.qkv") == "layers.3.attn"
    assert block_of("layers.3") == "layers.3"
    assert block_of("text.layers.12.mlp.experts.5.w1") == "text.layers.12.mlp"
    assert block_of("lm_head") == "lm_head"
    assert over_layers("layers.7.mlp.experts.5.w1") == "layers.*.mlp.experts.*.w1"
    assert over_layers("resnet50.conv1") == "resnet50.conv1"
    assert over_layers("Llama_0.LlamaDecoderLayer_3.RMSNorm_7") == "Llama_*.LlamaDecoderLayer_*.RMSNorm_*"


@pytest.mark.parametrize(
    ("path", "inside"),
    [
        ("layers.3.mlp.down", "mlp.down"), ("model.layers.3.self_attn.q_proj", "self_attn.q_proj"),
        ("layers.3", ""), ("lm_head", "lm_head"), ("LlamaDecoderLayer_3.LlamaMLP_3", "LlamaMLP"),
        ("vision.layers.3.attn", "vision.layers.*.attn"),
    ],
)  # fmt: skip
def test_the_part_of_a_path_below_its_layer(path: str, inside: str) -> None:
    assert within(path) == inside
