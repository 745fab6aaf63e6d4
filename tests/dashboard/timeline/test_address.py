"""What an address and a browser may say, and what is made of it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.timeline import address
from dashboard.timeline.address import View

ns = st.integers(-(10**17), 10**17)
interval = st.tuples(ns, st.integers(1, 10**16)).map(lambda w: (w[0], w[0] + w[1]))
named = st.tuples(st.text("ab: ", min_size=1), st.integers(0, 99)).map("{0[0]}:{0[1]}".format)
views = st.builds(
    View,
    step=st.just("") | named,
    window=interval,
    range=st.none() | interval,
    find=st.text(max_size=50),
    kernel=st.none() | st.tuples(st.sampled_from("ab"), st.integers(0, 10**9)),
)


@given(views, st.none() | st.sampled_from(["a", "b", "a:b"]))
def test_an_address_shows_the_view_that_wrote_it(view: View, phase: str | None) -> None:
    wish = address.read({k: v for k, v in address.write(view, phase).items() if v}, phase)
    assert View(wish.step or "", wish.window or (0, 1), wish.range, wish.find, wish.kernel) == view
    assert not wish.unread


def test_a_bare_step_number_is_one_of_the_phase() -> None:
    assert address.read({"step": "3"}, "decode").step == "decode:3"
    assert address.read({"step": "3"}, None).step is None
    assert address.write(View("decode:3", (0, 1)), "decode")["step"] == "3"
    assert address.write(View("prefill:3", (0, 1)), "decode")["step"] == "prefill:3"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("window", "5..1"), ("window", "1"), ("window", "x..y"), ("window", "1e3..2e3"),
        ("range", "9" * 30 + "..1"), ("kernel", "c:1"), ("kernel", "a:-1"), ("step", "nonsense"),
    ],
)  # fmt: skip
def test_parameters_that_make_no_sense_are_named(name: str, text: str) -> None:
    wish = address.read({name: text}, "decode")
    assert wish.unread == (name,)
    assert getattr(wish, name) is None


GOOD: dict[str, Any] = {"step": "decode:1", "lo": 0, "hi": 9, "range": [1, 2], "find": "x", "kernel": "b:7"}


def test_what_the_browser_says_is_understood() -> None:
    assert address.heard(GOOD) == View("decode:1", (0, 9), (1, 2), "x", ("b", 7))
    assert address.heard(GOOD | {"range": None, "kernel": None}) == View("decode:1", (0, 9), None, "x", None)


@pytest.mark.parametrize(
    "wrong",
    [
        {"lo": "0"}, {"hi": None}, {"lo": 9}, {"hi": float("inf")}, {"hi": float("nan")}, {"range": [1]},
        {"range": 3},
        {"range": "ab"}, {"kernel": 7}, {"find": 7}, {"step": None}, {"lo": True}, {"hi": 10**30},
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_not_believed(wrong: dict[str, Any]) -> None:
    assert address.heard(GOOD | wrong) is None


@pytest.mark.parametrize("nothing", [None, 3, "text", [], {}, {"lo": 1}])
def test_a_browser_that_says_nothing(nothing: Any) -> None:
    assert address.heard(nothing) is None
