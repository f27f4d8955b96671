"""Checks as records for a page that shows a source next to what the compiler made of it, line by line."""

from __future__ import annotations

from typing import Final

import numpy as np

from warplens_lab.checking.checks import CheckResult, KernelCheck
from warplens_lab.code.facts import code_facts
from warplens_lab.code.lines import code_lines
from warplens_lab.code.sources import sources
from warplens_lab.compiling.compiling import Artefacts
from warplens_lab.compiling.remarks import Remark
from warplens_lab.facts.bookkeeping import bookkeeping
from warplens_lab.facts.browsing import line_frames, machine_code, users_frames
from warplens_lab.facts.locations import Frames
from warplens_lab.facts.records import SourcePlace
from warplens_lab.scenes.kernel_code import (
    CodeCheck,
    CodePlace,
    CodeRemark,
    CodeSuggestion,
    CodeText,
    KernelCode,
)
from warplens_lab.suggesting.records import Suggestion
from warplens_run.base.units import format_us

KINDS: Final = ("ttir", "ttgir", "llir", "ptx", "sass", "amdgcn")
"""The texts, in the order in which the compiler makes them."""


def kernel_code(result: CheckResult) -> KernelCode:
    """All that was checked, for `warplens_lab.pages.code_page`."""
    names = list(dict.fromkeys(check.facts.kernel for check in result.checks))
    return KernelCode(", ".join(names), tuple(code_check(check) for check in result.checks), result.notes)


def code_check(check: KernelCheck) -> CodeCheck:
    facts, artefacts = check.facts, check.artefacts
    if artefacts is None:
        raise ValueError("a check that was loaded from a file has no texts")
    numbers = _Numbers()
    texts = _texts(artefacts, numbers)
    places = {place for chain in numbers.chains for place in users_frames(chain)}
    functions = sources(artefacts, places)
    return CodeCheck(
        kernel=facts.kernel,
        target=facts.target,
        config=facts.config,
        signature=facts.signature,
        compiler=facts.compiler_text,
        language=facts.language,
        seconds=facts.seconds,
        facts=tuple(code_facts(check)),
        sources=tuple(function.numbered(numbers.file(function.file)) for function in functions),
        texts=texts,
        lines=tuple(code_lines(check, machine_code(artefacts), numbers.file)),
        suggestions=tuple(
            _suggestion(suggestion, stake_us, numbers)
            for suggestion, stake_us in zip(check.suggestions, check.stakes_us, strict=True)
        ),
        remarks=tuple(_remark(remark, numbers) for remark in facts.remarks),
        launches=check.launches,
        failure=facts.failure,
        failure_place=numbers.place(facts.failure_place),
        notes=(*facts.notes, *(check.measured.notes if check.measured else ())),
        chains=numbers.numbered_chains(),
        files=tuple(numbers.files),
    )


class _Numbers:
    """Numbers files and chains as they are first met."""

    def __init__(self) -> None:
        self.files: dict[str, int] = {}
        self.chains: dict[Frames, int] = {}

    def file(self, name: str) -> int:
        return self.files.setdefault(name, len(self.files))

    def chain(self, frames: Frames) -> int:
        return self.chains.setdefault(frames, len(self.chains)) if frames else -1

    def place(self, place: SourcePlace | None) -> CodePlace | None:
        return CodePlace(self.file(place.file), place.line, place.column) if place is not None else None

    def numbered_chains(self) -> tuple[tuple[CodePlace, ...], ...]:
        return tuple(
            tuple(CodePlace(self.file(place.file), place.line, place.column) for place in chain)
            for chain in self.chains
        )


def _texts(artefacts: Artefacts, numbers: _Numbers) -> tuple[CodeText, ...]:
    frames = line_frames(artefacts)
    return tuple(
        CodeText(
            kind=kind,
            # A page splits at line feeds only.
            text="\n".join(artefacts.texts[kind].splitlines()),
            chains=np.array([numbers.chain(frame) for frame in frames[kind]], np.int64),
            bookkeeping=np.array(bookkeeping(kind, artefacts.texts[kind]), np.int64),
        )
        for kind in KINDS
        if kind in frames
    )


def _suggestion(suggestion: Suggestion, stake_us: float | None, numbers: _Numbers) -> CodeSuggestion:
    counterfactual = suggestion.counterfactual
    moved = (
        [difference for difference in counterfactual.differences if difference.verdict != "same"]
        if counterfactual
        else []
    )
    return CodeSuggestion(
        code=suggestion.code,
        title=suggestion.title,
        place=numbers.place(suggestion.source),
        evidence=suggestion.evidence,
        advice=suggestion.advice,
        change=counterfactual.change if counterfactual else "",
        stake=format_us(stake_us) if stake_us is not None else "",
        effect=tuple(
            (difference.measure, _text(difference.before), _text(difference.after), difference.verdict)
            for difference in moved
        ),
    )


def _text(value: float | str | None) -> str:
    return "none" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def _remark(remark: Remark, numbers: _Numbers) -> CodeRemark:
    place = SourcePlace(remark.file, remark.line, remark.column) if remark.line > 0 else None
    return CodeRemark(remark.severity, numbers.place(place), remark.text, remark.notes, remark.count)
