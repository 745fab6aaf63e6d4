from __future__ import annotations

from itertools import chain, pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from traces.attribution import blocks
from traces.attribution.block_bounds import KernelSequence

# A decoder layer, a letter a kernel: n norm, g GEMM, a attention. Outside: e embedding, S sampling.
LAYER = "ngrcagtngusgt"
ALTERNATIVES = {"G": "g", "A": "a", "N": "n"}  # other tiles or kinds of the same


def sequence(text: str) -> KernelSequence:
    names = np.array([ord(c) for c in text], np.int32)
    symbols = np.array([ord(ALTERNATIVES.get(c, c)) for c in text], np.int32)
    is_a = {which: np.array([c in which for c in text], dtype=bool) for which in ("aA", "nN", "eS")}
    return KernelSequence(names, symbols, is_a["aA"], is_a["nN"], is_a["eS"], routed="x" in text)


def layers(*parts: str) -> list[str]:
    """Which kernel belongs to which block, written as `0001112..` with `-` outside."""
    found = blocks.find(sequence("".join(parts)))
    assert found is not None
    text = "".join("-" if b < 0 else chr(ord("0") + b) for b in found[1])
    cut = np.cumsum([0, *(len(p) for p in parts)])
    return [text[a:b] for a, b in pairwise(cut)]


def expected(*parts: str, outside: tuple[int, ...] = (0, -1)) -> list[str]:
    ends = {i % len(parts) for i in outside}
    inside = [i for i in range(len(parts)) if i not in ends]
    return [
        "-" * len(p) if i in ends else chr(ord("0") + inside.index(i)) * len(p) for i, p in enumerate(parts)
    ]


def check(*parts: str) -> None:
    assert layers(*parts) == expected(*parts)


@pytest.mark.parametrize("count", [3, 4, 32, 61])
def test_prologue_blocks_epilogue(count: int) -> None:
    # The last norm and lm_head look like the beginning of one more layer.
    check("eqq", *[LAYER] * count, "ngS")


def test_without_prologue_or_epilogue() -> None:
    assert layers(*[LAYER] * 8) == expected(*[LAYER] * 8, outside=())


def test_a_prologue_that_ends_as_a_layer_does() -> None:
    check("egt", *[LAYER] * 8, "ngS")


def test_other_tiles_and_a_kernel_more_or_less() -> None:
    odd = LAYER.replace("g", "G", 2)
    check(
        "eq", odd, LAYER + "z", *[LAYER] * 5, LAYER[:7] + "zz" + LAYER[7:], odd, LAYER[:3] + LAYER[4:], "ngS"
    )


def test_first_and_last_layer_differ() -> None:
    check("e", "N" + LAYER[1:-1] + "T", *[LAYER] * 6, LAYER[:-1], "NgS")


def test_local_and_global_attention_take_turns() -> None:
    kinds = [LAYER, LAYER.replace("a", "Ah")]
    check("e", *chain.from_iterable([kinds] * 6), "ngS")
    check("e", *([LAYER] * 5 + [kinds[1]]) * 4, "ngS")


def test_dense_and_sparse_layers() -> None:
    dense, sparse = LAYER, LAYER[:7] + "ngxyzxyzwvxv"
    check("e", *[dense] * 3, *[sparse] * 20, "ngS")
    check("e", *[dense, sparse] * 10, "ngS")


def test_state_space_layers_outnumber_attention() -> None:
    scan = "ngwkmgtngusgt"
    check("e", *([scan] * 7 + [LAYER]) * 4, "ngS")


def test_two_attentions_in_a_decoder_layer() -> None:
    layer = "ngrcagt" + "ngagt" + "ngugt"
    check("e", *[layer] * 12, "ngS")


def test_half_a_layer_is_no_layer() -> None:
    layer = "ngagt" + "ngugt"
    check("e", *[layer] * 24, "ngS")


def test_several_passes_in_one_step_number_their_layers_alike() -> None:
    one = ["eq", *[LAYER] * 6, "ngSz"]
    assert layers(*one * 5) == expected(*one) * 5


def test_two_stacks_of_different_depth_are_not_told_apart() -> None:
    assert blocks.find(sequence("eq" + LAYER * 6 + "ngSzeq" + LAYER * 4 + "ngS")) is None


@pytest.mark.parametrize(
    "text",
    ["", "k", "kkk", "k" * 500, "eq" + LAYER + "ngS", "eq" + LAYER * 2 + "ngS", "ab" * 100,
     "e" + "ngugt" * 4 + "qwertyuiopasdfghjklzxcvbnm" * 2],
)  # fmt: skip
def test_what_does_not_convince(text: str) -> None:
    assert blocks.find(sequence(text)) is None


def test_thousands_of_blocks_are_passes_that_nothing_tells_apart() -> None:
    assert blocks.find(sequence(LAYER * 600)) is None


def test_random_kernels_have_no_layers() -> None:
    rng = np.random.default_rng(0)
    for size in (50, 500, 5000):
        text = "".join(rng.choice(list("ngatcrusz"), size))
        assert blocks.find(sequence(text)) is None


def test_what_is_expected_is_asked_first_and_else_nothing_changes() -> None:
    seq = sequence("eq" + LAYER * 8 + "ngS")
    plain: Any = blocks.find(seq)
    for guess in (8, 4, 5):
        count, which = blocks.find(seq, guess)  # type: ignore[misc]
        assert count == 8
        assert (which == plain[1]).all()


@given(st.integers(3, 40), st.lists(st.sampled_from("bcdfhijklm"), min_size=4, max_size=20), st.randoms())
def test_equal_blocks_between_other_kernels_are_always_found(
    count: int, kernels: list[str], random: Any
) -> None:
    block = "a" + "".join(dict.fromkeys(kernels))
    if len(block) < 3:
        return
    before, behind = ("".join(random.choices("VWXYZ", k=random.randint(0, 5))) for _ in range(2))
    outside = ((0,) if before else ()) + ((-1,) if behind else ())
    parts = [p for p in (before, *[block] * count, behind) if p]
    assert layers(*parts) == expected(*parts, outside=outside)
