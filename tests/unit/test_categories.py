"""Kernel names of many libraries land in the category of what the kernel does."""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support import ROOT, each_case, ends, shared_traces
from warplens.categories import (
    OTHER,
    KernelClass,
    Rule,
    category_names,
    demangle,
    demangling,
    load_categorizer,
    short_name,
)
from warplens_run.base.errors import FormatError, UsageError, WarplensError

SHARED = Path(__file__).parents[2].parent / "shared" / "traces"
TABLE = Path(__file__).parent / "data" / "kernel_categories.txt"
GPU_KINDS = ("kernel", "gpu_memcpy", "gpu_memset")
CATEGORIZER = load_categorizer()
GOOD_RULE = '[[rule]]\ncategory = "A"\ncontains = "x"\n'


def expected_classes() -> Iterator[tuple[str, str, str]]:
    category = ""
    for line in TABLE.read_text("utf-8").splitlines():
        if not line or line.startswith("#"):
            continue
        if line.startswith("[") and line.strip("[]") in category_names():
            category = line.strip("[]")
            continue
        direction = {"< ": "backward", "> ": "forward"}.get(line[:2], "")
        yield category, direction, line[2:] if direction else line


@each_case(expected_classes())
def test_name_has_its_category(category: str, direction: str, name: str) -> None:
    found = CATEGORIZER.classify(name)
    assert found.category == category
    if direction:
        assert found.direction == direction


def test_the_keys_of_tracelens_that_the_page_lists_have_the_categories_that_it_says() -> None:
    page = (ROOT / "docs" / "concepts" / "categories.md").read_text("utf-8")
    rows = re.findall(r"^\| (?:GEMM|FA BWD|FA FWD|FA V3|Conv|Communication rccl/nccl) \| (.+) \| (.+) \|$", page, re.M)
    assert len(rows) == 6
    for keys, category in rows:
        for key in re.findall("`(.+?)`", keys):
            assert load_categorizer().classify(key).category == category.removesuffix(", see below"), key


def test_the_table_covers_every_category_with_many_names() -> None:
    rows = list(expected_classes())
    assert len(rows) > 500
    assert {category for category, _, _ in rows} == set(category_names())


def test_every_rule_names_a_listed_category() -> None:
    from warplens.categories.rules import builtin_rules

    assert {rule.rule.category for rule in builtin_rules()} <= set(category_names())


def test_every_packaged_pattern_is_a_regular_expression() -> None:
    """They are compiled when they are first needed, so that loading them shows nothing."""
    from warplens.categories.rules import compile_rule, read_packaged_toml

    rules = [Rule(**table) for table in read_packaged_toml("rules.toml")["rule"]]
    assert sum(bool(compile_rule(rule, "rules.toml").search) for rule in rules) > 30
    for table in read_packaged_toml("ops.toml")["pattern"]:
        re.compile(table["pattern"])
    assert category_names()[-1] == OTHER


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "void cutlass::Kernel2<cutlass_75_tensorop_bf16_s1688gemm_bf16_128x128_tn_align1>(int)",
            KernelClass("GEMM", "cutlass", "bf16", "sm75"),
        ),
        ("nvjet_sm90_hsh_128x64_64x8_1x2_h_bz_NNT", KernelClass("GEMM", "cublas", "fp16", "sm90")),
        ("volta_sgemm_128x64_nn", KernelClass("GEMM", "cublas", "fp32", "sm70")),
        (
            "Cijk_Alik_Bljk_BBS_BH_MT256x192x64_MI16x16x1_ISA942_IU1",
            KernelClass("GEMM", "tensile", "bf16", "gfx942"),
        ),
        (
            "sm80_xmma_wgrad_implicit_gemm_f16f16_f16f32_f32_nhwckrsc_nhwc_tilesize128x64x32",
            KernelClass("Convolution", "cudnn", "fp16", "sm80", "backward"),
        ),
        (
            "triton_red_fused_native_layer_norm_7",
            KernelClass("Triton Fused", "inductor", fuses="normalization"),
        ),
        ("triton_poi_fused__to_copy_1", KernelClass("Triton Fused", "inductor", fuses="copy")),
        (
            "triton_red_fused__log_softmax_nll_loss_forward_2",
            KernelClass("Triton Fused", "inductor", direction="forward", fuses="loss"),
        ),
        ("_matmul_ogs_NNT_bf16xbf16xmxfp4_16x128x256x1", KernelClass("GEMM", "triton_kernels", "bf16")),
    ],
)
def test_sub_kinds_are_read_from_the_name(name: str, expected: KernelClass) -> None:
    assert CATEGORIZER.classify(name) == expected


@pytest.mark.parametrize(
    ("name", "category"),
    [
        ("my_property_kernel", OTHER),
        ("europe_data", OTHER),
        ("normal_kernel_xyz", OTHER),
        ("upsample_nearest_kernel", "Pooling"),
        ("fused_allreduce_rmsnorm", "Communication"),
        ("rotary_embedding_kernel", "RoPE"),
        ("bilinear_kernel", "Pooling"),
        ("void MatrixMulCUDA<32>(float*, float*, float*, int, int)", "GEMM"),
        ("batched_matrix_multiplication(unsigned int, float const*)", "GEMM"),
        ("matrix_multiply_elementwise", "Elementwise"),
        ("<unnamed>::nvfuser_inner_persistent_f1_c1_r0_g2(<unnamed>::Tensor<float, 2, 2>)", "Normalization"),
        ("nvfuser_inner_outer_persistent_f0_c1_r0_g0", "Normalization"),
        ("nvfuser_pointwise_f0_c1_r0_g0", "Elementwise"),
        ("nvfuser_none_f0_c0_r0_g0", OTHER),
        ("residual_forward_kernel(float*, float*, int)", "Elementwise"),
        ("calcResidualsGPU", OTHER),
    ],
)
def test_false_friends(name: str, category: str) -> None:
    assert CATEGORIZER.classify(name).category == category


@pytest.mark.parametrize(
    ("name", "category"),
    [
        ("void vllm::act_and_mul_kernel<c10::BFloat16, &vllm::silu_kernel<c10::BFloat16>, true>(int)", "Elementwise"),
        ("silu_and_mul", "Elementwise"),
        ("void vllm::moe::moe_align_block_size_kernel<int>(int*)", "MoE"),
        ("moe_permute_kernel", "MoE"),
        ("_fwd_kernel_ep_scatter_1", "MoE"),
        ("_fwd_kernel_ep_gather", "MoE"),
        ("fused_moe_dispatch_index_triton_kernel", "MoE"),
        ("void moe_pack_unpack::pack_moe_kernel<4>(int)", "MoE"),
        ("void expandInputRowsKernel<__nv_bfloat16>(int)", "MoE"),
        ("void permute_with_mask_map<c10::BFloat16>(int)", "Layout Transform"),
        ("deepep_permute_triton_kernel", "Layout Transform"),
        ("deepep_post_reorder_triton_kernel", "Layout Transform"),
        ("void flash::flash_fwd_splitkv_combine_kernel<Flash_fwd_kernel_traits<128, 64, 128, 4> >(int)",
         "Flash Attention Forward"),
        ("void flashinfer::trtllm_allreduce::reduce_fusion::rms_norm_kernel<__nv_bfloat16, true>(int)", "Normalization"),
        ("void dpsk::grouped_gemm::cuda::utils::transpose<512, 128, 4, 4>(unsigned char const*)", "GEMM"),
        ("void cuda::reduce_fused_impl<__nv_bfloat16, false, false>(int4 const*)", "Reduction"),
        ("gemm_stream_k_kernel", "GEMM"),
    ],
)  # fmt: skip
def test_what_stays_on_one_gpu_is_not_communication(name: str, category: str) -> None:
    assert CATEGORIZER.classify(name).category == category


@pytest.mark.parametrize(
    ("name", "category"),
    [
        ("void rocprim::ROCPRIM_400200_NS::detail::trampoline_kernel<rocprim::ROCPRIM_400200_NS::detail::wrapped_scan_config<"
         "rocprim::ROCPRIM_400200_NS::default_config, long>, (anonymous namespace)::arch(942)>(int)", "Sort/Scan"),
        ("void rocprim::ROCPRIM_400200_NS::detail::trampoline_kernel<rocprim::ROCPRIM_400200_NS::detail::"
         "wrapped_reduce_config<rocprim::ROCPRIM_400200_NS::default_config, float>, 1>(int)", "Reduction"),
        ("void (anonymous namespace)::resolve_future_token_ids_kernel<long>(long*, long const*, unsigned long)",
         "Embedding/Index"),
        ("_stage_spec_decode_metadata_kernel", "Embedding/Index"),
        ("alloc_extend_kernel", "Embedding/Index"),
        ("void deep_ep::intranode::cached_notify_dispatch(int)", "Communication"),
        ("void moe::dev::finalize::finalizeKernelVecLoad<KernelParams<bf16> >(int)", "MoE"),
        ("_expt_data_compute_stage1", "MoE"),
        ("tgmm_persistent_kernel", "GEMM"),
        ("_fwd_kernel_unified", "Attention (other)"),
        ("_tq_decode_stage1", "Attention (other)"),
        ("seg_la_kernel", "SSM"),
        ("make_sequential_4bit_kernel", "Quantization"),
        ("_reshape_cache_int4_kernel", "Memory Ops"),
        ("verify_tree_greedy_kernel_triton", "Random"),
        ("void aiter::operator_contiguous_kernel<float, 4>(int)", "Elementwise"),
        ("bwd_kernel_causal", "Flash Attention Backward"),
        ("sage_fwd", "Flash Attention Forward"),
        ("void epilogue::impl::globalKernel<float, float, float, true, true>(int, cublasLtEpilogue_t)", "GEMM"),
        ("sage_quant_kernel", "Quantization"),
        ("void qk_int8_sv_f8_attn_kernel<64u>(CUtensorMap_st)", "Flash Attention Forward"),
        ("my_metadata", OTHER),
        ("build_forest", OTHER),
    ],
)  # fmt: skip
def test_helpers_of_serving_engines_have_a_category(name: str, category: str) -> None:
    assert CATEGORIZER.classify(name).category == category


def test_a_cut_off_mangled_name_is_still_read() -> None:
    cut = "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_13BUnaryFunctorIfffNS0_15binary_inter"
    assert CATEGORIZER.classify(cut).category == "Elementwise"


MANGLED = "_ZN2at6native13reduce_kernelILi512ELi1ENS0_8ReduceOpIfEEEEvT1_"


def test_demangle_and_unchanged_names() -> None:
    assert demangle(MANGLED).startswith("void at::native::reduce_kernel<512, 1,")
    for name in ("attn_fwd", "_Zoo", "_Z", "", "_ZNgarbage"):
        assert demangle(name) == name


def test_demangling_without_pydemumble(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pydemumble", None)
    demangling._demangler.cache_clear()
    try:
        assert "reduce_kernel" in demangle(MANGLED)
        assert demangle("_ZNgarbage") == "_ZNgarbage"
        monkeypatch.setattr(demangling, "_RUNTIME_LIBRARIES", ())
        demangling._demangler.cache_clear()
        assert demangle(MANGLED) == MANGLED
        assert load_categorizer().classify(MANGLED).category == "Reduction"
    finally:
        demangling._demangler.cache_clear()


def test_the_c_runtime_reads_names_with_16_bit_types(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pydemumble", None)
    demangling._demangler.cache_clear()
    try:
        assert demangle("_ZN13ck_fused_attn12dk_dv_reduceIDF16bEEvPKT_") == (
            "void ck_fused_attn::dk_dv_reduce<std::bfloat16_t>(std::bfloat16_t const*)"
        )
        assert demangle("_ZN2ns6kernelIDF16_fEEvPT_") == "void ns::kernel<_Float16, float>(_Float16*)"
    finally:
        demangling._demangler.cache_clear()


@pytest.mark.parametrize(
    ("arguments", "dtype"),
    [
        ("TensorListScalarListMetadata<float, 3>, PointwiseOpScalarListFunctor<c10::BFloat16, 3, 3, 0>", "bf16"),
        ("TensorListScalarListMetadata<float, 1>, BinaryOpScalarListFunctor<float, 1, 1, 0>", "fp32"),
        ("TensorListScalarListMetadata<double, 1>, BinaryOpScalarListFunctor<c10::Half, 1, 1, 0>", "fp16"),
        ("TensorListMetadata<2>, UnaryOpFunctor<c10::Half, 2, 1, 1>, at::native::Sqrt<float>", "fp16"),
        ("FusedOptimizerTensorListMetadata<4>, FusedAdamMathFunctor<double, 4, false>, float const*", "fp64"),
        ("TensorListScalarListMetadata<float, 1>, BinaryOpScalarListFunctor<long, 1, 1, 0>", "int64"),
    ],
)
def test_a_multi_tensor_kernel_has_the_type_of_its_tensors(arguments: str, dtype: str) -> None:
    """Not that of the numbers listed beside them, nor the one it computes in."""
    inner = f"at::native::(anonymous namespace)::{arguments}"
    name = f"void at::native::(anonymous namespace)::multi_tensor_apply_kernel<{inner} >({inner})"
    assert CATEGORIZER.classify(name).dtype == dtype


@pytest.mark.parametrize(
    ("types", "dtype"),
    [
        ("std::bfloat16_t, std::bfloat16_t, std::bfloat16_t, float, float", "bf16"),
        ("unsigned short, unsigned short, unsigned short, float, float", "bf16"),
        ("_Float16, _Float16, _Float16, float, float", "fp16"),
        ("_BitInt(8), _BitInt(8), _BitInt(8), float, float, float, unsigned char, float, std::bfloat16_t", "fp8"),
        ("ck_tile::pk_float4_e2m1_t, ck_tile::pk_float4_e2m1_t, float, float, _Float16", "fp4"),
        ("float, float, std::bfloat16_t", "bf16"),  # partial results first, then what is written
        ("float, float, float, unsigned char", "fp32"),
    ],
)
def test_ck_tile_attention_has_the_type_of_its_problem(types: str, dtype: str) -> None:
    name = (
        "std::enable_if<!kattr_no_packed_fp32_ops_v<ck_tile::gfx950_t>, void>::type ck_tile::kentry<ck_tile::gfx950_t, 2, "
        "ck_tile::FmhaFwdKernel<ck_tile::BlockFmhaPipelineQRKSVS<ck_tile::BlockFmhaPipelineProblem<"
        f"{types}, ck_tile::TileFmhaShape<ck_tile::sequence<128, 64> > > >, ck_tile::Default2DEpilogue<float, _Float16> > >"
        "(ck_tile::FmhaFwdKargs)"
    )
    assert CATEGORIZER.classify(name) == KernelClass(
        "Flash Attention Forward", "flash_attn", dtype, "gfx950", "forward"
    )


def test_the_users_rules_come_first(tmp_path: Path) -> None:
    rules = tmp_path / "mine.toml"
    rules.write_text(
        '[[rule]]\ncategory = "My Solver"\npattern = "attn_(?P<dtype>bf16|f16)"\nlibrary = "mine"\n'
        '[[rule]]\ncategory = "Mangled"\ncontains = "ZN4mine"\ncase = true\n'
        '[[rule]]\ncategory = "Words"\nwords = ["frobnicate"]\nunless = "fast"\n'
    )
    own = load_categorizer([rules], extra=[Rule("Mine", contains=["ATTN_FWD"])])
    assert own.classify("attn_fwd").category == "Mine"
    assert own.classify("attn_f16_fwd") == KernelClass("My Solver", "mine", "fp16", direction="forward")
    assert own.classify("_ZN4mine3runEv").category == "Mangled"
    assert own.classify("frobnicate_slow").category == "Words"
    assert own.classify("frobnicate_fast").category == OTHER
    assert own.classify("frobnicated").category == OTHER
    assert own.classify("matmul_kernel").category == "GEMM"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ('[[rule]]\npattern = "a"\n', "rule 1: category is missing"),
        (f"{GOOD_RULE}[[rule]]\ncategory = \"B\"\npattern = \"(\"\n", "rule 2: pattern '('"),
        ('[[rule]]\ncategory = "A"\n', "rule 1: a rule needs pattern"),
        ('[[rule]]\ncategory = "A"\npatern = "x"\n', "rule 1: unknown key 'patern'"),
        ('[[rule]]\ncategory = "A"\ncontains = [3]\n', "rule 1: contains is a text"),
        ('[[rule]]\ncategory = "A"\ncontains = ""\n', "rule 1: contains is a text"),
        ('[[rule]]\ncategory = 3\ncontains = "x"\n', "rule 1: category is a str"),
        ('[[rule]]\ncategory = "A"\ncontains = "x"\ndirection = "up"\n', "rule 1: direction is forward"),
        ("this is not toml", "not a TOML file"),
        (f"a = {'9' * 5000}", "not a TOML file"),
        ('category = "A"\n', "no [[rule]] in the file"),
        ("rule = [1]\n", "rule 1: a rule is a table"),
    ],
)  # fmt: skip
def test_a_bad_rules_file_gives_one_clear_error(tmp_path: Path, content: str, said: str) -> None:
    rules = tmp_path / "bad.toml"
    rules.write_text(content)
    with pytest.raises((UsageError, FormatError)) as raised:
        load_categorizer([rules])
    assert str(rules) in raised.value.message
    assert said in raised.value.message


def test_an_absent_rules_file_and_a_bad_extra_rule_are_errors(tmp_path: Path) -> None:
    with pytest.raises(WarplensError, match=r"absent\.toml"):
        load_categorizer([tmp_path / "absent.toml"])
    with pytest.raises(UsageError, match="extra rule 1"):
        load_categorizer(extra=[Rule("A", pattern="[")])


def test_classify_all_keeps_the_order() -> None:
    names = ["attn_fwd", "matmul_kernel", "attn_fwd"]
    assert CATEGORIZER.classify_all(names) == [CATEGORIZER.classify(name) for name in names]


@given(st.text() | st.text(alphabet="_ZNIiEL0123456789<>(){}[]:,abgemfls ").map("_Z".__add__))
def test_any_text_is_classified_and_shortened(name: str) -> None:
    assert CATEGORIZER.classify(name).category in category_names()
    assert 0 < len(short_name(name)) <= 60
    assert isinstance(demangle(name), str)


@pytest.mark.parametrize(
    "unit",
    [
        "_ZN",
        "a",
        "reduce_",
        "<",
        "void f<",
        "triton_poi_fused_copy_",
        "::",
        "(",
        "1a",
        "loop_reduce",
        "cub::",
        "x1x",
    ],
)
def test_absurdly_long_names_take_bounded_time(unit: str) -> None:
    name = unit * (10_000_000 // len(unit))
    with ends("a name of ten million characters"):
        assert CATEGORIZER.classify(name).category in category_names()
        assert len(short_name(name)) <= 60
        demangle(name)


def test_importing_stays_light() -> None:
    heavy = "[name for name in ('polars', 'numpy', 'pydemumble') if name in sys.modules]"
    code = f"import sys, warplens.categories; print({heavy})"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


class Event(msgspec.Struct, frozen=True):
    name: Any = ""
    cat: Any = ""
    dur: Any = 0


class Events(msgspec.Struct, frozen=True):
    """No more than these fields, and not with the reader under test: files of 100 MB take seconds otherwise."""

    traceEvents: tuple[Event, ...] = ()  # noqa: N815


def gpu_time_by_name(path: Path) -> dict[str, float]:
    content = gzip.decompress(path.read_bytes())
    if not content.lstrip().startswith(b"{"):
        return {}
    times: dict[str, float] = {}
    for event in msgspec.json.decode(content, type=Events).traceEvents:
        if event.cat in GPU_KINDS:
            times[event.name] = times.get(event.name, 0.0) + float(event.dur)
    return times


NO_WORK = re.compile(r"spin_kernel|_assert_async_cuda_kernel")


@pytest.mark.parametrize("path", shared_traces(), ids=lambda path: path.name)
def test_other_is_at_most_one_percent_of_real_traces(path: Path) -> None:
    times = gpu_time_by_name(path)
    if not sum(times.values()):
        pytest.skip("no GPU events in this file")
    # `torch.cuda._sleep` and `torch._assert_async`, which checks one value, do no work of any category.
    working = {name: time for name, time in times.items() if not NO_WORK.search(name)}
    other = sum(time for name, time in working.items() if CATEGORIZER.classify(name).category == OTHER)
    assert other <= 0.01 * sum(times.values())


@pytest.mark.skipif(not SHARED.exists(), reason="the shared traces are not here")
def test_names_of_other_tools_are_known() -> None:
    rows = csv.DictReader(io.StringIO(gzip.decompress((SHARED / "ncu/ncu_raw.csv.gz").read_bytes()).decode()))
    names = {row["Kernel Name"] for row in rows if row["Kernel Name"]}
    symbols = json.loads(gzip.decompress((SHARED / "public/rocprofv3_results.json.gz").read_bytes()))
    symbols = symbols["rocprofiler-sdk-tool"][0]["kernel_symbols"]
    names |= {symbol["kernel_name"] for symbol in symbols if symbol["kernel_name"]}
    unknown = {name for name in names if CATEGORIZER.classify(name).category == OTHER}
    assert all("_assert_async" in name for name in unknown)
