"""What a page shows of compiled kernels: the source, the compiler's texts, and which line comes from which."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class CodePlace:
    """A line of a file, which is numbered by `CodeCheck.files`; column 0 where it is not known."""

    file: int
    line: int
    column: int = 0


CodeChain = tuple[CodePlace, ...]
"""Innermost first: a helper's line, then the line that calls it."""


@dataclass(frozen=True)
class CodeSource:
    """A function of the user's source, from `line` on."""

    file: int
    line: int
    name: str
    text: tuple[str, ...]


@dataclass(frozen=True)
class CodeText:
    """What one stage of the compiler wrote. Both arrays have an entry for each of its lines."""

    kind: str
    text: str
    chains: Ints
    """Number of the chain that the line comes from; -1 for none."""
    bookkeeping: Ints
    """1 where the line is debug information and the like, which a reader rarely wants."""


@dataclass(frozen=True)
class CodeMark:
    """A few characters beside a line of the source, such as "ld 128"."""

    text: str
    meaning: str
    is_bad: bool = False


@dataclass(frozen=True)
class CodeLine:
    """What is known of one line of the source. Machine instructions are its own and those of what it calls."""

    place: CodePlace
    instructions: int
    in_loops: int
    called_instructions: int
    classes: tuple[tuple[str, int], ...]
    marks: tuple[CodeMark, ...] = ()
    details: tuple[str, ...] = ()
    sample_percent: float | None = None
    """Share of the kernel's samples in a profile; None without samples by line."""
    waits: tuple[tuple[str, float], ...] = ()
    """What warps waited for in those samples, in percent of the waits."""


@dataclass(frozen=True)
class CodeSuggestion:
    code: str
    title: str
    place: CodePlace | None
    evidence: str
    advice: str
    change: str = ""
    effect: tuple[tuple[str, str, str, str], ...] = ()
    """Of the compiled change: measure, before, after, verdict."""
    stake: str = ""
    """Measured time that it is about; empty without a profile."""


@dataclass(frozen=True)
class CodeRemark:
    """The compiler's own words on a line."""

    severity: str
    place: CodePlace | None
    text: str
    notes: tuple[str, ...] = ()
    count: int = 1


@dataclass(frozen=True)
class CodeFact:
    """A figure of the whole kernel."""

    name: str
    value: str
    meaning: str
    is_bad: bool = False


@dataclass(frozen=True, kw_only=True)
class CompilationFacts:
    """One kernel, compiled for one target with one config."""

    kernel: str
    target: str
    config: str
    signature: str
    compiler: str
    """With its version."""
    language: str
    """Of the source: triton or cuda."""
    seconds: float
    """What compiling took."""
    files: tuple[str, ...]
    facts: tuple[CodeFact, ...]
    sources: tuple[CodeSource, ...]
    chains: tuple[CodeChain, ...]
    lines: tuple[CodeLine, ...]
    suggestions: tuple[CodeSuggestion, ...] = ()
    remarks: tuple[CodeRemark, ...] = ()
    launches: int = 0
    failure: str = ""
    failure_place: CodePlace | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class CodeCheck(CompilationFacts):
    """With the compiler's texts; none where it did not compile."""

    texts: tuple[CodeText, ...]


@dataclass(frozen=True)
class KernelCode:
    """Compilations to show, in order."""

    title: str
    checks: tuple[CodeCheck, ...]
    notes: tuple[str, ...] = ()
