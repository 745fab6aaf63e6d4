from __future__ import annotations

from tests.traces.builders import run
from traces.analysis.outside import kernels_outside


def test_lists_what_is_not_triton() -> None:
    rows = [
        {"name": "splitk_gemm_kernel", "backend": "triton", "phase": "decode"},
        {"name": "triton_poi_fused_add_0", "backend": "inductor", "phase": "decode"},
        {"name": "Memcpy DtoD", "kind": "memcpy", "phase": "decode"},
        {"name": "Memset", "kind": "memset", "phase": "decode"},
        {"name": "nvjet_sm90", "backend": "cublas", "phase": "decode"},
        {"name": "nvjet_sm90", "backend": "cublas", "phase": "prefill"},
        {"name": "elementwise_kernel", "backend": "aten"},  # outside of every step
        {"name": "mystery", "phase": "prefill"},
        {"name": "graph", "kind": "graph", "phase": "decode"},
    ]
    made = run([{"start_ns": 10 * i, "dur_ns": 5} | row for i, row in enumerate(rows)])
    assert kernels_outside(made) == {"nvjet_sm90": 2, "mystery": 1, "graph": 1}
    assert "nvjet_sm90" not in kernels_outside(made, ["cublas"])


def test_a_step_of_triton_only_has_nothing_outside() -> None:
    made = run([{"start_ns": 0, "dur_ns": 5, "backend": "triton", "phase": "decode"}])
    assert kernels_outside(made) == {}
