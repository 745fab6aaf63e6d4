"""Two small runs with known step times, and what the page shows of them."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

import numpy as np

from tests.traces.builders import run, step
from traces import store
from traces.attribution.taxonomy import GROUP_OF

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from streamlit.testing.v1 import AppTest

    from traces.store import Run

Kernel = tuple[str, str, int]  # name, category, ns

WORK = {"batch": 2, "prompt": 8, "new_tokens": 2, "dtype": "float16"}
# Evil in every way a name can be: tags, Markdown, direction marks, NUL, length.
HOSTILE = (
    "<img src=x onerror=alert(1)>",
    "**bold** __nv__ `code` $x$ :red[boo] [l](javascript:alert(1))",
    "</script><script>alert(1)</script>",
    "\u202egnp.exe\u0000\u05d0\u05d1",
    "x" * 10_240,
)


def steps(kernels: list[Kernel], wall: int, count: int = 3) -> dict[str, Any]:
    """`count` decode steps of `wall` ns, each running the kernels back to back from its start."""
    rows = []
    for number in range(count):
        at = number * wall
        for layer, (name, category, ns) in enumerate(kernels):
            rows.append(
                {
                    "start_ns": at, "dur_ns": ns, "name": name, "category": category,
                    "group": GROUP_OF[category],
                    "phase": "decode", "step": number, "module": f"layers.{layer}.mlp", "link": "launch",
                }
            )  # fmt: skip
            at += ns
    tiles = [step("decode", n, n * wall, (n + 1) * wall, complete=n < count - 1) for n in range(count)]
    return {"rows": rows, "steps": tiles}


def made(variant: str, kernels: list[Kernel], wall: int, **known: Any) -> Run:
    device = {"type": "cuda", "name": "NVIDIA H200"}
    base = {"model": "small", "variant": variant, "mode": "graph", "workload": WORK, "device": device}
    return run(**steps(kernels, wall) | base | {"run_id": f"{variant}-1"} | known)


def baseline(**known: Any) -> Run:
    return made(
        "cuda", [("mm", "gemm", 6_000), ("ln", "norm", 1_000), ("sdpa", "attention", 2_000)], 10_000, **known
    )


def candidate(**known: Any) -> Run:
    return made(
        "triton",
        [("_mm", "gemm", 8_000), ("_ln", "norm", 500), ("_att", "attention", 2_500)],
        12_000,
        **known,
    )


def charts(at: AppTest) -> list[dict[str, Any]]:
    """The Plotly figures on the page, as JSON with arrays as lists."""
    return [json.loads(c.proto.spec, object_hook=_unpacked) for c in at.get("plotly_chart")]


def _unpacked(value: dict[str, Any]) -> Any:
    """Plotly sends arrays as base64 text."""
    if set(value) != {"bdata", "dtype"}:
        return value
    return np.frombuffer(base64.b64decode(value["bdata"]), value["dtype"]).tolist()


def texts(at: AppTest) -> str:
    """Everything the page says outside its charts and tables."""
    parts = (at.markdown, at.caption, at.warning, at.error, at.info, at.title, at.subheader)
    return "\n".join(str(e.value) for part in parts for e in part)


def words(at: AppTest) -> str:
    """`texts` as a person reads them, without what keeps them from being Markdown."""
    return texts(at).replace("\\", "").replace("\u2060", "")


def opened(shelf: Path, page: Callable[..., AppTest], a: Run, b: Run, **address: str) -> AppTest:
    """A page of the runs `a` and `b`, which are put on the shelf by these names; nothing fails there."""
    for name, each in (("a", a), ("b", b)):
        store.write(each, shelf / f"{name}.parquet")
    at = page(a="a", b="b", **address)
    assert not at.exception
    assert not at.error
    return at
