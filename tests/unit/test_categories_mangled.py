"""Without a demangler that knows newer types, names are read as far as their identifiers go."""

from __future__ import annotations

import pytest

from warplens.categories import demangling, load_categorizer
from warplens.categories.kernel_name import parse_kernel_name

CASES = [
    (
        "_ZN7ck_tile6kentryILi1ENS_12Rmsnorm2dFwdINS_27Rmsnorm2dFwdPipelineOnePassINS_27Rmsnorm2dFwdPipelineProblemIDF16b",
        "Normalization",
    ),
    (
        "_ZN2ck16tensor_operation6device37kernel_batched_gemm_xdlops_bwd_weightINS_47GridwiseGemm_bk0mk1_bk0nk1_mn_xdlops_bwd_weightILi64Etttt",
        "Convolution",
    ),
    (
        "_ZN2ck16tensor_operation6device12_GLOBAL__N_139kernel_grouped_conv_fwd_xdl_cshuffle_v3INS_28GridwiseGemm_xdl_cshuffle_v3INS_13tensor_layout4gemm8RowMajorE",
        "Convolution",
    ),
]


@pytest.fixture
def _no_demangler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demangling, "_demangler", lambda: lambda symbol: "")
    parse_kernel_name.cache_clear()


@pytest.mark.usefixtures("_no_demangler")
@pytest.mark.parametrize(("name", "category"), CASES, ids=[category for _, category in CASES])
def test_a_mangled_name_keeps_its_category(name: str, category: str) -> None:
    assert load_categorizer().classify(name).category == category
    parse_kernel_name.cache_clear()
