"""`show` as a person reads it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from rich.console import Console

from profiler.__main__ import main
from profiler.cli import render_breakdown
from tests.traces.builders import run, step
from traces import store

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

H200 = {"type": "cuda", "name": "NVIDIA H200"}


def model(layers: int = 2, **known: Any) -> Any:
    """One decode step: in each layer a GEMM of known work, its reduction, and a norm of unknown work."""
    rows = []
    for n in range(layers):
        at = {"phase": "decode", "step": 0, "layer": n}
        module = {"module": f"model.layers.{n}.mlp.down_proj_with_a_long_name", "op": "aten::mm"}
        rows += [
            {
                "start_ns": 1000 * n, "dur_ns": 500 + n, **at, **module,
                "flops": 4_000_000, "min_bytes": 1_200_000, "shape": "M2 N1024 K512 f16",
            },
            {"start_ns": 1000 * n + 600, "dur_ns": 100, "category": "gemm_reduce", **at, **module},
            {"start_ns": 1000 * n + 700, "dur_ns": 100, "category": "norm", "group": "small_op", **at},
        ]  # fmt: skip
    steps = [step("decode", 0, 0, 1000 * layers, complete=False)]
    return run(rows, steps=steps, **({"device": H200} | known))


def shown(made: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    path = store.write(made, tmp_path / "r.parquet", force=True)
    assert main(["show", str(path), *argv]) == 0
    return capsys.readouterr().out


def line(text: str, word: str) -> list[str]:
    return next(x for x in text.splitlines() if word in x).split()


def test_the_header_says_what_a_step_is_made_of(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = shown(model(), tmp_path, capsys)
    assert "decode step: gemm 60.1%, small ops 10.0%, idle 29.9% of 2.000 us profiled" in out
    timing = {"decode": {"n": 9, "median_ns": 1000, "iqr_ns": 1}}
    out = shown(model(unprofiled=timing), tmp_path, capsys, "--phase", "decode")
    assert "idle -40.1% of 1.000 us unprofiled (kernels took longer under the profiler)" in out


def test_kernels_that_outlast_their_profiled_steps_are_not_the_profilers_fault(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = model()
    made.meta["steps"][0]["end_ns"] = 1000
    out = shown(made, tmp_path, capsys)
    assert "of 1.000 us profiled (kernels run beyond their steps)" in out
    assert "under the profiler" not in out


def test_a_dtype_cannot_drive_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    work = {"batch": 2, "prompt": 512, "new_tokens": 8, "dtype": "f16\x1b]0;x\x07"}
    out = shown(model(workload=work), tmp_path, capsys)
    assert "8 tokens, f16⟨001B⟩]0;x⟨0007⟩" in out
    assert "\x1b" not in out


def test_rates_are_shown_with_how_much_is_known(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = shown(model(), tmp_path, capsys, "--by", "group")
    assert line(out, "TFLOP/s") == [
        "group", "count", "mean", "exclusive", "share", "TFLOP/s", "GB/s", "roofline",
    ]  # fmt: skip
    assert line(out, "gemm  ")[-3:] == ["6.7", "1,998", "41.6%"]  # 1201 ns of two calls, reductions included
    assert line(out, "small_op")[-3:] == ["-", "-", "-"]
    assert "work: known of 85.7% of the busy time" in out
    assert "4.80 TB/s and dense FLOP/s (NVIDIA H200 datasheet" in out
    out = shown(model(), tmp_path, capsys, "--by", "layer")
    assert line(out, "TFLOP/s")[-1] == "known"
    assert out.count("86%") == 2


def test_layers_are_added_up_and_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = shown(model(), tmp_path, capsys, "--by", "module,category")
    found = line(out, "model.layers.*.mlp.down_proj_with_a_long_name")
    assert found[1:6] == ["gemm", "2", "500", "ns", "1.001"]
    assert "layers are added up" in out
    apart = shown(model(), tmp_path, capsys, "--by", "layer,module,category")
    assert "model.layers.1.mlp" in apart
    assert "layers are added up" not in apart
    listed = json.loads(shown(model(), tmp_path, capsys, "--by", "module", "--json"))
    assert {r["module"] for r in listed["rows"]} == {
        None, *(f"model.layers.{n}.mlp.down_proj_with_a_long_name" for n in range(2)),
    }  # fmt: skip
    assert listed["ceilings"]["bytes_per_s"] == 4.8e12
    assert listed["ceilings"]["flops_per_s"]["f16"] == 989.4e12


def test_layers_and_steps_come_in_their_own_order(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = shown(model(12), tmp_path, capsys, "--by", "layer")
    cells = [x.split()[0] for x in out.splitlines() if x[:1].isdigit()]
    assert cells == [str(n) for n in range(12)]


def test_no_rates_where_no_work_is_known(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = shown(run([{"start_ns": 0, "dur_ns": 5}]), tmp_path, capsys)
    assert not {"TFLOP/s", "roofline", "work:"} & set(out.split())


def test_an_unknown_gpu_has_rates_but_no_roofline(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = shown(model(device={"name": "NVIDIA A10G"}), tmp_path, capsys, "--by", "category")
    assert "roofline: no peak rates known for NVIDIA A10G" in out
    assert "roofline" not in line(out, "TFLOP/s")


def test_more_than_the_roofline_is_explained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    row = {"start_ns": 0, "dur_ns": 1000, "min_bytes": 5_000_000, "shape": "5000000 u8"}  # 5.0 TB/s
    out = shown(run([row], device={"name": "NVIDIA H200"}), tmp_path, capsys)
    assert "104.2%" in out
    assert "roofline above 100%: operands that the L2 cache still held" in out
    row["min_bytes"] = 4_000_000
    out = shown(run([row], device={"name": "NVIDIA H200"}), tmp_path, capsys)
    assert "above 100%" not in out


def test_module_names_are_whole_at_100_columns(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        render_breakdown, "console", lambda: Console(width=100, markup=False, highlight=False)
    )
    out = shown(model(), tmp_path, capsys, "--by", "module,category")
    assert max(map(len, out.splitlines())) <= 100
    first = [x[:40].strip() for x in out.splitlines()]
    begin = next(i for i, x in enumerate(first) if x.startswith("model.layers"))
    assert "".join(x.split()[0] for x in first[begin : begin + 2]).startswith("model.layers.*.mlp.down_proj")
    assert "…" not in out


def test_means_have_four_digits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for ns, said in ((968, "968 ns"), (1411, "1.411 us"), (56_429, "56.43 us"), (237_403, "237.4 us")):
        assert said in shown(run([{"start_ns": 0, "dur_ns": ns}]), tmp_path, capsys)
