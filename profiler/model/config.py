"""Model shapes by name, and the workload that each is measured with. Imports no torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from traces.errors import UsageError


@dataclass(frozen=True)
class RopeScaling:
    """Llama 3.1's stretch of the low RoPE frequencies, Llama 3 paper (arXiv 2407.21783) section 3.4.1."""

    factor: float = 8.0
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0
    original_max_position: int = 8192


@dataclass(frozen=True)
class Config:
    """The shape of one decoder; sizes in elements, `max_seq` in tokens."""

    name: str
    layers: int
    dim: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    vocab: int
    max_seq: int
    norm_eps: float = 1e-5
    rope_theta: float = 500_000.0
    rope_scaling: RopeScaling | None = None
    attention_bias: bool = False  # of the QKV and output projections
    mlp_bias: bool = False
    tied: bool = False  # lm_head is the embedding table

    @property
    def qkv_dim(self) -> int:
        """Rows of the fused QKV weight."""
        return (self.heads + 2 * self.kv_heads) * self.head_dim

    @property
    def parameters(self) -> int:
        """Number of weights and biases; a tied embedding counts once."""
        attention = self.dim * (self.qkv_dim + self.heads * self.head_dim)
        mlp = 3 * self.dim * self.intermediate
        biases = self.attention_bias * (self.qkv_dim + self.dim)
        biases += self.mlp_bias * (2 * self.intermediate + self.dim)
        tables = (1 if self.tied else 2) * self.vocab * self.dim
        return self.layers * (attention + mlp + biases + 2 * self.dim) + tables + self.dim


@dataclass(frozen=True)
class Workload:
    """What one run does: `prompt` tokens in, `new_tokens` out, `batch` times; `dtype` as torch names it."""

    batch: int
    prompt: int
    new_tokens: int
    dtype: str = "float16"

    def __post_init__(self) -> None:
        """Raise UsageError for a workload that cannot be run."""
        if self.dtype not in DTYPE_BYTES:
            raise UsageError(f"unknown dtype {self.dtype!r}: choose one of {', '.join(DTYPE_BYTES)}")
        if self.batch < 1 or self.prompt < 1:
            raise UsageError(f"batch and prompt must be at least 1, got {self.batch} and {self.prompt}")
        if self.new_tokens < 2:
            raise UsageError(
                f"new tokens must be at least 2 (prefill makes the first), got {self.new_tokens}"
            )

    @property
    def length(self) -> int:
        """KV cache slots that a sequence needs."""
        return self.prompt + self.new_tokens


DTYPE_BYTES: Final = {"float16": 2, "bfloat16": 2, "float32": 4}

PRESETS: Final[dict[str, Config]] = {
    # Llama-3.1-8B: config.json of meta-llama/Llama-3.1-8B
    "llama3-8b": Config(
        name="llama3-8b",
        layers=32,
        dim=4096,
        heads=32,
        kv_heads=8,
        head_dim=128,
        intermediate=14336,
        vocab=128256,
        max_seq=131072,
        rope_scaling=RopeScaling(),
    ),
    # Granite-8B-Code (arXiv 2405.04324), a Llama with biases: ibm-granite/granite-8b-code-base-4k
    "granite-8b": Config(
        name="granite-8b",
        layers=36,
        dim=4096,
        heads=32,
        kv_heads=8,
        head_dim=128,
        intermediate=14336,
        vocab=49152,
        max_seq=4096,
        rope_theta=10_000.0,
        attention_bias=True,
        mlp_bias=True,
        tied=True,
    ),
    # small enough for Triton's interpreter on a laptop
    "tiny": Config(
        name="tiny",
        layers=2,
        dim=64,
        heads=4,
        kv_heads=2,
        head_dim=16,
        intermediate=128,
        vocab=256,
        max_seq=256,
    ),
}

WORKLOADS: Final[dict[str, Workload]] = {
    "llama3-8b": Workload(batch=2, prompt=512, new_tokens=256),
    "granite-8b": Workload(batch=2, prompt=512, new_tokens=256),
    "tiny": Workload(batch=1, prompt=16, new_tokens=4, dtype="float32"),
}


def preset(name: str) -> Config:
    """The config called `name`; UsageError lists the known ones."""
    if name not in PRESETS:
        raise UsageError(f"unknown model {name!r}: choose one of {', '.join(PRESETS)}")
    return PRESETS[name]


def check_fits(config: Config, workload: Workload) -> None:
    """Raise UsageError if the workload is longer than the model's context."""
    if workload.length > config.max_seq:
        raise UsageError(
            f"prompt {workload.prompt} + {workload.new_tokens} new tokens exceed the "
            f"{config.max_seq} positions of {config.name}: ask for fewer"
        )
