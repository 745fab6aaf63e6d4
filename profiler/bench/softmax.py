"""Row softmax against ATen's: attention scores, rows around the limit of one pass, logits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from profiler.bench.case import Case, Contender, Setting
from profiler.bench.table import Work
from profiler.ops.triton import softmax

if TYPE_CHECKING:
    from collections.abc import Iterator


def cases(setting: Setting) -> Iterator[Case]:
    """From many short rows to a few long ones."""
    work, config = setting.workload, setting.config
    cpu = setting.device == "cpu"
    scores = work.batch * config.heads * work.prompt
    yield _case(setting, "scores", scores, work.prompt)
    yield _case(setting, "long rows", 2 if cpu else 1024, softmax.ONE_PASS)
    yield _case(setting, "longer rows", 2 if cpu else 1024, 2 * softmax.ONE_PASS)
    yield _case(setting, "decode logits", work.batch, config.vocab)
    yield _case(setting, "prefill logits", setting.prompt_rows, config.vocab)


def _case(setting: Setting, what: str, rows: int, width: int) -> Case:
    work = Work(2 * rows * width * setting.dtype.itemsize)
    copies = setting.copies(work.bytes)
    xs = [setting.normal(rows, width) for _ in range(copies)]
    contenders = [
        Contender("ATen softmax", False, lambda i: torch.softmax(xs[i], -1)),
        Contender(
            "softmax", True, lambda i: softmax.softmax(xs[i]), lambda: softmax.softmax_reference(xs[0])
        ),
    ]
    return Case(f"softmax {what}", f"{rows} x {width}", work, copies, contenders)
