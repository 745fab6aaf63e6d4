"""A layer as operations: order, sums that close, pairing, the median layer, work and gaps."""

from __future__ import annotations

from typing import Any

import pytest

from tests.traces.builders import run, step
from traces.analysis.compare import Comparison, compare
from traces.analysis.layer import BY, ITSELF, Block, Cell, layer, merged, numbers
from traces.store import Run

Part = tuple[str, str, str, int]  # module inside the layer, category, name, ns
GROUPS = {"gemm": "gemm", "gemm_reduce": "gemm", "attention": "attention", "memset": "memory"}
PLAN: list[Part] = [
    ("norm", "norm", "ln", 10),
    ("attn.qkv", "memset", "zero", 1),
    ("attn.qkv", "gemm", "mm", 50),
    ("attn.qkv", "gemm_reduce", "sum", 5),
    ("attn", "rope", "rope", 4),
    ("attn", "attention", "sdpa", 20),
    ("", "elementwise", "add", 2),
    ("mlp.down", "gemm", "mm", 80),
    ("", "elementwise", "add", 2),
]
TOTAL = sum(p[3] for p in PLAN)


def blocks(plan: list[Part], extra: list[int], steps: int = 2, **more: Any) -> Run:
    """Decode steps of one layer per entry of `extra`, whose last kernel is longer by that, 3 ns apart."""
    rows, tiles, at = [], [], 0
    for number in range(steps):
        first = at
        for n, longer in enumerate(extra):
            for i, (module, category, name, ns) in enumerate(plan):
                dur = ns + (longer if i == len(plan) - 1 else 0)
                path = f"layers.{n}.{module}".rstrip(".")
                rows.append(
                    {"start_ns": at, "dur_ns": dur, "name": name, "category": category, "layer": n,
                     "group": GROUPS.get(category, "small_op"), "module": path, "phase": "decode",
                     "step": number, **(more.get(name) or {})}
                )  # fmt: skip
                at += dur + 3
        rows.append({"start_ns": at, "dur_ns": 9, "name": "head", "module": "lm_head", "phase": "decode",
                     "step": number})  # fmt: skip
        at += 20
        tiles.append(step("decode", number, first, at))
    return run(rows, steps=tiles)


def of(a: Run, b: Run | None = None) -> Comparison:
    return compare(a, b or a, BY, "decode")


def cell(found: Cell | None) -> Cell:
    assert found is not None
    return found


def block(found: Block | None) -> Block:
    assert found is not None
    return found


def test_operations_come_in_the_order_in_which_they_run_and_close() -> None:
    found = layer(of(blocks(PLAN, [0, 7])), 1)
    times = [(op.name, op.group, cell(op.a).sum_ns) for op in found.ops]
    assert times == [
        ("norm", "small_op", 20), ("attn.qkv", "gemm", 112), ("attn · small op", "small_op", 8),
        ("attn · attention", "attention", 40), (ITSELF, "small_op", 22), ("mlp.down", "gemm", 160),
    ]  # fmt: skip
    mine = block(found.a)
    assert sum(cell(op.a).sum_ns for op in found.ops) == mine.sum_ns == 2 * (TOTAL + 7)
    assert mine.ns == TOTAL + 7
    assert sum(cell(op.a).share for op in found.ops) == pytest.approx(1)


def test_a_memset_and_a_reduction_are_part_of_their_product() -> None:
    qkv = next(op for op in layer(of(blocks(PLAN, [0])), 0).ops if op.name == "attn.qkv")
    assert cell(qkv.a).per_step == 3
    assert cell(qkv.a).kernels == ["mm", "sum", "zero"]


def test_the_layers_add_up_to_what_the_comparison_has_in_them() -> None:
    result = of(blocks(PLAN, [0, 4, 9], steps=3))
    rows = sum(r["a"] for r in result.rows if r["key"]["layer"] is not None)
    assert block(layer(result).a).all_ns == 3 * rows


def test_the_median_layer_is_a_layer_of_each_run() -> None:
    result = of(blocks(PLAN, [5, 0, 90, 2]), blocks(PLAN, [0, 1, 2]))
    found = layer(result)
    a, b = block(found.a), block(found.b)
    assert (a.number, a.ns, b.number, b.ns) == (3, TOTAL + 2, 1, TOTAL + 1)
    spread = (a.spread.n, a.spread.q1, a.spread.median, a.spread.q3)
    assert spread == (4, TOTAL, TOTAL + 2, TOTAL + 5)
    assert sum(cell(op.a).sum_ns for op in found.ops) == a.sum_ns
    last = next(op for op in found.ops if op.name == ITSELF)
    assert (cell(last.a).spread.n, cell(last.a).spread.q3) == (4, 4 + 5)


def test_other_names_for_modules_and_kernels_are_paired() -> None:
    plain: list[Part] = [("input_layernorm", "norm", "ln", 10), ("self_attn.q_proj", "gemm", "mm", 50)]
    fused: list[Part] = [("attn_norm", "norm", "_ln", 8), ("attn.qkv", "gemm", "_mm", 40)]
    found = layer(of(blocks(plain, [0, 0]), blocks(fused, [0, 0])), 0)
    times = [(op.name, cell(op.a).ns, cell(op.b).ns) for op in found.ops]
    assert times == [("attn_norm", 10, 8), ("attn.qkv", 50, 40)]


def test_what_only_one_run_has_stands_where_it_runs_there() -> None:
    more = [*PLAN[:1], ("extra", "elementwise", "x", 3), *PLAN[1:]]
    found = layer(of(blocks(PLAN, [0]), blocks(more, [0])), 0)
    assert [op.name for op in found.ops][:3] == ["norm", "extra", "attn.qkv"]
    assert found.ops[1].a is None
    assert cell(found.ops[1].b).ns == 3


def test_work_gives_rates_over_the_whole_call() -> None:
    work = {"flops": 10_000, "min_bytes": 620, "op": "mm", "shape": "M1 N1 K1 f16"}
    known = blocks(PLAN, [0], mm=work, sum={"op": "mm"}, zero={"op": "mm"})
    ops = {op.name: cell(op.a) for op in layer(of(known), 0).ops}
    assert ops["mlp.down"].tflops == pytest.approx(10_000 / 80 / 1e3)
    assert ops["mlp.down"].gb_per_s == pytest.approx(620 / 80)
    assert ops["attn.qkv"].gb_per_s == pytest.approx(620 / 56)
    assert ops["norm"].tflops is ops["norm"].gb_per_s is None


def test_gaps_before_the_layers_kernels_stay_outside_its_time() -> None:
    found = layer(of(blocks(PLAN, [0, 0])), 1)
    assert block(found.a).gap_ns == 3 * len(PLAN)


def test_a_layer_that_one_run_lacks() -> None:
    found = layer(of(blocks(PLAN, [0, 0]), blocks(PLAN, [0])), 1)
    assert found.b is None
    assert all(op.b is None for op in found.ops)
    assert numbers(of(blocks(PLAN, [0, 0]), blocks(PLAN, [0]))) == [0, 1]


def test_a_run_without_layers_has_none() -> None:
    rows = [{"start_ns": 0, "dur_ns": 5, "phase": "decode", "step": 0}]
    bare = of(run(rows, steps=[step("decode", 0, 0, 9)]))
    assert numbers(bare) == []
    assert layer(bare).ops == []
    assert layer(bare).a is None


def test_layers_without_modules_are_paired_by_order() -> None:
    def bare(plan: list[Part]) -> Run:
        made = blocks(plan, [0, 0, 0])
        at = made.table.schema.get_field_index("module")
        return Run(made.table.set_column(at, "module", made.table["op"]), made.meta)

    other = [(m, c, f"b_{n}", ns + 1) for m, c, n, ns in PLAN]
    result = of(bare(PLAN), bare(other))
    found = layer(result, 1)
    assert result.aligned_by == "order in the layer"
    assert all(op.a and op.b for op in found.ops)
    assert sum(cell(op.b).sum_ns for op in found.ops) == block(found.b).sum_ns == 2 * (TOTAL + len(PLAN))


def test_merging_keeps_both_orders() -> None:
    keys = {name: (name, "g") for name in "abcdxy"}
    out = merged([keys[c] for c in "abcd"], [keys[c] for c in "axbdy"])
    assert "".join(k[0] for k in out) == "axbcdy"
    assert merged([], [keys["a"]]) == [keys["a"]]
