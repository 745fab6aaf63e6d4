"""The decoder computes what transformers computes with the same weights, for each family that we run."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import torch

from profiler.model.config import Config, Workload
from profiler.model.generate import State, decode_step, generate, new_state, prefill, random_prompt
from tests.profiler.model.reference import FAMILIES, TINY, huggingface, ours

if TYPE_CHECKING:
    from profiler.model.transformer import Transformer

LIMIT = 1e-4  # largest difference of fp32 logits of size 10: a changed order of additions
# Largest difference of logits in 16 bits from the same weights in fp32. The logits reach 5.8, where fp16 (11
# significant bits) has steps of 2^-8 and bf16 (8 bits) of 2^-5; some 20 roundings before them add up to about
# ten steps. Measured: at most 0.018 and 0.15.
LIMITS_16 = {torch.float16: 10 * 2**-8, torch.bfloat16: 10 * 2**-5}

families = pytest.mark.parametrize("family", FAMILIES)


def started(model: Transformer, workload: Workload, spare: int = 0) -> State:
    """Caches for the workload and `spare` slots more, and a random prompt."""
    model.allocate(workload.batch, workload.length + spare)
    return new_state(random_prompt(model.config.vocab, workload, device="cpu", seed=2))


def assert_parity(config: Config, workload: Workload, variant: str, *, spare: int = 0) -> None:
    """Logits after the prompt and after every new token, against a full forward of the reference."""
    reference = huggingface(config)
    model = ours(config, reference, variant)
    state = started(model, workload, spare)
    tokens = state.prompt
    with torch.no_grad():
        for step in range(workload.new_tokens):
            logits = decode_step(model, state) if step else prefill(model, state)
            expected = reference(tokens).logits[:, -1:]
            assert (logits - expected).abs().max() < LIMIT, f"step {step}"
            assert torch.equal(state.token, expected.argmax(-1))
            assert state.position.item() == tokens.shape[1]
            tokens = torch.cat((tokens, state.token), dim=1)


@families
@pytest.mark.parametrize("batch", range(1, 9))
def test_cuda_ops_match_transformers(family: str, batch: int) -> None:
    assert_parity(FAMILIES[family], Workload(batch, prompt=21, new_tokens=7, dtype="float32"), "cuda")


def test_unscaled_rope_matches_transformers() -> None:
    assert_parity(TINY, Workload(2, prompt=21, new_tokens=7, dtype="float32"), "cuda")


@families
@pytest.mark.parametrize(("batch", "prompt"), [(1, 7), (3, 7), (8, 2)])
def test_triton_ops_match_transformers(family: str, batch: int, prompt: int) -> None:
    pytest.importorskip("triton")
    assert_parity(FAMILIES[family], Workload(batch, prompt, new_tokens=2, dtype="float32"), "triton")


@families
@pytest.mark.parametrize(("variant", "layers", "new_tokens"), [("cuda", 2, 24), ("triton", 1, 2)])
def test_a_long_context_matches_transformers(family: str, variant: str, layers: int, new_tokens: int) -> None:
    """Beyond the length that RoPE was scaled for, in a cache with more slots than are used."""
    pytest.importorskip("triton")
    workload = Workload(1, prompt=200, new_tokens=new_tokens, dtype="float32")
    assert_parity(replace(FAMILIES[family], layers=layers), workload, variant, spare=32)


def logits_of(model: Transformer, workload: Workload, tokens: torch.Tensor) -> torch.Tensor:
    """[B, new_tokens, V] in fp32: after the prompt and after each of `tokens`, which are fed to it."""
    state = started(model, workload)
    with torch.no_grad():
        found = [prefill(model, state)]
        for step in range(workload.new_tokens - 1):
            state.token.copy_(tokens[:, step : step + 1])
            found.append(decode_step(model, state))
    return torch.cat(found, dim=1).float()


@families
@pytest.mark.parametrize(
    ("variant", "workload"), [("cuda", Workload(4, 12, 6)), ("triton", Workload(2, 5, 2))]
)
@pytest.mark.parametrize("dtype", LIMITS_16, ids=str)
def test_16_bit_logits_stay_near_fp32(
    family: str, variant: str, workload: Workload, dtype: torch.dtype
) -> None:
    pytest.importorskip("triton")
    config = FAMILIES[family]
    narrow = huggingface(config).to(dtype)
    prompt = random_prompt(config.vocab, workload, device="cpu", seed=2)
    tokens, expected = greedy(huggingface(config).to(dtype).float(), prompt, workload.new_tokens)
    found = logits_of(ours(config, narrow, variant, dtype), workload, tokens)
    with torch.no_grad():
        theirs = narrow(torch.cat((prompt, tokens[:, :-1]), 1)).logits[:, workload.prompt - 1 :].float()
    error = (found - expected).abs()
    assert error.max() < LIMITS_16[dtype]
    assert error.mean() < 1.5 * (theirs - expected).abs().mean()  # transformers in that dtype errs as much


def greedy(reference: Any, prompt: torch.Tensor, new_tokens: int) -> tuple[torch.Tensor, torch.Tensor]:
    """transformers' own greedy generation: tokens [B, new_tokens] and their logits [B, new_tokens, V]."""
    found = reference.generate(
        prompt,
        attention_mask=torch.ones_like(prompt),
        max_new_tokens=new_tokens,
        do_sample=False,
        output_logits=True,
        return_dict_in_generate=True,
        pad_token_id=0,
    )
    return found.sequences[:, prompt.shape[1] :], torch.stack(found.logits, dim=1).float()


@families
@pytest.mark.parametrize(
    ("variant", "workload"),
    [("cuda", Workload(4, 9, 40, "float32")), ("triton", Workload(2, 3, 3, "float32"))],
)
def test_generate_is_transformers_generate(family: str, variant: str, workload: Workload) -> None:
    """Token by token, and again: a second generation starts afresh."""
    pytest.importorskip("triton")
    config = FAMILIES[family]
    reference = huggingface(config, seed=5)
    model = ours(config, reference, variant)
    model.allocate(workload.batch, workload.length)
    state = new_state(random_prompt(config.vocab, workload, device="cpu", seed=3))
    tokens = generate(model, state, workload.new_tokens)
    expected, _ = greedy(reference, state.prompt, workload.new_tokens)
    assert tokens.tolist() == expected.tolist()
    assert len(tokens.unique()) > workload.batch  # not one token for ever
    assert torch.equal(tokens, generate(model, state, workload.new_tokens))
