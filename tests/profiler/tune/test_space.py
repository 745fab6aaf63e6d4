from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from profiler.ops.triton.splitk import Shape, default_config
from profiler.tune.space import MIN_BLOCKS, SHARED_LIMIT, space

LAYER = [(6144, 4096), (4096, 4096), (28672, 4096), (4096, 14336), (128256, 4096)]


@pytest.mark.parametrize("m", [1, 2, 16, 17, 1024])
@pytest.mark.parametrize(("n", "k"), LAYER)
def test_the_default_comes_first_and_nothing_comes_twice(m: int, n: int, k: int) -> None:
    found = space(Shape(m, n, k), 2)
    assert found[0] == default_config(m, 2)
    assert len({str(c) for c in found}) == len(found)
    assert len(found) <= 300  # seconds to time, as the documentation says


@given(
    m=st.integers(1, 4096), n=st.integers(1, 200_000), k=st.integers(1, 20_000), size=st.sampled_from([2, 4])
)
def test_every_candidate_fits(m: int, n: int, k: int, size: int) -> None:
    for c in space(Shape(m, n, k), size)[1:]:
        buffers = c.num_stages - (c.block_m < 64)
        assert (c.block_m + c.block_n) * c.block_k * size * buffers <= SHARED_LIMIT
        assert c.block_m == 16 or m > 16
        assert c.split_k == 1 or -(-k // c.block_k) >= MIN_BLOCKS * c.split_k


def test_the_winners_of_a_hand_sweep_are_in_it() -> None:
    """32x128 and 32x256 with a split of 2, 128x128 without: the best of the first measurements on an H200."""
    tiles = {(c.block_n, c.block_k, c.split_k) for c in space(Shape(2, 6144, 4096), 2)}
    assert (32, 128, 2) in tiles
    assert (32, 256, 2) in {(c.block_n, c.block_k, c.split_k) for c in space(Shape(2, 4096, 14336), 2)}
    assert (128, 128, 1) in {(c.block_n, c.block_k, c.split_k) for c in space(Shape(2, 28672, 4096), 2)}


def test_small_models_have_a_space_too() -> None:
    assert space(Shape(1, 64, 64), 4)
