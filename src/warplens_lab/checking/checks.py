"""One call per question of `warplens kernel check`: load, compile for every target and config, extract, suggest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

import polars as pl

from warplens.model.measured import Measured
from warplens.model.table import Column, Table, frame_of_rows
from warplens_lab.comparing.verdicts import REGRESSION, FactDifference
from warplens_lab.compiling.compiling import Artefacts, CompileJob, compile_many
from warplens_lab.compiling.launched import launches_of
from warplens_lab.compiling.launching import Notify, ScriptLaunch, ignore
from warplens_lab.compiling.loading import LoadedKernel, load_kernel
from warplens_lab.compiling.records import Config
from warplens_lab.compiling.request import CompileRequest
from warplens_lab.facts import extract
from warplens_lab.facts.browsing import machine_code
from warplens_lab.facts.records import KernelFacts
from warplens_lab.measured.autotune_table import TunedConfig
from warplens_lab.measured.joining import KernelMeasurements, at_stake_us, joined
from warplens_lab.suggesting.counterfactual import recompiler
from warplens_lab.suggesting.free_constants import free_constants
from warplens_lab.suggesting.suggestions import Suggestion, suggest, wave_suggestions
from warplens_lab.suggesting.targets import located
from warplens_run.base.units import plural

if TYPE_CHECKING:
    from warplens_lab.tracing.records import KernelTrace

SLOW_SECONDS: Final = 20.0
"""A kernel that takes longer to compile is not compiled again for each suggestion, unless that is requested."""
MOST_GRIDS: Final = 3
"""Grids of a profile, by their time, that suggestions about waves (WK109) are made for."""
ANY_TARGET: Final = "{} does not name its GPU: its times are shown for every target"
NOT_TRIED: Final = "{} takes {:.0f} s to compile, so suggested changes were not compiled (slow=True compiles them)"


@dataclass(frozen=True)
class KernelCheck:
    """One compilation of a kernel: its facts and what could be better."""

    facts: KernelFacts
    suggestions: tuple[Suggestion, ...]
    launches: int = 0
    """How often a script launched it so; 0 where nothing was launched."""
    artefacts: Artefacts | None = field(default=None, repr=False, compare=False)
    """The compiler's texts, for the page."""
    grid: tuple[int, ...] | None = None
    """Of the launch, where it is known."""
    is_grid_given: bool = False
    """The grid was given by the user, not by a script's own launch."""
    other_grids: tuple[tuple[int, ...], ...] = ()
    """Of launches that are otherwise the same, with the same to say of them."""
    measured: KernelMeasurements | None = None
    """What profiles measured of it, where some were given."""

    @property
    def grids(self) -> tuple[tuple[int, ...], ...]:
        return (*((self.grid,) if self.grid else ()), *self.other_grids)

    @property
    def stakes_us(self) -> tuple[float | None, ...]:
        """The time that each suggestion is about; None without a profile."""
        source = "\n".join(self.artefacts.source_lines) if self.artefacts else ""
        return tuple(at_stake_us(suggestion, self.facts, self.measured, source) for suggestion in self.suggestions)


@dataclass(frozen=True)
class CheckResult:
    """All compilations of a request."""

    checks: tuple[KernelCheck, ...]
    notes: tuple[str, ...] = ()
    failure: str | None = None
    """What ended the script before its end; it is among the notes too."""
    is_of_run: bool = False
    """The kernels are those of a recorded run, with their measured times."""
    tuned: tuple[TunedConfig, ...] = ()
    """What autotune timed in that run."""

    def findings(self) -> list[Suggestion]:
        """The suggestions of all checks, with targets in the tables of all of them."""
        return list(located((check.facts, check.suggestions) for check in self.checks))


@dataclass(frozen=True)
class _Compilation:
    kernel: LoadedKernel
    job: CompileJob
    grid: tuple[int, ...] | None = None
    launches: int = 0
    is_grid_given: bool = False


def check_kernels(request: CompileRequest, notify: Notify = ignore, progress: Notify = ignore) -> CheckResult:
    """A kernel as its signature says, or every launch of a script, for each target and config.

    `notify` is called with what a user should know at once, before anything is compiled, `progress` while a script
    runs.
    """
    if request.signature is not None:
        return _check_all(_of_signature(request, request.signature), request, progress)
    script = launches_of(request, notify, progress)
    result = check_launches(request, script.launches, progress)
    return replace(result, notes=(*script.notes, *result.notes), failure=script.failure)


def check_launches(request: CompileRequest, listed: Sequence[ScriptLaunch], progress: Notify = ignore) -> CheckResult:
    """Launches that are known already, in their order, for each target of the request; its source is not read."""
    return _check_all(_of_launches(request, listed), request, progress)


def _of_signature(request: CompileRequest, signature: str) -> list[_Compilation]:
    kernel = load_kernel(request.source)
    configs = request.parsed_configs() or [Config()]
    return [
        _Compilation(
            kernel,
            CompileJob(kernel.signature(signature, config), target, {**request.options, **dict(config.options)}),
            request.grid or None,
            is_grid_given=True,
        )
        for target in request.parsed_targets()
        for config in configs
    ]


def _of_launches(request: CompileRequest, script_launches: Sequence[ScriptLaunch]) -> list[_Compilation]:
    """The request's options, configs and grid come before those of the script."""
    configs = request.parsed_configs() or [Config()]
    return [
        _Compilation(
            launch.kernel,
            CompileJob(
                launch.signature.with_constants(launch.kernel.constants_of(config)),
                target,
                {**dict(launch.options), **request.options, **dict(config.options)},
            ),
            request.grid or launch.grid or None,
            launch.count,
            is_grid_given=bool(request.grid),
        )
        for launch in script_launches
        for target in request.parsed_targets()
        for config in configs
    ]


def _check_all(compilations: Sequence[_Compilation], request: CompileRequest, progress: Notify = ignore) -> CheckResult:
    jobs = [(compilation.kernel, compilation.job) for compilation in compilations]
    progress(f"compiling {plural(len(jobs), 'kernel')}")
    compiled = compile_many(jobs, cache=request.cache)
    all_facts = [extract(artefacts) for artefacts in compiled]
    too_slow = [facts for facts in all_facts if facts.seconds > SLOW_SECONDS and not request.slow]
    checks: list[KernelCheck] = []
    for compilation, facts, artefacts in zip(compilations, all_facts, compiled, strict=True):
        progress(f"trying changes of {facts.kernel}, kernel {len(checks) + 1} of {len(jobs)}")
        suggestions = _suggestions(compilation, facts, request, tries=facts not in too_slow)
        checks.append(
            KernelCheck(
                facts,
                tuple(suggestions),
                compilation.launches,
                artefacts,
                compilation.grid,
                compilation.is_grid_given,
            )
        )
    slowness = [NOT_TRIED.format(facts.kernel, facts.seconds) for facts in too_slow]
    return CheckResult(tuple(checks), tuple(dict.fromkeys(slowness)))


def merged(result: CheckResult) -> CheckResult:
    """One check for launches that differ in their grids only, where the same is found for each; none is measured."""
    by_content: dict[tuple[KernelFacts, tuple[Suggestion, ...]], KernelCheck] = {}
    for check in result.checks:
        key = check.facts, check.suggestions
        first = by_content.get(key)
        if first is None:
            by_content[key] = check
            continue
        grids = dict.fromkeys((*first.grids, *check.grids))
        other_grids = tuple(grid for grid in grids if grid != first.grid)
        by_content[key] = replace(first, launches=first.launches + check.launches, other_grids=other_grids)
    return replace(result, checks=tuple(by_content.values()))


def _suggestions(
    compilation: _Compilation, facts: KernelFacts, request: CompileRequest, *, tries: bool
) -> list[Suggestion]:
    job, again = compilation.job, None
    if tries:
        again = recompiler(compilation.kernel, job.signature, job.target, dict(job.options), cache=request.cache)
    return suggest(
        facts,
        recompile=again,
        grid=compilation.grid,
        card=request.card,
        free=free_constants(compilation.kernel),
        is_test_data=not compilation.is_grid_given,
    )


def with_profiles(
    result: CheckResult,
    profiles: Sequence[Measured],
    *,
    traced: KernelTrace | None = None,
    card: str | None = None,
    name: str = "",
) -> CheckResult:
    """The same with what profiles measured of each kernel, and what has most time at stake first."""
    has_lines = any(line.line for profile in profiles for kernel in profile.kernels for line in kernel.samples)
    joins = []
    for check in result.checks:
        code = machine_code(check.artefacts) if has_lines and check.artefacts is not None else ()
        joins.append(joined(check.facts, profiles, grid=check.grid, traced=traced, card=card, name=name, code=code))
    checks = [
        _ranked(replace(_with_waves(check, join, is_same_launch=traced is not None), measured=join))
        for check, join in zip(result.checks, joins, strict=True)
    ]
    checks.sort(key=lambda check: -(check.measured or KernelMeasurements()).total_ns)
    unnamed = [profile.source for profile in profiles if not profile.architecture]
    if unnamed and len({check.facts.target for check in checks}) > 1:
        return replace(result, checks=tuple(checks), notes=(*result.notes, ANY_TARGET.format(", ".join(unnamed))))
    return replace(result, checks=tuple(checks))


def _with_waves(check: KernelCheck, join: KernelMeasurements, *, is_same_launch: bool) -> KernelCheck:
    """WK109 for the grids that ran: a script that only tests the kernel has smaller ones.

    Where the profile names none, the script's own counts if its launches were traced to stand for the measured ones.
    """
    if check.is_grid_given or not join.total_ns:
        return check
    own = [check.grid] if is_same_launch and check.grid else []
    grids = [grid for grid, _ in join.grids] or own
    waves = [wave for grid in grids for wave in wave_suggestions(check.facts, grid, join.card)][:MOST_GRIDS]
    others = [suggestion for suggestion in check.suggestions if suggestion.code != "WK109"]
    return replace(check, suggestions=tuple(sorted([*others, *waves], key=lambda suggestion: suggestion.code)))


def _ranked(check: KernelCheck) -> KernelCheck:
    order = sorted(range(len(check.suggestions)), key=lambda at: -(check.stakes_us[at] or 0.0))
    return replace(check, suggestions=tuple(check.suggestions[at] for at in order))


COLUMNS: Final = (
    Column("code", "stable code of the suggestion", "", pl.String),
    Column("title", "what is wrong", "", pl.String),
    Column(
        "at_stake_us",
        "the part of time_us that a fix could touch, and the order of the rows: all of it for suggestions about the "
        "whole kernel, and where no samples by line are known; else the share of samples on the line's statement, a "
        "loop with its body",
        "us",
        pl.Float64,
    ),
    Column(
        "time_us", "measured time of the kernel, all its launches together; null without a profile", "us", pl.Float64
    ),
    Column("kernel", "its name", "", pl.String),
    Column("target", "GPU that it was compiled for", "", pl.String),
    Column("config", "constants and options", "", pl.String),
    Column("line", "line of the source", "", pl.String),
    Column("evidence", "what was found", "", pl.String),
    Column("advice", "what to change", "", pl.String),
    Column("change", "the change that was compiled to see what it does", "", pl.String),
    Column("effect", "what it moved", "", pl.String),
)


def suggestions_table(result: CheckResult) -> Table:
    """Most time at stake first; without a profile in the order of the checks and codes."""
    rows = [
        _row(check, suggestion, stake)
        for check in result.checks
        for suggestion, stake in zip(check.suggestions, check.stakes_us, strict=True)
    ]
    frame = frame_of_rows(COLUMNS, rows).sort("at_stake_us", descending=True, nulls_last=True, maintain_order=True)
    return Table.from_frame("kernel_suggestions", "one row per suggestion", COLUMNS, frame, *result.notes)


def _row(check: KernelCheck, suggestion: Suggestion, stake_us: float | None) -> dict[str, str | float | None]:
    facts, measured = check.facts, check.measured
    counterfactual = suggestion.counterfactual
    return {
        "code": suggestion.code,
        "title": suggestion.title,
        "kernel": facts.kernel,
        "target": suggestion.compiled_for,
        "config": suggestion.config,
        "line": suggestion.place,
        "evidence": suggestion.evidence,
        "advice": suggestion.advice,
        "change": counterfactual.change if counterfactual else "",
        "effect": effect(suggestion),
        "time_us": measured.total_us if measured is not None and measured.total_ns else None,
        "at_stake_us": stake_us,
    }


def effect(suggestion: Suggestion) -> str:
    """What the compiled change moved, in a line; what it makes worse comes last and is said to be."""
    counterfactual = suggestion.counterfactual
    moved = [d for d in counterfactual.differences if d.verdict != "same"] if counterfactual else []
    worse = _moved([difference for difference in moved if difference.verdict == REGRESSION])
    better = _moved([difference for difference in moved if difference.verdict != REGRESSION])
    return "; ".join(filter(None, (better, f"worse: {worse}" if worse else "")))


def _moved(differences: Sequence[FactDifference]) -> str:
    return ", ".join(f"{difference.measure} {difference.before} → {difference.after}" for difference in differences)
