"""Which lines of the compiler's texts hold debug information, directives and padding: nothing that a kernel does."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from warplens_lab.facts.machine import read_sass

_PTX = re.compile(r"\s*$|\s*\.(loc|file)\b|\$L__(tmp|func_begin|func_end|info_string|cu)\w*:|\s*//(?! %bb)")
_PTX_DEBUG = re.compile(r"\s*\.section\s+\.debug")
_LLVM = re.compile(
    r"\s*$|!|attributes #|declare |source_filename|target (datalayout|triple)|; (Function Attrs|ModuleID)"
)
_SASS_LABEL = re.compile(r"\.L_x_\w+:")
_AMD = re.compile(r"\s*$|\s*\.(?!LBB)\w+|\.Ltmp\d+:|\.Lfunc_(begin|end)\d+:")
_AMD_BEGIN = re.compile(r"\.Lfunc_begin\d+:")
_AMD_END = re.compile(r"\.Lfunc_end\d+:")

Flags = list[bool]


def bookkeeping(kind: str, text: str) -> Flags:
    """By line of the text; all False for a kind that is not known."""
    lines = text.splitlines()
    return _RULES[kind](lines) if kind in _RULES else [False] * len(lines)


def _mlir(lines: Sequence[str]) -> Flags:
    return [line.startswith("#loc") or not line.strip() for line in lines]


def _llvm(lines: Sequence[str]) -> Flags:
    return [_LLVM.match(line) is not None for line in lines]


def _ptx(lines: Sequence[str]) -> Flags:
    end = next((at for at, line in enumerate(lines) if _PTX_DEBUG.match(line)), len(lines))
    return [at >= end or _PTX.match(line) is not None for at, line in enumerate(lines)]


def _sass(lines: Sequence[str]) -> Flags:
    code = {instruction.position for instruction in read_sass("\n".join(lines))}
    end = max(code, default=0)
    return [at not in code and not (at < end and _SASS_LABEL.match(line)) for at, line in enumerate(lines)]


def _amdgcn(lines: Sequence[str]) -> Flags:
    flags: Flags = []
    inside = False
    for line in lines:
        inside = inside or _AMD_BEGIN.match(line) is not None
        flags.append(not inside or _AMD.match(line) is not None)
        inside = inside and _AMD_END.match(line) is None
    return flags


_RULES: Final[Mapping[str, Callable[[Sequence[str]], Flags]]] = {
    "ttir": _mlir,
    "ttgir": _mlir,
    "llir": _llvm,
    "ptx": _ptx,
    "sass": _sass,
    "amdgcn": _amdgcn,
}
