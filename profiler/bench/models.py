"""Variants of one model on the same weights."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from profiler.model.transformer import Transformer, build, empty
from profiler.ops import load

if TYPE_CHECKING:
    from profiler.model.config import Config, Workload


def model_of(
    config: Config, workload: Workload, variant: str, device: str, first: Transformer | None
) -> tuple[Transformer, dict[str, Any]]:
    """The model on a variant's operators, with the weights of `first` if there is one, and what it chose."""
    ops = load(variant, device)
    choices = ops.prepare(config, workload, device=device)
    if first is None:
        model = build(config, ops, device=device, dtype=getattr(torch, workload.dtype), seed=0)
    else:
        model = empty(config, ops)
        model.load_state_dict(first.state_dict(), assign=True)
        model.tie()
        model.eval()
    model.allocate(workload.batch, workload.length)
    return model, choices
