"""Signatures and configs are read as Triton's ahead-of-time compiler takes them, and mistakes are named."""

from __future__ import annotations

from pathlib import Path

import pytest

from warplens_lab.compiling.loading import load_kernel, parse_config
from warplens_lab.compiling.signature import parse
from warplens_lab.compiling.targets import TARGETS, parse_targets, target_named
from warplens_lab.compiling.values import Dtype, Expression
from warplens_run.base.errors import UsageError

KERNELS = Path(__file__).resolve().parents[1] / "kernels"
NAMES, CONSTANTS = ("x_ptr", "n", "scale", "BLOCK"), ("BLOCK",)


def test_a_signature_reads_types_hints_and_constants_and_writes_them_back() -> None:
    signature = parse("*fp16:16, i32:1,fp32,  1024", NAMES, CONSTANTS)
    x, n, scale, block = signature.arguments
    assert (x.type, x.divisible) == ("*fp16", True)
    assert (n.type, n.is_one, n.divisible) == ("i32", True, False)
    assert (scale.type, block.is_constant, block.value) == ("fp32", True, 1024)
    assert signature.text() == "*fp16:16, i32:1, fp32, 1024"
    assert parse(signature.text(), NAMES, CONSTANTS) == signature


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("*fp16, i32, fp32", "3 entries, the kernel 4 parameters"),
        ("*fp16, i32, fp32, 4, 5", "5 entries"),
        ("", "0 entries"),
        ("*fp17, i32, fp32, 4", "x_ptr: unknown type '\\*fp17'"),
        ("*fp16, 7, fp32, 4", "n is not a constexpr"),
        ("*fp16, i32, fp32, i32:16", "BLOCK is a constexpr"),
        ("*fp16:8, i32, fp32, 4", "not :8"),
        ("*fp16:1, i32, fp32, 4", "only an integer can be :1"),
        ("*fp16, i32, fp32:16, 4", "fp32 cannot be divisible"),
    ],
)
def test_a_wrong_signature_is_refused_with_the_parameter_at_fault(text: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        parse(text, NAMES, CONSTANTS)


def test_descriptors_keep_their_commas_and_types_may_be_constants() -> None:
    signature = parse("tensordesc<fp16[64,64]>, None, fp16", ["d", "bias", "DTYPE"], ["DTYPE"])
    assert signature.arguments[0].type == "tensordesc<fp16[64,64]>"
    assert signature.constants() == {"bias": None, "DTYPE": Dtype("fp16")}


def test_constants_at_the_end_may_be_left_to_their_defaults() -> None:
    assert parse("*fp32, i32, fp32", NAMES, CONSTANTS, {"BLOCK": 64}).constants() == {"BLOCK": 64}


def test_entries_may_have_names_in_any_order() -> None:
    expected = parse("*fp16:16, i32, fp32, 64", NAMES, CONSTANTS)
    assert parse("*fp16:16, BLOCK=64, scale=fp32, n=i32", NAMES, CONSTANTS) == expected
    assert parse("scale=fp32,x_ptr=*fp16:16, n = i32", NAMES, CONSTANTS, {"BLOCK": 64}) == expected
    for text, words in (
        ("x=*fp16, n=i32", "no parameter 'x'"),
        ("x_ptr=*fp16, i32", "give its name too"),
        ("*fp16, x_ptr=*fp16", "two entries"),
        ("n=i32", "1 entries, the kernel 4"),
    ):
        with pytest.raises(UsageError, match=words):
            parse(text, NAMES, CONSTANTS)


def test_a_default_of_an_argument_is_typed_as_a_launch_types_it() -> None:
    assert parse("*fp16", ["x", "n", "eps"], [], {"n": 32, "eps": 1e-5}).text() == "*fp16, i32:16, fp32"


def test_layouts_functions_and_tuples_can_be_entries() -> None:
    layout = "BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0])"
    text = f"tensordesc<fp16[128,64], NVMMASharedLayout(128, 16, 2)>, (i32:16, *fp32), {layout}, relu, ('a', 1)"
    signature = parse(text, ["d", "t", "LAYOUT", "ACT", "PAIR"], ["LAYOUT", "ACT", "PAIR"])
    assert signature.constants() == {
        "LAYOUT": Expression(layout),
        "ACT": Expression("relu"),
        "PAIR": Expression("('a', 1)"),
    }
    assert [item.text() for item in signature.named("t").items] == ["i32:16", "*fp32"]
    assert parse(signature.text(), signature.names, ["LAYOUT", "ACT", "PAIR"]) == signature


def test_what_is_not_divisible_is_listed_and_can_be_promised() -> None:
    signature = parse("*fp32:16, i32, fp32, 64", NAMES, CONSTANTS)
    assert signature.undivided() == ("n",)
    assert signature.with_divisible(["n"]).undivided() == ()
    with pytest.raises(UsageError, match="n is not a constexpr"):
        signature.with_constants({"n": 3})
    with pytest.raises(UsageError, match="no parameter 'm'"):
        signature.with_constants({"m": 3})


def test_configs_hold_constants_and_options() -> None:
    config = parse_config("BLOCK=128, DTYPE=fp16,num_warps=8")
    assert config.constants == (("BLOCK", 128), ("DTYPE", Dtype("fp16")))
    assert config.options == (("num_warps", 8),)
    config = parse_config("launch_pdl=true, num_ctas=2,maxnreg=128,LAYOUT=BlockedLayout([1], [32], [4], [0])")
    assert config.options == (("launch_pdl", True), ("num_ctas", 2), ("maxnreg", 128))
    assert config.constants == (("LAYOUT", Expression("BlockedLayout([1], [32], [4], [0])")),)
    with pytest.raises(UsageError, match="launch_pdl is True or False"):
        parse_config("launch_pdl=maybe")
    with pytest.raises(UsageError, match="sets nothing"):
        parse_config("BLOCK")
    with pytest.raises(UsageError, match="num_warps is a number"):
        parse_config("num_warps=many")


def test_targets_are_named_as_people_write_them() -> None:
    assert [target.name for target in parse_targets("sm_90a,gfx942, sm90")] == ["sm90", "gfx942"]
    with pytest.raises(UsageError, match="unknown target 'sm70'") as caught:
        target_named("sm70")
    assert "gfx950" in (caught.value.hint or "")


@pytest.mark.parametrize("target", TARGETS.values(), ids=lambda target: target.name)
def test_every_target_has_a_card_with_multiprocessors(target: object) -> None:
    assert target.gpu().multiprocessors > 100  # type: ignore[attr-defined]


def test_kernels_are_found_without_running_their_file(tmp_path: Path) -> None:
    file = tmp_path / "k.py"
    file.write_text(
        "import triton\nimport no_such_module\n\n@triton.autotune(configs=[], key=[])\n@triton.jit\n"
        "def one(x, n, BLOCK: 'tl.constexpr' = 64):\n    pass\n\ndef plain(x):\n    pass\n"
    )
    kernel = load_kernel(f"{file}::one")
    assert kernel.parameter_names == ("x", "n", "BLOCK")
    assert kernel.constexpr_names == ("BLOCK",)
    assert kernel.is_autotuned and kernel.configs is None
    assert kernel.signature("*fp32, i32").constants() == {"BLOCK": 64}
    assert load_kernel(str(file)).name == "one"


def test_a_file_or_kernel_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such file"):
        load_kernel("nowhere.py::k")
    with pytest.raises(UsageError, match="say which kernel") as caught:
        load_kernel(str(KERNELS / "faulty_products.py"))
    assert "product_kernel" in (caught.value.hint or "")
    broken = tmp_path / "broken.py"
    broken.write_text("def (:\n")
    with pytest.raises(UsageError, match="is not valid Python"):
        load_kernel(f"{broken}::k")
