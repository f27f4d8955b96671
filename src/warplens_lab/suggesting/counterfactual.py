"""What would be if: a change of annotations, constants or options, compiled, with the facts before and after."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from warplens_lab.comparing.compilations import differences
from warplens_lab.comparing.verdicts import FactDifference
from warplens_lab.compiling.compiling import CompileJob, compile_all
from warplens_lab.compiling.loading import LoadedKernel
from warplens_lab.compiling.records import OptionValue
from warplens_lab.compiling.signature import DIVISOR, Signature
from warplens_lab.compiling.targets import CompileTarget
from warplens_lab.facts import extract
from warplens_lab.facts.records import KernelFacts


@dataclass(frozen=True)
class Change:
    """
    >>> Change(divisible=("n",), options=(("num_warps", 8),)).text()
    'n divisible by 16, num_warps=8'
    """

    divisible: tuple[str, ...] = ()
    constants: tuple[tuple[str, int], ...] = ()
    options: tuple[tuple[str, int], ...] = ()

    def text(self) -> str:
        parts = [f"{', '.join(self.divisible)} divisible by {DIVISOR}"] if self.divisible else []
        return ", ".join([*parts, *(f"{name}={value}" for name, value in (*self.constants, *self.options))])


@dataclass(frozen=True)
class Counterfactual:
    """A change that was compiled; `differences` are the measures that it moved."""

    change: str
    """In words."""
    differences: tuple[FactDifference, ...]
    after: KernelFacts
    made: Change


Recompile = Callable[[Sequence[Change]], Sequence[KernelFacts]]


def recompiler(
    kernel: LoadedKernel,
    signature: Signature,
    target: CompileTarget,
    options: dict[str, OptionValue],
    *,
    cache: bool = True,
) -> Recompile:
    """A function that compiles the kernel with each of several changes, in one child process."""

    def recompile(changes: Sequence[Change]) -> Sequence[KernelFacts]:
        jobs = [
            CompileJob(
                signature.with_divisible(change.divisible).with_constants(dict(change.constants)),
                target,
                {**options, **dict(change.options)},
            )
            for change in changes
        ]
        return [extract(artefacts) for artefacts in compile_all(kernel, jobs, cache=cache)]

    return recompile


def counterfactual(change: Change, before: KernelFacts, after: KernelFacts) -> Counterfactual:
    moved = [difference for difference in differences(before, after) if difference.verdict != "same"]
    return Counterfactual(change.text(), tuple(moved), after, change)
