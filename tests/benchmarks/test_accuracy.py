"""The accuracy benchmark on the CPU: what it measures, and that a wrong variant is not explained away."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import torch

from benchmarks.accuracy import main
from benchmarks.divergence import Reference, Trail, divergences, forced_facts
from profiler.ops import VARIANTS
from profiler.ops.cuda import CudaOps

if TYPE_CHECKING:
    from pathlib import Path

    from torch import Tensor


class WrongOps(CudaOps):
    """Every 7th logit has the wrong sign."""

    def linear(self, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        out = super().linear(x, weight, bias)
        if out.shape[-1] == 256:
            out[..., ::7] *= -1
        return out


def run(path: Path, capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str, dict[str, Any]]:
    code = main(["--model", "tiny", "--device", "cpu", "--json", str(path), *argv])
    report: dict[str, Any] = json.loads(path.read_text())
    return code, capsys.readouterr().out, report


def test_16_bits_err_little_and_every_difference_is_a_near_tie(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = ["--variant", "cuda", "--dtype", "bfloat16", "--batch", "4", "--tokens", "60"]
    code, out, report = run(tmp_path / "r.json", capsys, *argv)
    assert code == 0
    (result,) = report["results"]
    forced = result["forced"]
    assert forced["steps"] == 240
    assert 0 < forced["mean_abs_error"] < forced["max_abs_error"] < 0.1
    assert forced["top1_agreement"] > 0.95
    assert forced["unexplained"] == 0
    assert len(result["free"]) == 4
    assert any(d["step"] is not None for d in result["free"])
    assert all(d["reason"].startswith(("near-tie: margin", "equal to the end")) for d in result["free"])
    assert "| cuda | eager |" in out


def test_the_same_arithmetic_has_no_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, report = run(tmp_path / "r.json", capsys, "--variant", "cuda", "--tokens", "8")
    assert code == 0
    assert report["workload"]["dtype"] == "float32"
    forced = report["results"][0]["forced"]
    assert (forced["max_abs_error"], forced["top1_agreement"]) == (0, 1)


def test_triton_errs_as_little(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("triton")
    argv = ["--variant", "triton", "--dtype", "float16", "--prompt", "4", "--tokens", "3"]
    code, _, report = run(tmp_path / "r.json", capsys, *argv)
    assert code == 0
    assert report["results"][0]["forced"]["max_abs_error"] < 0.01


def test_a_wrong_variant_is_code_3(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(VARIANTS, "wrong", f"{__name__}:WrongOps")
    monkeypatch.setattr("profiler.ops.import_module", lambda name: __import__("sys").modules[name])
    code, out, report = run(
        tmp_path / "r.json", capsys, "--variant", "wrong", "--batch", "4", "--tokens", "40"
    )
    assert report["results"][0]["forced"]["max_abs_error"] > 1
    assert report["results"][0]["forced"]["top1_agreement"] < 0.95
    assert (code, "NOT explained" in out) == (3, True)


def trail(tokens: list[list[int]], margin: float, top: float) -> Trail:
    chosen = torch.tensor(tokens)
    value = torch.ones(chosen.shape)
    return Trail(chosen, value * 0.5, value * 0.1, value * top, value * margin, roof=0.2)


def test_the_first_difference_of_each_sequence_is_judged() -> None:
    reference = Reference(torch.tensor([[1, 1], [2, 2], [3, 3]]), torch.zeros(3, 2, 9))
    found = divergences(trail([[1, 1], [2, 7], [3, 8]], margin=0.5, top=0.1), reference)
    assert [d["step"] for d in found] == [None, 1]
    assert found[1]["reason"] == "near-tie: margin 0.5 <= 0.5657"  # 4 * sqrt(2) * 0.1
    assert (found[1]["reference_token"], found[1]["token"]) == (2, 7)
    (_, far) = divergences(trail([[1, 1], [2, 7], [3, 8]], margin=0.5, top=0.05), reference)
    assert far["reason"] == "NOT explained: margin 0.5 > 0.2828"
    (_, wrong) = divergences(trail([[1, 1], [2, 7], [3, 8]], margin=1.5, top=9.0), reference)
    assert wrong["reason"] == "NOT explained: margin 1.5 > 1.131"  # no rounding errs by 9


def test_disagreements_along_the_reference_are_counted() -> None:
    reference = Reference(torch.tensor([[1, 1], [2, 2]]), torch.zeros(2, 2, 9))
    facts = forced_facts(trail([[1, 5], [2, 2]], margin=0.5, top=0.05), reference)
    assert facts["top1_agreement"] == 0.75
    assert (facts["disagreements"], facts["unexplained"]) == (1, 1)
    assert facts["max_abs_error"] == 0.5


@pytest.mark.parametrize(
    ("argv", "code"),
    [
        (["--model", "nope"], 2),
        (["--variant", "nope"], 2),
        (["--mode", "graph"], 2),
        (["--tokens", "1"], 2),
        (["--tokens", "4", "--weights", "absent"], 4),
    ],
)
def test_bad_requests_are_one_line(argv: list[str], code: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--model", "tiny", "--device", "cpu", *argv]) == code
    captured = capsys.readouterr()
    assert (captured.out, len(captured.err.splitlines())) == ("", 1)
