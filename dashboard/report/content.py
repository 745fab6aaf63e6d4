"""What the page of a comparison says, from the same functions as the dashboard's views."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dashboard import facts, health, summary
from dashboard.figures import timeline
from dashboard.format import NONE, command, duration, percent, signed
from dashboard.report import page
from dashboard.rows import largest, rows_of
from dashboard.views import breakdown, waterfall
from traces.analysis import kernels, sentence
from traces.analysis.compare import compare

if TYPE_CHECKING:
    from collections.abc import Iterator

    import plotly.graph_objects as go

    from traces.analysis.compare import Comparison
    from traces.store import Run

PARTS: Final = 40  # rows of a table of parts
KERNELS: Final = 25  # rows of a table of kernels
_HEAD: Final = ("part", "A", "B", "B − A", "A %", "B %")


class EachKernel(timeline.Panel):
    """A panel that draws its kernels one by one wherever a browser can: the reader may zoom in."""

    @property
    def single(self) -> bool:
        """Whether they are few enough."""
        return bool(self.table.num_rows <= timeline.BARS)


def build(a: Run, b: Run, phase: str | None = None) -> str:
    """The page of B against A; raises KernelgapError as `compare` does."""
    result = compare(a, b, None, phase)
    categories = compare(a, b, ("category",), phase)
    body = [
        page.element("h1", f"A {page.text(a.title)} · B {page.text(b.title)}"),
        *_said(result),
        _cards(categories),
        page.element(
            "p", page.text(summary.basis(*(summary.figures(result, s) for s in ("a", "b")))), "faint"
        ),
        page.section("Where the difference comes from", _waterfall(result)),
        page.section("Where the time goes", _stacked(compare(a, b, ("group",), phase))),
        page.section("By category", _parts(categories)),
    ]
    if "module" in result.by:
        body.append(page.section("By module, the layers added up", _parts(result)))
    body += [
        page.section("One step, kernel by kernel", *_timeline(a, b, result.phase)),
        page.section("Kernels of A", _kernels(a, result.phase)),
        page.section("Kernels of B", _kernels(b, result.phase)),
        page.section("Trace health", page.element("div", _health("A", a) + _health("B", b), "two")),
        page.section("Runs", _facts(a, b)),
        page.section("The same from the command line", _commands(a, b, result)),
    ]
    return page.page(f"{b.title} against {a.title}", "\n".join(body))


def _said(result: Comparison) -> Iterator[str]:
    yield page.element("p", page.element("strong", page.text(sentence.headline(result))))
    on_cpu = [s.upper() for s in ("a", "b") if getattr(result, s).run.meta["device"].get("type") == "cpu"]
    if on_cpu:
        yield page.element("p", f"⚠ CPU, not a GPU latency: {' and '.join(on_cpu)} ran on the CPU.", "doubt")
    for doubt in (*sentence.doubts(result), *result.not_comparable[2:]):
        yield page.element("p", f"⚠ {page.text(doubt)}", "doubt")
    yield page.element("p", page.text(summary.noise(result)), "faint")
    for name, side in (("A", result.a), ("B", result.b)):
        fine, told = health.line(side.run)
        yield page.element("p", f"Trace health of {name}: {'✓' if fine else '⚠'} {page.text(told)}", "faint")


def _cards(result: Comparison) -> str:
    out = []
    for card in summary.cards(result):
        kind = "worse" if card.worse > 0 else "better" if card.worse < 0 else "faint"
        lines = (card.base, f"({card.noise})" if card.noise else "")
        told = "<br>".join(page.text(line) for line in lines if line)
        delta = page.element("span", page.text(f"{_arrow(card.delta)}{card.delta}"), kind)
        out.append(
            page.element(
                "div", page.text(card.name) + page.element("b", page.text(card.value)) + delta
                + page.element("div", told, "faint"), "card",
            )
        )  # fmt: skip
    return page.element("div", "".join(out), "cards")


def _arrow(delta: str) -> str:
    return {"+": "▲ ", "−": "▼ "}.get(delta[:1], "")


def _waterfall(result: Comparison) -> str:
    figure = waterfall.bridge(largest(rows_of(result), waterfall.BARS), result.total)
    return page.figure(_laid_out(figure), "waterfall", f"Waterfall from A to B. {sentence.headline(result)}")


def _stacked(result: Comparison) -> str:
    rows = rows_of(result)
    said = ", ".join(f"{r.name} A {duration(r.a)} B {duration(r.b)}" for r in rows)
    return page.figure(
        _laid_out(breakdown.stacked(rows)), "groups", f"Stacked bars of a step by group: {said}"
    )


def _parts(result: Comparison) -> str:
    rows = largest(rows_of(result), PARTS)
    lines = [_line(r.name, r.a, r.b, result.total) for r in rows]
    lines.append(_line("total", result.total["a"], result.total["b"], result.total))
    alt = f"Exclusive time per step, {result.basis} wall; rows and idle make the total."
    return page.table(_HEAD, lines, alt)


def _line(name: str, a: int, b: int, total: dict[str, int]) -> tuple[str, ...]:
    shares = (percent(x / total[s]) if total[s] else NONE for x, s in ((a, "a"), (b, "b")))
    return (name, duration(a), duration(b), signed(b - a), *shares)


def _timeline(a: Run, b: Run, phase: str | None) -> Iterator[str]:
    number = _step(a, b, phase)
    windows = {side: timeline.window(run, phase, number) for side, run in (("a", a), ("b", b))}
    axis = (0, max((w[1] - w[0] for w in windows.values() if w), default=0))
    panels: list[timeline.Panel] = []
    for side, run in (("a", a), ("b", b)):
        if (window := windows[side]) and axis[1]:
            p = timeline.panel(run, "a" if side == "a" else "b", window, axis)
            panels.append(EachKernel(p.name, p.table, p.axis, p.shown_ns, p.devices))
    if not panels:
        yield page.element("p", "Neither run has a step with kernels in it.")
        return
    what = f"{phase} step {number}" if phase else "whole runs"
    said = "; ".join(
        f"{p.name.upper()} {p.table.num_rows:,} kernels in {duration(p.shown_ns)}" for p in panels
    )
    yield page.figure(_laid_out(timeline.figure(panels)), "timeline", f"Timeline of {what}: {said}")
    drawn = "" if all(p.single for p in panels) else " Too many to draw one by one: shown as busy shares."
    yield page.element("p", page.text(f"{what}, profiled: {said}. Drag to zoom in.{drawn}"), "faint")


def _step(a: Run, b: Run, phase: str | None) -> int | None:
    """The first step that is complete in both runs, else one that both have."""
    sides = [[s for s in run.meta["steps"] if s["phase"] == phase] for run in (a, b)]
    for wanted in (lambda s: s["complete"], lambda s: True):
        found = set.intersection(*({s["step"] for s in steps if wanted(s)} for steps in sides))
        if found:
            return min(found)
    return None


def _kernels(run: Run, phase: str | None) -> str:
    found = kernels.by_name(run, phase).to_pylist()
    head = ("kernel", "category", "n", "total", "mean", "p50", "p99", "share")
    rows = [
        (
            r["name"] or "(other phases)", r["category"] or NONE, f"{r['count']:,}",
            duration(r["exclusive_ns"]), duration(r["mean_ns"]), duration(r["p50_ns"]),
            duration(r["p99_ns"]), percent(r["share"]),
        )
        for r in found[:KERNELS]
    ]  # fmt: skip
    rest = found[KERNELS:]
    if rest:
        lost = (
            sum(r["exclusive_ns"] for r in rest),
            sum(r["share"] for r in rest),
            sum(r["count"] for r in rest),
        )
        more = (f"{len(rest)} more", "", f"{lost[2]:,}", duration(lost[0]), "", "", "", percent(lost[1]))
        rows.append(more)
    what = f"all {phase} steps" if phase else "the whole run"
    return page.table(head, rows, f"Exclusive time over {what}, by kernel name; share of the span.", 2)


def _health(name: str, run: Run) -> str:
    lines = "".join(
        page.element("li", f"{'✓' if fine else '⚠'} {page.text(told)}") for fine, told in health.lines(run)
    )
    return page.element(
        "div", page.element("h3", f"{name} {page.text(run.title)}") + page.element("ul", lines)
    )


def _facts(a: Run, b: Run) -> str:
    found = facts.facts(a, b)
    rows = [tuple(r.values()) for r in found.to_pylist()]
    return page.table(found.column_names, rows, f"{facts.DIFFERS} marks what differs.", 4, "facts")


def _commands(a: Run, b: Run, result: Comparison) -> str:
    """By file name: where the files lay is nobody's business."""
    paths = [p.__class__(p.name) for run in (a, b) if (p := run.path)]
    if len(paths) < 2:
        return page.element("p", "The runs are not files.")
    lines = (
        command("compare", paths, result.phase, result.by),
        *(command("show", [p], result.phase, ("name",)) for p in paths),
        *(command("export", [p], None, to="perfetto") for p in paths),
        command("export", paths, result.phase, to="html"),
    )
    return page.element("pre", "\n".join(page.text(line) for line in lines))


def _laid_out(figure: go.Figure) -> go.Figure:
    """The dashboard's layout; colours of text and lines follow the page's theme."""
    figure.update_xaxes(automargin=True)
    figure.update_yaxes(automargin=True)
    return figure.update_layout(
        template="none", margin={"l": 8, "r": 12, "t": 36, "b": 8}, font={"family": "system-ui, sans-serif"},
        legend={"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0, "traceorder": "normal"},
        hoverlabel={"align": "left"},
    )  # fmt: skip
