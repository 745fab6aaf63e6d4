"""Mangled symbols read as far as rules need."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from traces.attribution.classify import default_classifier
from traces.attribution.mangled import read


@pytest.mark.parametrize(
    ("symbol", "name"),
    [
        ("_Z10my_kernel_Pfi", "my_kernel_"),
        ("_Z3fooIfLi2EEvT_", "foo<>"),
        ("_ZN12_GLOBAL__N_13fooEv", "foo"),
        ("_ZN4vllm15rms_norm_kernelIN3c104HalfELi8EEEvPT_", "vllm::rms_norm_kernel<c10::Half>"),
        (
            "_ZN2at6native13reduce_kernelILi512ELi1ENS0_8ReduceOpIfNS0_7MeanOpsIffffEEjfLi4ELi4EEEEEvT1_",
            "at::native::reduce_kernel<ReduceOp<MeanOps<>>>",
        ),
        ("_ZN5aiter18rmsnorm2d_fwd_kernIDF16bEEvPT_", "aiter::rmsnorm2d_fwd_kern<>"),
        ("_ZN3foo3barILNS_4KindE2EEEvv", "foo::bar<Kind>"),
        ("_ZN2ck6deviceIJfEE4kernIiEEvv", "ck::device<>::kern<>"),
        ("_Znonsense", "_Znonsense"),
        ("_ZN99short", "_ZN99short"),
        ("_Z", "_Z"),
    ],
)
def test_read(symbol: str, name: str) -> None:
    assert read(symbol) == name


@pytest.mark.parametrize(
    ("symbol", "demangled"),
    [
        (
            "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_15CUDAFunctor_addIfEESt5arrayIPcLm3EEEEviT0_T1_",
            "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, "
            "std::array<char*, 3ul> >(int, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul>)",
        ),
        (
            "_ZN2at6native29vectorized_elementwise_kernelILi8ENS0_13BinaryFunctorIN3c108BFloat16ES4_S4_NS0_"
            "15binary_internal10MulFunctorIfEEEESt5arrayIPcLm3EEEEviT0_T1_",
            "void at::native::vectorized_elementwise_kernel<8, at::native::BinaryFunctor<c10::BFloat16, "
            "c10::BFloat16, c10::BFloat16, at::native::binary_internal::MulFunctor<float> >, "
            "std::array<char*, 3ul> >(int)",
        ),
        (
            "_ZN7cutlass13device_kernelIN5flash11enable_sm90INS1_16FlashAttnFwdSm90INS1_24CollectiveMainloop"
            "FwdSm90ILi2EEEEEEEEEvNT_6ParamsE",
            "void cutlass::device_kernel<flash::enable_sm90<flash::FlashAttnFwdSm90<"
            "flash::CollectiveMainloopFwdSm90<2>>>>(T1::Params)",
        ),
    ],
)
def test_a_symbol_gets_the_label_of_its_name(symbol: str, demangled: str) -> None:
    label = default_classifier().classify
    assert label(symbol) == label(demangled)


@example("XE1F")
@given(st.text(alphabet="_ZNIELSTXJF0123456789abcfk", max_size=40))
def test_never_fails(text: str) -> None:
    assert read("_Z" + text)
