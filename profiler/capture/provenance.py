"""Which module each kernel of compiled code comes from, as Inductor itself keeps it.

While compiling, Inductor can note for each kernel call the operations that went into it
(`torch._inductor.config.trace.provenance_tracking_level`), and Dynamo the module around each operation
(`nn_module_stack`). PyTorch hands the former to its structured trace only (the log that TORCH_TRACE writes
and tlparse reads), as the artifact `inductor_provenance_tracking_node_mappings`, and forgets it when the
compile ends; a hit in Inductor's cache hands it out again. Seen so in PyTorch 2.11 and 2.13.
"""

from __future__ import annotations

import json
import logging
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import torch

ARTIFACT: Final = "inductor_provenance_tracking_node_mappings"
_LOGGER: Final = "torch.__trace"
_LEVEL: Final = "provenance_tracking_level"
# `L['model'].layers.0.mlp`, `L['self']._modules['layers']._modules['0']`: the root has a name of its own.
_ROOT: Final = re.compile(r"""^L\[['"][^'"]*['"]\]""")
_ITEM: Final = re.compile(r"""(?:\._modules)?\[['"]?(\w+)['"]?\]""")


class Origin(NamedTuple):
    """One kernel call of compiled code, and the module of the last operation that went into it."""

    kernel: str  # `triton_red_fused_add_0`, `extern_kernels.mm`, `torch.ops.<namespace>.<op>.<overload>`
    module: str | None


class Recorder:
    """A backend for `torch.compile`: Inductor with `options`, noting where its kernels come from."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        self.options = dict(options)
        self.origins: list[Origin] | None = None  # in the order of calls, once compiled; None if unknown

    def __call__(self, module: torch.fx.GraphModule, inputs: Sequence[Any]) -> Any:
        """Compile one graph of Dynamo's."""
        from torch._inductor import config
        from torch._inductor.compile_fx import compile_fx

        paths = {n.name: module_path(n.meta.get("nn_module_stack")) for n in module.graph.nodes}
        known = hasattr(config.trace, _LEVEL)
        options = self.options | ({f"trace.{_LEVEL}": 1} if known else {})
        with _artifacts(ARTIFACT) as found:
            compiled = compile_fx(module, inputs, config_patches=options)
        self.origins = read(found[-1], paths) if found else None
        return compiled


def read(artifact: str, paths: Mapping[str, str | None]) -> list[Origin] | None:
    """The kernel calls, in order, from the artifact's JSON and the module of each operation, in order.

    None if the text is not what PyTorch 2.11 to 2.13 write: `cppCodeToPost` maps `<kernel>:<n-th call>` to
    operations of the final graph, `postToPre` those to Dynamo's, `paths`.
    """
    try:
        content = json.loads(artifact)
        calls, earlier = content["cppCodeToPost"], content["postToPre"]
        order = {name: i for i, name in enumerate(paths)}
        # Inductor also counts the call that a generated kernel writes for among its operations.
        called = {op for call, ops in calls.items() if not _is_generated(call) for op in ops}
        numbered = []
        for call, operations in calls.items():
            kernel, _, number = call.rpartition(":")
            own = [op for op in operations if op not in called] if _is_generated(call) else operations
            names = {n for op in own or operations for n in earlier.get(op, ()) if paths.get(n)}
            last = max(names, key=order.__getitem__, default=None)
            numbered.append((int(number), Origin(kernel, paths[last] if last else None)))
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    return [origin for _, origin in sorted(numbered)]


def _is_generated(call: str) -> bool:
    return call.startswith(("triton_", "cpp_"))


def module_path(stack: Mapping[str, Any] | None) -> str | None:
    """The dotted path of the innermost module of an operation's `nn_module_stack`; None at the root."""
    if not stack:
        return None
    path = _ROOT.sub("", str(list(stack.values())[-1][0]))
    return _ITEM.sub(r".\1", path).strip(".") or None


@contextmanager
def _artifacts(name: str) -> Iterator[list[str]]:
    """While open, collects the artifacts of that name which PyTorch hands to its structured trace."""
    logger, collector = logging.getLogger(_LOGGER), _Collector(name)
    logger.addHandler(collector)
    try:
        yield collector.found
    finally:
        logger.removeHandler(collector)


class _Collector(logging.Handler):
    def __init__(self, name: str) -> None:
        super().__init__()
        self.wanted = name
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        artifact = getattr(record, "metadata", {}).get("artifact") or {}
        payload = getattr(record, "payload", None)
        if artifact.get("name") == self.wanted and isinstance(payload, str):
            self.found.append(payload)
