"""Compilations made by hand, for the page that shows Python beside the compiler's texts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from warplens_lab.scenes.kernel_code import (
    CodeChain,
    CodeCheck,
    CodeFact,
    CodeLine,
    CodeMark,
    CodePlace,
    CodeRemark,
    CodeSource,
    CodeSuggestion,
    CodeText,
    KernelCode,
)

KERNEL = """@triton.jit
def scale_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    y = twice(x)
    # stores the result
    tl.store(out_ptr + at, y, mask=at < n)"""
HELPER = """@triton.jit
def twice(x):
    return x * 2"""
FIRST = 10
"""Line of the file at which the kernel begins; its load is on line 13, the call on 14, the store on 16."""
LOAD: CodeChain = (CodePlace(0, 13, 9),)
CALLED: CodeChain = (CodePlace(1, 3, 12), CodePlace(0, 14, 9))
LIBRARY: CodeChain = (CodePlace(2, 216, 16), CodePlace(0, 12, 10))
STORE: CodeChain = (CodePlace(0, 16, 5),)
CHAINS = (LOAD, CALLED, LIBRARY, STORE)

TTGIR = [
    ('#loc1 = loc("k.py":13:9)', None),
    ("module {", None),
    ("  %at = tt.make_range {end = 1024} : tensor<1024xi32> loc(#loc2)", LIBRARY),
    ("  %x = tt.addptr %p, %at : tensor<1024x!tt.ptr<f32>> loc(#loc1)", LOAD),
    ("  %x_1 = tt.load %x, %mask : tensor<1024x!tt.ptr<f32>> loc(#loc1)", LOAD),
    ("  %y = arith.mulf %x_1, %c2 : tensor<1024xf32> loc(#loc3)", CALLED),
    ("  tt.store %o, %y, %mask : tensor<1024x!tt.ptr<f32>> loc(#loc4)", STORE),
    ("}", None),
]
SASS = [
    ('\t//## File "k.py", line 13', None),
    ("        /*0000*/                   LDC R1, c[0x0][0x28] ;", None),
    ("        /*0010*/                   IMAD.WIDE R6, R2, 0x4, R6 ;", LOAD),
    ("        /*0020*/              @!P1 LDG.E.128 R8, desc[UR6][R14.64] ;", LOAD),
    ("        /*0030*/                   FMUL R8, R8, 2 ;", CALLED),
    ("        /*0040*/                   STG.E.128 desc[UR6][R2.64], R8 ;", STORE),
    ("        /*0050*/                   EXIT ;", None),
]
Lines = Sequence[tuple[str, CodeChain | None]]


def code_text(kind: str, lines: Lines) -> CodeText:
    numbers = {chain: at for at, chain in enumerate(CHAINS)}
    hidden = [line.startswith("#loc") or "//##" in line for line, _ in lines]
    return CodeText(
        kind,
        "\n".join(line for line, _ in lines),
        np.array([numbers[chain] if chain else -1 for _, chain in lines], np.int64),
        np.array(hidden, np.int64),
    )


def code_check(sass: Lines = SASS, target: str = "sm90", config: str = "BLOCK=1024, num_warps=4") -> CodeCheck:
    narrow = CodeMark("ld 32/128", "load of x_ptr; 32 bits per thread, 128 would fit", is_bad=True)
    return CodeCheck(
        kernel="scale_kernel",
        target=target,
        config=config,
        signature="*fp32, *fp32:16, i32, 1024",
        compiler="Triton 3.9.0",
        language="triton",
        seconds=1.25,
        files=("/home/me/k.py", "/home/me/helpers.py", "/lib/triton/language/standard.py"),
        facts=(
            CodeFact("registers", "24", "per thread"),
            CodeFact("narrowest access", "32 bits", "per thread and instruction", is_bad=True),
        ),
        sources=(
            CodeSource(0, FIRST, "scale_kernel", tuple(KERNEL.split("\n"))),
            CodeSource(1, 1, "twice", tuple(HELPER.split("\n"))),
        ),
        texts=(
            code_text("ttir", TTGIR),
            code_text("ttgir", TTGIR),
            code_text("sass" if target == "sm90" else "amdgcn", sass),
        ),
        chains=CHAINS,
        lines=(
            CodeLine(CodePlace(0, 13), 2, 1, 0, (("integer", 1), ("global_load", 1)), (narrow,), (narrow.meaning,)),
            CodeLine(CodePlace(0, 14), 0, 0, 1, ()),
            CodeLine(CodePlace(0, 16), 1, 0, 0, (("global_store", 1),), (CodeMark("st 128", "store of out_ptr"),)),
            CodeLine(CodePlace(1, 3), 1, 0, 0, (("float", 1),)),
        ),
        suggestions=(
            CodeSuggestion(
                "WK102",
                "an access is narrower than its tile allows",
                CodePlace(0, 13, 9),
                "the load of x_ptr moves 32 bits per thread at once, 128 would fit",
                "pass x_ptr divisible by 16",
                "x_ptr divisible by 16",
                (("narrowest_access_bits", "32", "128", "improvement"), ("registers", "24", "26", "regression")),
            ),
            CodeSuggestion("WK108", "few warps fit on a multiprocessor", None, "8 of 64 warps fit", "use fewer"),
        ),
        remarks=(CodeRemark("remark", CodePlace(0, 13, 9), "vectorization fails", count=2),),
        notes=("bank conflicts are not modelled",),
    )


def two_checks() -> KernelCode:
    """One for NVIDIA and one for AMD."""
    amd = code_check(target="gfx942", config="BLOCK=1024, num_warps=8")
    return KernelCode("scale_kernel", (code_check(), amd), ("a note on all",))


def long_code(lines: int) -> KernelCode:
    """Machine code of so many lines; the load stands at both ends, every hundredth is the store's."""
    middle: Lines = [
        (f"        /*{16 * at:04x}*/                   FFMA R{at % 250}, R1, R2, R3 ;", CALLED if at % 100 else STORE)
        for at in range(lines - 2)
    ]
    load = ("        /*ffff*/                   LDG.E.128 R8, desc[UR6][R14.64] ;", LOAD)
    return KernelCode("scale_kernel", (code_check([load, *middle, load]),))
