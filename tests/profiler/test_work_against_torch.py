"""The formulas of traces/ beside PyTorch itself: what it counts, and where it puts its arguments."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch
from torch.profiler import ProfilerActivity, profile
from torch.utils.flop_counter import FlopCounterMode, sdpa_flop_count

from traces.attribution.formulas.attention import FORMS
from traces.attribution.formulas.memory import ELEMENTWISE, LIKE_FIRST, REDUCTIONS, TRUTHS
from traces.attribution.formulas.products import PRODUCTS
from traces.attribution.work import Work, of_op


def names(op: str) -> list[str]:
    """The arguments of an aten op in the order in which the profiler records them; empty if there is none."""
    found = torch._C._jit_get_schemas_for_operator(op)
    chosen = next((s for s in found if not s.overload_name), found[0] if found else None)
    return [a.name for a in chosen.arguments] if chosen else []


@pytest.mark.parametrize("op", sorted(op for op in FORMS if op.startswith("aten::")))
def test_attention_arguments_stand_where_torch_has_them(op: str) -> None:
    order, form = names(op), FORMS[op]
    assert form.causal is not None
    assert order[form.causal] in ("is_causal", "custom_mask_type")
    if form.mask is not None:
        assert order[form.mask] in ("attn_mask", "attn_bias", "bias")
    for at in (x for x in form.lengths if x < len(order)):  # the newest are missing in older versions
        known = ("cum_seq", "cu_seqlens", "seqused", "seqlen", "block_table", "scale")
        assert order[at].startswith(known)
    for at in (x for x in form.windows if x < len(order)):
        assert order[at].startswith("window_size")


@pytest.mark.parametrize("op", sorted({*ELEMENTWISE, *TRUTHS, *LIKE_FIRST, *REDUCTIONS, *PRODUCTS}))
def test_every_aten_op_of_the_tables_exists(op: str) -> None:
    assert not op.startswith("aten::") or names(op)


def recorded(run: Any) -> list[tuple[str, Work | None]]:
    """The ops that `run` calls on the CPU, and our work of each from what the profiler recorded."""
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as made:
        run()
    out = []
    for event in made.profiler.kineto_results.experimental_event_tree():
        stack = [event]
        while stack:
            found = stack.pop()
            stack += found.children
            if found.tag.name == "TorchOp":
                out.append((found.name, _work(found)))
    return out


def _work(event: Any) -> Work | None:
    dims, types, strides, concrete = [], [], [], []
    for value in event.typed[1].inputs:
        tensor = hasattr(value, "sizes")
        dims.append(list(value.sizes) if tensor else [])
        types.append(
            {torch.float32: "float", torch.float16: "c10::Half", torch.int64: "long int"}[value.dtype]
            if tensor else "" if value is None else "Scalar"
        )  # fmt: skip
        strides.append(list(value.strides) if tensor else [])
        concrete.append("" if tensor or value is None else str(value))
    return of_op(event.name, *map(json.dumps, (dims, types, strides, concrete)))


@pytest.mark.parametrize(
    ("op", "run"),
    [
        ("aten::mm", lambda: torch.randn(5, 7) @ torch.randn(7, 3)),
        ("aten::bmm", lambda: torch.bmm(torch.randn(2, 5, 7), torch.randn(2, 7, 3))),
        ("aten::addmm", lambda: torch.addmm(torch.randn(3), torch.randn(5, 7), torch.randn(7, 3))),
        ("aten::baddbmm", lambda: torch.baddbmm(*(torch.ones(2, *s) for s in ((5, 3), (5, 7), (7, 3))))),
    ],
)
def test_flops_are_those_that_torch_counts(op: str, run: Any) -> None:
    with FlopCounterMode(display=False) as counter:
        run()
    ours = [work.flops for name, work in recorded(run) if name == op and work is not None]
    assert ours == [counter.get_total_flops()]


def test_a_causal_attention_has_half_of_what_torch_counts_and_half_the_diagonal() -> None:
    x = torch.randn(2, 4, 64, 16)
    attend = torch.nn.functional.scaled_dot_product_attention
    op = "aten::_scaled_dot_product_flash_attention_for_cpu"
    full, causal = (
        next(w for n, w in recorded(lambda: attend(x, x, x, is_causal=c)) if n == op)  # noqa: B023
        for c in (False, True)
    )
    assert full is not None
    assert causal is not None
    assert full.flops == sdpa_flop_count(x.shape, x.shape, x.shape)
    assert causal.flops == full.flops * 65 // 128
    assert causal.min_bytes == full.min_bytes == 4 * x.numel() * 4
