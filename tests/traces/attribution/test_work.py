"""Which row carries a call's work, and that what it carries is possible on a real machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.traces.attribution.limits import faster_than_possible
from tests.traces.traces import host, kernel, op, trace, user_range, write
from traces import store
from traces.ingest import ingest

if TYPE_CHECKING:
    from traces.store import Run

CASES = Path(__file__).parents[2] / "cases"
MM = {"Input Dims": [[2, 64], [64, 32]], "Input type": ["c10::Half", "c10::Half"]}
ADD = {"Input Dims": [[8], [8], []], "Input type": ["float", "float", "Scalar"]}
GEMM = "nvjet_tst_64x8_64x16_4x1_v_bz_TNN"
REDUCE = "void cublasLt::splitKreduce_kernel<32, 16, int, float, __half>"
ELEMENTWISE = "void at::native::vectorized_elementwise_kernel<4>"


def ran(tmp_path: Path, *calls: tuple[str, dict[str, Any], list[str]], **meta: Any) -> Run:
    """Each call is an op, its recorded inputs, and the kernels that it launched."""
    events, correlation = [], 0
    for n, (name, inputs, kernels) in enumerate(calls):
        at = 1000.0 * n
        events.append(op(name, at, 900, n + 1, **inputs))
        for k, kernel_name in enumerate(kernels):
            correlation += 1
            events.append(host("cudaLaunchKernel", at + 10 * (k + 1), 2, correlation))
            made = kernel(kernel_name, at + 10 * (k + 1) + 4, 3, correlation)
            if kernel_name.startswith("Mem"):
                made["cat"] = "gpu_memset" if "set" in kernel_name else "gpu_memcpy"
            events.append(made)
    return ingest(write(tmp_path / "t.json", trace(*events, **meta)))


def carried(run: Run) -> list[tuple[int | None, int | None, str | None]]:
    return list(zip(*(run.table[c].to_pylist() for c in ("flops", "min_bytes", "shape")), strict=True))


def test_one_kernel_of_a_call_carries_its_work(tmp_path: Path) -> None:
    run = ran(
        tmp_path, ("aten::mm", MM, ["Memset (Device)", GEMM, REDUCE]), ("aten::add", ADD, [ELEMENTWISE])
    )
    none = (None, None, None)
    product = (2 * 2 * 64 * 32, 2 * (128 + 2048 + 64), "M2 N32 K64 f16")
    assert carried(run) == [none, product, none, (None, 3 * 32, "8 f32")]


def test_kernels_that_share_a_call_in_an_unknown_way_carry_nothing(tmp_path: Path) -> None:
    run = ran(tmp_path, ("aten::mm", MM, [GEMM, GEMM]), ("aten::add", ADD, [ELEMENTWISE, ELEMENTWISE]))
    assert carried(run) == [(None, None, None)] * 4


def test_of_copies_only_those_within_the_device_have_work(tmp_path: Path) -> None:
    inputs = {"Input Dims": [[8], [8], []], "Input type": ["float", "float", "Scalar"]}
    names = ["Memcpy DtoD (Device -> Device)", "Memcpy HtoD (Pageable -> Device)"]
    run = ran(tmp_path, *(("aten::copy_", inputs, [n]) for n in names))
    assert carried(run) == [(None, 64, "8 f32"), (None, None, None)]


def test_shapes_that_differ_only_in_strides_or_scalars_are_kept_apart(tmp_path: Path) -> None:
    plain = {"Input Strides": [[1], [1], []], "Concrete Inputs": ["", "", "1"]}
    expanded = {"Input Strides": [[1], [0], []], "Concrete Inputs": ["", "", "1"]}
    run = ran(tmp_path, *(("aten::add", ADD | more, [ELEMENTWISE]) for more in (plain, expanded, plain)))
    assert [moved for _, moved, _ in carried(run)] == [96, 32 + 4 + 32, 96]


def test_our_decode_sees_at_least_the_prompt_and_itself(tmp_path: Path) -> None:
    cache = [2, 2, 24, 16]
    inputs = {
        "Input Dims": [[2, 4, 1, 16], cache, cache, [1]],
        "Input type": [*["c10::Half"] * 3, "long int"],
    }
    call = ("kernelgap::attention", inputs, ["attention_decode_kernel"])
    ours = {"workload": {"batch": 2, "prompt": 16, "new_tokens": 8, "dtype": "float16"}}
    assert carried(ran(tmp_path, call)) == [(None, None, "B2 H4/2 T1 L24 D16 f16")]
    ((flops, moved, _),) = carried(ran(tmp_path, call, kernelgap=ours))
    assert flops == 4 * 2 * 4 * 16 * 17
    assert moved == 2 * 2 * 16 * (2 * 4 + 2 * 2 * 17)


def test_a_trace_without_shapes_has_no_work(tmp_path: Path) -> None:
    run = ingest(write(tmp_path / "t.json", trace(user_range("a", 0, 9), kernel(GEMM, 1, 2))))
    assert carried(run) == [(None, None, None)]


@pytest.mark.parametrize("path", store.find([store.gallery()]), ids=lambda p: p.stem[:24])
def test_nothing_in_the_gallery_is_faster_than_its_gpu(path: Path) -> None:
    assert faster_than_possible(store.read(path)) == []


def test_nothing_in_a_real_trace_is_faster_than_its_gpu() -> None:
    run = ingest(CASES / "h200_tiny_triton_graph.trace.json.gz")
    assert faster_than_possible(run) == []
    with_work = [s for _, moved, s in carried(run) if moved is not None]
    assert len(with_work) > 50
