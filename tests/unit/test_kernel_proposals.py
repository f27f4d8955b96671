"""A kernel without a signature gets one proposed; names that are not there get the nearest that is."""

from __future__ import annotations

from pathlib import Path

import pytest

from warplens.cli import main
from warplens_lab.compiling.loading import load_kernel
from warplens_lab.compiling.proposing import proposed, signature_text
from warplens_run.base.errors import UsageError

KERNELS = """\
import triton
import triton.language as tl
from somewhere import wrapped


@triton.jit
def act(x):
    return x * 2


@wrapped()
@triton.heuristics({"EVEN": lambda given: True})
@triton.jit
def scaled(
    x, Out, labels, desc_w, cu_seqlens, mean_ptr, n_cols, eps, stride_x, step: tl.int64, bias=None,
    BLOCK: tl.constexpr = 256, HAS_BIAS: tl.constexpr = False, HEAD_DIM: tl.constexpr = None, EVEN: tl.constexpr = 1,
    BLOCK_M: "tl.constexpr" = 32, ACTIVATION: tl.constexpr = "", USE_MASK: tl.constexpr = True,
):
    row = tl.program_id(0).to(tl.int64)
    x += row * stride_x
    at = tl.arange(0, BLOCK)
    out = Out + row * stride_x
    tl.store(out + at, act(tl.load(x + at, mask=at < n_cols)) * eps)
    begin = tl.load(cu_seqlens)
    tl.store(mean_ptr + row + begin, tl.load(labels + row))
    desc_w.store([0, 0], at)


def make(dtype):
    @triton.jit
    def inner(x):
        tl.store(x, dtype)

    return inner


class Owner:
    @staticmethod
    @triton.jit
    def owned(x):
        tl.store(x, 0)
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "proposals.py"
    path.write_text(KERNELS)
    return path


def test_entries_come_from_use_annotation_default_and_name(file: Path) -> None:
    entries = {entry.parameter.name: (entry.entry, entry.reason) for entry in proposed(load_kernel(f"{file}::scaled"))}
    assert entries["x"] == ("*fp16:16", "used as an address")
    assert entries["Out"] == ("*fp16:16", "used as an address")
    assert entries["labels"][0] == "*i32:16"
    assert entries["cu_seqlens"] == ("*i64:16", "what it holds is used in addresses")
    assert entries["mean_ptr"][0] == "*fp32:16"
    assert entries["desc_w"] == ("tensordesc<fp16[64,64]>", "used as a descriptor")
    assert entries["step"] == ("i64", "annotation")
    assert (entries["eps"][0], entries["n_cols"][0], entries["bias"][0]) == ("fp32", "i32:16", "None")
    assert entries["BLOCK"] == ("256", "default")


def test_the_proposal_is_a_signature_that_the_kernel_takes(file: Path) -> None:
    kernel = load_kernel(f"{file}::scaled")
    signature = kernel.signature(signature_text(proposed(kernel)))
    assert signature.constants()["BLOCK"] == 256
    assert signature.named("x").divisible


def test_without_a_signature_the_command_proposes_one_and_compiles_nothing(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["kernel", "check", f"{file}::scaled", "--target", "sm80"]) == 2
    out, err = capsys.readouterr()
    assert "scaled of proposals.py:14 has 18 parameters" in out
    assert f"warplens kernel check {file}::scaled --signature 'x=*fp16:16, " in out
    assert "--target sm80" in out
    assert "--like SCRIPT.py" in err


@pytest.mark.parametrize(
    ("name", "message", "hint"),
    [
        ("scaledd", "has no scaledd", "did you mean scaled? kernels there: scaled, make.<locals>.inner, Owner.owned"),
        ("act", "act returns a value: kernels call it", "kernels there: scaled"),
    ],
)
def test_an_unknown_name_gets_the_list_of_kernels(
    file: Path, monkeypatch: pytest.MonkeyPatch, name: str, message: str, hint: str
) -> None:
    pytest.importorskip("triton")
    (file.parent / "somewhere.py").write_text("def wrapped():\n    return lambda kernel: kernel\n")
    with pytest.raises(UsageError, match=message) as raised:
        load_kernel(f"{file}::{name}")
    assert (raised.value.hint or "").startswith(hint)


def test_a_kernel_that_a_function_makes_names_the_function(file: Path) -> None:
    pytest.importorskip("triton")
    (file.parent / "somewhere.py").write_text("def wrapped():\n    return lambda kernel: kernel\n")
    with pytest.raises(UsageError, match=r"inner is made by make\(dtype\): check a script that launches it"):
        load_kernel(f"{file}::inner")
