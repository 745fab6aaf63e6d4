"""config.json against the presets, without torch or transformers."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from profiler.model.config import preset
from profiler.model.huggingface import choose, fit, mismatches, read
from traces.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

# the published files, without the keys that say nothing about the computation
LLAMA_3_1_8B: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "attention_bias": False,
    "hidden_act": "silu",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "max_position_embeddings": 131072,
    "mlp_bias": False,
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "num_key_value_heads": 8,
    "pretraining_tp": 1,
    "rms_norm_eps": 1e-05,
    "rope_scaling": {
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
        "rope_type": "llama3",
    },
    "rope_theta": 500000.0,
    "tie_word_embeddings": False,
    "vocab_size": 128256,
}
GRANITE_8B_CODE: dict[str, Any] = LLAMA_3_1_8B | {
    "attention_bias": True,
    "mlp_bias": True,
    "max_position_embeddings": 4096,
    "num_hidden_layers": 36,
    "rope_scaling": None,
    "rope_theta": 10000,
    "tie_word_embeddings": True,
    "vocab_size": 49152,
}


def folder(path: Path, content: dict[str, Any] | bytes) -> Path:
    data = content if isinstance(content, bytes) else json.dumps(content).encode()
    (path / "config.json").write_bytes(data)
    return path


@pytest.mark.parametrize(
    ("content", "name"),
    [(LLAMA_3_1_8B, "llama3-8b"), (GRANITE_8B_CODE, "granite-8b")],
    ids=["llama", "granite"],
)
def test_published_configs_are_the_presets(tmp_path: Path, content: dict[str, Any], name: str) -> None:
    assert fit(folder(tmp_path, content), preset(name)) == preset(name)
    assert choose(tmp_path) == preset(name)


def test_rope_as_transformers_5_writes_it(tmp_path: Path) -> None:
    new = dict(LLAMA_3_1_8B)
    new["rope_parameters"] = {**new.pop("rope_scaling"), "rope_theta": new.pop("rope_theta")}
    assert choose(folder(tmp_path, new)) == preset("llama3-8b")


def test_absent_keys_have_the_defaults_of_transformers(tmp_path: Path) -> None:
    found = read(folder(tmp_path, {"model_type": "llama", "num_attention_heads": 16}))
    assert (found.dim, found.layers, found.vocab, found.intermediate) == (4096, 32, 32000, 11008)
    assert (found.kv_heads, found.head_dim, found.rope_theta, found.norm_eps) == (16, 256, 10_000.0, 1e-6)


def test_every_mismatch_is_named(tmp_path: Path) -> None:
    folder(tmp_path, GRANITE_8B_CODE | {"rope_theta": 1e7, "vocab_size": 49159, "num_key_value_heads": 4})
    with pytest.raises(InputError) as caught:
        fit(tmp_path, preset("granite-8b"))
    assert str(caught.value).endswith(
        "does not fit granite-8b: num_key_value_heads 4, not 8; vocab_size 49159, not 49152; "
        "rope_theta 1e+07, not 10000"
    )


def test_another_family_is_a_list_of_mismatches(tmp_path: Path) -> None:
    found = mismatches(read(folder(tmp_path, LLAMA_3_1_8B)), preset("granite-8b"))
    assert [m.key for m in found] == [
        "num_hidden_layers", "vocab_size", "rope_theta", "rope_scaling", "attention_bias", "mlp_bias",
        "tie_word_embeddings",
    ]  # fmt: skip
    assert str(found[3]) == "rope_scaling llama3 (factor 8, low 1, high 4, original 8192), not none"
    assert str(found[4]) == "attention_bias false, not true"


def test_the_nearest_preset_is_named_where_none_fits(tmp_path: Path) -> None:
    folder(tmp_path, LLAMA_3_1_8B | {"rope_scaling": None})  # Llama 3, before 3.1
    with pytest.raises(
        InputError, match=r"fits none of .*the nearest, llama3-8b, differs: rope_scaling none"
    ):
        choose(tmp_path)


def test_a_shorter_context_shortens_the_preset(tmp_path: Path) -> None:
    assert choose(folder(tmp_path, LLAMA_3_1_8B | {"max_position_embeddings": 8192})).max_seq == 8192
    assert choose(folder(tmp_path, GRANITE_8B_CODE | {"max_position_embeddings": 9999})).max_seq == 4096


def test_rope_scaling_wins_over_rope_parameters_as_in_transformers(tmp_path: Path) -> None:
    both = LLAMA_3_1_8B | {"rope_parameters": {"rope_type": "default", "rope_theta": 1.0}}
    assert read(folder(tmp_path, both)) == read(folder(tmp_path, LLAMA_3_1_8B))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"architectures": ["GraniteForCausalLM"]},
            "GraniteForCausalLM .it scales embeddings, attention",
        ),
        ({"architectures": ["Qwen3ForCausalLM"]}, "architecture is Qwen3ForCausalLM; only LlamaForCausalLM"),
        ({"architectures": None, "model_type": "mistral"}, "architecture is mistral"),
        ({"architectures": None, "model_type": None}, "architecture is nothing"),
        ({"hidden_act": "gelu"}, "hidden_act is 'gelu'"),
        ({"quantization_config": {"quant_method": "fp8"}}, "weights are quantised .fp8"),
        ({"rope_scaling": {"type": "yarn", "factor": 2.0}}, "RoPE is 'yarn'; only 'default' and 'llama3'"),
        ({"rope_scaling": {"rope_type": "llama3"}}, "lacks one of its four numbers"),
        ({"rope_parameters": {"partial_rotary_factor": 0.5}}, "RoPE is partial"),
        (
            {"hidden_size": "wide"},
            r"not a valid model config: Expected `int`, got `str`",
        ),
    ],
)
def test_what_would_compute_other_numbers_is_refused(
    tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        read(folder(tmp_path, LLAMA_3_1_8B | change))


@pytest.mark.parametrize("data", [b"", b"[]", b"{", b"\xff\xfe", b"null"])
def test_a_damaged_config_is_refused(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(InputError, match=r"config\.json: not a valid model config"):
        read(folder(tmp_path, data))


def test_places_without_a_checkpoint_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such folder"):
        read(tmp_path / "absent")
    with pytest.raises(InputError, match=r"no config\.json"):
        read(tmp_path)
    with pytest.raises(InputError, match="is a file; name the folder"):
        read(folder(tmp_path, LLAMA_3_1_8B) / "config.json")
    (tmp_path / "config.json").unlink()
    (tmp_path / "config.json").mkdir()
    with pytest.raises(InputError, match="cannot read"):
        read(tmp_path)


def test_reading_a_config_imports_no_torch() -> None:
    code = "import sys, profiler.model.huggingface; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
