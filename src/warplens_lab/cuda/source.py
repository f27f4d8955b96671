"""The kernels of a `.cu` file: their names, parameters, templates, launches and shared arrays, read off the text."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

from warplens_lab.cuda.constants import Constants, number
from warplens_lab.cuda.text import Function, closing, code_only, functions, split_outside
from warplens_run.base.errors import UsageError

SEPARATOR: Final = "::"
SUFFIXES: Final = (".cu", ".cuh")
GLOBAL: Final = "__global__"
_ATTRIBUTES: Final = (
    "__launch_bounds__",
    "__cluster_dims__",
    "__block_size__",
    "__maxnreg__",
    "__attribute__",
    "__align__",
)
_NAME = re.compile(r"(?<!\w)([A-Za-z_]\w*)\s*\($")
_PARAMETER = re.compile(
    r"^(?P<type>.*?)(?P<name>(?<!\w)[A-Za-z_]\w*)? ?(?P<array>\[[^\[\]]*\]){0,8} ?(?:=.*)?$", re.DOTALL
)
_WHOLE = re.compile(r"\b(?:int|unsigned|signed|long|short|char|s?size_t|u?int\d+_t|bool|uint)\b")
_LAUNCH = re.compile(r"(?<!\w)([A-Za-z_][\w:]{0,400})\s{0,40}(<(?!<)[^;{}]{0,1000}?>)?\s{0,40}<<<")
_SHARED = re.compile(r"__shared__\s(?P<rest>[^;{}]{0,1000}?);")
_DIM3 = re.compile(r"^(?:dim3)?\s*[({](.*)[)}]$", re.DOTALL)


@dataclass(frozen=True)
class CudaParameter:
    type: str
    name: str

    @property
    def is_pointer(self) -> bool:
        return "*" in self.type or "[" in self.type

    @property
    def is_whole_number(self) -> bool:
        return bool(_WHOLE.search(self.type)) and not self.is_pointer

    def text(self) -> str:
        return f"{self.type} {self.name}".strip()


@dataclass(frozen=True)
class CudaKernel:
    """A kernel as the file writes it."""

    name: str
    """With its namespaces."""
    first_line: int
    last_line: int
    parameters: tuple[CudaParameter, ...] = ()
    template: tuple[CudaParameter, ...] = ()

    @property
    def plain_name(self) -> str:
        return self.name.rpartition(SEPARATOR)[2]


@dataclass(frozen=True)
class CudaLaunch:
    """A launch in the file's own host code: `name<arguments><<<grid, block>>>`."""

    name: str
    arguments: str
    block: tuple[int, ...]
    """Empty where the text alone does not say."""
    shared_bytes: int = 0
    """Dynamic shared memory, where it says that."""


@dataclass(frozen=True)
class CudaSource:
    path: Path
    text: str

    @classmethod
    def read(cls, path: str) -> CudaSource:
        file = Path(path).resolve()
        if not file.is_file():
            raise UsageError(f"no such file: {path}", hint="kernels are named FILE.cu::kernel")
        return cls(file, file.read_text("utf-8", errors="replace"))

    @cached_property
    def kernels(self) -> dict[str, CudaKernel]:
        listed = (self._kernel(function) for function in functions(self.text) if self.is_global(function.head))
        return {kernel.name: kernel for kernel in listed if kernel is not None}

    def is_global(self, head: str) -> bool:
        """A macro of the file may stand for `__global__`."""
        macros = re.findall(rf"^[ \t]*#[ \t]*define[ \t]+(\w+)\b[^\n]*{GLOBAL}", self.text, re.MULTILINE)
        return any(re.search(rf"\b{name}\b", head) for name in (GLOBAL, *macros))

    def named(self, name: str) -> CudaKernel | None:
        plain = name.partition("<")[0].strip()
        return self.kernels.get(plain) or next((k for k in self.kernels.values() if k.plain_name == plain), None)

    def _kernel(self, function: Function) -> CudaKernel | None:
        head, template = _without_template(function.head)
        for attribute in _ATTRIBUTES:
            head = _without_call(head, attribute)
        opening = head.find("(")
        match = _NAME.search(head[: opening + 1])
        close = closing(head, opening) if match else -1
        if match is None or close < 0:
            return None
        return CudaKernel(
            function.scope + match[1],
            self._line(function.start),
            self._line(function.end),
            tuple(_parameter(text) for text in split_outside(head[opening + 1 : close])),
            tuple(_parameter(text) for text in split_outside(template)),
        )

    def _line(self, offset: int) -> int:
        return self.text.count("\n", 0, offset) + 1

    @cached_property
    def launches(self) -> tuple[CudaLaunch, ...]:
        """The launches that the file's text shows, in order."""
        code = code_only(self.text)
        constants = Constants(self.text)
        listed = []
        for match in _LAUNCH.finditer(code):
            end = code.find(">>>", match.end())
            settings = split_outside(code[match.end() : end]) if end > 0 else []
            block = self._block(settings[1], constants) if len(settings) > 1 else ()
            dynamic = number(settings[2], constants) if len(settings) > 2 else None
            listed.append(CudaLaunch(match[1], (match[2] or "")[1:-1].strip(), block, dynamic or 0))
        return tuple(listed)

    def _block(self, text: str, constants: Constants) -> tuple[int, ...]:
        inside = _DIM3.match(text)
        if inside is None and re.fullmatch(r"[A-Za-z_]\w*", text):
            declared = re.search(
                rf"\bdim3\s+{text}\s{{0,40}}([({{][^;]{{0,400}}[)}}])\s{{0,40}};", code_only(self.text)
            )
            inside = _DIM3.match(declared[1]) if declared else None
        parts = [number(part, constants) for part in (split_outside(inside[1]) if inside else [text])]
        known = [part for part in parts if part]
        return tuple(known) if len(known) == len(parts) else ()

    def shared_arrays(self, kernel: CudaKernel, arguments: str, defines: tuple[str, ...]) -> dict[str, tuple[int, ...]]:
        """Sizes of the shared arrays that are declared in a kernel, where the text says them."""
        lines = self.text.splitlines(keepends=True)
        body = code_only(self.text)[
            sum(map(len, lines[: kernel.first_line - 1])) : sum(map(len, lines[: kernel.last_line]))
        ]
        values = dict(zip((p.name for p in kernel.template), split_outside(arguments), strict=False))
        constants = Constants(self.text, defines, values)
        arrays: dict[str, tuple[int, ...]] = {}
        for match in _SHARED.finditer(body):
            for declared in split_outside(match["rest"]):
                name = re.search(
                    r"(?<!\w)([A-Za-z_]\w*)\s*((?:\[[^\]]{1,200}\]\s*){1,8})(?:=.*)?$", declared, re.DOTALL
                )
                if name:
                    sides = [number(side, constants) for side in re.findall(r"\[([^\]]{1,200})\]", name[2])]
                    if all(sides):
                        arrays[name[1]] = tuple(side for side in sides if side)
        return arrays


def _without_template(head: str) -> tuple[str, str]:
    """The rest of a function's head, and what is between the brackets of its `template`."""
    match = re.match(r"\s*template\s*<", head)
    if match is None:
        return head, ""
    close = closing(head, match.end() - 1)
    return (head[close + 1 :], head[match.end() : close]) if close > 0 else (head, "")


def _without_call(head: str, name: str) -> str:
    match = re.search(rf"\b{name}\s*\(", head)
    close = closing(head, match.end() - 1) if match else -1
    return head[: match.start()] + head[close + 1 :] if match and close > 0 else head


def _parameter(text: str) -> CudaParameter:
    """
    >>> _parameter("const float* __restrict__ in"), _parameter("int n = 3")
    (CudaParameter(type='const float*', name='in'), CudaParameter(type='int', name='n'))
    """
    plain = " ".join(re.sub(r"\b__restrict__\b|\b__grid_constant__\b|\brestrict\b", " ", text).split())
    match = _PARAMETER.match(plain)
    if match is None or not match["type"].strip():
        return CudaParameter(plain, "")
    kind = re.sub(r"(?<!\s)\s*([*&])\s*", r"\1", match["type"].strip()) + (match["array"] or "")
    return CudaParameter(kind, match["name"] or "")
