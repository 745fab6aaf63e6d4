"""Fresh memory is NaN (floats) or the largest integer, so that an element no kernel wrote is seen."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

torch = pytest.importorskip("torch")
pytest.importorskip("triton")


def poisoned(allocate: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    def filled(*args: object, **kwargs: object) -> torch.Tensor:
        fresh = allocate(*args, **kwargs)
        return fresh.fill_(float("nan") if fresh.is_floating_point() else torch.iinfo(fresh.dtype).max)

    return filled


@pytest.fixture(autouse=True)
def poisoned_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    monkeypatch.setattr(torch, "empty_like", poisoned(torch.empty_like))
    monkeypatch.setattr(torch.Tensor, "new_empty", poisoned(torch.Tensor.new_empty))


@pytest.fixture(params=["float32", "float16", "bfloat16"])
def dtype(request: pytest.FixtureRequest) -> object:
    return getattr(torch, request.param)
