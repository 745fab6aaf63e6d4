"""The roofline view against the points of `traces`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from dashboard import roofline_figure
from dashboard.views import roofline
from tests.dashboard import builders
from tests.dashboard.builders import HOSTILE, WORK, baseline, candidate, charts, texts, words
from tests.traces.builders import run, step
from traces import store
from traces.analysis.pairing import join
from traces.analysis.points import points

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from streamlit.testing.v1 import AppTest

    from traces.store import Run

    Page = Callable[..., AppTest]

H200 = {"type": "cuda", "name": "NVIDIA H200"}
BIG, SMALL, ATTENTION = "M2 N8 K4 f16", "M2 N4 K4 f16", "B1 H1/1 T1 L9 D4 f16"
FLOPS = {BIG: 96_000_000, SMALL: 48_000_000, ATTENTION: 10_000_000}
CUDA = [
    ("gemm", "aten::mm", BIG, 12_000), ("gemm", "aten::mm", SMALL, 9_000),
    ("gemm_reduce", "aten::mm", None, 2_000), ("attention", "aten::sdpa", ATTENTION, 4_000),
    ("norm", "aten::norm", "9 f16", 1_000),
]  # fmt: skip
TRITON = [
    ("gemm", "kernelgap::linear", BIG, 11_000), ("gemm", "kernelgap::linear", SMALL, 8_000),
    ("norm", "kernelgap::norm", "9 f16", 500), ("activation", "kernelgap::silu", None, 500),
]  # fmt: skip
GROUPS = {"gemm_reduce": "gemm", "norm": "small_op", "activation": "small_op"}


def made(variant: str, ops: list[tuple[str, str, str | None, int]], work: float = 1, **known: Any) -> Run:
    """Two complete decode steps of the ops, back to back; a GEMM of F FLOPs moves F / 2 bytes."""
    rows, tiles, at = [], [], 0
    for number in range(2):
        begin = at
        for category, op, shape, ns in ops:
            flops = int(FLOPS.get(shape or "", 0) * work) or None
            moved = flops // 2 if flops else 480_000 if shape else None
            rows.append(
                {
                    "start_ns": at, "dur_ns": ns, "name": f"{variant} {category}", "category": category,
                    "group": GROUPS.get(category, category), "op": op, "shape": shape, "flops": flops,
                    "min_bytes": moved, "phase": "decode", "step": number,
                }
            )  # fmt: skip
            at += ns
        tiles.append(step("decode", number, begin, at))
    base = {"model": "small", "variant": variant, "mode": "graph", "workload": WORK, "device": H200}
    return run(rows, **(base | {"steps": tiles, "run_id": f"{variant}-1"} | known))


def opened(shelf: Path, page: Page, a: Run, b: Run, **address: str) -> AppTest:
    return builders.opened(shelf, page, a, b, view="Roofline", **address)


def arrows(figure: dict[str, Any]) -> list[dict[str, Any]]:
    return [a for a in figure["layout"]["annotations"] if a.get("axref") == "x"]


def said(figure: dict[str, Any]) -> list[str]:
    return [a["text"] for a in figure["layout"]["annotations"]]


def test_the_table_has_the_numbers_of_traces(shelf: Path, page: Page) -> None:
    a, b = made("cuda", CUDA), made("triton", TRITON)
    shown = opened(shelf, page, a, b).dataframe[0].value
    found = join(points(a, "decode").points, points(b, "decode").points)
    assert shown["op"].tolist() == [
        "aten::mm → kernelgap::linear", "aten::mm → kernelgap::linear", "aten::sdpa",
        "aten::norm → kernelgap::norm",
    ]  # fmt: skip
    for side, place in (("A", 0), ("B", 1)):
        for i, joined in enumerate(found):
            p = joined[place]
            if p is None:
                assert shown[[f"{side} {n}" for n in ("n", "µs", "GB/s", "% of roof")]].iloc[i].isna().all()
                continue
            row = shown.iloc[i]
            assert (row[f"{side} n"], row[f"{side} µs"]) == (p.n, p.call_ns / 1e3)
            assert row[f"{side} GB/s"] == p.gb_per_s
            assert row[f"{side} % of roof"] == pytest.approx(100 * (p.roofline or 0))
            assert row[f"{side} above roof"] == pytest.approx((p.work_ns - (p.floor_ns or 0)) / 2 / 1e3)
    assert shown["A µs"].tolist()[:2] == [12.0, 11.0]  # the split-K reduction counts with its product
    assert shown["B − A µs"].tolist()[:2] == [-1.0, -3.0]
    assert shown["A % busy"].sum() == pytest.approx(100)


def test_points_arrows_and_roofs_are_drawn(shelf: Path, page: Page) -> None:
    at = opened(shelf, page, made("cuda", CUDA), made("triton", TRITON))
    (figure,) = charts(at)
    marks = {t["name"]: t for t in figure["data"] if t.get("name")}
    assert list(marks) == ["A gemm", "A attention", "B gemm"]
    assert {marks["A gemm"]["marker"]["symbol"], marks["B gemm"]["marker"]["symbol"]} == {
        "circle-open",
        "diamond",
    }
    assert marks["A gemm"]["x"] == [2, 2]
    assert marks["B gemm"]["y"] == pytest.approx([96e6 / 11_000 / 1e3, 48e6 / 8_000 / 1e3])
    assert len(arrows(figure)) == 2
    assert "4.80 TB/s" in said(figure)
    assert "n = 2, with 2 helping kernels" in marks["A gemm"]["customdata"][1]
    assert "area by share" in texts(at)
    alt = at.get("plotly_chart")[0].proto.alt
    assert alt.startswith("Roofline, arithmetic intensity against TFLOP/s. A aten::mm")


def test_the_answer_comes_first(shelf: Path, page: Page) -> None:
    at = opened(shelf, page, made("cuda", CUDA), made("triton", TRITON))
    heading = words(at)
    # least times at 4.8 TB/s: 10 + 5 + 1.04 + 0.1 us of 28 us; 10 + 5 + 0.1 of 19.5 us
    assert "A 57.6 %, B 77.4 %" in heading
    assert "kernelgap::linear M2 N4 K4 f16, 3.00 µs per step above the roof" in heading


def test_what_is_not_on_the_chart_is_counted(shelf: Path, page: Page) -> None:
    shown = words(opened(shelf, page, made("cuda", CUDA), made("triton", TRITON)))
    assert "A: 3 ops by shape on the chart, 96.4 % of the busy time; 1 of which only bytes" in shown
    assert "without known work 2.5 % (activation 2.5 %)" in shown


def test_the_whole_roofline_goes_beyond_the_ridge(shelf: Path, page: Page) -> None:
    near = charts(opened(shelf, page, made("cuda", CUDA), made("triton", TRITON)))[0]
    far = charts(page(a="a", b="b", view="Roofline", axes="whole roofline"))[0]
    assert near["layout"]["xaxis"]["range"][1] < 1
    assert far["layout"]["xaxis"]["range"][1] > 2  # the ridge is at 206 FLOP/byte
    assert "f16 989 TFLOP/s" in said(far)
    assert "f16 989 TFLOP/s" not in said(near)


def test_the_same_shape_with_other_work_has_no_arrow(shelf: Path, page: Page) -> None:
    at = opened(shelf, page, made("cuda", CUDA), made("triton", TRITON, work=0.5))
    assert not arrows(charts(at)[0])
    assert "2 ops have the same shape in both runs, but work that differs" in words(at)
    assert at.dataframe[0].value["B − A µs"].tolist()[:2] == pytest.approx([float("nan")] * 2, nan_ok=True)


def test_runs_of_two_gpus_have_both_roofs(shelf: Path, page: Page) -> None:
    other = {"type": "cuda", "name": "NVIDIA H100 80GB HBM3"}
    at = opened(shelf, page, made("cuda", CUDA), made("triton", TRITON, device=other))
    assert {"A 4.80 TB/s", "B 3.35 TB/s"} <= set(said(charts(at)[0]))
    assert "Roofs of B" in texts(at)


def test_measured_ceilings_are_dashed(shelf: Path, page: Page) -> None:
    device = H200 | {"measured": {"read_bytes_per_s": 4.0e12}}
    both = made("cuda", CUDA, device=device), made("triton", TRITON, device=device)
    figure = charts(opened(shelf, page, *both))[0]
    assert {"4.80 TB/s", "4.00 TB/s measured"} <= set(said(figure))
    assert sorted(t["line"]["dash"] for t in figure["data"] if t["mode"] == "lines") == ["dash", "solid"]


@pytest.mark.parametrize(
    "device", [{"type": "cpu", "name": "Some CPU"}, {"type": "cuda", "name": "NVIDIA A10G"}, {}]
)
def test_devices_without_peaks_have_points_and_a_sentence(
    shelf: Path, page: Page, device: dict[str, Any]
) -> None:
    at = opened(shelf, page, made("cuda", CUDA, device=device), made("triton", TRITON, device=device))
    (figure,) = charts(at)
    assert not [t for t in figure["data"] if t["mode"] == "lines"]
    assert "rates only" in texts(at)
    assert at.dataframe[0].value["A % of roof"].isna().all()
    page(a="a", b="b", view="Roofline", axes="whole roofline")


def test_one_known_gpu_is_drawn_with_its_letter(shelf: Path, page: Page) -> None:
    at = opened(shelf, page, made("cuda", CUDA, device={}), made("triton", TRITON))
    assert "B 4.80 TB/s" in said(charts(at)[0])
    assert "A unknown (no peak rates)" in words(at)


def test_rates_above_the_roof_are_explained(shelf: Path, page: Page) -> None:
    fast = [("gemm", "aten::mm", BIG, 5_000)]
    assert "1 op is above 100 %: operands that the L2" in words(
        opened(shelf, page, made("cuda", fast), made("triton", TRITON))
    )


def test_only_bytes_make_a_table_without_a_chart(shelf: Path, page: Page) -> None:
    norm = [("norm", "aten::norm", "9 f16", 1_000)]
    at = opened(shelf, page, made("cuda", norm), made("triton", norm))
    assert not charts(at)
    assert "none has a place on the chart" in at.info[0].value
    assert at.dataframe[0].value["A GB/s"].tolist() == [480.0]


def test_without_known_work_the_page_says_how_to_get_it(shelf: Path, page: Page) -> None:
    at = opened(shelf, page, baseline(), candidate())
    assert "record_shapes=True" in at.info[0].value
    assert not charts(at)


def test_a_cpu_run_has_no_roofline(shelf: Path, page: Page) -> None:
    cpu = {"type": "cpu", "name": "Some CPU"}
    at = opened(shelf, page, baseline(device=cpu), candidate(device=cpu))
    assert "not of CPU operators" in at.info[0].value


def test_names_never_leave_the_chart() -> None:
    some = points(made("cuda", CUDA), "decode")
    figure = roofline_figure.figure(
        {"a": some, "b": some}, join(some.points, some.points), {"a": [], "b": []}, whole=False
    )
    low, high = figure.layout.xaxis.range
    named = [a for a in figure.layout.annotations if a.text.endswith("%</b>")]
    assert len(named) == 3
    assert all((a.x - low) / (high - low) <= 0.6 or a.xanchor == "right" for a in named)
    assert {a.xanchor for a in named} == {"left"}  # of one intensity: all on one side


def test_runs_without_steps_are_shown_whole(shelf: Path, page: Page) -> None:
    at = opened(shelf, page, made("cuda", CUDA, steps=[]), made("triton", TRITON, steps=[]))
    assert at.dataframe[0].value["A n"].tolist()[:2] == [2, 2]
    assert "per step" not in next(m.value for m in at.markdown if m.value.startswith("####"))


def test_a_run_against_itself_moves_nothing(shelf: Path, page: Page) -> None:
    store.write(made("cuda", CUDA), shelf / "a.parquet")
    at = page(a="a", b="a", view="Roofline")
    assert not at.exception
    assert set(at.dataframe[0].value["B − A µs"]) == {0.0}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_text(shelf: Path, page: Page, name: str) -> None:
    ops = [("gemm", name, f"{name} f16", 5_000), ("norm", "aten::norm", "9 f16", 100)]
    some = made("cuda", ops)
    table = some.table
    flops = [96_000_000 if c == "gemm" else None for c in table["category"].to_pylist()]
    table = table.set_column(table.schema.get_field_index("flops"), table.schema.field("flops"), [flops])
    some = store.Run(table, some.meta)
    at = opened(shelf, page, some, some)
    drawn = str(charts(at)[0])
    assert "<img" not in drawn + texts(at)
    assert "<script" not in drawn + texts(at)
    assert "\u202e" not in drawn + texts(at) + str(at.dataframe[0].value.values.tolist())
    assert len(drawn) < 50_000


def test_many_shapes_stay_below_the_budget() -> None:
    ops = [("gemm", "aten::mm", f"M{i} N4 K4 f16", 100 + i) for i in range(roofline_figure.MOST + 50)]
    FLOPS.update(dict.fromkeys((shape for *_, shape, _ in ops if shape), 48_000_000))
    some = points(made("cuda", ops), "decode")
    figure = roofline_figure.figure(
        {"a": some, "b": some}, join(some.points, some.points), {"a": [], "b": []}, whole=False
    )
    assert max(len(t.x) for t in figure.data) == roofline_figure.MOST
    assert len(figure.to_json()) < 500_000


def test_above_the_roof_is_what_fixing_could_win() -> None:
    p = points(made("cuda", CUDA), "decode").points[0]
    assert roofline.above_roof(p, 2) == pytest.approx((24_000 - 2 * 10_000) / 2)
    assert roofline.above_roof(None, 2) is None
