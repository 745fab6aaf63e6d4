"""Greedy generation: one prefill, then decode steps whose token and position never leave the device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from profiler.model.config import Workload
    from profiler.model.transformer import Transformer


@dataclass(frozen=True)
class State:
    """The static device buffers of one generation, all int64."""

    prompt: Tensor  # [B, P]
    positions: Tensor  # [P], 0..P-1
    token: Tensor  # [B, 1], the newest token
    position: Tensor  # [1], where that token goes

    def rewind(self) -> None:
        """Stand before prefill, which moves the position on by one as every step does."""
        self.position.fill_(self.prompt.shape[1] - 1)


def new_state(prompt: Tensor) -> State:
    """State for a prompt int64 [B, P], on the prompt's device."""
    batch, length = prompt.shape
    state = State(
        prompt,
        torch.arange(length, device=prompt.device),
        prompt.new_zeros(batch, 1),
        prompt.new_zeros(1),
    )
    state.rewind()
    return state


def random_prompt(vocab: int, workload: Workload, *, device: str, seed: int) -> Tensor:
    """Token ids int64 [batch, prompt], equal for equal seeds on every device."""
    generator = torch.Generator("cpu").manual_seed(seed)
    return torch.randint(vocab, (workload.batch, workload.prompt), generator=generator).to(device)


def prefill(model: Transformer, state: State) -> Tensor:
    """Run the prompt, leave its next token and position in `state`; logits [B, 1, V]."""
    logits: Tensor = model(state.prompt, state.positions, True)
    model.sample(logits, state.token, state.position)
    return logits


def decode_step(model: Transformer, state: State) -> Tensor:
    """Run the newest token, replace it by the next one; logits [B, 1, V]. No host sync: can be captured."""
    logits: Tensor = model(state.token, state.position, False)
    model.sample(logits, state.token, state.position)
    return logits


@torch.no_grad()
def generate(
    model: Transformer,
    state: State,
    new_tokens: int,
    *,
    run_prefill: Callable[[], object] | None = None,
    run_decode: Callable[[], object] | None = None,
) -> Tensor:
    """Greedy tokens int64 [B, new_tokens]; the two callables replace the eager steps (compiled, a graph)."""
    run_prefill = run_prefill or (lambda: prefill(model, state))
    run_decode = run_decode or (lambda: decode_step(model, state))
    state.rewind()
    run_prefill()
    tokens = [state.token.clone()]
    for _ in range(new_tokens - 1):
        run_decode()
        tokens.append(state.token.clone())
    return torch.cat(tokens, dim=1)
