from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from traces.attribution.formulas.calls import Work, label, plausible, read
from traces.attribution.work import KNOWN, of_op


def test_tensors_scalars_and_absent_inputs_are_told_apart() -> None:
    types = '["c10::Half", "Scalar", "", "c10::NewType"]'
    call = read("[[2, 3], [], [], [4]]", types, "[[3, 1], [], [], [1]]", '["", "True", "", ""]')
    assert call is not None
    assert call.tensor(0) == ((2, 3), "f16", 2, (3, 1))
    assert (call.scalar(1), call.scalar(0), call.scalar(9)) == ("True", "", "")
    assert call.optional(2) is None
    for at in (1, 2, 3, 9):
        with pytest.raises(LookupError):
            call.tensor(at)
    with pytest.raises(LookupError):  # it was given, so it must be understood
        call.optional(3)


def test_an_expanded_tensor_is_stored_once() -> None:
    call = read("[[8, 3, 5]]", '["float"]', "[[0, 5, 1]]", None)
    assert call is not None
    assert (call.tensor(0).elements, call.tensor(0).stored) == (120, 60)


@pytest.mark.parametrize("strides", [None, "x", "[[1]]", '[["a", 1]]', "[[1, 1], [1]]"])
def test_strides_that_make_no_sense_are_left_out(strides: str | None) -> None:
    call = read("[[2, 3]]", '["float"]', strides, None)
    assert call is not None
    assert call.tensor(0).strides is None


@pytest.mark.parametrize(
    ("dims", "types"),
    [(None, None), ("", ""), ("{}", "{}"), ("[[1]]", "[]"), ("1", "1"), ("[[1]", '["float"]')],
)
def test_damaged_records_are_no_call(dims: str | None, types: str | None) -> None:
    assert read(dims, types, None, None) is None


def test_sizes_beyond_any_machine_are_not_believed() -> None:
    assert not plausible(Work(2**63, 1, None))
    assert not plausible(Work(None, -1, None))
    assert plausible(Work(None, None, None))
    huge = f"[[{2**31}, {2**31}], [{2**31}, {2**31}]]"
    assert of_op("aten::mm", huge, '["float", "float"]') is None


def test_labels() -> None:
    assert label((2, 1, 4), "f16") == "2x1x4 f16"
    assert label((), "i64") == "1 i64"


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 2**70)
    | st.sampled_from(["c10::Half", "float", "Scalar", "", "x"]),
    lambda x: st.lists(x, max_size=4),
    max_leaves=8,
)
shapes = st.lists(st.lists(st.integers(0, 9), max_size=5), max_size=8)
kinds = st.lists(st.sampled_from(["c10::Half", "float", "long int", "Scalar", "", "TensorList"]), max_size=8)


@given(
    st.sampled_from(sorted(KNOWN)), shapes | json_values, kinds | json_values, json_values, json_values,
    st.none() | st.integers(-1, 9),
)  # fmt: skip
def test_no_record_breaks_a_formula(
    op: str, dims: object, types: object, strides: object, concrete: object, visible: int | None
) -> None:
    import json

    texts = (json.dumps(v) for v in (dims, types, strides, concrete))
    found = of_op(op, *texts, visible=visible)
    assert found is None or plausible(found)
