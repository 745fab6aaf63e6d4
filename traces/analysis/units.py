"""Names that mean the same module: `model.layers.3.self_attn.o_proj` is `layers.3.attn.o`.

Frameworks name the parts of a transformer differently and fuse its projections differently, so two runs are
compared by *unit*: the path without its root, synonyms replaced by one word, and projections that some
builds fuse (q, k, v; gate, up) counted as one. What the table does not know keeps its own name.

Names are those of the public module trees of Hugging Face transformers (Llama, GPT-2, GPT-NeoX, Falcon,
BERT), vLLM, Meta's llama, Megatron-Core and this repository's own model.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

BLOCKS: Final = {
    "attn": "attn attention self_attn self_attention",
    "mlp": "mlp feed_forward feedforward ffn",
}
# Inside a block; "" is the block itself: its parts without weights, which builds fuse as they like.
INSIDE: Final = {
    "attn": {
        "qkv": "qkv qkv_proj q k v q_proj k_proj v_proj wq wk wv query key value query_key_value c_attn "
        "linear_qkv QKVParallelLinear Wqkv W_pack to_q to_k to_v self.query self.key self.value",
        "o": "o o_proj out_proj wo c_proj dense linear_proj to_out output.dense RowParallelLinear",
        "": "attn rotary_emb rotary core_attention Attention",
    },
    "mlp": {
        "gate_up": "gate_up gate_up_proj gate up gate_proj up_proj w1 w3 w13 c_fc fc1 linear_fc1 "
        "dense_h_to_4h MergedColumnParallelLinear",
        "down": "down down_proj w2 c_proj fc2 linear_fc2 dense_4h_to_h RowParallelLinear",
        "": "act act_fn activation_fn SiluAndMul",
    },
}  # fmt: skip
LAYER: Final = {
    "attn_norm": "attn_norm attention_norm input_layernorm input_norm ln_1 norm1",
    "mlp_norm": "mlp_norm ffn_norm post_attention_layernorm pre_mlp_layernorm ln_2 norm2",
    "mlp.gate_up": "intermediate.dense",
    "mlp.down": "output.dense",
}
OUTSIDE: Final = {
    "embed": "embed embed_tokens tok_embeddings wte word_embeddings embedding "
    "embedding.word_embeddings embed_in VocabParallelEmbedding",
    "norm": "norm final_layernorm final_layer_norm final_norm ln_f",
    "lm_head": "lm_head output output_layer embed_out ParallelLMHead",
    "sample": "sample sampler",
}  # fmt: skip
_WRAPPERS: Final = frozenset({"_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module", "module"})
_ROOTS: Final = frozenset({"model", "transformer", "decoder", "backbone", "gpt_neox", "language_model"})
_CONTAINER: Final = re.compile(r"\w*(?:layers?|blocks?)|h")
# Kineto's modules are a class and its instance number: `LlamaDecoderLayer_3.LlamaAttention_3`.
_CLASS: Final = re.compile(r"([A-Z]\w*)_\d+", re.ASCII)
_CLASS_LAYER: Final = re.compile(r"[A-Z]\w*(?:Layer|Block)_(\d+)", re.ASCII)
_CLASS_BLOCKS: Final = (
    ("attn", re.compile("attention|attn", re.IGNORECASE)),
    ("mlp", re.compile("mlp|feed_?forward|moe", re.IGNORECASE)),
)

_LAYER_NUMBER: Final = re.compile(r"(?<![^.])layers\.\d+(?![^.])")


def units_of(paths: Iterable[str]) -> dict[str, str]:
    """The unit of each module path of one run.

    The root before the layers goes only if all layers hang below the same one: a model with a text and a
    vision tower keeps them apart.
    """
    split = {path: _split(path) for path in paths}
    one_root = len({root for root, layer, _ in split.values() if layer is not None}) <= 1
    return {path: _unit(*parts, keep_root=not one_root) for path, parts in split.items()}


def block_of(unit: str) -> str:
    """The unit's part of its layer (`layers.3.attn.o` -> `layers.3.attn`); elsewhere the unit itself."""
    found = _LAYER_NUMBER.search(unit)
    if found is None:
        return unit
    first = unit[found.end() :].split(".")[1:2]
    return unit[: found.end()] + "".join(f".{part}" for part in first)


def within(module: str) -> str:
    """The part of a module's path below its layer, "" for the layer: `layers.3.mlp.down` is `mlp.down`.

    A path in which no layer is found stays whole, and so do those below a root of their own, which may be one
    of several towers, but for their numbers.
    """
    root, layer, rest = _split(module)
    if layer is None:
        return module
    if any(part not in _ROOTS and not _CLASS.fullmatch(part) for part in root):
        return over_layers(module)
    return ".".join(_CLASS.sub(r"\1", part) for part in rest)


def over_layers(module: str) -> str:
    """The path with every number a star: `layers.7.mlp` is `layers.*.mlp`, `LlamaMLP_7` is `LlamaMLP_*`."""
    return _NUMBER.sub(lambda m: f"{m['cls'] or ''}*", module)


_NUMBER: Final = re.compile(r"(?<=\.)\d+(?=\.|$)|(?:(?<=\.)|^)(?P<cls>[A-Z]\w*_)\d+(?=\.|$)", re.ASCII)


def _split(path: str) -> tuple[tuple[str, ...], str | None, tuple[str, ...]]:
    """(root, layer number or None, rest) of a path without wrappers."""
    parts = tuple(p for p in path.split(".") if p not in _WRAPPERS) or (path,)
    for i in range(len(parts) - 1):
        if _CONTAINER.fullmatch(parts[i]) and parts[i + 1].isdecimal():
            return parts[:i], str(int(parts[i + 1])), parts[i + 2 :]
    for i, part in enumerate(parts):
        if found := _CLASS_LAYER.fullmatch(part):
            return parts[:i], str(int(found[1])), parts[i + 1 :]
    last = len(parts) - 1
    first = next((i for i, p in enumerate(parts) if p not in _ROOTS and not _CLASS.fullmatch(p)), last)
    return (), None, parts[first:]


def _unit(root: tuple[str, ...], layer: str | None, rest: tuple[str, ...], *, keep_root: bool) -> str:
    words = [_CLASS.sub(r"\1", part) for part in rest]
    if layer is None:
        return _OUTSIDE.get(".".join(words), ".".join(words))
    if rest and _CLASS.fullmatch(rest[0]):
        words[0] = next((name for name, pattern in _CLASS_BLOCKS if pattern.search(words[0])), words[0])
    head = [*(root if keep_root else ()), "layers", layer]
    return ".".join([*head, *_within(".".join(words))]).rstrip(".")


def _within(rest: str) -> list[str]:
    """The canonical path inside a layer."""
    if rest in _LAYER:
        return [_LAYER[rest]]
    first, _, tail = rest.partition(".")
    block = _BLOCKS.get(first)
    if block is None or not tail:
        return [block or rest] if rest else []
    name = _INSIDE[block].get(tail, tail)
    return [block, name] if name else [block]


def _inverted(table: dict[str, str]) -> dict[str, str]:
    return {synonym: name for name, synonyms in table.items() for synonym in synonyms.split()}


_BLOCKS: Final = _inverted(BLOCKS)
_INSIDE: Final = {block: _inverted(names) for block, names in INSIDE.items()}
_LAYER: Final = _inverted(LAYER)
_OUTSIDE: Final = _inverted(OUTSIDE)
