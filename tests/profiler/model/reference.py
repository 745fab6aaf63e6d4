"""transformers' own model for each family that we run, at tiny size, with random weights."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import torch

from profiler.model.config import Config, RopeScaling, preset
from profiler.model.transformer import Transformer, build
from profiler.model.weights import load_huggingface
from profiler.ops import load

if TYPE_CHECKING:
    from types import ModuleType

transformers: ModuleType = pytest.importorskip("transformers")

TINY = preset("tiny")
# a short original context, so that the tiny head has frequencies on both sides of the blend and in it
SCALING = RopeScaling(factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position=64)
_GRANITE = preset("granite-8b")
FAMILIES = {
    "llama": replace(TINY, rope_scaling=SCALING),
    "granite": replace(
        TINY,
        rope_theta=_GRANITE.rope_theta,
        attention_bias=_GRANITE.attention_bias,
        mlp_bias=_GRANITE.mlp_bias,
        tied=_GRANITE.tied,
    ),
}


def rope(config: Config) -> dict[str, object]:
    plain: dict[str, object] = {"rope_type": "default", "rope_theta": config.rope_theta}
    if (s := config.rope_scaling) is None:
        return plain
    return plain | {
        "rope_type": "llama3",
        "factor": s.factor,
        "low_freq_factor": s.low_freq_factor,
        "high_freq_factor": s.high_freq_factor,
        "original_max_position_embeddings": s.original_max_position,
    }


def huggingface(config: Config, seed: int = 0, spread: float = 0.2) -> Any:
    """A LlamaForCausalLM; `spread` makes attention far from uniform; norms and biases are random too."""
    torch.manual_seed(seed)
    model = transformers.LlamaForCausalLM(
        transformers.LlamaConfig(
            hidden_size=config.dim,
            num_hidden_layers=config.layers,
            num_attention_heads=config.heads,
            num_key_value_heads=config.kv_heads,
            head_dim=config.head_dim,
            intermediate_size=config.intermediate,
            vocab_size=config.vocab,
            rms_norm_eps=config.norm_eps,
            max_position_embeddings=config.max_seq,
            rope_parameters=rope(config),
            initializer_range=spread,
            tie_word_embeddings=config.tied,
            attention_bias=config.attention_bias,
            mlp_bias=config.mlp_bias,
            bos_token_id=None,
            eos_token_id=None,
        )
    ).eval()
    for name, parameter in model.named_parameters():
        if name.endswith("bias") or "norm" in name:
            parameter.data.add_(torch.randn_like(parameter) * 0.1)
    return model


def ours(
    config: Config, reference: Any, variant: str = "cuda", dtype: torch.dtype = torch.float32
) -> Transformer:
    model = build(config, load(variant, "cpu"), device="cpu", dtype=dtype, seed=1)
    load_huggingface(model, reference.state_dict())
    return model
