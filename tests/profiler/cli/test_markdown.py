"""Names from traces cannot break out of a Markdown table, and mention or link nobody."""

from __future__ import annotations

import pytest

from profiler.cli.markdown import code, comparison, text
from tests.traces.analysis.decoder import CUDA, decoder
from tests.traces.builders import run
from traces.analysis.compare import compare


@pytest.mark.parametrize(
    ("name", "span"),
    [
        ("plain", "`plain`"),
        ("a|b", "`a\\|b`"),
        ("tick ` one", "``tick ` one``"),
        ("``two``", "``` ``two`` ```"),
        ("line\nbreak", "`line⟨000A⟩break`"),
        ("<img src=x>", "`<img src=x>`"),
        ("", "`  `"),
    ],
)
def test_code_spans_hold_any_name(name: str, span: str) -> None:
    assert code(name) == span


def test_text_is_no_markup() -> None:
    assert text("a|b *c* _d_ [e](f) <g> #1 &amp;") == r"a\|b \*c\* \_d\_ \[e\](f) \<g\> \#1 \&amp;"
    assert text("@someone") == "@\u2060someone"
    assert text("https://x.y") == "https://\u2060x.y"
    assert text("www.x.y") == "www\u2060.x.y"


def test_a_table_of_hostile_names_keeps_its_shape() -> None:
    names = ["a|b", "`", "x\n| y | z |", "**b** @team <script>", "k" * 500]
    made = run([{"start_ns": i, "dur_ns": 1, "name": n} for i, n in enumerate(names)],
               model="m|`\n", variant="v*")  # fmt: skip
    out = comparison(compare(made, made, ["name"]), 10)
    rows = [line for line in out.splitlines() if line.startswith("|")]
    assert len(rows) == 2 + 1 + len(names) + 1
    assert {line.replace("\\|", "").count("|") for line in rows} == {6}
    assert max(map(len, rows)) < 300


def test_other_phases_and_unknown_modules_have_words() -> None:
    bare = decoder(CUDA, modules=False)
    rows = [r | {"phase": None if r["category"] == "norm" else "decode"} for r in bare.table.to_pylist()]
    made = run(rows, steps=bare.meta["steps"])
    out = comparison(compare(made, made, ["module"]), 50)
    assert "| other phases |" in out
    assert "| (not known) |" in comparison(compare(made, made, ["op"]), 50)
