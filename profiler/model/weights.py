"""Weights under the names of Hugging Face's LlamaForCausalLM: which of theirs makes which of ours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import torch

from traces.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from torch import Tensor

    from profiler.model.config import Config
    from profiler.model.transformer import Transformer

HARMLESS: Final = "rotary_emb.inv_freq"  # a table that older checkpoints store; it follows from the config
HEAD: Final = "lm_head.weight"
_SHOWN: Final = 3


@dataclass(frozen=True)
class Part:
    """One of their tensors, of `shape`: it is our parameter `ours` from row `first` on."""

    theirs: str
    ours: str
    first: int
    shape: tuple[int, ...]


def parts(config: Config) -> list[Part]:
    """Every tensor of a checkpoint of `config`; with tied embeddings there is no lm_head."""
    table = (config.vocab, config.dim)
    found = [Part("model.embed_tokens.weight", "embed.weight", 0, table)]
    for layer in range(config.layers):
        found += _layer(config, f"model.layers.{layer}.", f"layers.{layer}.")
    found.append(Part("model.norm.weight", "norm.weight", 0, (config.dim,)))
    return found if config.tied else [*found, Part(HEAD, HEAD, 0, table)]


def _layer(c: Config, theirs: str, ours: str) -> Iterator[Part]:
    queries, keys = c.heads * c.head_dim, c.kv_heads * c.head_dim
    qkv = (("q_proj", queries), ("k_proj", keys), ("v_proj", keys))
    attention, mlp = f"{theirs}self_attn.", f"{theirs}mlp."
    gate_up = (("gate_proj", c.intermediate), ("up_proj", c.intermediate))
    yield Part(f"{theirs}input_layernorm.weight", f"{ours}attn_norm.weight", 0, (c.dim,))
    yield from _stack(attention, qkv, f"{ours}attn.qkv", c.dim, bias=c.attention_bias)
    yield from _stack(attention, (("o_proj", c.dim),), f"{ours}attn.o", queries, bias=c.attention_bias)
    yield Part(f"{theirs}post_attention_layernorm.weight", f"{ours}mlp_norm.weight", 0, (c.dim,))
    yield from _stack(mlp, gate_up, f"{ours}mlp.gate_up", c.dim, bias=c.mlp_bias)
    yield from _stack(mlp, (("down_proj", c.dim),), f"{ours}mlp.down", c.intermediate, bias=c.mlp_bias)


def _stack(
    theirs: str, projections: Iterable[tuple[str, int]], ours: str, inner: int, *, bias: bool
) -> Iterator[Part]:
    """Projections (name, output rows) that lie below each other in one weight of ours, and its bias."""
    first = 0
    for name, rows in projections:
        yield Part(f"{theirs}{name}.weight", f"{ours}.weight", first, (rows, inner))
        if bias:
            yield Part(f"{theirs}{name}.bias", f"{ours}.bias", first, (rows,))
        first += rows


def check(config: Config, shapes: Mapping[str, Sequence[int]], where: str) -> int:
    """Refuse tensors, given by name and shape, that are not exactly what `config` needs.

    Returns how many were ignored as harmless. Raises InputError naming what is missing, unexpected or wrongly
    shaped in `where`.
    """
    wanted = {part.theirs: part.shape for part in parts(config)}
    harmless = [n for n in shapes if n not in wanted and _ignored(config, n)]
    faults = {
        "missing": [name for name in wanted if name not in shapes],
        "unexpected": [n for n in shapes if n not in wanted and n not in harmless],
        "wrong shape": [
            f"{name} {list(shapes[name])}, not {list(shape)}"
            for name, shape in wanted.items()
            if name in shapes and tuple(shapes[name]) != shape
        ],
    }
    if any(faults.values()):
        told = "; ".join(f"{fault}: {_some(names)}" for fault, names in faults.items() if names)
        raise InputError(f"{where}: the weights do not fit {config.name}: {told}")
    return len(harmless)


@torch.no_grad()
def copy(model: Transformer, read: Callable[[str], Tensor], where: str) -> None:
    """Fill `model` with the tensors that `read` gives by their names, in its own dtype and on its device.

    Raises InputError for a tensor that holds NaN or infinity, or values beyond the model's dtype.
    """
    parameters = dict(model.named_parameters())
    for part in parts(model.config):
        tensor = read(part.theirs)
        target = parameters[part.ours][part.first : part.first + part.shape[0]]
        target.copy_(tensor)
        if not target.isfinite().all():
            raise InputError(f"{where}: {part.theirs} {_not_finite(tensor, target.dtype)}")


def load_huggingface(model: Transformer, state: Mapping[str, Tensor], where: str = "state dict") -> int:
    """Copy a LlamaForCausalLM state dict into `model`; returns how many of its tensors were ignored.

    A state dict with tied embeddings names the table twice, once as lm_head.

    Raises InputError for weights that do not fit, see `check` and `copy`.
    """
    ignored = check(model.config, {name: tensor.shape for name, tensor in state.items()}, where)
    check_tied(model.config, state.get, where)
    copy(model, state.__getitem__, where)
    return ignored


def check_tied(config: Config, read: Callable[[str], Tensor | None], where: str) -> None:
    """Raise InputError if a model with tied embeddings comes with an lm_head of its own."""
    head = read(HEAD) if config.tied else None
    table = read("model.embed_tokens.weight")
    if head is not None and table is not None and not torch.equal(head, table):
        raise InputError(f"{where}: {config.name} ties lm_head to the embeddings, but {HEAD} differs")


def _ignored(config: Config, name: str) -> bool:
    return name.endswith(HARMLESS) or (config.tied and name == HEAD)


def _not_finite(tensor: Tensor, dtype: torch.dtype) -> str:
    if tensor.isfinite().all():
        largest = tensor.abs().max().item()
        return f"holds {largest:.3g}, beyond {str(dtype).removeprefix('torch.')}: use --dtype bfloat16"
    return "holds NaN or infinity: the checkpoint is damaged"


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
