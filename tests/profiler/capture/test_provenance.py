"""Inductor's provenance: its artifact as recorded, and one real compilation for the CPU."""

from __future__ import annotations

import json
import shutil
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from profiler.capture.provenance import Origin, Recorder, module_path, read

# As PyTorch 2.11 and 2.13 write it, shortened; `copy_` comes from code of the root.
ARTIFACT = {
    "preToPost": {},
    "postToPre": {"mm": ["linear"], "mean": ["rms_norm"], "embedding": ["embedding"], "argmax": ["argmax"]},
    "cppCodeToPost": {
        "triton_red_fused_embedding_mean_0:1": ["mean", "embedding"],
        "triton_red_fused_argmax_1:10": ["argmax", "copy_"],
        "extern_kernels.mm:2": ["mm"],
        "triton_poi_fused_copy_2:11": ["copy_"],
    },
    "postToCppCode": {},
    "version": 2.0,
}
PATHS = {"l_x": None, "embedding": "embed", "rms_norm": "norm", "linear": "lm_head", "argmax": "sample"}


def test_the_last_operation_names_the_module_and_calls_keep_their_order() -> None:
    assert read(json.dumps(ARTIFACT), PATHS) == [
        Origin("triton_red_fused_embedding_mean_0", "norm"),
        Origin("extern_kernels.mm", "lm_head"),
        Origin("triton_red_fused_argmax_1", "sample"),
        Origin("triton_poi_fused_copy_2", None),
    ]


def test_the_call_that_a_kernel_feeds_does_not_name_its_module() -> None:
    calls = {
        "triton_red_fused_rms_norm_add_splitk_linear_3:1": ["mean", "splitk_linear"],
        "torch.ops.kernelgap.splitk_linear.default:2": ["splitk_linear"],
    }
    made = {"cppCodeToPost": calls, "postToPre": {"mean": ["rms_norm"], "splitk_linear": ["linear"]}}
    assert read(json.dumps(made), PATHS) == [
        Origin("triton_red_fused_rms_norm_add_splitk_linear_3", "norm"),
        Origin("torch.ops.kernelgap.splitk_linear.default", "lm_head"),
    ]


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"version": 2.0}', '{"cppCodeToPost": {"k": []}, "postToPre": {}}',
     '{"cppCodeToPost": {"k:1": 5}, "postToPre": {}}', '{"cppCodeToPost": [], "postToPre": {}}'],
)  # fmt: skip
def test_another_format_is_no_provenance(text: str) -> None:
    assert read(text, PATHS) is None


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("L['model'].layers.0.attn.qkv", "layers.0.attn.qkv"),
        ("L['self']", None),
        ("L['self']._modules['layers']._modules['0'].mlp", "layers.0.mlp"),
        ("L['self'].layers['0'].mlp", "layers.0.mlp"),
        ("model.layers.0", "model.layers.0"),
        ("", None),
    ],
)
def test_paths_are_told_from_the_root(path: str, expected: str | None) -> None:
    assert module_path({"a": ("L['model']", object), "b": (path, object)}) == expected
    assert module_path({}) is None
    assert module_path(None) is None


class Tiny(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.head = nn.RMSNorm(8), nn.Linear(8, 16, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.head(self.norm(x + 1))
        return out


def run(model: Tiny, x: Tensor) -> Tensor:
    out: Tensor = model(x) * 2
    return out


@pytest.mark.skipif(shutil.which("g++") is None, reason="Inductor compiles C++ for the CPU")
@pytest.mark.filterwarnings("default")  # the compiler's own warnings differ between versions
def test_a_compilation_tells_where_its_kernels_come_from() -> None:
    recorder = Recorder({})
    options: dict[str, Any] = {"fullgraph": True, "dynamic": False, "backend": recorder}
    model, x = Tiny(), torch.ones(4, 8)
    with torch.no_grad():
        compiled = torch.compile(run, **options)
        assert torch.allclose(compiled(model, x), run(model, x), atol=1e-5)
    torch.compiler.reset()
    assert recorder.origins is not None
    kernels = [(o.kernel.split("_")[0], o.module) for o in recorder.origins]
    assert kernels == [("cpp", "norm"), ("extern", "head"), ("cpp", None)]
