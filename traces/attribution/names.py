"""Taking kernel names apart, so that a rule looks only at the part of a name that says something.

A name tells what runs in one of three ways:

- its own qualified name (`vllm::rms_norm_kernel<...>(...)`): the base;
- the functor handed to a launcher that only loops (`at::native::vectorized_elementwise_kernel<4, F, ...>`,
  `cutlass::device_kernel<F>`, `ck_tile::kentry<..., F>`): the functor;
- the list of fused ops that Inductor writes (`triton_poi_fused_add_mul_silu_2`): the fused list.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from traces.attribution import mangled

# Template arguments of ATen names repeat the functor several times; its first mention is near the front.
_ATEN_FUNCTOR_CHARS: Final = 200

_NOISE: Final = re.compile(
    r"\(anonymous namespace\)::|<unnamed>::|\{anonymous\}::|_(?:GLOBAL__N|INTERNAL)_\w*::"
)
_RETURN_TYPE: Final = re.compile(
    r"^(?:typename )?std::enable_if<.*?>::type |^(?:void|int|static|__global__) "
)
_BASE_END: Final = re.compile(r"[<(\[]")
_ATEN_LAUNCHER: Final = re.compile(
    r"^at::cuda::kernelPointwiseApply\d$|^(?:at::native::(?:xpu::|legacy::|templates::cuda::)?)?"
    r"(?:\w*elementwise_kernel\w*|reduce_kernel|distribution_\w+_kernel|\w*ElementwiseKernel\w*|ReduceKernel)$"
    r"|^at::native::(?:multi_tensor_apply_kernel|xpu::\w*(?:ForeachKernel|MultiTensorApply)\w*)$"
)
_LAUNCHER: Final = re.compile(
    r"^cutlass\w*::(?:Kernel2?|device_kernel)$|^ck_tile::kentry|^ck::kernel_|^ck::tensor_operation::"
    r"|^rocprim::.*kernel$|^(?:thrust|cub)::.*(?:kernel_agent|parallel_for)"
    r"|^(?:at_cuda_detail::)?cub::.*(?:static_kernel|CompactInitKernel)$"
    r"|^deep_gemm::|^multi_tensor_apply_kernel$|^unary_op_kernel$"
)
_ATEN_NOISE: Final = re.compile(
    r"at::native::|void |std::array<|at::detail::Array<|TrivialOffsetCalculator|memory::"
)
_INDUCTOR: Final = re.compile(r"^triton_(poi|red|per|tem|for|spl|unk|sca|mix)_fused(?:_(.*?))?(?:_?\d+)?$")
_INDUCTOR_OLD: Final = re.compile(r"^triton_+(?:\d+d|\d+$|\d+d.*$|$)|^triton_fused_(?P<ops>.*?)(?:_\d+)?$")
_INDUCTOR_TEMPLATE: Final = re.compile(
    r"^triton_((?:mm|bmm|addmm|baddbmm|mm_plus_mm|scaled_mm|grouped_mm|convolution|flex_)\w*?)(?:_\d+)?$"
)
_IDENTIFIER: Final = re.compile(r"(?!_Z)\w+")
# Triton before 3.0 appended its specialisation: `0d1d2de3` says what is divisible by 16 or is constant.
_TRITON_SPECIALISATION: Final = re.compile(r"_0(?:de?|c)?1(?:de?|c)?[\ddce]*$")
_CUTE_DSL_ARGUMENTS: Final = re.compile(r"_object_at_.*|_+tensor(?:ptr|\d).*")


@dataclass(frozen=True, slots=True)
class KernelName:
    """One name, taken apart; a part that the name does not have is None.

    `full` is the name as recorded, without ROCm's `.kd`; `base` the qualified name without return type,
    template arguments, parameters, anonymous namespaces and old Triton suffixes; `functor` what a launcher
    runs, `launcher<arguments`; `fused` Inductor's op list, `kind:_op_op_`.
    """

    full: str
    base: str
    functor: str | None = None
    fused: str | None = None

    @property
    def plain(self) -> str | None:
        """The name, if it is one bare identifier: compilers of C++ record a signature, Triton does not."""
        return self.base if _IDENTIFIER.fullmatch(self.full) else None


def parse(name: str) -> KernelName:
    """Take a kernel name apart. Never fails: an odd name has itself as its base."""
    full = name.strip().removesuffix(".kd")
    if full.startswith("triton_"):
        fused = _fused_ops(full)
        if fused is not None:
            return KernelName(full, full, fused=fused)
    if full.startswith("kernel_cutlass_"):
        return KernelName(full, _CUTE_DSL_ARGUMENTS.sub("", full))
    readable = mangled.read(full) if full.startswith("_Z") else _TRITON_SPECIALISATION.sub("", full)
    text = _RETURN_TYPE.sub("", _NOISE.sub("", readable))
    end = _BASE_END.search(text)
    base = text[: end.start()].strip() if end and end.start() else text
    return KernelName(full, base, functor=_functor(base, text))


def _functor(base: str, text: str) -> str | None:
    if _ATEN_LAUNCHER.match(base):
        return "aten::" + _ATEN_NOISE.sub("", text[: 2 * _ATEN_FUNCTOR_CHARS])[:_ATEN_FUNCTOR_CHARS]
    if not _LAUNCHER.match(base):
        return None
    return text if text.startswith(base) else f"{base}<{text}"


def _fused_ops(name: str) -> str | None:
    """`kind:_op_op_`; kind is Inductor's own code, `tem` for its older template names, `old` if unnamed."""
    if match := _INDUCTOR.match(name):
        return f"{match[1]}:_{match[2] or ''}_"
    if match := _INDUCTOR_OLD.match(name):
        return f"old:_{match['ops'] or ''}_"
    if match := _INDUCTOR_TEMPLATE.match(name):
        return f"tem:_{match[1]}_"
    return None
