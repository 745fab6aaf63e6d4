"""Names once, and what happens when there are too many of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.traces.builders import run
from traces.analysis import kinds

if TYPE_CHECKING:
    import pytest


def names(n: int, repeat: int = 1) -> list[dict[str, object]]:
    return [
        {"start_ns": 10 * i, "dur_ns": 5, "name": f"k{i % n}", "module": f"m{i}", "group": "gemm"}
        for i in range(n * repeat)
    ]


def test_kinds_are_told_apart_without_modules_when_those_are_too_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kinds, "MOST_KINDS", 10)
    kind, found = kinds.kinds_of(run(names(3, 5)).table)
    assert [found.texts[found.text[k]] for k in kind] == [f"k{i % 3}" for i in range(15)]
    assert (found.modules_left_out, found.names_left_out, set(found.module)) == (True, 0, {None})
    assert found.kernels.tolist() == [5, 5, 5]


def test_the_rarest_names_share_a_text_but_keep_their_group(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kinds, "MOST_KINDS", 10)
    rows = [*names(2, 3), *names(30)]
    kind, found = kinds.kinds_of(run(rows).table)
    texts = [found.texts[found.text[k]] for k in kind]
    assert set(texts[:6]) == {"k0", "k1"}
    assert found.names_left_out == 26
    assert texts.count("(one of 26 rarer names)") == 26
    assert {int(found.group[k]) for k in kind} == {0}
    assert found.kernels.sum() == len(rows)
    assert int(kind.max()) < 10


def test_names_are_plain_text_and_cut_when_together_they_are_too_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kinds, "TEXT_BUDGET", 200)
    _, found = kinds.kinds_of(run([{"start_ns": 0, "dur_ns": 1, "name": "\u202ea" + "x" * 5_000}]).table)
    assert found.texts[0].startswith("⟨202E⟩a")
    assert len(found.texts[0]) < 220
    assert found.matching("A").tolist() == [True]
