from __future__ import annotations

import numpy as np

from traces import flags


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def test_each_doubt_has_its_reason() -> None:
    start = ints(0, -5, 10, 10, 10, 0)
    dur = ints(0, 3, -1, flags.DAY_NS, 0, 4)
    found = flags.join(flags.judge(start, dur), len(start))
    assert found.to_pylist() == ["zero_time", "negative_start", "reversed", "too_long", None, None]


def test_two_doubts_are_joined_in_order() -> None:
    assert flags.join(flags.judge(ints(-1), ints(-1)), 1).to_pylist() == ["negative_start,reversed"]


def test_a_row_that_outlasts_its_successors_end_is_cut_at_its_start() -> None:
    used, cut = flags.clip(ints(0, 100, 200), ints(1_600_000, 50, 50), ints(0, 0, 0))
    assert used.tolist() == [100, 50, 50]
    assert cut.tolist() == [True, False, False]


def test_shorter_overlaps_on_one_stream_are_legitimate() -> None:
    used, cut = flags.clip(ints(0, 8), ints(10, 10), ints(0, 0))
    assert used.tolist() == [10, 10]
    assert not cut.any()


def test_other_streams_and_unknown_streams_never_clip() -> None:
    assert not flags.clip(ints(0, 5), ints(100, 5), ints(0, 1))[1].any()
    assert not flags.clip(ints(0, 5), ints(100, 5), ints(-1, -1))[1].any()


def test_a_start_whose_end_no_int64_holds_is_out() -> None:
    last = np.iinfo(np.int64).max
    assert (
        flags.join(flags.judge(ints(last, last - 10), ints(2000, 20)), 2).to_pylist() == ["beyond_int64"] * 2
    )
