"""A folder of safetensors, whole or in shards, streamed into a model tensor by tensor."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final

import msgspec

from profiler.model import weights
from traces.errors import InputError, MissingToolError

if TYPE_CHECKING:
    from pathlib import Path

    from torch import Tensor

    from profiler.model.config import Config
    from profiler.model.transformer import Transformer

WHOLE: Final = "model.safetensors"
INDEX: Final = "model.safetensors.index.json"
# as safetensors names them
DTYPES: Final = {"F16": "float16", "BF16": "bfloat16", "F32": "float32", "F64": "float64"}


class _Index(msgspec.Struct):
    """The index of a sharded checkpoint: which file holds which tensor."""

    weight_map: dict[str, str]


@dataclass(frozen=True)
class Checkpoint:
    """The tensors of a folder: the file of each, and what the files say about them."""

    folder: Path
    files: dict[str, Path]  # by tensor
    shapes: dict[str, list[int]]
    dtypes: dict[str, str]  # as torch names them
    size: int  # bytes of the files
    ignored: int = 0  # tensors that no model needs

    def told(self) -> str:
        """One line on what is about to be loaded, and on what is not."""
        facts = self.facts()
        rest = f"; {self.ignored} tensors that follow from others are left out" if self.ignored else ""
        size = f"{facts['files']} file(s), {self.size / 1e9:.2f} GB, {', '.join(facts['dtypes'])}"
        return f"loading the weights of {facts['name']}: {size}{rest}"

    def facts(self) -> dict[str, Any]:
        """What a run says about its weights: no path but the folder's own name."""
        return {
            "source": "checkpoint",
            "name": self.folder.resolve().name,
            "files": len(set(self.files.values())),
            "bytes": self.size,
            "dtypes": sorted(set(self.dtypes.values())),
            "ignored_tensors": self.ignored,
        }


def open_checkpoint(folder: Path, config: Config) -> Checkpoint:
    """Read the files' headers only, and hold the tensors against `config`.

    Raises InputError for files that are missing, cut short or no safetensors, and for tensors that are
    missing, unexpected, wrongly shaped or quantised; MissingToolError without the safetensors package.
    """
    if find_spec("safetensors") is None:
        raise MissingToolError("--weights needs safetensors: pip install 'kernelgap[gpu]'")
    files: dict[str, Path] = {}
    shapes: dict[str, list[int]] = {}
    dtypes: dict[str, str] = {}
    listed = _listed(folder)
    for path in dict.fromkeys(listed.values()):
        for name, (dtype, shape) in _header(path).items():
            if name in files:
                raise InputError(f"{path}: {name} is also in {files[name].name}")
            files[name], shapes[name], dtypes[name] = path, shape, dtype
    for name, path in listed.items():
        if name and files.get(name) != path:
            raise InputError(f"{path}: {name} is not in it, though {INDEX} says so")
    ignored = weights.check(config, shapes, str(folder))
    _check_dtypes(folder, {part.theirs: dtypes[part.theirs] for part in weights.parts(config)})
    size = sum(path.stat().st_size for path in set(files.values()))
    return Checkpoint(folder, files, shapes, {n: DTYPES.get(d, d) for n, d in dtypes.items()}, size, ignored)


def load(model: Transformer, checkpoint: Checkpoint) -> None:
    """Copy every tensor to the model's device and dtype, one at a time: files are mapped, not read whole.

    Raises InputError for values that are not finite in the model's dtype.
    """
    from safetensors import safe_open

    with ExitStack() as stack:
        opened: dict[Path, Any] = {}

        def read(name: str) -> Tensor:
            path = checkpoint.files[name]
            if path not in opened:
                opened[path] = stack.enter_context(safe_open(path, framework="pt", device="cpu"))
            tensor: Tensor = opened[path].get_tensor(name)
            return tensor

        if weights.HEAD in checkpoint.files:
            weights.check_tied(model.config, read, str(checkpoint.folder))
        weights.copy(model, read, str(checkpoint.folder))


def _listed(folder: Path) -> dict[str, Path]:
    """File by tensor as the index has it; the single file stands under the name ""."""
    if (folder / WHOLE).exists():
        return {"": folder / WHOLE}
    if not (folder / INDEX).exists():
        raise InputError(f"{folder}: {_no_weights(folder)}")
    try:
        index = msgspec.json.decode((folder / INDEX).read_bytes(), type=_Index).weight_map
    except OSError as error:
        raise InputError(f"{folder / INDEX}: cannot read ({error.strerror or error})") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{folder / INDEX}: not a valid index: {error}") from error
    if not index:
        raise InputError(f"{folder / INDEX}: names no tensor")
    for file in set(index.values()):
        if PurePath(file).name != file:
            raise InputError(f"{folder / INDEX}: {file!r} is not the name of a file beside it")
    return {name: folder / file for name, file in index.items()}


def _no_weights(folder: Path) -> str:
    binary = sorted(p.name for p in folder.glob("*.bin")) + sorted(p.name for p in folder.glob("*.pth"))
    if binary:
        return (
            f"holds PyTorch pickles ({binary[0]}), only safetensors are read: convert with transformers, "
            "AutoModelForCausalLM.from_pretrained(OLD).save_pretrained(NEW)"
        )
    return f"neither {WHOLE} nor {INDEX} is there"


def _header(path: Path) -> dict[str, tuple[str, list[int]]]:
    """Dtype (as safetensors names it) and shape of each tensor."""
    from safetensors import SafetensorError, safe_open

    if path.is_dir():
        raise InputError(f"{path}: is a folder, not a safetensors file")
    try:
        with safe_open(path, framework="pt") as file:
            slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118 not a dict
            return {name: (s.get_dtype(), list(s.get_shape())) for name, s in slices.items()}
    except FileNotFoundError as error:
        raise InputError(f"{path}: no such file, though {INDEX} names it: download it again") from error
    except SafetensorError as error:
        reason = str(error).removeprefix("Error while deserializing header: ")
        raise InputError(f"{path}: cut short, or not a safetensors file ({reason})") from error
    except OSError as error:
        raise InputError(f"{path}: cannot read ({error.strerror or error})") from error


def _check_dtypes(folder: Path, dtypes: dict[str, str]) -> None:
    for name, dtype in dtypes.items():
        if dtype not in DTYPES:
            raise InputError(f"{folder}: {name} is {dtype}, a quantised or integer type; use one of floats")
