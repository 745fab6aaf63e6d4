from __future__ import annotations

import torch

from profiler.model.config import Workload, preset
from profiler.model.generate import decode_step, new_state, prefill, random_prompt
from profiler.model.transformer import Transformer, build
from profiler.ops import load

TINY = preset("tiny")


def model(seed: int, dtype: torch.dtype = torch.float32) -> Transformer:
    return build(TINY, load("cuda", "cpu"), device="cpu", dtype=dtype, seed=seed)


def test_module_paths_are_the_ones_reports_show() -> None:
    names = dict(model(0).named_modules())
    for path in (
        "embed",
        "layers.1.attn_norm",
        "layers.1.attn.qkv",
        "layers.1.attn.o",
        "layers.1.mlp_norm",
        "layers.1.mlp.gate_up",
        "layers.1.mlp.down",
        "norm",
        "lm_head",
    ):
        assert path in names


def test_parameters_are_counted() -> None:
    assert sum(p.numel() for p in model(0).parameters()) == TINY.parameters
    assert preset("llama3-8b").parameters == 8_030_261_248  # the figure of Meta's model card, exactly


def test_equal_seeds_give_equal_weights() -> None:
    first, again, other = (model(seed).state_dict() for seed in (4, 4, 5))
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(first["lm_head.weight"], other["lm_head.weight"])


def test_activations_stay_finite_in_fp16() -> None:
    workload = Workload(2, prompt=32, new_tokens=4)
    net = model(0, torch.float16)
    net.allocate(workload.batch, workload.length)
    state = new_state(random_prompt(TINY.vocab, workload, device="cpu", seed=0))
    with torch.no_grad():
        for logits in (prefill(net, state), decode_step(net, state)):
            assert logits.dtype == torch.float16
            assert logits.isfinite().all()
            assert logits.abs().max() < 100


def test_unused_cache_slots_are_never_read() -> None:
    workload = Workload(1, prompt=5, new_tokens=4, dtype="float32")
    net = model(0)
    net.allocate(workload.batch, workload.length)
    state = new_state(random_prompt(TINY.vocab, workload, device="cpu", seed=0))
    with torch.no_grad():
        prefill(net, state)
        token = state.token.clone()
        clean = decode_step(net, state)
        for layer in net.layers:
            layer.attn.k_cache[:, :, 6:] = 1e4
            layer.attn.v_cache[:, :, 6:] = 1e4
        state.token.copy_(token)
        state.position.fill_(5)
        assert torch.equal(decode_step(net, state), clean)
