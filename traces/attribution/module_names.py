"""What the name of a host range says about modules: a dotted path, or a class and its instance number."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from traces.readers.timeline import MODULE_CALL

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

MODULE_PREFIX: Final = "## module "  # our capture's ranges

# `model.layers.3.mlp`, `transformer.h.5`, `encoder.layer.0.attention`, `transformer_blocks.7`.
_LAYER: Final = re.compile(r"(?:^|\.)(?:\w*(?:layers?|blocks?)|h)\.(\d+)(?:\.|$)", re.ASCII)
# Hooks of vLLM (--enable-layerwise-nvtx-tracing), SGLang (--enable-layerwise-nvtx-marker), TensorRT-LLM and
# NVIDIA's PytNVTX push the text of a dict: {'Module': 'model.layers.0.mlp', 'TrainableParams': {...}, ...}.
_DICT: Final = re.compile(
    r"\s*\{\s*['\"]Module['\"]\s*:\s*(?P<quote>['\"])(?P<path>.{0,500}?)(?P=quote)\s*[,}]"
)
_COMPILED: Final = re.compile(r"Torch Compiled Module \((?:in|out)put\):")
# `model.layers[3].mlp`, also with what a hook adds behind it: `blocks.3.attn in=[[2, 64]]`.
_DOTTED: Final = re.compile(r"(?P<path>[A-Za-z_]\w*(?:\.\w+|\[\d+\])*)(?:[ (].*)?", re.ASCII | re.DOTALL)
# `layer_3`, `decoder layer 3`, `Block#3`, `layer_3_attention`; not `block 128x64`.
_NUMBERED: Final = re.compile(
    r"(?P<head>[a-z _-]{0,40}(?:layer|block))[ _#.\[-]{0,3}(?P<layer>\d{1,5})(?!\d|x\d|\.\d)"
    r"\]?(?P<rest>.{0,200})",
    re.ASCII | re.DOTALL | re.IGNORECASE,
)
_PLAIN: Final = re.compile(r"[A-Za-z_][\w.]{0,80}", re.ASCII)
_OF_A_RUN: Final = re.compile(
    r"(?:pre_?fill|decode|generat|step|iter|forward|backward|train|eval|infer|warm_?up|run|bench|request|batch|epoch)",
    re.IGNORECASE,
)
_ROOTS: Final = {"lm_head", "embed_tokens", "logits_processor"}  # children of a model that has no name itself

Kind = Literal["path", "open", "class", "inner"]


class Said(NamedTuple):
    """What one name says.

    `path`: a module by its path. `open`: the same, and plain ranges inside it name its parts. `class`: one
    link of a chain of modules. `inner`: nothing by itself, a part of an `open` range around it.
    """

    kind: Kind
    path: str


def read(names: Sequence[str]) -> list[Said | None]:
    """What each of a trace's distinct range names says about modules; None for nothing."""
    said = [_read(name) for name in names]
    dotted = [s.path for s in said if s and s.kind == "open"]
    if not dotted:
        return said
    around, roots = _above(dotted)
    for i, name in enumerate(names):
        if said[i] is None and _PLAIN.fullmatch(name):
            known = name in around or name in _ROOTS or ("." in name and name.split(".")[0] in roots)
            said[i] = Said("open" if known else "inner", name)
    return said


def layer_of(module: str | None) -> int | None:
    """The transformer layer in a dotted path: `model.layers.3.mlp` -> 3."""
    found = _LAYER.search(module or "")
    number = int(found[1]) if found and len(found[1]) < 6 else None
    return number if number is not None and number < 2**15 else None


def _read(name: str) -> Said | None:
    if name.startswith(MODULE_PREFIX):
        return Said("path", name.removeprefix(MODULE_PREFIX))
    if name.startswith(MODULE_CALL):
        return Said("class", name.removeprefix(MODULE_CALL))
    domain, _, rest = name.partition(":")
    return _path(name) or (_path(rest) if rest and len(domain) < 80 else None)


def _path(name: str) -> Said | None:
    if (found := _DICT.match(name)) and (path := _COMPILED.sub("", found["path"]).strip("'\" ")):
        return Said("path", path)
    if found := _DOTTED.fullmatch(name):
        path = re.sub(r"\[(\d+)\]", r".\1", found["path"])
        if layer_of(path) is not None:
            return Said("open", path)
    found = _NUMBERED.fullmatch(name)
    if not found or (_OF_A_RUN.match(name) and found["head"].lower().endswith("block")):
        return None
    rest = re.sub(r"[^\w.]+", "_", found["rest"]).strip("_.")
    head = re.sub(r"[ -]", "_", found["head"].lower())
    return Said("open", f"{head}s.{int(found['layer'])}" + (f".{rest}" if rest else ""))


def _above(dotted: Iterable[str]) -> tuple[set[str], set[str]]:
    """Paths that lie above the given ones, and where they begin, unless that names what a program does."""
    around: set[str] = set()
    for path in dotted:
        parts = path.split(".")
        if not _OF_A_RUN.match(path):
            around.update(".".join(parts[:i]) for i in range(1, len(parts)))
    return around, {p for p in around if "." not in p}
