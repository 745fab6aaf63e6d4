"""The decoder computes what transformers' LlamaForCausalLM computes with the same weights."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from profiler.model.config import Config, RopeScaling, Workload, preset
from profiler.model.generate import decode_step, generate, new_state, prefill, random_prompt
from profiler.model.transformer import Transformer, build
from profiler.model.weights import from_huggingface, load_huggingface
from profiler.ops import load
from traces.errors import InputError

transformers = pytest.importorskip("transformers")

TINY = preset("tiny")
# a short original context, so that the tiny head has frequencies on both sides of the blend and in it
SCALING = RopeScaling(factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position=64)


def huggingface(config: Config, seed: int = 0) -> torch.nn.Module:
    rope: dict[str, object] = {"rope_type": "default", "rope_theta": config.rope_theta}
    if (s := config.rope_scaling) is not None:
        rope |= {
            "rope_type": "llama3",
            "factor": s.factor,
            "low_freq_factor": s.low_freq_factor,
            "high_freq_factor": s.high_freq_factor,
            "original_max_position_embeddings": s.original_max_position,
        }
    torch.manual_seed(seed)
    return transformers.LlamaForCausalLM(
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
            rope_parameters=rope,
            initializer_range=0.2,  # large enough that attention is far from uniform
            tie_word_embeddings=False,
        )
    ).eval()


def ours(config: Config, reference: torch.nn.Module, variant: str = "cuda") -> Transformer:
    model = build(config, load(variant, "cpu"), device="cpu", dtype=torch.float32, seed=1)
    load_huggingface(model, reference.state_dict())
    return model


def assert_parity(config: Config, workload: Workload, variant: str) -> None:
    """Logits after the prompt and after every new token, against a full forward of the reference."""
    reference = huggingface(config)
    model = ours(config, reference, variant)
    model.allocate(workload.batch, workload.length)
    state = new_state(random_prompt(config.vocab, workload, device="cpu", seed=2))
    tokens = state.prompt
    with torch.no_grad():
        for step in range(workload.new_tokens):
            logits = decode_step(model, state) if step else prefill(model, state)
            expected = reference(tokens).logits[:, -1:]
            assert (logits - expected).abs().max() < 1e-4, f"step {step}"
            assert torch.equal(state.token, expected.argmax(-1))
            assert state.position.item() == tokens.shape[1]
            tokens = torch.cat((tokens, state.token), dim=1)


@pytest.mark.parametrize("scaling", [None, SCALING], ids=["plain", "llama3-rope"])
@pytest.mark.parametrize("batch", [1, 3])
def test_cuda_ops_match_transformers(batch: int, scaling: RopeScaling | None) -> None:
    config = replace(TINY, rope_scaling=scaling)
    assert_parity(config, Workload(batch, prompt=21, new_tokens=7, dtype="float32"), "cuda")


@pytest.mark.parametrize("batch", [1, 3])
def test_triton_ops_match_transformers(batch: int) -> None:
    pytest.importorskip("triton")
    pytest.importorskip("profiler.ops.triton.variant")
    config = replace(TINY, rope_scaling=SCALING)
    assert_parity(config, Workload(batch, prompt=7, new_tokens=3, dtype="float32"), "triton")


def test_generate_repeats_itself_and_equals_transformers_generate() -> None:
    reference = huggingface(TINY)
    model = ours(TINY, reference)
    workload = Workload(2, prompt=9, new_tokens=6, dtype="float32")
    model.allocate(workload.batch, workload.length)
    state = new_state(random_prompt(TINY.vocab, workload, device="cpu", seed=3))
    tokens = generate(model, state, workload.new_tokens)
    expected = state.prompt
    with torch.no_grad():
        for _ in range(workload.new_tokens):
            expected = torch.cat((expected, reference(expected).logits[:, -1:].argmax(-1)), dim=1)
    assert torch.equal(tokens, expected[:, workload.prompt :])
    assert torch.equal(tokens, generate(model, state, workload.new_tokens))


def test_missing_weight_is_named() -> None:
    state = huggingface(TINY).state_dict()
    del state["model.layers.1.mlp.up_proj.weight"]
    with pytest.raises(InputError, match=r"model\.layers\.1\.mlp\.up_proj\.weight"):
        from_huggingface(state, TINY.layers)


def test_weights_of_another_shape_are_refused() -> None:
    state = huggingface(replace(TINY, intermediate=64)).state_dict()
    model = build(TINY, load("cuda", "cpu"), device="cpu", dtype=torch.float32, seed=1)
    with pytest.raises(InputError, match="do not fit tiny"):
        load_huggingface(model, state)


def test_tied_embeddings_serve_as_lm_head() -> None:
    state = huggingface(TINY).state_dict()
    del state["lm_head.weight"]
    assert torch.equal(
        from_huggingface(state, TINY.layers)["lm_head.weight"], state["model.embed_tokens.weight"]
    )
