"""Their tensors become our parameters, or are refused by name."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from profiler.model.config import preset
from profiler.model.transformer import build
from profiler.model.weights import check, load_huggingface, parts
from profiler.ops import load
from tests.profiler.model.reference import FAMILIES, TINY, huggingface, ours
from traces.errors import InputError

GRANITE = FAMILIES["granite"]


@pytest.mark.parametrize("name", ["llama3-8b", "granite-8b", "tiny"])
def test_the_parts_are_every_parameter_once(name: str) -> None:
    config = preset(name)
    sizes = [torch.Size(part.shape).numel() for part in parts(config)]
    assert sum(sizes) == config.parameters
    assert len({part.theirs for part in parts(config)}) == len(sizes)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_parts_are_the_state_dict_of_transformers(family: str) -> None:
    state = huggingface(FAMILIES[family]).state_dict()
    if FAMILIES[family].tied:
        state.pop("lm_head.weight")
    assert {p.theirs: p.shape for p in parts(FAMILIES[family])} == {
        n: tuple(t.shape) for n, t in state.items()
    }


def test_projections_lie_below_each_other() -> None:
    reference = huggingface(GRANITE)
    state, mine = reference.state_dict(), ours(GRANITE, reference).state_dict()
    for ours_, theirs in (("attn.qkv", "self_attn.{}_proj"), ("mlp.gate_up", "mlp.{}_proj")):
        names = "qkv" if ours_ == "attn.qkv" else ("gate", "up")
        for kind in ("weight", "bias"):
            stacked = torch.cat([state[f"model.layers.1.{theirs.format(n)}.{kind}"] for n in names])
            assert torch.equal(mine[f"layers.1.{ours_}.{kind}"], stacked)


def test_tied_embeddings_stay_one_tensor() -> None:
    model = ours(GRANITE, huggingface(GRANITE))
    assert model.lm_head.weight is model.embed.weight


def test_what_does_not_fit_is_named() -> None:
    state = huggingface(TINY).state_dict()
    del state["model.layers.1.mlp.up_proj.weight"]
    state["model.layers.0.self_attn.q_norm.weight"] = torch.ones(16)
    state["model.norm.weight"] = torch.ones(63)
    state["model.layers.0.self_attn.rotary_emb.inv_freq"] = torch.ones(8)
    with pytest.raises(InputError) as caught:
        load_huggingface(build(TINY, load("cuda", "cpu"), device="cpu", dtype=torch.float32, seed=1), state)
    assert str(caught.value) == (
        "state dict: the weights do not fit tiny: missing: model.layers.1.mlp.up_proj.weight; "
        "unexpected: model.layers.0.self_attn.q_norm.weight; wrong shape: model.norm.weight [63], not [64]"
    )


def test_many_faults_are_counted_not_listed() -> None:
    with pytest.raises(InputError, match=r"missing: .*q_proj\.weight and 18 more$"):
        check(TINY, {}, "x")


def test_rotary_tables_are_ignored_and_counted() -> None:
    shapes = {part.theirs: part.shape for part in parts(TINY)}
    assert check(TINY, shapes, "x") == 0
    assert check(TINY, shapes | {"model.layers.0.self_attn.rotary_emb.inv_freq": (8,)}, "x") == 1


def test_biases_that_the_preset_lacks_are_refused() -> None:
    with pytest.raises(InputError, match=r"unexpected: .*\.bias"):
        ours(replace(TINY, tied=True), huggingface(GRANITE))


def test_a_head_of_its_own_is_refused_where_embeddings_are_tied() -> None:
    state = dict(huggingface(GRANITE).state_dict())
    state["lm_head.weight"] = state["lm_head.weight"] + 1
    model = build(GRANITE, load("cuda", "cpu"), device="cpu", dtype=torch.float32, seed=1)
    with pytest.raises(InputError, match=r"ties lm_head to the embeddings, but lm_head\.weight differs"):
        load_huggingface(model, state)


@pytest.mark.parametrize(
    ("value", "message"),
    [(float("nan"), "holds NaN or infinity"), (1e5, r"holds 1e\+05, beyond float16: use --dtype bfloat16")],
)
def test_values_that_are_no_numbers_in_the_dtype_are_refused(value: float, message: str) -> None:
    state = huggingface(TINY).state_dict()
    state["model.layers.0.mlp.up_proj.weight"][3, 5] = value
    model = build(TINY, load("cuda", "cpu"), device="cpu", dtype=torch.float16, seed=1)
    with pytest.raises(InputError, match=rf"layers\.0\.mlp\.up_proj\.weight {message}"):
        load_huggingface(model, state)
