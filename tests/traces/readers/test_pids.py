from __future__ import annotations

from typing import Any

import pytest

from traces.readers.pids import owners, split


@pytest.mark.parametrize(
    ("pid", "number", "label"),
    [
        (1234, 1234, None),
        ("1234", "1234", None),
        ("0x10", "0x10", None),
        ("[TP01] 1234", 1234, "[TP01]"),
        ("[TP01-DP00-PP02] 0", 0, "[TP01-DP00-PP02]"),
        ("rank 3: 57", 57, "rank 3:"),
        ("[TP01] Spans", "[TP01] Spans", None),
        ("Spans", "Spans", None),
        ("GPU 0", "GPU 0", None),
        ("GPU 0 Counters", "GPU 0 Counters", None),
        ("python 12", "python 12", None),
        ("", "", None),
        (None, None, None),
        (2.5, 2.5, None),
        ("[TP1] " + "9" * 30, "[TP1] " + "9" * 30, None),
        ("[TP1\ud800] 5", 5, "[TP1?]"),
    ],
)
def test_a_label_before_a_pid(pid: Any, number: Any, label: str | None) -> None:
    found, labels = split([pid, "[TP0] 7"])
    assert found == [number, 7]
    assert labels.to_pylist() == [label, "[TP0]"]


def test_the_usual_pids_are_not_touched() -> None:
    pids = [1, 2, "Spans"]
    found, labels = split(pids)
    assert found is pids
    assert labels.null_count == 3


def test_the_process_of_a_gpu_row_is_its_pid_where_that_is_not_its_device() -> None:
    assert owners([0, 1], [0, 1]).null_count == 2
    assert owners([0, 900, "x", None, -1, 2**70, 3.5], [0, 1, 1, 1, 1, 1, 1]).to_pylist() == [
        None, 900, None, None, None, None, None,
    ]  # fmt: skip
