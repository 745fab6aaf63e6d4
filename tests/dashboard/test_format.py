"""Numbers and hostile names as text."""

from __future__ import annotations

import shlex
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard import format as fmt


@pytest.mark.parametrize(
    ("ns", "text"),
    [(0, "0 ns"), (320, "320 ns"), (1_500, "1.50 µs"), (21_340_000, "21.34 ms"), (-2_000, "-2.00 µs"),
     (3_000_000_000, "3.00 s"), (None, "–")],
)  # fmt: skip
def test_durations_take_the_unit_that_fits(ns: int | None, text: str) -> None:
    assert fmt.duration(ns) == text


def test_differences_carry_their_sign() -> None:
    assert [fmt.signed(n) for n in (1_500, -70, 0)] == ["+1.50 µs", "−70 ns", "±0 ns"]


def test_characters_that_hide_or_reorder_text_show_their_code() -> None:
    assert fmt.plain("a\u202eb\x00c\n\ud800") == "a⟨202E⟩b⟨0000⟩c⟨000A⟩⟨D800⟩"


@given(st.text(max_size=400), st.integers(8, 60))
def test_plain_text_is_one_short_line(text: str, limit: int) -> None:
    shown = fmt.plain(text, limit)
    assert not {unicodedata.category(c) for c in shown} & {"Cc", "Cf", "Cs", "Zl", "Zp"}
    assert len(shown) <= limit * 8  # a hidden character takes up to eight to show


def test_long_names_keep_both_ends() -> None:
    assert fmt.plain("a" * 50 + "z" * 50, 12) == "aaaaaaa…zzzz"


def test_markdown_leaves_nothing_to_interpret() -> None:
    assert fmt.markdown("__a__ *b*") == r"\_\_a\_\_ \*b\*"
    assert "http://" not in fmt.markdown("http://a.b").replace("\\", "")


def test_labels_escape_tags_for_plotly() -> None:
    assert fmt.label("<b>&\"'") == "&lt;b&gt;&amp;\"'"


def test_the_command_quotes_what_a_shell_would_read() -> None:
    paths = [Path("/a b/$(x).parquet"), Path.cwd() / "runs" / "y.parquet"]
    words = shlex.split(fmt.command("compare", paths, "decode", ("module", "category")))
    assert words[3:] == [
        "compare", "/a b/$(x).parquet", "runs/y.parquet", "--phase", "decode", "--by", "module,category",
    ]  # fmt: skip
