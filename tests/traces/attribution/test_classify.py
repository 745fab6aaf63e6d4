"""The classifier: its corpus, its rules, and how names and launching ops are weighed."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from traces.attribution.classify import Classifier, Rule, default_classifier, load_rules
from traces.attribution.taxonomy import BACKENDS, GROUP_OF
from traces.errors import UsageError

HERE = Path(__file__).parent
REPO = HERE.parents[2]
ADD = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, "
    "std::array<char*, 3ul> >(int, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul>)"
)


def corpus(file: str = "corpus.tsv") -> list[list[str]]:
    lines = (HERE / file).read_text(encoding="utf-8").splitlines()
    return [line.split("\t") for line in lines if line and not line.startswith("#")]


@pytest.mark.parametrize(("name", "category", "backend"), corpus())
def test_corpus(name: str, category: str, backend: str) -> None:
    label = default_classifier().classify(name)
    assert (label.group, label.category, label.backend) == (GROUP_OF[category], category, backend), label.rule


def test_names_drawn_from_libraries() -> None:
    """Names drawn blindly from what libraries ship; the file says which ones the rules are known to miss."""
    wrong = []
    for name, categories, backends, *missed in corpus("corpus_wild.tsv"):
        label = default_classifier().classify(name)
        right = label.category in categories.split("|") and label.backend in backends.split("|")
        if right == bool(missed):
            wrong.append((name[:80], categories, backends, label))
    assert wrong == []


def test_corpus_covers_the_taxonomy() -> None:
    """Every backend and nearly every category has a name; graph and unknown are not names."""
    categories = {category for _, category, _ in corpus()}
    assert set(GROUP_OF) - categories <= {"graph", "unknown", "sync"}
    assert {"aiter", "ck"} <= {backend for _, _, backend in corpus()} <= set(BACKENDS)


@pytest.mark.parametrize("rule", default_classifier().rules, ids=lambda rule: rule.id)
def test_every_example_hits_its_own_rule(rule: Rule) -> None:
    classifier = default_classifier()
    matched = classifier.match_op(rule.example) if rule.on == "op" else classifier.match(rule.example)
    assert matched[0 if rule.category else 1] is rule
    assert rule.why


@pytest.mark.parametrize(
    ("name", "op", "category", "rule"),
    [
        (ADD, None, "elementwise", "aten-arithmetic"),
        (ADD, "aten::add", "elementwise", "aten-arithmetic"),
        (ADD, "aten::silu", "activation", "op:aten::silu"),
        (ADD, "aten::native_layer_norm", "norm", "op:aten::native_layer_norm"),
        (ADD, "CompiledFxGraph 3", "elementwise", "aten-arithmetic"),
        (ADD, "TorchDynamo Cache Lookup", "elementwise", "aten-arithmetic"),
        ("some_vendor_kernel_x7(int)", "aten::mm", "gemm", "op:aten::mm"),
        ("some_vendor_kernel_x7(int)", "aten::copy_", "copy", "op:aten::copy_"),
        ("nvjet_sm90_hsh_64x8_TNT", "aten::mm", "gemm", "nvjet"),
        ("nvjet_sm90_hsh_64x8_TNT", "aten::conv2d", "conv", "op:aten::conv2d!"),
        ("void cublasLt::splitKreduce_kernel<32>(int)", "aten::mm", "gemm_reduce", "cublas-reduce"),
        ("void gemv2T_kernel_val<int, int>(int)", "aten::addmm", "gemv", "cublas-gemv"),
        ("void cudnn::ops::nchwToNhwcKernel<float>(int)", "aten::cudnn_convolution", "copy", "cudnn-copy"),
        ("void vllm::reshape_and_cache_kernel<int>(int)", "vllm::attention", "kv_cache", "vllm-kv-cache"),
        ("triton_poi_fused_mul_silu_2", "triton_poi_fused_mul_silu_2", "activation", "inductor-activation"),
        ("ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", "nccl:all_to_all", "p2p", "nccl-p2p"),
    ],
)  # fmt: skip
def test_weighing_of_op_and_name(name: str, op: str | None, category: str, rule: str) -> None:
    label = default_classifier().classify(name, op=op)
    assert (label.category, label.rule) == (category, rule)
    assert label.group == GROUP_OF[category]


def test_our_ops_are_triton_whatever_the_kernel_is_called() -> None:
    label = default_classifier().classify("odd_name", op="kernelgap::rms_norm")
    assert (label.category, label.backend, label.rule) == ("norm", "triton", "op:kernelgap::rms_norm")


def test_attention_is_not_mistaken_for_its_template_arguments() -> None:
    name = "void cutlass::device_kernel<flash::FlashAttnFwdSm90<cutlass::gemm::GemmUniversal>>(P)"
    assert default_classifier().classify(name).group == "attention"


@pytest.mark.parametrize(
    ("name", "kind", "group", "category", "backend"),
    [
        ("anything at all", "memcpy", "memory", "memcpy", "other"),
        ("anything at all", "memset", "memory", "memset", "other"),
        ("cudaGraph 7", "graph", "other", "graph", "other"),
        ("aten::linear", "cpu_op", "gemm", "gemm", "aten"),
        ("aten::addmm", "cpu_op", "gemm", "gemm", "aten"),
        ("aten::scaled_dot_product_attention", "cpu_op", "attention", "attention", "aten"),
        ("aten::mul_", "cpu_op", "small_op", "elementwise", "aten"),
        ("aten::view", "cpu_op", "small_op", "copy", "aten"),
        ("aten::no_such_op", "cpu_op", "other", "unknown", "aten"),
        ("kernelgap::rms_norm", "cpu_op", "small_op", "norm", "triton"),
        ("kernelgap::attention_decode", "cpu_op", "attention", "attention", "triton"),
        ("kernelgap::gemm", "cpu_op", "gemm", "gemm", "triton"),
        ("kernelgap::gemm_reduce", "cpu_op", "gemm", "gemm_reduce", "triton"),
        ("_C::rms_norm", "cpu_op", "small_op", "norm", "vllm"),
    ],
)
def test_kinds(name: str, kind: str, group: str, category: str, backend: str) -> None:
    label = default_classifier().classify(name, kind=kind)
    assert (label.group, label.category, label.backend) == (group, category, backend)


@pytest.mark.parametrize(
    ("name", "category"),
    [
        ("_gemma_rmsnorm_kernel", "norm"),
        ("void vllm::awq::dequantize_weights<int>(int)", "quantize"),
        ("_per_token_group_quant_mla_deep_gemm_masked_fp8", "quantize"),
        ("void cask__5x_cublas::compressSparseFilter<__half>(int)", "gemm"),
        ("categories_of_addresses(int)", "unknown"),
        ("signal_kernel(long const*)", "sync"),
        ("_flash_copy_attn_fwd_kernel", "attention"),
        ("triton_red_fused_div_exp_prepare_softmax_online_sub_0", "softmax"),
        ("void at::native::(anonymous namesp...", "unknown"),
    ],
)
def test_a_word_inside_another_decides_nothing(name: str, category: str) -> None:
    assert default_classifier().classify(name).category == category


def test_unknown_names_say_so() -> None:
    label = default_classifier().classify("qqq_zzz(int)")
    assert (label.group, label.category, label.backend, label.rule) == (
        "other",
        "unknown",
        "other",
        "unknown",
    )
    assert default_classifier().classify("").category == "unknown"


def test_unknown_kind_is_refused() -> None:
    with pytest.raises(UsageError, match="unknown kind of row 'kernels'"):
        default_classifier().classify("x", kind="kernels")


def test_user_rules_decide_first(tmp_path: Path) -> None:
    extra = tmp_path / "mine.toml"
    extra.write_text('[[rule]]\nid = "mine"\npattern = "^nvjet"\ncategory = "gemv"\nbackend = "other"\n')
    label = Classifier(load_rules(extra)).classify("nvjet_sm90_hsh_64x8")
    assert (label.category, label.backend, label.rule) == ("gemv", "other", "mine")


@pytest.mark.parametrize(
    ("on", "pattern", "name", "op"),
    [
        ("base", "^acme", "void acme_step<int>(int)", "aten::mm"),
        ("op", "^acme::", "nvjet_sm90_hsh_64x8", "acme::embed"),
    ],
)
def test_a_user_rule_beats_the_shipped_ones_of_name_and_op(
    tmp_path: Path, on: str, pattern: str, name: str, op: str
) -> None:
    extra = tmp_path / "mine.toml"
    extra.write_text(f'[[rule]]\nid = "mine"\non = "{on}"\npattern = "{pattern}"\ncategory = "embedding"\n')
    assert Classifier(load_rules(extra)).classify(name, op=op).category == "embedding"


def test_a_user_rule_for_the_backend_alone(tmp_path: Path) -> None:
    extra = tmp_path / "mine.toml"
    extra.write_text('[[rule]]\nid = "mine"\npattern = "^acme::"\nbackend = "cutlass"\n')
    label = Classifier(load_rules(extra)).classify("void acme::rms_norm_kernel<float>(int)")
    assert (label.category, label.backend) == ("norm", "cutlass")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[[rule", "not a TOML file"),
        ("[rules]\nx = 1", "something other than"),
        ("rule = [1]", "must be a table"),
        ('[[rule]]\nid = "a"\npattern = "x"', "needs a category, a backend, or both"),
        ('[[rule]]\nid = "a"\npattern = "x"\ncategory = "gem"', "unknown category 'gem'"),
        ('[[rule]]\nid = "a"\npattern = "x"\nbackend = "cuda"', "unknown backend 'cuda'"),
        ('[[rule]]\nid = "a"\npattern = "x"\ncategory = "gemm"\non = "name"', "unknown on 'name'"),
        ('[[rule]]\nid = "a"\npattern = "("\ncategory = "gemm"', "bad regular expression"),
        ('[[rule]]\nid = "a"\npattern = "x"\ncategory = ["gemm"]', "unknown category"),
        ('[[rule]]\nid = "a"\npattern = "x"\ncategory = "gemm"\ncolour = "red"', "unknown key 'colour'"),
        ('[[rule]]\nid = "a"\npattern = "x"\ncategory = "gemm"\ngroup = "other"', "does not hold category"),
        ('[[rule]]\nid = "a"\npattern = "x"\ncategory = "gemm"\ngeneric = "yes"', "'generic' must be"),
        ('[[rule]]\npattern = "x"\ncategory = "gemm"', "'id' must be a non-empty string"),
        ('[[rule]]\nid = "a"\npattern = ""\ncategory = "gemm"', "'pattern' must be a non-empty string"),
        ('[[rule]]\nid = "a"\npattern = "x"\ncategory = "gemm"\n' * 2, "the id is used twice"),
    ],
)
def test_malformed_rules_name_the_file_and_the_rule(tmp_path: Path, text: str, complaint: str) -> None:
    extra = tmp_path / "bad.toml"
    extra.write_text(text)
    with pytest.raises(UsageError, match=complaint) as caught:
        load_rules(extra)
    assert "bad.toml" in str(caught.value)
    assert "\n" not in str(caught.value)
    if "id =" in text and complaint != "not a TOML file":
        assert "'a'" in str(caught.value)


def test_missing_rules_file(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot read the rules .*nowhere.toml"):
        load_rules(tmp_path / "nowhere.toml")


def test_many_distinct_names_stay_fast() -> None:
    """20 000 distinct names; the bound is loose because CI machines are shared."""
    names = [name.replace("(", f"_{i}(", 1) + f"_{i}" for i in range(120) for name, _, _ in corpus()]
    classifier = Classifier(load_rules())
    start = time.process_time()
    for name in names:
        classifier.classify(name)
    assert time.process_time() - start < 10


def shared_cases() -> Path | None:
    """A folder of labelled names outside the repo: `KERNELGAP_CASES`, else beside the checkout."""
    folder = Path(os.environ.get("KERNELGAP_CASES", REPO.parent / "shared" / "cases"))
    return folder if (folder / "kernel_names_dev.tsv").is_file() else None


@pytest.mark.skipif(shared_cases() is None, reason="no labelled names beside this checkout")
def test_labelled_names_beside_the_checkout() -> None:
    folder = shared_cases()
    assert folder is not None

    def rows(file: str) -> list[list[str]]:
        return [line.split("\t") for line in (folder / file).read_text().splitlines()[1:] if line]

    also = {name: alternative for name, *_, alternative in rows("kernel_names_dev_alternatives.tsv")}
    right = {"group": 0, "category": 0, "backend": 0}
    names = rows("kernel_names_dev.tsv")
    for name, _, category, backend, _ in names:
        label = default_classifier().classify(name)
        accepted = {category, also.get(name, category)}
        right["group"] += label.group in {GROUP_OF[each] for each in accepted}
        right["category"] += label.category in accepted
        right["backend"] += label.backend == backend
    share = {key: count / len(names) for key, count in right.items()}
    assert share["group"] >= 0.99, share
    assert share["category"] >= 0.96, share
    assert share["backend"] >= 0.96, share
