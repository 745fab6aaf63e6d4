from __future__ import annotations

import numpy as np
import pytest

from traces.columns import NONE
from traces.repetition import step_starts

LAYER = "nqaogd"  # norm, qkv, attention, o, gate_up, down


def starts(text: str, unit: list[int] | None = None) -> list[int]:
    names = np.frombuffer(text.encode(), np.uint8).astype(np.int32)
    gap = np.array([90 if c in "eE" else 1 for c in text], np.int64)
    return step_starts(names, gap, np.array(unit or [NONE] * len(names), np.int64)).tolist()


def test_a_loop_is_cut_where_it_begins() -> None:
    assert starts("abcd" * 5) == [0, 4, 8, 12, 16]


def test_the_loop_over_steps_wins_over_the_loop_over_layers() -> None:
    step = "e" + LAYER * 8 + "Ls"
    assert starts(step * 4) == [0, 51, 102, 153]


def test_what_runs_before_the_loop_is_no_step_and_the_last_may_be_cut_off() -> None:
    prefill, step = "e" + "PQRS" * 8 + "Ls", "E" + LAYER * 8 + "Ls"
    assert starts(prefill + step * 4 + step[:20]) == [35, 86, 137, 188, 239]


def test_one_step_alone_is_not_taken_for_its_layers() -> None:
    assert starts("e" + LAYER * 32 + "nLs") == []


def test_small_differences_between_steps_are_allowed() -> None:
    step = "e" + LAYER * 8 + "Ls"
    assert len(starts(step * 2 + step.replace("Ls", "Lms") + step * 3)) == 6


@pytest.mark.parametrize("text", ["", "a", "abcdefgh", "aaaaaaaa", "abab", "abcabd"])
def test_nothing_repeats(text: str) -> None:
    assert starts(text) == []


def test_a_step_never_divides_a_graph_replay() -> None:
    text = LAYER * 12
    assert starts(text, [0] * len(text)) == []
    assert starts(text, [i // 18 for i in range(len(text))]) == []
    replays = ("x" + LAYER * 3) * 4
    assert starts(replays, [i // 19 for i in range(len(replays))]) == [0, 19, 38, 57]
