"""The Python way in: `open` a profile, ask it for tables, a tree or a report."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from warplens.advice import NEEDED_TABLES, THRESHOLDS, explain, find, verdict
from warplens.analyses import TABLES, Options, Workspace
from warplens.analyses.page.members import MEMBER_TABLES
from warplens.analyses.page.scene import scene
from warplens.analyses.paths.gpu import gpu_of
from warplens.analyses.time.gaps import CAUSES
from warplens.analyses.time.phases import MEANINGS as PHASES
from warplens.analyses.time.timeline import MEANINGS
from warplens.analyses.trees.call_tree import call_tree
from warplens.analyses.units.replayed import REPLAY_TABLES
from warplens.analyses.units.unique import UNIT_TABLES
from warplens.categories import Rule, load_categorizer
from warplens.categories.rules import builtin_categories
from warplens.costs.families import FAMILIES
from warplens.errors import FormatError, UsageError
from warplens.hardware import Gpu, gpu_named, gpu_of_device, load_gpu_file
from warplens.model.call_paths import CallPaths
from warplens.model.finding import (
    Finding,
    evidence_table,
    evidence_targets,
    finding_targets,
    findings_table,
)
from warplens.model.scene import Scene
from warplens.model.table import Table
from warplens.model.trace import Meta, Trace
from warplens.model.tree import Tree
from warplens.outputs import Document, Extras, plan_outputs, write
from warplens.passes import run_passes
from warplens.paths_profile import PathsProfile
from warplens.readers import cache as trace_cache
from warplens.readers import inputs
from warplens.replay import result_file
from warplens.replay.result_file import Result

ADVICE = {"findings": findings_table, "evidence": evidence_table}
TABLE_NAMES = ("quality", *ADVICE, *(name for name in TABLES if name != "quality"))
"""The tables of a report."""


class Profile:
    """An opened profile: its `trace`, and the tables and trees made from it on demand."""

    def __init__(
        self,
        trace: Trace,
        rules: Sequence[Rule | str | Path] = (),
        options: Options | None = None,
        gpu: Gpu | None = None,
        counters: tuple[Table, ...] = (),
        replayed: Result | None = None,
    ) -> None:
        files = [rule for rule in rules if not isinstance(rule, Rule)]
        extra = [rule for rule in rules if isinstance(rule, Rule)]
        self.trace = trace
        self.replayed = replayed
        categorizer = load_categorizer(files, extra)
        self._work = Workspace(trace, categorizer, options or Options(), gpu or find_gpu(trace), counters)
        self._tables: dict[str, Table] = {}
        self._findings: list[Finding] | None = None

    def table(self, name: str) -> Table:
        """One table by name; `warplens explain tables` lists them."""
        if name not in self._tables:
            self._tables[name] = self._made(name)
        return self._tables[name]

    def _made(self, name: str) -> Table:
        if name in ADVICE:
            return ADVICE[name](self.findings())
        if name in TABLES or name in UNIT_TABLES:
            return (TABLES.get(name) or UNIT_TABLES[name])(self._work)
        if name in REPLAY_TABLES:
            if self.replayed is None:
                raise UsageError(f"table {name} needs the result of a replay", hint="open the trace with --replay FILE")
            return REPLAY_TABLES[name](self.replayed)
        raise UsageError(f"no table {name!r}", hint=f"one of: {', '.join(self.all_table_names)}")

    @property
    def meta(self) -> Meta:
        return self.trace.meta

    @property
    def workspace(self) -> Workspace:
        """What its analyses work on."""
        return self._work

    @property
    def table_names(self) -> tuple[str, ...]:
        """The tables of its report."""
        return TABLE_NAMES if self.replayed is None else (*TABLE_NAMES, *REPLAY_TABLES)

    @property
    def all_table_names(self) -> tuple[str, ...]:
        """Those, and the ones that are made on demand only."""
        return (*self.table_names, *UNIT_TABLES)

    @property
    def min_gain_percent(self) -> float:
        """Findings that win less of a step than this are left out."""
        return self._work.options.min_gain_percent

    def findings(self) -> list[Finding]:
        """What is worth changing, largest gain first, each with the rows behind it."""
        if self._findings is None:
            tables = {name: self.table(name) for name in NEEDED_TABLES}
            self._findings = find(tables, self._work.options.min_gain_percent, self.trace.meta.format)
        return self._findings

    def tables(self) -> list[Table]:
        """Every table, in the order of a report."""
        return [self.table(name) for name in self.table_names]

    def tree(self, context: str = "python", *, weight: str = "gpu", short_names: bool = True) -> Tree:
        """Time by call path, of the GPU or the host (`weight="cpu"`).

        `context` says which callers are shown: python, module, op, annotation, or full with the calls of the GPU's API.
        """
        return call_tree(self._work, context, weight=weight, short_names=short_names)

    def verdict(self) -> str:
        """One sentence on where the time goes."""
        return verdict({name: self.table(name) for name in NEEDED_TABLES})

    def document(
        self, tables: Iterable[str] | None = None, *, command: str = "", mode: str = "report", start: str = ""
    ) -> Document:
        """The tables with the facts about the file, as the outputs take them.

        For the page: the `command` that made it, its `mode` (report or gantt) and the view it opens with (`start`).
        """
        meta = self.trace.meta
        return Document(
            title=f"Warplens report: {Path(meta.source).name}",
            source=meta.source,
            facts=describe(self.trace, self.verdict()),
            tables=[self.table(name) for name in (self.table_names if tables is None else tables)],
            extras=lambda: self._extras(mode, command, start),
        )

    def scene(self, *, tables: bool = True) -> Scene:
        """The events as a picture needs them; with `tables`, also which rows of the tables each belongs to."""
        meta = self.trace.meta
        known = {name: self.table(name) for name in MEMBER_TABLES} if tables else {}
        return scene(self._work, Path(meta.source).name, device_line(self.trace), known)

    def _extras(self, mode: str, command: str, start: str) -> Extras:
        codes = dict.fromkeys(finding.code for finding in self.findings())
        explained = {code: explain(code) for code in codes}
        return Extras(
            mode,
            [self.scene()],
            command,
            start,
            definitions(),
            explained,
            finding_targets=finding_targets(self.findings()),
            evidence_targets=evidence_targets(self.findings()),
        )

    def gpu_events(self) -> pl.DataFrame:
        """One row per GPU event: names, category, op, device, stream, times in ns, step."""
        return self._work.gpu


def definitions() -> dict[str, dict[str, str]]:
    """What the words on a page mean, by subject."""
    return {
        "measures": MEANINGS,
        "causes of idleness": CAUSES,
        "kernel categories": builtin_categories(),
        "phases": PHASES,
        "cost families": dict(FAMILIES),
    }


def find_gpu(trace: Trace) -> Gpu | None:
    """The GPU that worked, from what the trace's header says of it."""
    used = set(trace.ints("device")[trace.gpu_rows].tolist())
    listed = trace.meta.devices
    for device in [device for device in listed if device.id in used] or listed:
        found = gpu_of_device(device.name, device.multiprocessors, device.memory_bytes, device.compute)
        if found is not None:
            return found
    return None


def describe(trace: Trace, sentence: str) -> dict[str, str]:
    """The facts about a file that belong on top of every report."""
    meta = trace.meta
    facts = {"verdict": sentence, "device": device_line(trace), "format": meta.format}
    if meta.distributed is not None:
        facts["rank"] = f"{meta.distributed.rank} of {meta.distributed.world_size}"
    facts |= {"events in file": f"{meta.events_in_file:,}", "content hash": meta.content_hash}
    return facts | dict(meta.facts)


def device_line(trace: Trace) -> str:
    """The GPUs of the trace in a few words; of those its header lists, the ones that worked."""
    used = set(trace.ints("device")[trace.gpu_rows].tolist())
    listed = trace.meta.devices
    worked = [device for device in listed if device.id in used]
    if len(worked) == 1 and len(listed) > 1:
        return f"{worked[0].name or 'unnamed GPU'} (GPU {worked[0].id} of {len(listed)} listed)"
    names = [device.name or "unnamed GPU" for device in worked or listed]
    counted = [f"{names.count(name)} × {name}" if names.count(name) > 1 else name for name in dict.fromkeys(names)]
    return ", ".join(counted) or "no GPU named in the file"


def open(
    path: str | os.PathLike[str],
    *,
    cache: bool = True,
    rules: Sequence[Rule | str | Path] = (),
    gap_us: float = 10.0,
    short_us: float = 10.0,
    gpu: str = "",
    gpu_file: str | os.PathLike[str] = "",
    min_gain_percent: float = THRESHOLDS["min_gain_percent"],
    execution_trace: str | os.PathLike[str] = "",
    ncu: Sequence[str | os.PathLike[str]] = (),
    replay: str | os.PathLike[str] = "",
) -> Profile | PathsProfile:
    """Open a profile: a trace of any profiler, a capture bundle, or sums by call path (plain, .gz or .zip).

    `rules` are kernel-category rules that come before the built-in ones: `Rule` values or TOML files. `gpu` names the
    GPU whose ceilings hold, `gpu_file` a TOML file that describes one; without them the trace's own header decides.
    Findings that win less than `min_gain_percent` of a step are left out. `execution_trace` is the ExecutionTrace of
    the same run, for what a PyTorch trace does not say of its ops' arguments; `ncu` are CSV pages of Nsight Compute on
    the same program, for the table `measured_kernels`; `replay` is the result of running a plan of this trace, for the
    tables of that name.
    """
    if gpu and gpu_file:
        raise UsageError("--gpu and --gpu-file name two GPUs", hint="give one of them")
    chosen = load_gpu_file(Path(gpu_file)) if gpu_file else gpu_named(gpu) if gpu else None
    options = Options(round(gap_us * 1000), round(short_us * 1000), min_gain_percent)
    found = read(Path(path), cache=cache, execution_trace=execution_trace)
    if replay and isinstance(found, CallPaths):
        raise UsageError("only a trace can be replayed", hint="leave --replay away")
    if isinstance(found, CallPaths):
        return PathsProfile(found, rules, options, chosen or gpu_of(found.meta))
    counters = _counters([Path(each) for each in ncu])
    replayed = result_file.load(Path(replay)) if replay else None
    if replayed is not None and replayed.gpu_ns != int(found.events["dur_ns"].gather(found.gpu_rows).sum()):
        hint = "replay run on a plan of this trace makes one"
        raise UsageError(f"{replay} is the replay of another trace ({replayed.trace})", hint=hint)
    return Profile(found, rules, options, chosen, counters, replayed)


def _counters(pages: Sequence[Path]) -> tuple[Table, ...]:
    """The tables of Nsight Compute's pages, of each name the first: the raw page is best given first."""
    found: dict[str, Table] = {}
    for page in pages:
        held = read(page, cache=False)
        if not isinstance(held, CallPaths) or "counters" not in {table.name for table in held.extra}:
            raise UsageError(f"{page} is no CSV page of Nsight Compute", hint="ncu --page raw --csv --import x.ncu-rep")
        for table in held.extra:
            found.setdefault(table.name, table)
    return tuple(found.values())


def read(path: Path, *, cache: bool = True, execution_trace: str | os.PathLike[str] = "") -> Trace | CallPaths:
    """The linked trace of a file or bundle, from the cache where it is there; or its call paths."""
    opened = inputs.find(path, Path(execution_trace) if execution_trace else None)
    known = trace_cache.load(opened.content_hash, str(path)) if cache else None
    if known is not None:
        return known
    try:
        trace = opened.read()
        if isinstance(trace, CallPaths):
            return trace
        trace = run_passes(trace)
    except pl.exceptions.PanicException as error:  # no subclass of Exception: nobody else would catch it
        raise FormatError(f"cannot be read: an internal error of Polars ({error})", where=str(path)) from error
    del opened
    if cache:
        trace_cache.save(trace)
    return trace


def report(
    path: str | os.PathLike[str],
    output: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] = (),
    *,
    tables: str = "csv",
    force: bool = False,
    **options: Any,
) -> Profile | PathsProfile:
    """Open a profile and write its report; outputs are chosen by path (`x.html`, `x.xlsx`, `x.md`, `dir/` …)."""
    paths = [output] if isinstance(output, (str, os.PathLike)) else list(output)
    outputs, inputs = [os.fspath(output) for output in paths], [os.fspath(path)]
    plan_outputs(outputs, tables=tables, force=force, names=TABLE_NAMES, inputs=inputs)
    profile = open(path, **options)
    targets = plan_outputs(outputs, tables=tables, force=force, names=profile.table_names, inputs=inputs)
    for target in targets:
        write(target, profile.document())
    return profile
