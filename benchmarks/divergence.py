"""How far a variant's logits are from a reference's, and why its greedy tokens part from the reference's."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import torch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import Tensor

    from profiler.capture.modes import Runner

TOP: Final = 64  # errors near the top decide a token, and rounding grows with the logit
SIGMAS: Final = 4.0
ROUNDINGS: Final = 32.0  # an RMS error of more units in the last place than this is no rounding error


@dataclass(frozen=True)
class Reference:
    """A greedy generation: tokens int64 [N, B], and the logits fp32 [N, B, V] that chose them."""

    tokens: Tensor
    logits: Tensor


@dataclass(frozen=True)
class Trail:
    """A variant's N steps of B sequences, each value [N, B] and on the host.

    `largest` and `mean` are absolute logit errors over the vocabulary, `top` is the RMS error of the
    reference's TOP largest logits, `margin` how far the reference puts its own token above the variant's.
    `roof` is the largest RMS error that can pass for rounding: ROUNDINGS times the variant's machine epsilon
    times the standard deviation of the logits.
    """

    tokens: Tensor
    largest: Tensor
    mean: Tensor
    top: Tensor
    margin: Tensor
    roof: float


@torch.no_grad()
def refer(runner: Runner, count: int) -> Reference:
    """The greedy generation of `count` tokens."""
    steps = [(token, logits.clone()) for token, logits in walk(runner, count, None)]
    return Reference(torch.stack([t for t, _ in steps]), torch.stack([x for _, x in steps]))


@torch.no_grad()
def follow(runner: Runner, reference: Reference, *, forced: bool) -> Trail:
    """Run the variant as long as the reference ran; `forced`: on the reference's tokens, not its own."""
    rows = []
    feed = reference.tokens if forced else None
    for step, (token, logits) in enumerate(walk(runner, len(reference.tokens), feed)):
        expected = reference.logits[step]
        error = (logits - expected).abs()
        near = error.gather(1, expected.topk(min(TOP, expected.shape[1])).indices)
        chosen = torch.stack((reference.tokens[step], token), dim=1)
        own, other = expected.gather(1, chosen).unbind(1)
        top = near.square().mean(1).sqrt()
        rows.append((token, error.amax(1), error.mean(1), top, own - other))
    roof = ROUNDINGS * torch.finfo(runner.model.cache.dtype).eps * reference.logits.std().item()
    tokens, largest, mean, top, margin = (torch.stack(column).cpu() for column in zip(*rows, strict=True))
    return Trail(tokens, largest, mean, top, margin, roof)


def walk(runner: Runner, count: int, feed: Tensor | None) -> Iterator[tuple[Tensor, Tensor]]:
    """(token [B], logits fp32 [B, V]) of each step, good until the next; `feed` [N, B] is fed where given."""
    state = runner.state
    logits = runner.prefill()
    state.token.copy_(runner.scratch.token)
    state.position.fill_(state.prompt.shape[1])
    for step in range(count):
        yield state.token[:, 0].clone(), logits[:, -1].float()
        if step + 1 < count:
            if feed is not None:
                state.token.copy_(feed[step][:, None])
            logits = runner.decode()


def forced_facts(trail: Trail, reference: Reference) -> dict[str, Any]:
    """Errors and agreement along the reference's tokens, over all steps and sequences."""
    differs = trail.tokens != reference.tokens.cpu()
    near = [near_tie(trail, step, row) for step, row in differs.nonzero().tolist()]
    return {
        "steps": differs.numel(),
        "max_abs_error": trail.largest.max().item(),
        "mean_abs_error": trail.mean.mean().item(),
        "logit_std": reference.logits.std().item(),
        "top1_agreement": 1 - differs.sum().item() / differs.numel(),
        "disagreements": len(near),
        "unexplained": near.count(False),
    }


def divergences(trail: Trail, reference: Reference) -> list[dict[str, Any]]:
    """Per sequence of a free run the first step that differs and why; `step` None where all are equal.

    Up to there both have read the same tokens, so the step's logits compare.
    """
    found: list[dict[str, Any]] = []
    tokens = reference.tokens.cpu()
    for row in range(tokens.shape[1]):
        steps = (trail.tokens[:, row] != tokens[:, row]).nonzero()[:, 0].tolist()
        if not steps:
            found.append({"sequence": row, "step": None, "reason": "equal to the end"})
            continue
        step = steps[0]
        margin, limit = trail.margin[step, row].item(), _limit(trail, step, row)
        near = margin <= limit
        told = f"near-tie: margin {margin:.4g} <=" if near else f"NOT explained: margin {margin:.4g} >"
        found.append(
            {
                "sequence": row,
                "step": step,
                "reference_token": int(tokens[step, row]),
                "token": int(trail.tokens[step, row]),
                "margin": margin,
                "limit": limit,
                "explained": near,
                "reason": f"{told} {limit:.4g}",
            }
        )
    return found


def near_tie(trail: Trail, step: int, row: int) -> bool:
    """Whether the reference itself nearly chose the variant's token, as logit errors go at that step."""
    return trail.margin[step, row].item() <= _limit(trail, step, row)


def _limit(trail: Trail, step: int, row: int) -> float:
    """SIGMAS standard deviations of the difference of two logits that each err by `top`, within `roof`."""
    return SIGMAS * math.sqrt(2) * min(trail.top[step, row].item(), trail.roof)
