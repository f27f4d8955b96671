"""What `kernel check FILE.cu` compiles."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from warplens_lab.compiling.request import DEFAULT_TARGETS
from warplens_lab.compiling.targets import CompileTarget, parse_targets
from warplens_lab.cuda.source import SEPARATOR, SUFFIXES
from warplens_run.base.errors import UsageError

DEFAULT_STANDARD: Final = "c++17"
MOST_THREADS: Final = 1024
Block = tuple[int, int, int]


@dataclass(frozen=True)
class CudaRequest:
    """A kernel (`FILE.cu::kernel`, `FILE.cu::kernel<float, 256>`), or all kernels of a file.

    >>> CudaRequest("k.cu::copy<float, 4>", block=(32, 8)).file_and_kernel()
    ('k.cu', 'copy<float, 4>')
    """

    source: str
    targets: str = DEFAULT_TARGETS
    block: tuple[int, ...] | None = None
    """Threads of a block; None takes those of the file's launches or of `__launch_bounds__`."""
    grid: tuple[int, ...] | None = None
    card: str | None = None
    defines: tuple[str, ...] = ()
    """`NAME` or `NAME=VALUE`."""
    includes: tuple[str, ...] = ()
    standard: str = DEFAULT_STANDARD
    options: tuple[str, ...] = ()
    """Further options of NVRTC, as they are."""
    dynamic_shared_bytes: int = 0
    cache: bool = True

    def file_and_kernel(self) -> tuple[str, str]:
        file, _, name = self.source.partition(SEPARATOR)
        return file, name.strip()

    def parsed_targets(self) -> list[CompileTarget]:
        targets = parse_targets(self.targets)
        if others := [target.name for target in targets if not target.is_nvidia]:
            raise UsageError(f"CUDA C++ is not compiled for {others[0]}", hint="targets: sm80, sm90, sm100")
        return list(targets)

    def compile_options(self) -> tuple[str, ...]:
        return (
            f"-std={self.standard}",
            *(f"-D{define}" for define in self.defines),
            *(f"-I{folder}" for folder in self.includes),
            *self.options,
        )


def is_cuda(source: str) -> bool:
    """
    >>> is_cuda("a/k.cu::f"), is_cuda("k.py::f")
    (True, False)
    """
    return source.partition(SEPARATOR)[0].endswith(SUFFIXES)


def parse_block(text: str) -> tuple[int, ...]:
    """
    >>> parse_block("32x8"), parse_block("256")
    ((32, 8), (256,))
    """
    parts = [part.strip() for part in text.replace("×", ",").replace("x", ",").split(",")]
    sides = [int(part) for part in parts if part.isdecimal()]
    product = 1
    for side in sides:
        product *= side
    if not 1 <= len(parts) <= 3 or len(sides) != len(parts) or not 0 < product <= MOST_THREADS:
        raise UsageError(
            f"{text!r} is not a valid block", hint=f"one to three numbers, {MOST_THREADS} threads at most: 32,8"
        )
    return tuple(sides)


def architecture(target: CompileTarget) -> str:
    """With the features that only this architecture has, as Triton compiles: `wgmma` needs sm_90a.

    >>> from warplens_lab.compiling.targets import TARGETS
    >>> [architecture(TARGETS[name]) for name in ("sm80", "sm90", "sm100")]
    ['sm_80', 'sm_90a', 'sm_100a']
    """
    return f"sm_{target.architecture}" + ("a" if int(target.architecture) >= 90 else "")
