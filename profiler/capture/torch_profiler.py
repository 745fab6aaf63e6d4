"""Record steps with torch.profiler, each inside a range that names its phase."""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import torch
from torch import nn
from torch.profiler import ProfilerActivity, record_function

from traces.attribution.modules import MODULE_PREFIX

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

METADATA_NAME: Final = "kernelgap"


def phase_range(phase: str, step: int) -> record_function:
    """The range that ingestion reads the phase and step from."""
    return record_function(f"kernelgap.{phase}#{step}")


def record(
    path: Path,
    *,
    device: str,
    warm_up: Callable[[], object],
    steps: Callable[[], object],
    metadata: Mapping[str, Any] | None = None,
) -> None:
    """Profile `steps` into the Chrome trace `path`, `metadata` under its key "kernelgap".

    `warm_up` runs with the profiler on and is thrown away: the first events of a session cost the host
    extra, and may be lost where a process profiles more than once (pytorch#192021).
    """
    activities = [ProfilerActivity.CPU] + ([ProfilerActivity.CUDA] if device == "cuda" else [])
    with torch.profiler.profile(
        activities=activities,
        record_shapes=True,
        acc_events=True,  # one cycle, so nothing to add up; it silences a warning of torch 2.11
        schedule=torch.profiler.schedule(wait=0, warmup=1, active=1, repeat=1),
    ) as profiler:
        warm_up()
        synchronize(device)
        profiler.step()
        steps()
        synchronize(device)
        if metadata is not None:
            profiler.add_metadata_json(METADATA_NAME, json.dumps(metadata))
    profiler.export_chrome_trace(str(path))


@contextmanager
def module_ranges(model: nn.Module) -> Iterator[None]:
    """While open, each call of a named module is a range "## module <dotted path>"."""
    open_ranges: list[record_function] = []
    handles = []
    for name, module in model.named_modules():
        if name:  # the root would only repeat the phase
            handles.append(module.register_forward_pre_hook(_opener(name, open_ranges)))
            handles.append(module.register_forward_hook(_closer(open_ranges), always_call=True))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def synchronize(device: str) -> None:
    """Wait for the device; nothing to do on the CPU."""
    if device == "cuda":
        torch.cuda.synchronize()


def _opener(name: str, open_ranges: list[record_function]) -> Callable[..., None]:
    def begin(*_: object) -> None:
        open_ranges.append(record_function(MODULE_PREFIX + name))
        open_ranges[-1].__enter__()  # type: ignore[no-untyped-call]

    return begin


def _closer(open_ranges: list[record_function]) -> Callable[..., None]:
    def end(*_: object) -> None:
        open_ranges.pop().__exit__(None, None, None)

    return end
