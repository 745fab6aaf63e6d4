"""What the config.json of a Hugging Face checkpoint says about the model, held against a preset. No torch."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import msgspec

from profiler.model.config import PRESETS, Config, RopeScaling
from traces.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

CONFIG_FILE: Final = "config.json"
ARCHITECTURE: Final = "LlamaForCausalLM"  # Llama, and Granite-8B-Code, which is a Llama with biases
_MULTIPLIERS: Final = {
    "GraniteForCausalLM": "scales embeddings, attention, residuals and logits by multipliers of its own"
}

# our field -> the key of config.json; in the order in which mismatches are told
_KEYS: Final = {
    "layers": "num_hidden_layers",
    "dim": "hidden_size",
    "heads": "num_attention_heads",
    "kv_heads": "num_key_value_heads",
    "head_dim": "head_dim",
    "intermediate": "intermediate_size",
    "vocab": "vocab_size",
    "norm_eps": "rms_norm_eps",
    "rope_theta": "rope_theta",
    "rope_scaling": "rope_scaling",
    "attention_bias": "attention_bias",
    "mlp_bias": "mlp_bias",
    "tied": "tie_word_embeddings",
}


class _Rope(msgspec.Struct):
    """`rope_scaling`, or since transformers 5 `rope_parameters`, which holds theta too."""

    rope_type: str | None = None
    type: str | None = None  # the name of `rope_type` before transformers 4.43
    rope_theta: float | None = None
    factor: float | None = None
    low_freq_factor: float | None = None
    high_freq_factor: float | None = None
    original_max_position_embeddings: int | None = None
    partial_rotary_factor: float | None = None


class _Json(msgspec.Struct):
    """The keys that decide what is computed, with LlamaConfig's defaults (transformers 5)."""

    architectures: list[str] | None = None
    model_type: str | None = None
    hidden_size: int = 4096
    num_hidden_layers: int = 32
    num_attention_heads: int = 32
    num_key_value_heads: int | None = None
    head_dim: int | None = None
    intermediate_size: int = 11008
    vocab_size: int = 32000
    max_position_embeddings: int = 2048
    rms_norm_eps: float = 1e-6
    rope_theta: float | None = None
    rope_scaling: _Rope | None = None
    rope_parameters: _Rope | None = None
    attention_bias: bool = False
    mlp_bias: bool = False
    tie_word_embeddings: bool = False
    hidden_act: str = "silu"
    quantization_config: dict[str, Any] | None = None


@dataclass(frozen=True)
class Mismatch:
    """One value in which a checkpoint differs from a preset."""

    key: str
    found: object
    wanted: object

    def __str__(self) -> str:
        """For example `vocab_size 32000, not 49152`."""
        return f"{self.key} {_told(self.found)}, not {_told(self.wanted)}"


def read(folder: Path) -> Config:
    """The model that `folder`/config.json describes, named after the folder.

    Raises InputError if there is no such file, it is no valid config, or its model is not computed here.
    """
    path = folder / CONFIG_FILE
    if not folder.is_dir():
        what = "is a file; name the folder" if folder.exists() else "no such folder; name one"
        raise InputError(f"{folder}: {what} of a Hugging Face checkpoint (config.json and *.safetensors)")
    try:
        raw = msgspec.json.decode(path.read_bytes(), type=_Json)
    except FileNotFoundError as error:
        raise InputError(f"{folder}: no {CONFIG_FILE}, so this is no Hugging Face checkpoint") from error
    except OSError as error:
        raise InputError(f"{path}: cannot read ({error.strerror or error})") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:  # a ValidationError is a DecodeError
        raise InputError(f"{path}: not a valid model config: {error}") from error
    _check_computed(raw, path)
    return _config(raw, folder.resolve().name, path)


def mismatches(found: Config, wanted: Config) -> list[Mismatch]:
    """Where two models differ in shape or in what they compute; names and longest context aside."""
    pairs = ((key, getattr(found, field), getattr(wanted, field)) for field, key in _KEYS.items())
    return [Mismatch(key, a, b) for key, a, b in pairs if not _same(a, b)]


def fit(folder: Path, preset: Config) -> Config:
    """`preset`, with no more positions than the checkpoint in `folder` has.

    Raises InputError naming every value in which the checkpoint differs.
    """
    found = read(folder)
    if wrong := mismatches(found, preset):
        raise InputError(f"{folder / CONFIG_FILE} does not fit {preset.name}: {'; '.join(map(str, wrong))}")
    return replace(preset, max_seq=min(preset.max_seq, found.max_seq))


def choose(folder: Path) -> Config:
    """The preset that the checkpoint in `folder` fits.

    Raises InputError telling in what the nearest preset differs.
    """
    found = read(folder)
    nearest = min(PRESETS.values(), key=lambda preset: len(mismatches(found, preset)))
    if wrong := mismatches(found, nearest):
        raise InputError(
            f"{folder / CONFIG_FILE} fits none of {', '.join(PRESETS)}; "
            f"the nearest, {nearest.name}, differs: {'; '.join(map(str, wrong))}"
        )
    return replace(nearest, max_seq=min(nearest.max_seq, found.max_seq))


def _check_computed(raw: _Json, path: Path) -> None:
    """Refuse everything that would make our numbers differ from the checkpoint's own."""
    names = raw.architectures or ([ARCHITECTURE] if raw.model_type == "llama" else [])
    if names != [ARCHITECTURE]:
        named = ", ".join(names) or raw.model_type or "nothing"
        why = f" (it {_MULTIPLIERS[named]})" if named in _MULTIPLIERS else ""
        raise InputError(f"{path}: the architecture is {named}{why}; only {ARCHITECTURE} is computed here")
    if raw.hidden_act != "silu":
        raise InputError(f"{path}: hidden_act is {raw.hidden_act!r}; only 'silu' is computed here")
    if raw.quantization_config is not None:
        method = raw.quantization_config.get("quant_method", "of an unnamed method")
        raise InputError(f"{path}: the weights are quantised ({method}); use a 16-bit or 32-bit checkpoint")


def _config(raw: _Json, name: str, path: Path) -> Config:
    said = [r for r in (raw.rope_scaling, raw.rope_parameters) if r]  # of both, transformers takes the first
    scaling = [_scaling(r, path) for r in said]
    rope = said[0] if said else _Rope()
    theta = rope.rope_theta or raw.rope_theta or 10_000.0
    heads = raw.num_attention_heads
    return Config(
        name=name,
        layers=raw.num_hidden_layers,
        dim=raw.hidden_size,
        heads=heads,
        kv_heads=raw.num_key_value_heads or heads,
        head_dim=raw.head_dim or raw.hidden_size // max(heads, 1),
        intermediate=raw.intermediate_size,
        vocab=raw.vocab_size,
        max_seq=raw.max_position_embeddings,
        norm_eps=raw.rms_norm_eps,
        rope_theta=theta,
        rope_scaling=scaling[0] if scaling else None,
        attention_bias=raw.attention_bias,
        mlp_bias=raw.mlp_bias,
        tied=raw.tie_word_embeddings,
    )


def _scaling(rope: _Rope, path: Path) -> RopeScaling | None:
    kind = rope.rope_type or rope.type or "default"
    partial = rope.partial_rotary_factor not in (None, 1.0)
    if partial or kind not in ("default", "llama3"):
        what = "partial" if partial else repr(kind)
        raise InputError(f"{path}: RoPE is {what}; only 'default' and 'llama3' are computed here")
    if kind == "default":
        return None
    factor, low, high = rope.factor, rope.low_freq_factor, rope.high_freq_factor
    original = rope.original_max_position_embeddings
    if factor is None or low is None or high is None or original is None:
        raise InputError(f"{path}: RoPE is 'llama3' but lacks one of its four numbers")
    return RopeScaling(factor, low, high, original)


def _same(a: object, b: object) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        return math.isclose(a, b, rel_tol=1e-9)
    return a == b


def _told(value: object) -> str:
    if isinstance(value, RopeScaling):
        return (
            f"llama3 (factor {value.factor:g}, low {value.low_freq_factor:g}, "
            f"high {value.high_freq_factor:g}, original {value.original_max_position})"
        )
    if value is None or isinstance(value, bool):
        return {None: "none", True: "true", False: "false"}[value]
    return f"{value:g}" if isinstance(value, float) else str(value)
