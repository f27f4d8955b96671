"""From a profile to a replay plan."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import polars as pl

from warplens.analyses.units.calls import unit_calls
from warplens.analyses.workspace import Workspace
from warplens.model.kinds import KINDS
from warplens.planning.context import Context, context_of
from warplens.planning.families import with_families
from warplens.planning.units import plan_units
from warplens_run.base.errors import UsageError
from warplens_run.base.printable import encodable
from warplens_run.formats.replay_plan import LEFT_OUT, READY, KernelSource, ReplayPlan, Rest, TracedGpu, Unit, source_of

BEYOND: Final = "beyond the covered share {:g}"
NOT_MATCHED: Final = "not matched by the patterns"
MATCHES: Final = ("op", "kernel", "category", "family", "api", "id")


def make_plan(
    work: Workspace,
    path: Path,
    *,
    cover: float = 1.0,
    match: Sequence[str] = (),
    kernel_files: Path | None = None,
    max_bytes: int = 0,
) -> ReplayPlan:
    """The plan of a trace; `path` is where it was opened from, `max_bytes` what it may unpack to.

    `cover` keeps the units with most GPU time that together take that share of it; `match` keeps those whose op,
    kernel, category, family, api or id fits a pattern (`op=aten::mm*`). The others stay, marked as left out.
    """
    if not 0 < cover <= 1:
        raise UsageError(f"not a valid share to cover: {cover:g}", hint="a number above 0, at most 1")
    trace = work.trace
    context = context_of(path, kernel_files, max_bytes=max_bytes)
    units = with_families(plan_units(work, context))
    units = _covering(_matching(units, match), cover, work.gpu_total_ns)
    return ReplayPlan(
        trace=encodable(path.name),
        content_hash=trace.meta.content_hash,
        gpu_ns=work.gpu_total_ns,
        wall_ns=_wall_ns(work),
        units=tuple(units),
        rest=_rest(work),
        gpus=tuple(
            TracedGpu(device.name, device.compute, device.memory_bytes, device.multiprocessors)
            for device in trace.meta.devices
            if device.id in set(work.gpu["device"].to_list())
        ),
        settings=context.settings,
        versions=context.versions,
        sources=_sources(units, context),
        exact=not trace.arguments.is_empty(),
    )


def _wall_ns(work: Workspace) -> int:
    gpu = work.gpu
    if gpu.is_empty():
        return 0
    starts, durations = gpu["start_ns"].to_numpy(), gpu["dur_ns"].to_numpy()
    return int((starts + durations).max() - starts.min())


def _rest(work: Workspace) -> tuple[Rest, ...]:
    rest = (
        unit_calls(work)
        .rest.group_by("kernel", "kind", "reason")
        .agg(pl.len().alias("count"), pl.col("dur_ns").sum().alias("total_ns"))
        .sort("total_ns", "kernel", descending=[True, False])
    )
    return tuple(
        Rest(kernel, KINDS[kind], count, total_ns, reason)
        for kernel, kind, count, total_ns, reason in rest.select(
            "kernel", "kind", "count", "total_ns", "reason"
        ).iter_rows()
    )


def _sources(units: Sequence[Unit], context: Context) -> dict[str, KernelSource]:
    """Only those that a unit to be run needs."""
    needed = {unit.triton.source for unit in units if unit.triton is not None and unit.status == READY}
    texts = {name: context.sources[name] for name in sorted(needed)}
    return {name: source_of(text) for name, text in texts.items()}


def _matching(units: Sequence[Unit], match: Sequence[str]) -> list[Unit]:
    if not match:
        return list(units)
    patterns = [_pattern(text) for text in match]
    are_matching = [_fits(unit, patterns) for unit in units]
    if not any(are_matching):
        raise UsageError(
            f"no unit matches {' '.join(match)}", hint="patterns are op=aten::mm*, kernel=*gemm*, category=GEMM"
        )
    return [unit if fits else _left_out(unit, NOT_MATCHED) for unit, fits in zip(units, are_matching, strict=True)]


def _pattern(text: str) -> tuple[str, str]:
    field, equals, pattern = text.partition("=")
    if not equals or field not in MATCHES or not pattern:
        raise UsageError(f"not a valid pattern: {text!r}", hint=f"FIELD=PATTERN with a field of {', '.join(MATCHES)}")
    return field, pattern


def _fits(unit: Unit, patterns: Sequence[tuple[str, str]]) -> bool:
    """Patterns for one field are alternatives; all fields must fit."""
    unit_fields = {
        "op": [unit.op, f"{unit.op}.{unit.overload}"],
        "kernel": [kernel.name for kernel in unit.kernels],
        "category": [unit.category],
        "family": [unit.family],
        "api": [unit.api],
        "id": [unit.id],
    }
    patterns_by_field: dict[str, list[str]] = {}
    for field, pattern in patterns:
        patterns_by_field.setdefault(field, []).append(pattern)
    return all(
        any(fnmatch.fnmatchcase(text, pattern) for text in unit_fields[field] for pattern in alternatives)
        for field, alternatives in patterns_by_field.items()
    )


def _covering(units: Sequence[Unit], cover: float, gpu_ns: int) -> list[Unit]:
    """Units are sorted by falling time: the first ones that together reach the share are kept."""
    if cover >= 1:
        return list(units)
    reached, marked = 0, []
    for unit in units:
        enough = reached >= cover * gpu_ns
        marked.append(_left_out(unit, BEYOND.format(cover)) if enough and unit.status == READY else unit)
        reached += unit.times.total_ns if unit.status == READY else 0
    return marked


def _left_out(unit: Unit, why: str) -> Unit:
    return replace(unit, status=LEFT_OUT, reason=why) if unit.status == READY else unit
