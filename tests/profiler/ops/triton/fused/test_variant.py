"""The fused step as a whole: the same results as op by op, in every rung of the ladder."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from profiler.capture import modes
from profiler.model.config import preset
from profiler.model.fused import FusedTransformer
from profiler.model.generate import decode_step, generate, new_state, prefill
from profiler.model.transformer import Transformer, build, empty
from profiler.ops import load
from tests.profiler.ops.triton.checks import DEVICE
from traces.errors import UsageError

TINY = replace(preset("tiny"), attention_bias=True, mlp_bias=True, tied=True)
FUSED = ("triton-fused", "triton-one-attention", "triton-overlap", "triton")


def pair(variant: str, batch: int, length: int) -> tuple[Transformer, Transformer]:
    """The plain model and a fused one that share their weights."""
    plain = build(TINY, load("cuda", DEVICE), device=DEVICE, dtype=torch.float32, seed=0)
    fused = empty(TINY, load(variant, DEVICE))
    fused.load_state_dict(plain.state_dict(), assign=True)
    fused.tie()
    for model in (plain, fused):
        model.allocate(batch, length)
    return plain, fused


@pytest.mark.parametrize("variant", FUSED)
@pytest.mark.parametrize(("batch", "prompt"), [(1, 1), (2, 9), (3, 5)])
@torch.no_grad()
def test_logits_are_those_of_the_plain_model(variant: str, batch: int, prompt: int) -> None:
    tokens = torch.randint(TINY.vocab, (batch, prompt), device=DEVICE)
    found = []
    for model in pair(variant, batch, prompt + 3):
        state = new_state(tokens)
        found.append([prefill(model, state).clone(), *(decode_step(model, state).clone() for _ in range(2))])
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)


def test_greedy_tokens_are_those_of_the_plain_model() -> None:
    tokens = torch.randint(TINY.vocab, (2, 7), device=DEVICE)
    plain, fused = (generate(model, new_state(tokens), 6) for model in pair("triton", 2, 13))
    assert torch.equal(plain, fused)


def test_weights_have_the_same_names() -> None:
    plain, fused = pair("triton", 1, 4)
    assert isinstance(fused, FusedTransformer)
    assert list(plain.state_dict()) == list(fused.state_dict())
    assert [n for n, _ in plain.named_modules()] == [n for n, _ in fused.named_modules()]


def test_there_is_nothing_to_compile() -> None:
    with pytest.raises(
        UsageError, match="'triton' is fused by hand and has no compiled mode: use eager or graph"
    ):
        modes.check_compiles(load("triton", DEVICE), "triton", "compile")
    modes.check_compiles(load("triton-unfused", DEVICE), "triton-unfused", "compile")


@pytest.mark.gpu
@pytest.mark.parametrize("model", ["llama3-8b", "granite-8b"])
@pytest.mark.parametrize(("batch", "prompt"), [(1, 37), (2, 512), (8, 100), (3, 33)])
@torch.no_grad()
def test_two_layers_of_a_real_model_stay_near_fp32_and_repeat(model: str, batch: int, prompt: int) -> None:
    config = replace(preset(model), layers=2, vocab=4096)
    exact = build(config, load("cuda", DEVICE), device=DEVICE, dtype=torch.float32, seed=0)
    narrow = empty(config, load("triton", DEVICE))
    narrow.load_state_dict({n: w.half() for n, w in exact.state_dict().items()}, assign=True)
    narrow.tie()
    exact.load_state_dict({n: w.half().float() for n, w in exact.state_dict().items()})
    tokens = torch.randint(config.vocab, (batch, prompt), device=DEVICE)
    found = []
    for each in (exact, narrow, narrow):
        each.allocate(batch, prompt + 4)
        state = new_state(tokens)
        found.append([prefill(each, state).clone(), *(decode_step(each, state).clone() for _ in range(3))])
    for reference, first, second in zip(*found, strict=True):
        assert (first.float() - reference).abs().max() < 0.02
        assert torch.equal(first, second)
