"""Every benchmark on the tiny model: all Triton contenders give the reference's results."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from profiler import bench
from profiler.bench import decode, products, timing
from profiler.bench.case import Case, Contender, Setting
from profiler.model.config import Config, Workload, preset
from traces.errors import UsageError

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
WORKLOAD = Workload(batch=1, prompt=5, new_tokens=4, dtype="float32")
TINY = preset("tiny")


def setting(config: Config = TINY) -> Setting:
    return Setting(config, WORKLOAD, DEVICE, (9,), 1 << 10)


def no_clock(case: Case, contender: Contender) -> object:
    return lambda: 1.0


@pytest.mark.parametrize(
    ("name", "ops"),
    [
        ("gemm", {f"{p} {n}" for p in ("decode", "prefill") for n in products.DOES}),
        ("attention", {"decode attention", "prefill attention"}),
        ("norm", {"decode RMSNorm", "prefill RMSNorm"}),
        ("mlp", {"decode MLP", "prefill MLP", "bias+GELU+dropout"}),
        ("ops", {"decode QKV", "decode attention", "decode O", "decode gate+up", "decode down"}),
    ],
)
@torch.no_grad()
def test_every_triton_contender_is_right(name: str, ops: set[str]) -> None:
    found = [timing.measure(case, no_clock, 1, 0) for case in bench.cases(name, setting())]  # type: ignore[arg-type]
    assert {m.op for m in found} == ops
    for m in found:
        assert [t.name for t in m.contenders if t.triton and t.out] == []
        assert any(t.samples for t in m.contenders if t.triton)
        assert any(t.samples for t in m.contenders if not t.triton)
        assert m.work.bytes > 0


@torch.no_grad()
def test_softmax_covers_one_pass_and_two() -> None:
    shapes = []
    for case in bench.cases("softmax", setting()):
        shapes.append(case.shape)
        if case.op != "softmax scores":  # many rows: slow in the interpreter, and tested elsewhere
            assert {t.out for t in timing.measure(case, no_clock, 1, 0).contenders} == {None}  # type: ignore[arg-type]
    assert shapes == ["20 x 5", "2 x 32768", "2 x 65536", "1 x 256", "5 x 256"]


@torch.no_grad()
def test_biases_and_a_tied_head() -> None:
    config = replace(TINY, attention_bias=True, mlp_bias=True, tied=True)
    for name in ("ops", "mlp"):
        for case in bench.cases(name, setting(config)):
            if case.op.startswith("decode") and case.op != "decode attention":
                assert {t.out for t in timing.measure(case, no_clock, 1, 0).contenders} == {None}  # type: ignore[arg-type]


def test_the_work_of_a_product_is_weight_input_and_output_once() -> None:
    llama = preset("llama3-8b")
    qkv, o, gate_up, down, head = products.products(llama)
    assert [(p.n, p.k, p.calls) for p in (qkv, o, gate_up, down, head)] == [
        (6144, 4096, 32), (4096, 4096, 32), (28672, 4096, 32), (4096, 14336, 32), (128256, 4096, 1),
    ]  # fmt: skip
    work = qkv.work(2, 2)
    assert work.bytes == 2 * (2 * 4096 + 4096 * 6144 + 2 * 6144)
    assert work.flops == 2 * 2 * 4096 * 6144


def test_the_work_of_a_step_reads_every_weight_once_but_the_embedding() -> None:
    llama, workload = preset("llama3-8b"), Workload(2, 512, 256)
    work = decode.step_work(llama, workload, 640)
    weights = llama.parameters - 128256 * 4096
    assert work.bytes == 2 * (weights + 2 * 32 * 2 * 8 * 128 * 640)
    assert 15.1e9 < work.bytes < 15.3e9
    granite = preset("granite-8b")
    assert decode.step_work(granite, workload, 640).bytes > 2 * granite.parameters


def test_a_step_of_each_variant_and_an_a_a_control() -> None:
    said: list[str] = []
    found = decode.measure(setting(replace(TINY, layers=1)), ["cuda", "cuda", "triton"], said.append)
    mode = "graph" if DEVICE == "cuda" else "eager"
    assert [t.name for t in found.contenders] == [f"cuda ({mode})", f"cuda' ({mode})", f"triton ({mode})"]
    assert [t.triton for t in found.contenders] == [False, False, True]
    assert all(t.samples for t in found.contenders)
    assert len(said) == 3


def test_unknown_benchmarks_are_refused_with_the_known_ones() -> None:
    assert bench.check_names(["ops", "gemm", "ops"]) == ["ops", "gemm"]
    with pytest.raises(UsageError, match="unknown benchmark 'gem': choose from gemm, attention, norm"):
        bench.check_names(["gemm", "gem"])
