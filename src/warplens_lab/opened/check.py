"""`OpenedCheck`: compiled kernels, with what the compiler made of them and what to change."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from warplens.hardware import Gpu
from warplens.model.clock import MEASURED
from warplens.model.finding import Finding, ranked
from warplens.model.table_entry import TableEntry
from warplens.outputs import Document, Extras
from warplens.profiles.on_demand import TablesOnDemand, bound
from warplens_lab.checking.checks import CheckResult, KernelCheck, suggestions_table
from warplens_lab.checking.measured_tables import kernel_measured, kernel_stalls
from warplens_lab.checking.run_table import kernel_run
from warplens_lab.code.view import kernel_code
from warplens_lab.compiling.targets import TARGETS
from warplens_lab.facts.records import KernelFacts
from warplens_lab.facts.saving import load_facts
from warplens_lab.facts.tables import FACT_TABLES
from warplens_lab.measured.autotune_table import kernel_autotune
from warplens_lab.suggesting.records import Suggestion
from warplens_lab.suggesting.rules import RULES
from warplens_lab.suggesting.suggestions import suggest
from warplens_run.base.units import listed, plural


def _facts(checked: CheckResult) -> list[KernelFacts]:
    return [check.facts for check in checked.checks]


def _of_facts(entry: TableEntry[Sequence[KernelFacts]]) -> TableEntry[CheckResult]:
    return TableEntry(
        entry.name, lambda checked: entry(_facts(checked)), lambda checked: entry.exists(_facts(checked)), entry.needs
    )


def _is_measured(checked: CheckResult) -> bool:
    return any(check.measured is not None for check in checked.checks)


NEEDS_PROFILE = "a profile of the same kernels"
NEEDS_TUNING = "a recorded run in which autotune timed its configs"
NEEDS_RUN = "a recorded run with its Triton kernels: kernel check BUNDLE"
CHECK_TABLES: dict[str, TableEntry[CheckResult]] = {
    "kernel_run": TableEntry("kernel_run", kernel_run, lambda checked: checked.is_of_run, NEEDS_RUN),
    "kernel_autotune": TableEntry(
        "kernel_autotune",
        lambda checked: kernel_autotune(checked.tuned),
        lambda checked: bool(checked.tuned),
        NEEDS_TUNING,
    ),
    **{name: _of_facts(entry) for name, entry in FACT_TABLES.items()},
    "kernel_measured": TableEntry(
        "kernel_measured", lambda checked: kernel_measured(checked.checks), _is_measured, NEEDS_PROFILE
    ),
    "kernel_stalls": TableEntry(
        "kernel_stalls", lambda checked: kernel_stalls(checked.checks), _is_measured, NEEDS_PROFILE
    ),
    "kernel_suggestions": TableEntry("kernel_suggestions", suggestions_table),
}


class OpenedCheck(TablesOnDemand):
    """A kernel check: the facts of each compilation, its suggestions as findings, and tables of both.

    `warplens.open` makes one of a file that `warplens kernel check -o facts.json` wrote. Such a file has facts only:
    its suggestions are those that need no further compilation.

    >>> import warplens
    >>> check = warplens.open("samples/kernels/slow_softmax.facts.json")
    >>> check.verdict()
    'softmax_kernel compiled for sm90: 1 suggestion in 1 compilation.'
    >>> check.findings()[0].place
    'slow_softmax.py:14, 19, 23, 24'
    """

    contains = "facts of compiled kernels"
    kind = "kernel"

    def __init__(self, checked: CheckResult, source: str) -> None:
        super().__init__(bound(CHECK_TABLES, checked))
        self.checked = checked
        self._source = source

    def _contents(self) -> str:
        return plural(len(self.checks), "compilation")

    @property
    def source(self) -> str:
        """The file of facts, or the script or kernel that was checked."""
        return self._source

    @property
    def checks(self) -> tuple[KernelCheck, ...]:
        """One per compilation."""
        return self.checked.checks

    @property
    def hardware(self) -> Gpu | None:
        """The card of the target that was compiled for; None where there are several targets."""
        targets = {check.facts.target for check in self.checks}
        return TARGETS[targets.pop()].gpu() if len(targets) == 1 and targets <= set(TARGETS) else None

    def findings(self) -> list[Finding]:
        """The suggestions; the gain is the time at stake, known where a profile was joined."""
        stakes = [(check, stake_us) for check in self.checks for stake_us in check.stakes_us]
        suggestions = self.checked.findings()
        return ranked(_finding(*stake, suggestion) for stake, suggestion in zip(stakes, suggestions, strict=True))

    def _conclusion(self) -> tuple[str, str]:
        """What was compiled, and how much there is to change."""
        failed = sum(not check.facts.is_compiled for check in self.checks)
        compiled = len(self.checks) - failed
        if self.checked.is_of_run:
            return self._verdict_of_run(), MEASURED
        names = listed(list(dict.fromkeys(check.facts.kernel for check in self.checks)))
        targets = listed(list(dict.fromkeys(check.facts.target for check in self.checks)))
        suggestions = plural(sum(len(check.suggestions) for check in self.checks), "suggestion")
        failures = f"; {plural(failed, 'compilation')} failed" if failed else ""
        if not compiled:
            return f"{names or 'No kernel'} did not compile{f' for {targets}' if targets else ''}.", MEASURED
        text = f"{names} compiled for {targets}: {suggestions} in {plural(compiled, 'compilation')}{failures}."
        return text, MEASURED

    def _verdict_of_run(self) -> str:
        """How much of the run's GPU time is in its Triton kernels, and what there is to change in them."""
        times = [check.measured for check in self.checks if check.measured is not None]
        percent = sum(measured.gpu_percent for measured in times)
        suggestions = plural(sum(len(check.suggestions) for check in self.checks), "suggestion")
        kernels = plural(len({check.facts.kernel for check in self.checks}), "Triton kernel")
        return f"{kernels} with {percent:.0f} % of the GPU time: {suggestions} in {plural(len(times), 'compilation')}."

    def _headline(self) -> tuple[str, ...]:
        targets = listed([*dict.fromkeys(check.facts.target for check in self.checks)])
        compilers = ", ".join(dict.fromkeys(check.facts.compiler_text for check in self.checks))
        return targets, compilers, plural(len(self.checks), "compilation")

    def document(self, tables: Iterable[str] | None = None, *, command: str = "") -> Document:
        """The tables with the facts about the compilations; the page shows the source next to the compiler's texts."""
        compilers = ", ".join(dict.fromkeys(check.facts.compiler_text for check in self.checks))
        facts = {"targets": listed([*dict.fromkeys(c.facts.target for c in self.checks)])}
        facts |= {"compiler": compilers}
        has_texts = all(check.artefacts is not None for check in self.checks)
        explanations = {finding.code: RULES.explain(finding.code) for finding in self.findings()}
        return Document(
            title=f"Warplens kernel check: {Path(self.source).name}",
            source=self.source,
            facts=facts,
            tables=[self.table(name) for name in (self.report_names if tables is None else tables)],
            extras=lambda: Extras(command=command, explanations=explanations),
            answer=self.answer(),
            kind="kernel_code" if has_texts and self.checks else "paths",
            page=lambda: kernel_code(self.checked),
        )


def _finding(check: KernelCheck, stake_us: float | None, suggestion: Suggestion) -> Finding:
    measured = check.measured
    share = stake_us / measured.total_us if stake_us and measured is not None and measured.total_us else 0.0
    return replace(
        suggestion,
        gain_ms=(stake_us or 0.0) / 1e3,
        gain_percent=share * measured.gpu_percent if measured is not None else 0.0,
        bound=stake_us is not None,
        place=suggestion.place or check.facts.kernel,
    )


def open_facts(path: Path, card: str = "") -> OpenedCheck:
    """A file of facts; `card` names the GPU whose size and limits apply."""
    checks = (KernelCheck(facts, tuple(suggest(facts, card=card or None))) for facts in load_facts(path))
    return OpenedCheck(CheckResult(tuple(checks)), str(path))
