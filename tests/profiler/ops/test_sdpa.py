"""Every attention backend that runs on the CPU gives what softmax(q k^T / sqrt(D)) v says."""

from __future__ import annotations

import pytest
import torch

from profiler.ops import sdpa

B, H, HKV, D, LENGTH = 2, 8, 2, 16, 24
ON_CPU = {"default", "math", "math packed"}  # the others have CUDA kernels only


def tensors(tokens: int, length: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    sizes = ((H, tokens), (HKV, length), (HKV, length))
    q, k, v = (torch.randn(B, n, t, D, generator=generator) for n, t in sizes)
    return q, k, v


@pytest.mark.parametrize("name", sorted(ON_CPU & set(sdpa.PREFILL)))
def test_prefill(name: str) -> None:
    q, k, v = tensors(LENGTH, LENGTH)
    expected = sdpa.reference(q, k, v, torch.arange(LENGTH))
    torch.testing.assert_close(sdpa.PREFILL[name].run(q, k, v, None), expected, atol=1e-5, rtol=1e-5)


def test_the_reference_is_the_same_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    q, k, v = tensors(LENGTH, LENGTH)
    whole = sdpa.reference(q, k, v, torch.arange(LENGTH))
    monkeypatch.setattr(sdpa, "_PIECE", 7)
    torch.testing.assert_close(sdpa.reference(q, k, v, torch.arange(LENGTH)), whole)


@pytest.mark.parametrize("position", [0, 11, LENGTH - 1])
@pytest.mark.parametrize("name", sorted(ON_CPU & set(sdpa.DECODE)))
def test_decode_sees_no_unused_slot(name: str, position: int) -> None:
    q, k, v = tensors(1, LENGTH)
    positions = torch.tensor([position])
    expected = sdpa.reference(q, k[:, :, : position + 1], v[:, :, : position + 1], positions)
    k[:, :, position + 1 :] = 1e4
    v[:, :, position + 1 :] = 1e4
    backend = sdpa.DECODE[name]
    found = backend.run(q, k, v, backend.visible(positions, k))
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.gpu
def test_the_fastest_backend_is_chosen() -> None:
    from profiler.model.config import Workload, preset

    found = sdpa.measure(preset("llama3-8b"), Workload(2, prompt=128, new_tokens=8))
    for phase, backends in (("prefill", sdpa.PREFILL), ("decode", sdpa.DECODE)):
        times = {n: t["median_us"] for n, t in found[phase]["backends"].items() if isinstance(t, dict)}
        assert found[phase]["chosen"] in backends
        assert times[found[phase]["chosen"]] == min(times.values())
        assert "wrong result" not in found[phase]["backends"].values()
