"""The sentence says what a person would say, and is right in every case."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.traces.analysis.decoder import CUDA, TRITON, decoder
from tests.traces.builders import run, step
from traces.analysis.compare import compare
from traces.analysis.sentence import parts_of

if TYPE_CHECKING:
    from traces.store import Run

US = 1_000
MS = 1_000_000


def runs(a: list[tuple[str, str | None, int]], b: list[tuple[str, str | None, int]], wall: tuple[int, int],
         phase: str = "decode", **known: Any) -> tuple[Run, Run]:  # fmt: skip
    """Three steps of (category, module, ns) rows each, back to back, in steps of `wall` ns."""
    out = []
    for rows, period, variant in ((a, wall[0], "cuda"), (b, wall[1], "triton")):
        made, tiles = [], []
        for number in range(3):
            at = number * period
            for category, module, ns in rows:
                made.append({
                    "start_ns": at, "dur_ns": ns, "category": category, "module": module, "group": None,
                    "phase": phase, "step": number, **known.get("row", {}),
                })  # fmt: skip
                at += ns
            tiles.append(step(phase, number, number * period, (number + 1) * period))
        facts = {k: v for k, v in known.items() if k != "row"}
        out.append(run(made, steps=tiles, variant=variant, model="m", **facts))
    return out[0], out[1]


def say(a: Run, b: Run, *by: str, phase: str | None = None) -> str:
    return compare(a, b, by or None, phase).sentence


DOWN = "layers.{}.mlp.down_proj"


def test_a_slower_build() -> None:
    a = [("gemm", DOWN.format(i), 200 * US) for i in range(2)] + [("attention", "layers.0.attn", 100 * US)]
    b = [(c, m, ns) for c, m, _ in a[:2] for ns in [355 * US]] + [("attention", "layers.0.attn", 280 * US)]
    known = {"decode": {"n": 48, "median_ns": 2 * MS, "iqr_ns": 7_000}}
    slow = {"decode": {"n": 48, "median_ns": 2 * MS + 420 * US, "iqr_ns": 4_000}}
    left, right = runs(a, b, (3 * MS, 3 * MS), unprofiled=known)
    right.meta["unprofiled"] = slow  # type: ignore[typeddict-item]
    assert say(left, right) == (
        "B (triton) is 0.42 ms/token slower than A (cuda) (+21.0%, unprofiled wall, noise 7.00 us): "
        "+0.31 down_proj GEMM, +0.18 attention, -0.07 gaps (ms)."
    )


def test_a_faster_build_in_microseconds_and_per_step() -> None:
    gemm = ("gemm", None, 5 * US)
    pair = runs([("norm", None, 9 * US), gemm], [("norm", None, 4 * US), gemm], (20 * US, 15 * US), "prefill")
    assert say(*pair) == (
        "B (triton) is 5.00 us/step faster than A (cuda) (-25.0%, profiled wall, noise 0 ns): "
        "-5.00 norms (us)."
    )


def test_equal_runs() -> None:
    same = decoder(CUDA)
    assert say(same, same) == "B takes exactly as long as A (502 ns/token, profiled wall)."


def test_equal_walls_with_unlike_parts_still_name_them() -> None:
    pair = runs([("norm", None, 9 * US)], [("norm", None, 4 * US)], (20 * US, 20 * US))
    assert say(*pair) == (
        "B (triton) takes exactly as long as A (cuda) (20.00 us/token, profiled wall): "
        "-5.00 norms, +5.00 gaps (us)."
    )


def test_only_idle_differs() -> None:
    pair = runs([("norm", None, 9 * US)], [("norm", None, 9 * US)], (20 * US, 30 * US))
    assert say(*pair).endswith(": +10.00 gaps (us).")


def test_within_noise() -> None:
    pair = runs([("norm", None, 9 * US)], [("norm", None, 9 * US)], (20 * US, 20 * US))
    for each, median in zip(pair, (20_000, 20_100), strict=True):
        each.meta["unprofiled"] = {"decode": {"n": 9, "median_ns": median, "iqr_ns": 200}}
    assert say(*pair) == (
        "No difference outside noise: B (triton) is 100 ns/token slower than A (cuda) "
        "(+0.5%, unprofiled wall, noise 200 ns): +100 gaps (ns)."
    )


def test_negative_idle_is_explained() -> None:
    pair = runs([("norm", None, 9 * US)], [("norm", None, 9 * US)], (20 * US, 20 * US))
    for each, median in zip(pair, (20_000, 8_000), strict=True):
        each.meta["unprofiled"] = {"decode": {"n": 9, "median_ns": median, "iqr_ns": 0}}
    assert say(*pair).endswith(
        "-12.00 gaps (us). Gaps of B are negative (-1.00 us): "
        "the kernels outlast, under the profiler, the step without one."
    )


def test_unlike_runs_are_told_apart_and_warned_of() -> None:
    a, b = runs([("norm", None, 9 * US)], [("gemm", None, 9 * US)], (20 * US, 20 * US))
    b.meta["model"], b.meta["device"] = "other", {"name": "H100"}
    a.meta["device"] = {"name": "H200"}
    said = say(a, b)
    assert said.startswith("B (other triton) takes exactly as long as A (m cuda)")
    assert "Only 0.0% of the kernel time is in rows that both runs have." in said
    assert said.endswith("Beware: model differs: m against other; device differs: H200 against H100.")


def test_one_step_has_unknown_noise_and_whole_runs_no_unit() -> None:
    one, two = (run([{"start_ns": 0, "dur_ns": ns}]) for ns in (5, 7))
    assert say(one, two).startswith(
        "B is 2 ns slower than A (+40.0%, profiled wall, noise unknown, n 1 and 1): +2 GEMM (ns). "
        "Beware: no phase"
    )


def test_several_devices_are_said_to_be_summed() -> None:
    rows = [{"start_ns": 0, "dur_ns": 40, "device": d, "phase": "decode", "step": 0} for d in (0, 1)]
    a, b = (run(rows, steps=[step("decode", 0, 0, end)]) for end in (50, 60))
    assert "B is 20 ns/token slower than A (+20.0%, profiled wall summed over 2 devices" in say(a, b)


def test_rates_of_different_work_are_not_set_side_by_side() -> None:
    """A whole KV cache under a mask against its used part: the same op, other bytes."""
    work = {"min_bytes": 20_000_000, "shape": "M1 N1 K1 f16", "op": "aten::mm"}
    parts = [("gemm", "lm_head", 5 * US)], [("gemm", "lm_head", 10 * US)], (20 * US, 25 * US)
    a, _ = runs(*parts, row=work)
    _, b = runs(*parts, row=work | {"min_bytes": 15_000_000})
    assert "+5.00 lm_head GEMM (known work differs: no rates)" in say(a, b)


def test_rates_of_memory_and_compute_bound_work() -> None:
    work = {"min_bytes": 20_000_000, "flops": 1_000_000, "shape": "M1 N1 K1 f16", "op": "aten::mm"}
    h200 = {"name": "NVIDIA H200"}
    pair = runs(
        [("gemm", "lm_head", 5 * US)],
        [("gemm", "lm_head", 10 * US)],
        (20 * US, 25 * US),
        row=work,
        device=h200,
    )
    assert "+5.00 lm_head GEMM at 2.00 TB/s, 42% of roofline (A 4.00 TB/s, 83% of roofline)" in say(*pair)
    heavy = work | {"flops": 5_000_000_000}
    pair = runs([("gemm", None, 10 * US)], [("gemm", None, 20 * US)], (20 * US, 30 * US), row=heavy)
    assert "+10.00 GEMM at 250 TFLOP/s (A 500 TFLOP/s)" in say(*pair)
    slow = work | {"min_bytes": 20_000}
    pair = runs([("gemm", None, 10 * US)], [("gemm", None, 20 * US)], (20 * US, 30 * US), row=slow)
    assert "+10.00 GEMM at 1.0 GB/s (A 2.0 GB/s)" in say(*pair)


def test_no_rate_where_most_of_the_work_is_unknown() -> None:
    rows = [
        {"start_ns": 0, "dur_ns": 5, "min_bytes": 9, "phase": "decode", "step": 0},
        {"start_ns": 5, "dur_ns": 5, "phase": "decode", "step": 0},
    ]
    more = [*rows, {"start_ns": 10, "dur_ns": 1, "phase": "decode", "step": 0}]
    a, b = (run(r, steps=[step("decode", 0, 0, 20)]) for r in (rows, more))
    assert "B/s" not in say(a, b, "category")


def test_other_phases_inside_the_tiles_are_a_part() -> None:
    rows = [{"start_ns": 0, "dur_ns": 5, "phase": "decode", "step": 0}]
    a = run(rows, steps=[step("decode", 0, 0, 20)])
    b = run([*rows, {"start_ns": 8, "dur_ns": 4, "category": "norm"}], steps=[step("decode", 0, 0, 20)])
    assert ": +4 other phases, -4 gaps (ns)." in say(a, b)


@pytest.mark.parametrize(
    ("by", "part"),
    [(("name",), "gemm_kernel"), (("backend",), "no backend"), (("group",), "GEMM"), (("layer",), "layer 2"),
     (("module",), "layers.*.mlp.gate_up"), (("category", "layer"), "GEMM layer 2"), (("step",), "step 1")],
)  # fmt: skip
def test_parts_by_other_columns(by: tuple[str, ...], part: str) -> None:
    assert part in parts_of(compare(decoder(CUDA), decoder(TRITON), by))


def test_hostile_names_stay_one_line() -> None:
    a, b = (decoder(CUDA), decoder(TRITON))
    for each, name in ((a, "k\n\u202e" * 200), (b, "\x00|`")):
        at = each.table.schema.get_field_index("name")
        odd = each.table.set_column(at, "name", [[name] * each.table.num_rows])
        said = say(type(a)(odd, each.meta), a, "name")
        assert said.isprintable()
        assert len(said) < 1_000


PLANS = st.lists(st.tuples(st.sampled_from(["gemm", "norm", "attention", "copy", "unknown"]),
                           st.sampled_from([None, "layers.0.attn.o", "layers.1.attn.o", "x"]),
                           st.integers(1, 90)), min_size=1, max_size=6)  # fmt: skip


@given(PLANS, PLANS, st.integers(1, 900), st.integers(1, 900), st.sampled_from([None, "category", "module"]))
def test_the_parts_named_add_up(a: list[Any], b: list[Any], one: int, other: int, by: str | None) -> None:
    got = compare(*runs(a, b, (one + 600, other + 600)), [by] if by else None)
    assert sum(p.delta for p in parts_of(got).values()) == got.total["delta"]
    said = re.search(r"\): (.*) \((?:ns|us)\)\.", got.sentence)
    if said:
        numbers = [float(x) for x in re.findall(r"(?<!\S)[+-][\d.,]+(?= )", said[1])]
        scale = 1 if "(ns)." in got.sentence else 1_000
        assert sum(numbers) * scale == pytest.approx(got.total["delta"], abs=6 * scale * 0.005 + 3)
    word = "slower" if got.total["delta"] > 0 else "faster" if got.total["delta"] < 0 else "exactly"
    assert word in got.sentence
