"""`tune` as a user meets it; the search itself is tested with fakes in tests/profiler/tune."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from profiler.__main__ import main
from profiler.cli import tune
from profiler.cli.render_tuning import print_tuning

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

torch = pytest.importorskip("torch")
triton = pytest.importorskip("triton")
splitk = pytest.importorskip("profiler.ops.triton.splitk")


@pytest.fixture
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ([], 5, "needs a CUDA GPU"),
        (["--model", "nope"], 2, "unknown model 'nope'"),
        (["--dtype", "int3"], 2, "unknown dtype 'int3'"),
        (["--prompt", "200000"], 2, "exceed the 131072 positions"),
    ],
)
@pytest.mark.usefixtures("no_gpu")
def test_refusals_are_one_line(
    arguments: list[str], code: int, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["tune", *arguments]) == code
    captured = capsys.readouterr()
    assert captured.out == ""
    (line,) = captured.err.strip().splitlines()
    assert words in line


def test_missing_triton_is_said(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(tune, "find_spec", lambda _: None)
    assert main(["tune"]) == 5
    assert "pip install 'kernelgap[gpu]'" in capsys.readouterr().err


def shape(name: str, phase: str, untuned: float | None, tuned: float | None) -> dict[str, Any]:
    known = {"tb_s": 3.2, "tflop_s": 12.5} if tuned else {}
    return known | {
        "shape": name, "phase": phase, "calls_per_step": 32, "status": "tuned" if tuned else "left",
        "untuned_us": untuned, "tuned_us": tuned, "spread": 0.004 if tuned else None,
        "speedup": untuned / tuned if untuned and tuned else None,
        "config": "16x32x128 split 2 warps 4 stages 4 group 1" if tuned else None, "tried": 200,
        "failed": {"wrong result": 1},
    }  # fmt: skip


def report(end_to_end: dict[str, Any]) -> dict[str, Any]:
    shapes = [
        shape("M2 N6144 K4096", "decode", 20.0, 16.0),
        shape("M2 N4096 K4096", "decode", 20.0, 16.0),
        shape("M1024 N6144 K4096", "prefill", None, None),
    ]
    return {
        "schema_version": 1, "gpu": "GPU", "model": "m", "dtype": "float16", "batch": 2, "prompt": 512,
        "kernel": "abc", "cache": "tiles.json", "other_kernel": 2, "binaries": 180, "shapes": shapes,
        "end_to_end": end_to_end,
    }  # fmt: skip


def test_the_table_sums_a_step_and_says_what_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    side = {"n": 48, "median_ns": 5_000_000, "iqr_ns": 10_000}
    phase = {"untuned": side | {"median_ns": 6_000_000}, "tuned": side, "speedup": 1.2}
    print_tuning(report({"rounds": 6, "decode": phase, "prefill": phase}))
    out = capsys.readouterr().out
    assert "GEMMs of a decode step: 1.280 ms untuned, 1.024 ms tuned: 1.25x" in out
    assert "GEMMs of a prefill step: 1 of 1 shapes are not measured" in out
    assert "decode step, graph mode, unprofiled: untuned 6.000 ms" in out
    assert "tuned 5.000 ms (IQR 10.000 us): 1.20x" in out
    assert "2 cache entries of another kernel or Triton did not count" in out
    assert "cache: tiles.json" in out


def test_what_was_not_measured_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    print_tuning(report({"skipped": "3 shapes are not tuned yet: run again"}))
    assert "end to end: not measured (3 shapes are not tuned yet: run again)" in capsys.readouterr().out


@pytest.mark.skipif(torch.cuda.is_available(), reason="pretends that there is a GPU")
@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--no-end-to-end"], "not asked for"),
        (["--budget", "100"], "of the budget are left, 150 s are needed"),
    ],
)
def test_the_whole_verb_on_a_pretended_gpu(
    arguments: list[str],
    reason: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Only the GPU is faked: workers compile for sm_90, results are kept, and a second run finds them."""
    from profiler.tune import space, timing

    class Bench:
        def __init__(self, *_: object) -> None:
            pass

        def sampler(self, config: splitk.Config) -> Callable[[], float]:
            return lambda: 1000 / config.block_n

        def right(self, config: splitk.Config) -> bool:
            return True

    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "triton"))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: SimpleNamespace(name="Pretended"))
    monkeypatch.setattr(timing, "GpuBench", Bench)
    monkeypatch.setattr(space, "_decode", lambda *_: iter([splitk.Config(16, 64, 64, 1, 4, 3, 1)]))
    monkeypatch.setattr(space, "_prefill", lambda *_: iter(()))
    driver = SimpleNamespace(
        get_current_target=lambda: SimpleNamespace(backend="cuda", arch=90, warp_size=32)
    )
    monkeypatch.setattr(triton.runtime.driver, "_active", driver)
    command = ["tune", "--model", "tiny", "--dtype", "float16", "--cache", str(tmp_path / "t.json"), "--json"]
    for state in ("tuned", "known"):
        assert main([*command, *arguments]) == 0
        captured = capsys.readouterr()
        found = json.loads(captured.out)
        assert {row["status"] for row in found["shapes"]} == {state}
        assert reason in found["end_to_end"]["skipped"]
        assert found["gpu"] == "Pretended"
    decode = [row for row in found["shapes"] if row["phase"] == "decode"]
    assert {row["speedup"] for row in decode} == {2.0}


@pytest.mark.gpu
def test_a_short_budget_stops_cleanly_and_resumes(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    import json

    cache = tmp_path / "tiles.json"
    command = ["tune", "--model", "tiny", "--dtype", "float16", "--cache", str(cache), "--json"]
    assert main([*command, "--budget", "15", "--no-end-to-end"]) == 0
    first = json.loads(capsys.readouterr().out)
    assert first["end_to_end"] == {"skipped": "not asked for"}
    assert main([*command, "--budget", "240", "--no-end-to-end"]) == 0
    second = json.loads(capsys.readouterr().out)
    assert {row["status"] for row in second["shapes"]} <= {"tuned", "known"}
    assert all(row["tuned_us"] > 0 for row in second["shapes"])
