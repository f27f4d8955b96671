"""Which kernels of a profile a compiled kernel is: by the function's name, then by what both know of the launch."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

from warplens.model.measured import Measured, MeasuredKernel
from warplens_lab.compiling.targets import TARGETS
from warplens_lab.facts.records import KernelFacts

_SPECIALISED: Final = r"(?:_0[\ddce]*)?(?:\.kd)?"
"""What Triton (before 3) and ROCm append to a function's name: `_0d1d2de3`, its parameters by number; `.kd`."""
_METADATA: Final = r"(?:_?[<\[({ ].*)?"
"""What launch metadata appends: `_<grid:256>_<warps:4>`, ` [M=512, N=512]`."""
_KERNEL: Final = re.compile(r"_?kernel_?$|^_+|_+$")
NEAREST: Final = 5
LONGEST: Final = 60
"""Characters of a kernel's name in a note."""


@dataclass(frozen=True)
class Match:
    """The launches that match, and notes on the choice."""

    kernels: tuple[MeasuredKernel, ...]
    notes: tuple[str, ...] = ()


def named(name: str, profile: Measured) -> tuple[MeasuredKernel, ...]:
    """The kernels of a profile that a Triton function of this name is, most certain spelling first.

    A `*` in the name stands for anything: so a user names a kernel that launch metadata has given another name.
    """
    for agrees in _spellings(name):
        kernels = tuple(kernel for kernel in profile.kernels if agrees(kernel.name))
        if kernels:
            return kernels
    return ()


def _spellings(name: str) -> Iterable[Callable[[str], bool]]:
    if "*" in name:
        yield lambda recorded: fnmatchcase(recorded, name.replace("[", "[[]"))
        return
    yield lambda recorded: recorded == name
    suffixed = re.compile(re.escape(name) + _SPECIALISED + _METADATA, re.DOTALL)
    yield lambda recorded: suffixed.fullmatch(recorded) is not None
    # Launch metadata is written by hand, and seldom repeats that a kernel is one.
    plain = _KERNEL.sub("", name)
    if plain and plain != name:
        short = re.compile(re.escape(plain) + _METADATA, re.DOTALL)
        yield lambda recorded: short.fullmatch(recorded) is not None
    yield lambda recorded: _cpp_name(recorded) == _cpp_name(name)


def _cpp_name(name: str) -> str:
    """A C++ function without its parameters: demanglers write `void f<float, (int)256>(float*)` for `f<float, 256>`.

    >>> _cpp_name("void lab::f<float, (int)256>(float*, int)"), _cpp_name("lab::f<float,256>")
    ('lab::f<float,256>', 'lab::f<float,256>')
    """
    plain = re.sub(r"\((?:unsigned )?(?:int|long|bool|char|short)\)(?=\d)", "", name.removeprefix("void "))
    return re.sub(r"\s+", "", plain.partition("(")[0])


def nearest(name: str, profile: Measured) -> list[str]:
    """Names of the profile that come close to one that it does not have; else those with most time."""
    names = list(dict.fromkeys(kernel.name for kernel in profile.kernels))
    by_start = {re.split(r"[<\[({ ]", candidate)[0].rstrip("_").lower(): candidate for candidate in reversed(names)}
    close = difflib.get_close_matches(name.lower(), by_start, n=NEAREST, cutoff=0.5)
    return [by_start[candidate] for candidate in close] or names[:NEAREST]


def matched(facts: KernelFacts, profile: Measured, *, grid: Sequence[int] | None = None, name: str = "") -> Match:
    """The launches of a profile that this compilation is.

    Warps, stages and grid distinguish configs of one kernel where the profile has them. Where none agrees, all are
    taken together, and that is said.
    """
    kernels = named(name or facts.kernel, profile)
    if not kernels:
        return Match((), (_absent(name or facts.kernel, profile),))
    notes: list[str] = []
    warp_size = TARGETS[facts.target].warp_size
    launch_values: tuple[tuple[str, object, dict[MeasuredKernel, object]], ...] = (
        ("num_warps", facts.num_warps, {kernel: _warps(kernel, warp_size) for kernel in kernels}),
        ("num_stages", facts.num_stages, {kernel: kernel.stages if kernel.stages >= 0 else None for kernel in kernels}),
        ("grid", whole_grid(grid or ()), {kernel: whole_grid(kernel.grid) for kernel in kernels}),
    )
    for label, own, of in launch_values:
        ran = {of[kernel] for kernel in kernels} - {None}
        if own is None or not ran:
            continue
        agreeing = tuple(kernel for kernel in kernels if of[kernel] in (None, own))
        kernels = agreeing or kernels
        if not agreeing:
            listed = ", ".join(sorted(map(_text, ran)))
            notes.append(f"in {profile.source} it ran with {label} {listed}, not {_text(own)}: the times are of that")
    kernels = tuple(kernel for kernel in kernels if kernel.shared_bytes == facts.shared_bytes) or kernels
    kernels = tuple(kernel for kernel in kernels if kernel.registers == facts.registers) or kernels
    if len(kernels) > 1:
        hint = "" if grid or any(not kernel.grid for kernel in kernels) else " (a grid distinguishes them)"
        notes.append(f"{len(kernels)} launch shapes of it are taken together: {_shapes(kernels)}{hint}")
    return Match(kernels, tuple(notes))


def _absent(name: str, profile: Measured) -> str:
    near = nearest(name, profile)
    if not near:
        return f"{profile.source} holds no kernels"
    listed = ", ".join(candidate if len(candidate) <= LONGEST else f"{candidate[: LONGEST - 1]}…" for candidate in near)
    return f"{profile.source} has no kernel {name}; it has: {listed} (give the name it has there)"


def _warps(kernel: MeasuredKernel, warp_size: int) -> int | None:
    if kernel.warps >= 0:
        return kernel.warps
    return kernel.threads // warp_size if kernel.threads > 0 else None


def whole_grid(grid: Sequence[int]) -> tuple[int, ...] | None:
    """
    >>> whole_grid((64,)), whole_grid(())
    ((64, 1, 1), None)
    """
    return tuple([*grid, 1, 1, 1][:3]) if grid else None


def _shapes(kernels: Sequence[MeasuredKernel]) -> str:
    texts = list(dict.fromkeys(_shape(kernel) for kernel in kernels))
    return "; ".join(texts[:3]) + ("; …" if len(texts) > 3 else "")


def _shape(kernel: MeasuredKernel) -> str:
    grid = f" with a grid of {_text(kernel.grid)}" if kernel.grid and "<grid:" not in kernel.name else ""
    return kernel.name + grid


def _text(value: object) -> str:
    return "×".join(map(str, value)) if isinstance(value, tuple) else str(value)
