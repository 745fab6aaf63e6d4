"""RMSNorm with the rows of a decode step and of a prefill, against ATen's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch.nn import functional as F  # noqa: N812

from profiler.bench.case import Case, Contender, Setting
from profiler.bench.table import Work
from profiler.ops.triton import rms_norm

if TYPE_CHECKING:
    from collections.abc import Iterator


def cases(setting: Setting) -> Iterator[Case]:
    """The model's norms: two a layer and the last one."""
    yield _case(setting, "decode", setting.workload.batch)
    yield _case(setting, "prefill", setting.prompt_rows)


def _case(setting: Setting, phase: str, rows: int) -> Case:
    width, eps = setting.config.dim, setting.config.norm_eps
    work = Work((2 * rows + 1) * width * setting.dtype.itemsize)
    copies = setting.copies(work.bytes)
    xs = [setting.normal(rows, width) for _ in range(copies)]
    gammas = [setting.normal(width) for _ in range(copies)]
    contenders = [
        Contender("ATen rms_norm", False, lambda i: F.rms_norm(xs[i], (width,), gammas[i], eps)),
        Contender(
            "rms_norm", True, lambda i: rms_norm.rms_norm(xs[i], gammas[i], eps),
            lambda: rms_norm.rms_norm_reference(xs[0], gammas[0], eps),
        ),
    ]  # fmt: skip
    calls = 2 * setting.config.layers + 1 if phase == "decode" else 1
    return Case(f"{phase} RMSNorm", f"{rows} x {width}", work, copies, contenders, calls=calls)
