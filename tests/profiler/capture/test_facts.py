"""What a machine must have, said in one line before anything is allocated."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from profiler.capture import facts
from profiler.model.config import WORKLOADS, Workload, preset
from traces.errors import MissingToolError

LLAMA, GRANITE = preset("llama3-8b"), preset("granite-8b")


def test_memory_counts_what_is_there() -> None:
    parts = facts.memory_parts(LLAMA, WORKLOADS["llama3-8b"])
    assert parts["weights"] == 2 * 8_030_261_248
    assert parts["KV cache"] == 2 * 2 * 32 * 2 * 8 * 768 * 128  # bytes, K and V, layers, batch, ...
    assert facts.needed_bytes(LLAMA, WORKLOADS["llama3-8b"]) == sum(parts.values())


def test_a_tied_table_counts_once() -> None:
    workload = WORKLOADS["granite-8b"]
    tied, untied = (facts.memory_parts(replace(GRANITE, tied=t), workload)["weights"] for t in (True, False))
    assert untied - tied == 2 * 49152 * 4096


def test_memory_grows_with_everything() -> None:
    base = Workload(2, 512, 256)
    for more in (
        Workload(4, 512, 256),
        Workload(2, 1024, 256),
        Workload(2, 512, 512),
        Workload(2, 512, 256, "float32"),
    ):
        assert facts.needed_bytes(LLAMA, more) > facts.needed_bytes(LLAMA, base)


def test_too_little_memory_names_need_parts_and_what_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (12 * facts.GIB, 80 * facts.GIB))
    with pytest.raises(MissingToolError) as caught:
        facts.check_memory(GRANITE, WORKLOADS["granite-8b"], "cuda")
    assert str(caught.value) == (
        "granite-8b with batch 2, prompt 512 and 256 new tokens needs 17.8 GiB of GPU memory, 12.0 GiB are "
        "free (weights 15.0, KV cache 0.2, activations 0.2, tuning 0.4, libraries 2.0): "
        "use a smaller batch, prompt or model, or free the GPU"
    )
    assert "ran out of memory: granite-8b" in str(facts.out_of_memory(GRANITE, WORKLOADS["granite-8b"]))


@pytest.mark.parametrize(
    ("built", "capability", "runs"),
    [
        (["sm_80", "sm_90"], (9, 0), True),
        (["sm_80"], (8, 6), True),
        (["sm_86"], (8, 0), False),
        (["sm_80"], (9, 0), False),
        (["compute_80"], (9, 0), True),
        (["sm_75", "sm_120", "compute_120"], (7, 0), False),
        (["sm_90a"], (9, 0), True),
        (["gfx942", "sm_"], (9, 0), False),
    ],
)
def test_which_gpus_a_build_runs_on(built: list[str], capability: tuple[int, int], runs: bool) -> None:
    assert facts.runs_on(built, *capability) == runs


@pytest.mark.parametrize(
    ("capability", "variant", "mode", "message"),
    [
        (
            (6, 1),
            "cuda",
            "eager",
            r"this GPU, Old, has compute capability 6\.1; PyTorch .* is built for sm_75, sm_80",
        ),
        (
            (7, 5),
            "triton",
            "eager",
            r"7\.5; Triton needs 8\.0 .Ampere. or newer: use --variant cuda --mode eager",
        ),
        ((7, 5), "cuda", "graph", r"Triton needs 8\.0"),
        ((7, 5), "cuda", "eager", None),
        ((8, 6), "triton", "graph", None),
    ],
)
def test_an_old_gpu_is_refused(
    capability: tuple[int, int], variant: str, mode: str, message: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: capability)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "Old")
    monkeypatch.setattr(torch.cuda, "get_arch_list", lambda: ["sm_75", "sm_80"])
    facts.check_gpu(variant, mode, "cpu")
    if message is None:
        facts.check_gpu(variant, mode, "cuda")
        return
    with pytest.raises(MissingToolError, match=message):
        facts.check_gpu(variant, mode, "cuda")
