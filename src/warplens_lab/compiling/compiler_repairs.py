"""Puts right what some versions of the compiler get wrong about lines, in the process that compiles, and saves it the
hash of itself.

What is compiled stays the same: only the places in its texts change. Standard library and Triton only.
"""

from __future__ import annotations

import inspect
from importlib import import_module
from typing import Any

_ASM_BEGIN, _ASM_END = "// begin inline asm", "// end inline asm"


def repair_places() -> None:
    _keep_lines_of_inline_assembly()
    _keep_places_of_calls()


def skip_hash_of_compiler() -> None:
    """Triton names what it keeps by a hash of its own 500 MB: 2.4 s of CPU in each process that compiles. Here its
    cache is a folder that nothing else writes to."""
    for name in ("triton.runtime.cache", "triton.compiler.compiler"):
        try:
            module = import_module(name)
        except ImportError:
            continue
        if hasattr(module, "triton_key"):
            vars(module)["triton_key"] = lambda: "of one process"


def _keep_lines_of_inline_assembly() -> None:
    """LLVM gives each line of a block of inline assembly the next line of the source: a wide load on line 14 would be
    shown on line 17, here and in the machine code's line table."""
    try:
        from triton.backends.nvidia.compiler import CUDABackend
    except ImportError:
        return
    original = getattr(CUDABackend, "make_ptx", None)
    if original is None:
        return

    def make_ptx(*args: Any, **kwargs: Any) -> Any:
        ptx = original(*args, **kwargs)
        return without_lines_in_assembly(ptx) if isinstance(ptx, str) else ptx

    CUDABackend.make_ptx = make_ptx


def without_lines_in_assembly(ptx: str) -> str:
    lines, inside = [], False
    for line in ptx.splitlines(keepends=True):
        inside = _ASM_BEGIN in line or (inside and _ASM_END not in line)
        if not (inside and line.lstrip().startswith(".loc")):
            lines.append(line)
    return "".join(lines)


def _keep_places_of_calls() -> None:
    """Triton 3.6 and 3.7 place a call at its last argument, on that one's line, and count columns from 0.

    Later versions know the column at which a function begins, which distinguishes them.
    """
    try:
        from triton._C.libtriton import ir
        from triton.compiler.code_generator import CodeGenerator
    except ImportError:
        return
    if "begin_col" in inspect.signature(CodeGenerator.__init__).parameters:
        return
    visit_node, create_loc = CodeGenerator.visit, ir.builder.create_loc

    def visit(self: Any, node: Any) -> Any:
        before = self.builder.get_loc()
        result = visit_node(self, node)
        if before:
            self.builder.set_loc(before)
        return result

    def create_from_one(self: Any, file: str, line: int, column: int) -> Any:
        return create_loc(self, file, line, column + 1)

    CodeGenerator.visit = visit
    ir.builder.create_loc = create_from_one
