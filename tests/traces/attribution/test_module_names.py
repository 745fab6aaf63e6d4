from __future__ import annotations

import pytest

from traces.attribution.module_names import Said, layer_of, read


@pytest.mark.parametrize(
    ("name", "kind", "path"),
    [
        ("## module layers.3.attn", "path", "layers.3.attn"),
        ("nn.Module: LlamaMLP_3", "class", "LlamaMLP_3"),
        # vLLM, SGLang, TensorRT-LLM, PytNVTX
        ("{'Module': 'model.layers.0.self_attn', 'Inputs': [[1, 8]]}", "path", "model.layers.0.self_attn"),
        ("{'Module': 'lm_head', 'TrainableParams': {}}", "path", "lm_head"),
        ("{'Module': \"'top'\", 'TrainableParams': {}}", "path", "top"),
        ("{'Module': 'Torch Compiled Module (input):LlamaModel', 'Inputs': []}", "path", "LlamaModel"),
        ("{'Module': 'top'}", "path", "top"),
        # record_function and NVTX by hand, in whatever domain
        ("model.layers.3.mlp", "open", "model.layers.3.mlp"),
        ("transformer.h.11", "open", "transformer.h.11"),
        ("encoder.layer.0.attention", "open", "encoder.layer.0.attention"),
        ("transformer_blocks.7.ff in=[[2, 64]]", "open", "transformer_blocks.7.ff"),
        ("model.layers[3].mlp", "open", "model.layers.3.mlp"),
        ("engine:model.layers.3.mlp", "open", "model.layers.3.mlp"),
        ("layer_3", "open", "layers.3"),
        ("Layer 12", "open", "layers.12"),
        ("layer_03_attention", "open", "layers.3.attention"),
        ("Layer[3].attn", "open", "layers.3.attn"),
        ("decoder layer 3", "open", "decoder_layers.3"),
        ("block#5", "open", "blocks.5"),
        ("engine:layer_3", "open", "layers.3"),
    ],
)
def test_names_that_say_modules(name: str, kind: str, path: str) -> None:
    assert read([name]) == [Said(kind, path)]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "name",
    [
        "decode_3", "prefill", "step 3", "decode.3", "kernelgap.decode#12", "ProfilerStep#5", "7", "",
        "layer", "layer_norm", "layernorm_32x128", "block 128x64", "block_size 128", "prefill_block_2",
        "nccl:all_reduce", "aten::layer_norm", "## Call CompiledFxGraph abc ##", "{'Modules': 'a'}",
        "execute_context_1(888_788544)_generation_0(0)", "layer_" + "3" * 5000, "a" * 50_000, "{" * 5000,
    ],
)  # fmt: skip
def test_names_that_do_not(name: str) -> None:
    assert read([name]) == [None]


def test_a_path_explains_the_names_above_and_beside_it() -> None:
    names = ["model", "model.layers.0.mlp", "model.norm", "lm_head", "attention", "decode_0", "decode"]
    kinds = [s.kind if s else None for s in read(names)]
    assert kinds == ["open", "open", "open", "open", "inner", "inner", "inner"]


def test_what_a_program_does_is_no_module_even_above_one() -> None:
    said = read(["decode", "decode.layers.0.mlp", "decode.sample"])
    assert [s.kind if s else None for s in said] == ["inner", "open", "inner"]


@pytest.mark.parametrize(
    ("path", "layer"),
    [
        ("model.layers.17.mlp", 17), ("layers.0", 0), ("transformer.h.5.attn", 5), ("encoder.layer.2.x", 2),
        ("decoder.block.3.layer.1", 3), ("gpt_neox.layers.9", 9), ("single_transformer_blocks.1.x", 1),
        ("lm_head", None), ("experts.3", None), ("layers.3x", None), ("layers.99999", None), ("", None),
        ("layers." + "9" * 400, None), (None, None),
    ],
)  # fmt: skip
def test_layers_in_paths(path: str | None, layer: int | None) -> None:
    assert layer_of(path) == layer
