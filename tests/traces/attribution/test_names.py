"""Names taken apart."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from traces.attribution.names import parse


@pytest.mark.parametrize(
    ("name", "base"),
    [
        ("void vllm::rms_norm_kernel<c10::Half, 8>(c10::Half*)", "vllm::rms_norm_kernel"),
        ("void (anonymous namespace)::softmax_warp_forward<float>(float*)", "softmax_warp_forward"),
        ("void at::native::<unnamed>::indexSelect<T>(int)", "at::native::indexSelect"),
        ("std::enable_if<!(false), void>::type internal::gemvx::kernel<int>(int)", "internal::gemvx::kernel"),
        (
            "std::enable_if<(((8)>(0)))&&vllm::_typeConvert<c10::BFloat16>::exists, void>::type "
            "vllm::fused_add_rms_norm_kernel<c10::BFloat16, 8>(c10::BFloat16*)",
            "vllm::fused_add_rms_norm_kernel",
        ),
        ("nvjet_sm90_hsh_64x8", "nvjet_sm90_hsh_64x8"),
        ("copy_info_kernel(int, int*)", "copy_info_kernel"),
        ("_ZN7ck_tile6kentryILi2ENS_1EEEvT_", "ck_tile::kentry"),
        ("_ZN2ck16tensor_operation6device12_GLOBAL__N_15launcINS_1E", "ck::tensor_operation::device::launc"),
        ("_ZN12_GLOBAL__N_13fooEv", "foo"),
        ("_Z10my_kernel_Pfi", "my_kernel_"),
        ("_Znonsense", "_Znonsense"),
        ("__amd_rocclr_fillBufferAligned.kd", "__amd_rocclr_fillBufferAligned"),
        ("Memcpy DtoD (Device -> Device)", "Memcpy DtoD"),
        ("void _GLOBAL__N__1a2b_7_Copy_cu_3c::foo<int>(int)", "foo"),
        ("void _INTERNAL_fc5a7df_9_SoftMax_cu_81a::foo<int>(int)", "foo"),
        ("matmul_kernel_0d1d2d3de4de5c", "matmul_kernel"),
        ("add_kernel_0d1", "add_kernel"),
        ("rms_norm_kernel_0", "rms_norm_kernel_0"),
        ("kernel_cutlass_kernel_acmeNorm_object_at__tensorptrbf16_0", "kernel_cutlass_kernel_acmeNorm"),
        ("", ""),
    ],
)  # fmt: skip
def test_base(name: str, base: str) -> None:
    assert parse(name).base == base


@pytest.mark.parametrize(
    ("name", "functor"),
    [
        (
            "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<int>, int>(int)",
            "aten::vectorized_elementwise_kernel<4, FillFunctor<int>, ",
        ),
        ("elementwise_kernel", "aten::elementwise_kernel"),
        ("void cutlass::device_kernel<flash::Fwd<int>>(P)", "cutlass::device_kernel<flash::Fwd<int>>"),
        ("_ZN7ck_tile6kentryILi2ENS_13FmhaFwdKernelIiEEEEvT_", "ck_tile::kentry<FmhaFwdKernel<>>"),
    ],
)  # fmt: skip
def test_functor(name: str, functor: str) -> None:
    parsed = parse(name).functor
    assert parsed is not None
    assert parsed.startswith(functor)


@pytest.mark.parametrize("name", ["void vllm::rms_norm_kernel<int>(int)", "matmul_kernel"])
def test_kernels_that_are_no_launchers_have_no_functor(name: str) -> None:
    assert parse(name).functor is None


@pytest.mark.parametrize(
    ("name", "fused"),
    [
        ("triton_poi_fused_add_mul_silu_2", "poi:_add_mul_silu_"),
        ("triton_red_fused__to_copy_mean_pow_0.kd", "red:__to_copy_mean_pow_"),
        ("triton_poi_fused_0", "poi:__"),
        ("triton__0d1d2d", "old:__"),
        ("triton_mm_plus_mm_0", "tem:_mm_plus_mm_"),
        ("triton_tem_fused_addmm_3", "tem:_addmm_"),
        ("triton_my_own_kernel", None),
        ("matmul_kernel", None),
    ],
)
def test_fused(name: str, fused: str | None) -> None:
    assert parse(name).fused == fused


@given(st.text(max_size=80))
def test_never_fails(name: str) -> None:
    for prefix in ("", "_ZN", "triton_poi_fused_", "void at::native::", "kernel_cutlass_"):
        assert parse(prefix + name).full == (prefix + name).strip().removesuffix(".kd")


@pytest.mark.parametrize(
    ("name", "plain"),
    [
        ("rms_norm_kernel", "rms_norm_kernel"),
        ("rms_norm_kernel.kd", "rms_norm_kernel"),
        ("void rms_norm_kernel(int)", None),
        ("vllm::rms_norm_kernel", None),
        ("_Z3fooi", None),
    ],
)
def test_plain(name: str, plain: str | None) -> None:
    assert parse(name).plain == plain
