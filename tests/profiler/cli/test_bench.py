"""`bench` as a user meets it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from profiler.__main__ import main
from profiler.cli import bench
from profiler.cli.render import CPU_NOTICE
from profiler.cli.render_bench import print_bench

if TYPE_CHECKING:
    from pathlib import Path

torch = pytest.importorskip("torch")
pytest.importorskip("triton")

CPU = ["--device", "cpu", "--prompt", "4"]
interpreted = pytest.mark.skipif(torch.cuda.is_available(), reason="tests with a GPU have no interpreter")


@pytest.fixture
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["gemm"], 5, "no CUDA GPU is usable"),
        (["gem"], 2, "unknown benchmark 'gem'"),
        (["gemm", "--model", "nope", *CPU], 2, "unknown model 'nope'"),
        (["gemm", "--dtype", "int3", *CPU], 2, "unknown dtype 'int3'"),
        (["gemm", "--device", "tpu"], 2, "unknown device 'tpu'"),
        (["gemm", "--model", "llama3-8b", "--device", "cpu"], 5, "llama3-8b needs a CUDA GPU"),
        (["gemm", "--device", "cpu", "--prompt", "300"], 2, "exceed the 256 positions of tiny"),
        (["attention", "--lengths", "16,300", *CPU], 2, "--lengths 300: tiny has 256 positions"),
        (["decode", "--variant", "cuda,tritn", *CPU], 2, "unknown variant 'tritn'"),
        (["gemm", "--device", "cpu", "--batch", "9999999"], 2, "GiB are needed, too much for the CPU"),
    ],
)
@pytest.mark.usefixtures("no_gpu")
def test_refusals_are_one_line(
    arguments: list[str], code: int, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", *arguments]) == code
    captured = capsys.readouterr()
    assert captured.out == ""
    (line,) = captured.err.strip().splitlines()
    assert words in line


@pytest.mark.parametrize(
    "bad", [["--lengths", "0"], ["--lengths", ","], ["--bandwidth", "fast"], ["--batch", "0"]]
)
def test_bad_numbers_are_usage_errors(bad: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["bench", "attention", *bad])
    assert stopped.value.code == 2
    assert bad[0] in capsys.readouterr().err


def test_missing_triton_is_said(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(bench, "find_spec", lambda _: None)
    assert main(["bench", "gemm"]) == 5
    assert "pip install 'kernelgap[gpu]'" in capsys.readouterr().err


@interpreted
def test_a_full_gpu_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def full(*_: object) -> None:
        raise torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB")

    monkeypatch.setattr(bench, "_measured", full)
    assert main(["bench", "norm", *CPU]) == 5
    assert "the GPU ran out of memory in bench norm: use a smaller --batch" in capsys.readouterr().err


@interpreted
@pytest.mark.parametrize("where", ["-", None])
def test_on_the_cpu_it_runs_and_says_that_times_mean_nothing(
    where: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    json_ = ["--json", *([where] if where else [])]
    assert main(["bench", "norm", *CPU, *json_]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["schema_version"] == 1
    assert report["notice"] == CPU_NOTICE
    assert report["roof"] is None
    assert [r["op"] for r in report["benchmarks"]["norm"]["rows"]] == ["decode RMSNorm", "prefill RMSNorm"]
    assert main(["bench", "norm", *CPU]) == 0
    assert CPU_NOTICE in capsys.readouterr().out


@interpreted
def test_json_files_are_not_overwritten_unasked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "new" / "bench.json"
    command = ["bench", "norm", *CPU, "--json", str(path)]
    assert main(command) == 0
    assert json.loads(path.read_text())["model"] == "tiny"
    assert "decode RMSNorm" in capsys.readouterr().out
    assert main(command) == 1
    assert "exists already; pass --force" in capsys.readouterr().err
    assert main([*command, "--force"]) == 0
    assert main(["bench", "norm", *CPU, "--json", str(tmp_path)]) == 1
    assert "is a folder; name a file" in capsys.readouterr().err


def side(name: str, us: float, does: str = "") -> dict[str, Any]:
    return {
        "name": name, "us": us, "iqr_us": 0.25, "n": 11, "gb_per_s": 3210.0, "tflop_per_s": 6.4,
        "of_roof": 0.671, "does": does,
    }  # fmt: skip


def row(op: str, cuda: dict[str, Any] | None, triton: dict[str, Any] | None, **more: Any) -> dict[str, Any]:
    ratio = cuda["us"] / triton["us"] if cuda and triton else None
    return {
        "op": op, "shape": "M1 N6144 K4096", "bytes": 1, "flops": 1, "calls_per_step": 32, "bound": "memory",
        "cuda": cuda, "triton": triton, "ratio": ratio,
    } | more  # fmt: skip


def report(rows: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    out = [
        {"op": "decode attention", "shape": s, "name": "SDPA flash", "why": "not supported"}
        for s in ("a", "b")
    ]
    return {
        "model": "llama3-8b", "batch": 1, "prompt": 44, "dtype": "float16",
        "device": {"type": "cuda", "name": "Some GPU"},
        "roof": {"gb_per_s": 4700.0, "tflop_per_s": 989.4, "source": "measured; a data sheet"},
        "benchmarks": {"ops": {"rows": rows, "out": out}},
    } | more  # fmt: skip


def test_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [
        row("decode QKV", side("cuBLAS", 20.0), side("norm_qkv_rope", 16.0, "RMSNorm before")),
        row("prefill QKV", side("cuBLAS", 20.0), side("SplitK (tuned)", 40.0), bound="compute"),
    ]
    print_bench(report(rows))
    text = capsys.readouterr().out
    assert "llama3-8b float16, batch 1, prompt 44 on Some GPU" in text
    words = " ".join(text.split())
    assert "cuBLAS 20.00 67.1% norm_qkv_rope 16.00 67.1% 1.250 3,210 GB/s 11 0.25 / 0.25" in words
    assert "6.4 TFLOP/s" in text
    assert "67.1%" in text
    assert "norm_qkv_rope also does: RMSNorm before (decode QKV)" in text
    assert "no time: SDPA flash: not supported (decode attention a; decode attention b)" in text
    assert "CUDA 1.280 ms, Triton 1.792 ms, ratio 0.714" in text
    assert "roof: 4,700 GB/s, 989 TFLOP/s (measured; a data sheet)" in text
    assert CPU_NOTICE not in text


def test_a_missing_side_and_an_unknown_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    unknown = side("ours", 2.0) | {"of_roof": None}
    print_bench(report([row("decode attention", None, unknown), row("x", unknown, None)], roof=None))
    text = capsys.readouterr().out
    assert "roof: not known for this GPU; --bandwidth GB/S gives the memory one" in text
    assert "all layers" not in text


@pytest.mark.parametrize(("bandwidth", "expected"), [(None, 4800e9), (4700.0, 4700e9)])
def test_the_roof_is_the_data_sheets_unless_it_is_given(bandwidth: float | None, expected: float) -> None:
    peaks = bench._peaks({"type": "cuda", "name": "NVIDIA H200"}, "float16", bandwidth)
    assert peaks is not None
    assert peaks.bytes_per_s == expected
    assert peaks.flops_per_s == pytest.approx(989.4e12)
    assert bench._peaks({"type": "cuda", "name": "Unheard Of"}, "float16", None) is None


def test_default_lengths_that_do_not_fit_are_left_out_aloud(capsys: pytest.CaptureFixture[str]) -> None:
    from profiler.model.config import preset

    assert bench._fitting(preset("granite-8b"), None, "cuda") == [512, 2048]
    assert "no attention over 8192 keys: granite-8b has 4096 positions" in capsys.readouterr().err


@pytest.mark.gpu
def test_all_of_it_on_a_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    names = ["gemm", "attention", "norm", "mlp", "softmax", "ops"]
    assert main(["bench", *names, "--model", "tiny", "--dtype", "float16", "--lengths", "64", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["benchmarks"]
    assert list(found) == names
    for name in names:
        assert all(r["triton"] and r["triton"]["us"] > 0 for r in found[name]["rows"]), name
        assert [o for o in found[name]["out"] if o["why"] == "wrong result"] == []
