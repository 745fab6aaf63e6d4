"""Folders of safetensors, as transformers saves them and as accidents leave them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import torch

from profiler.model.checkpoint import INDEX, WHOLE, load, open_checkpoint
from profiler.model.huggingface import choose, fit
from profiler.model.transformer import Transformer, build
from profiler.ops import load as load_ops
from tests.profiler.model.reference import FAMILIES, TINY, huggingface, ours
from traces.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

safetensors = pytest.importorskip("safetensors.torch")
LLAMA, GRANITE = FAMILIES["llama"], FAMILIES["granite"]


def save(folder: Path, config: Any = TINY, dtype: torch.dtype = torch.float32, **options: Any) -> Any:
    model = huggingface(config).to(dtype)
    model.save_pretrained(folder, **options)
    return model


def fresh(config: Any, dtype: torch.dtype = torch.float32) -> Transformer:
    return build(config, load_ops("cuda", "cpu"), device="cpu", dtype=dtype, seed=9)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("shard", ["1GB", "60KB"])
def test_what_transformers_saves_is_loaded(tmp_path: Path, family: str, shard: str) -> None:
    config = FAMILIES[family]
    reference = save(tmp_path, config, max_shard_size=shard)
    assert (tmp_path / INDEX).exists() == (shard == "60KB")
    assert fit(tmp_path, config) == config
    checkpoint, model = open_checkpoint(tmp_path, config), fresh(config)
    load(model, checkpoint)
    expected = ours(config, reference).state_dict()
    assert all(torch.equal(tensor, expected[name]) for name, tensor in model.state_dict().items())
    facts = checkpoint.facts()
    assert (facts["source"], facts["name"]) == ("checkpoint", tmp_path.name)
    assert facts["dtypes"] == ["float32"]
    assert (facts["files"] > 1) == (shard == "60KB")
    assert facts["bytes"] > 4 * config.parameters


def test_the_preset_is_chosen_by_the_config(tmp_path: Path) -> None:
    save(tmp_path)
    assert choose(tmp_path) == TINY


def test_weights_are_cast_to_the_models_dtype(tmp_path: Path) -> None:
    reference = save(tmp_path, dtype=torch.bfloat16)
    model = fresh(TINY, torch.float16)
    load(model, open_checkpoint(tmp_path, TINY))
    assert torch.equal(model.embed.weight, reference.model.embed_tokens.weight.half())


def test_a_tied_head_that_is_stored_must_equal_the_table(tmp_path: Path) -> None:
    save(tmp_path, GRANITE)
    state = safetensors.load_file(tmp_path / WHOLE)
    table = state["model.embed_tokens.weight"]
    safetensors.save_file(state | {"lm_head.weight": table.clone()}, tmp_path / WHOLE)
    checkpoint = open_checkpoint(tmp_path, GRANITE)
    assert checkpoint.ignored == 1
    load(fresh(GRANITE), checkpoint)
    safetensors.save_file(state | {"lm_head.weight": table + 1}, tmp_path / WHOLE)
    with pytest.raises(InputError, match=r"lm_head\.weight differs"):
        load(fresh(GRANITE), open_checkpoint(tmp_path, GRANITE))


def damaged(change: Callable[[Path], object], tmp_path: Path, *, sharded: bool) -> str:
    save(tmp_path, max_shard_size="60KB" if sharded else "1GB")
    change(tmp_path)
    with pytest.raises(InputError) as caught:
        open_checkpoint(tmp_path, TINY)
    message = str(caught.value)
    assert "\n" not in message
    return message


def shard(folder: Path) -> Path:
    return sorted(folder.glob("model-*.safetensors"))[1]


def cut(path: Path, keep: int) -> None:
    path.write_bytes(path.read_bytes()[:keep])


def reindex(folder: Path, change: Callable[[dict[str, str]], object]) -> None:
    index = json.loads((folder / INDEX).read_bytes())
    change(index["weight_map"])
    (folder / INDEX).write_text(json.dumps(index))


NORM = "model.norm.weight"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: cut(d / WHOLE, -1), "cut short, or not a safetensors file"),
        (lambda d: cut(d / WHOLE, 0), "cut short, or not a safetensors file"),
        (lambda d: (d / WHOLE).write_text("version https://git-lfs.github.com/spec/v1\n"), "cut short"),
        (lambda d: (d / WHOLE).unlink(), "neither model.safetensors nor"),
        (lambda d: (d / WHOLE).rename(d / "pytorch_model.bin"), "holds PyTorch pickles (pytorch_model.bin)"),
        (lambda d: ((d / WHOLE).unlink(), (d / WHOLE).mkdir()), "is a folder"),
        (lambda d: safetensors.save_file({NORM: torch.ones(64)}, d / WHOLE), "missing: model.embed_tok"),
    ],
)  # fmt: skip
def test_a_damaged_file_is_refused(tmp_path: Path, change: Callable[[Path], object], message: str) -> None:
    assert message in damaged(change, tmp_path, sharded=False)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: shard(d).unlink(), "no such file, though model.safetensors.index.json names it"),
        (lambda d: cut(shard(d), -5), "cut short"),
        (lambda d: (d / INDEX).write_text("{"), "not a valid index"),
        (lambda d: (d / INDEX).write_text('{"weight_map": {}}'), "names no tensor"),
        (lambda d: reindex(d, lambda m: m.update({NORM: "../x.safetensors"})), "is not the name of a file"),
        (lambda d: reindex(d, lambda m: m.update({NORM: shard(d).name})), f"{NORM} is not in it"),
        (lambda d: safetensors.save_file({NORM: torch.ones(64)}, shard(d)), "is also in"),
    ],
)
def test_a_damaged_set_of_shards_is_refused(
    tmp_path: Path, change: Callable[[Path], object], message: str
) -> None:
    assert message in damaged(change, tmp_path, sharded=True)


def test_quantised_tensors_are_refused(tmp_path: Path) -> None:
    def quantise(folder: Path) -> None:
        state = safetensors.load_file(folder / WHOLE)
        safetensors.save_file(state | {NORM: torch.ones(64, dtype=torch.int8)}, folder / WHOLE)

    assert "model.norm.weight is I8" in damaged(quantise, tmp_path, sharded=False)
