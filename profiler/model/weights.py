"""Weights from a Hugging Face Llama state dict."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import torch

from traces.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor

    from profiler.model.transformer import Transformer

# ours -> theirs, stacked along the output rows in this order
_LAYER: Final[dict[str, tuple[str, ...]]] = {
    "attn_norm": ("input_layernorm",),
    "attn.qkv": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    "attn.o": ("self_attn.o_proj",),
    "mlp_norm": ("post_attention_layernorm",),
    "mlp.gate_up": ("mlp.gate_proj", "mlp.up_proj"),
    "mlp.down": ("mlp.down_proj",),
}
_ROOT: Final[dict[str, tuple[str, ...]]] = {
    "embed": ("model.embed_tokens",),
    "norm": ("model.norm",),
    "lm_head": ("lm_head",),
}


def from_huggingface(state: Mapping[str, Tensor], layers: int) -> dict[str, Tensor]:
    """Our state dict from LlamaForCausalLM's; tied embeddings serve as lm_head too.

    Raises InputError naming the first weight that is missing.
    """
    names: dict[str, tuple[str, ...]] = dict(_ROOT)
    for i in range(layers):
        names |= {
            f"layers.{i}.{ours}": tuple(f"model.layers.{i}.{part}" for part in theirs)
            for ours, theirs in _LAYER.items()
        }
    if "lm_head.weight" not in state:
        names["lm_head"] = _ROOT["embed"]
    return {
        f"{ours}.weight": torch.cat([_take(state, f"{part}.weight") for part in theirs])
        for ours, theirs in names.items()
    }


def load_huggingface(model: Transformer, state: Mapping[str, Tensor]) -> None:
    """Copy a Llama state dict into `model`; InputError if a weight is missing or has another shape."""
    try:
        model.load_state_dict(from_huggingface(state, model.config.layers), strict=True)
    except RuntimeError as error:
        reason = " ".join(str(error).split())
        raise InputError(f"the weights do not fit {model.config.name}: {reason}") from error


def _take(state: Mapping[str, Tensor], name: str) -> Tensor:
    if name not in state:
        raise InputError(f"the state dict has no weight {name!r}: is it a Llama model?")
    return state[name]
