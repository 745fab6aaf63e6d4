"""`capture --weights`: real weights are loaded, recorded in the run, or refused in one line."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from profiler.__main__ import main
from profiler.capture.run import capture_variant
from profiler.model.config import WORKLOADS
from tests.profiler.model.reference import FAMILIES, TINY, huggingface
from traces import store
from traces.errors import UsageError


def failure(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str]:
    capsys.readouterr()
    code = main(argv)
    captured = capsys.readouterr()
    assert captured.out == ""
    return code, captured.err.strip().splitlines()[-1]


def test_a_run_says_which_weights_it_had(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    huggingface(TINY).save_pretrained(tmp_path / "mine", max_shard_size="60KB")
    argv = ["--weights", str(tmp_path / "mine"), "--variant", "cuda", "-o", str(tmp_path / "runs"), "--json"]
    assert main(["capture", "--device", "cpu", *argv]) == 0
    captured = capsys.readouterr()
    assert "loading the weights of mine: " in captured.err
    made = store.read(Path(json.loads(captured.out)["runs"][0]))
    assert made.meta["model"] == "tiny"  # chosen by the checkpoint
    weights = made.meta["weights"]
    assert weights is not None
    assert (weights["source"], weights["name"], weights["dtypes"]) == ("checkpoint", "mine", ["float32"])
    assert str(tmp_path) not in json.dumps(made.meta)


@pytest.mark.parametrize("model", [[], ["--model", "llama3-8b"], ["--model", "tiny"]])
def test_weights_that_do_not_fit_are_code_4(
    tmp_path: Path, model: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    huggingface(replace(TINY, vocab=300)).save_pretrained(tmp_path)
    code, line = failure(capsys, "capture", "--device", "cpu", *model, "--weights", str(tmp_path))
    assert (code, "vocab_size 300, not" in line) == (4, True), line


def test_damaged_or_absent_weights_are_code_4(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["capture", "--device", "cpu", "--variant", "cuda", "-o", str(tmp_path / "runs"), "--weights"]
    code, line = failure(capsys, *argv, str(tmp_path / "absent"))
    assert (code, "no such folder" in line) == (4, True), line
    huggingface(TINY).save_pretrained(tmp_path / "cut")
    file = tmp_path / "cut" / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-9])
    code, line = failure(capsys, *argv, str(tmp_path / "cut"))
    assert (code, "cut short" in line) == (4, True), line
    code, line = failure(capsys, *argv, str(file))
    assert (code, "is a file" in line) == (4, True), line


def test_other_architectures_are_code_4(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "config.json").write_text('{"architectures": ["GraniteForCausalLM"]}')
    code, line = failure(capsys, "capture", "--device", "cpu", "--weights", str(tmp_path))
    assert (code, "architecture is GraniteForCausalLM" in line) == (4, True), line


def test_a_head_size_that_triton_lacks_is_refused_before_the_model_is_built(tmp_path: Path) -> None:
    pytest.importorskip("triton")
    said: list[str] = []
    with pytest.raises(UsageError, match="attention: head size 24 is not one of 16, 32, 64, 128"):
        capture_variant(
            replace(TINY, head_dim=24), "triton", None, WORKLOADS["tiny"], "cpu", folder=tmp_path,
            progress=said.append,
        )  # fmt: skip
    assert said == []


def test_random_weights_are_said_to_be_so(tmp_path: Path) -> None:
    captured = capture_variant(
        FAMILIES["granite"], "cuda", None, WORKLOADS["tiny"], "cpu", folder=tmp_path, progress=print, seed=3
    )
    assert captured.metadata["weights"] == {"source": "random", "seed": 3}
