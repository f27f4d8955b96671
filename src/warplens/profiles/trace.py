"""`Profile`: an opened trace, with every table, the findings, the tree and the timeline."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import polars as pl

from warplens.analyses import TABLES, TRACE_TABLES, Options, Workspace
from warplens.categories import load_categorizer
from warplens.hardware import Gpu
from warplens.model.call_paths import CallPaths
from warplens.model.edits import WorkOfRows
from warplens.model.finding import Finding, evidence_table, evidence_targets, finding_targets, findings_table
from warplens.model.scene import Scene
from warplens.model.table import Table
from warplens.model.trace import Meta, Trace
from warplens.outputs import Document, Extras
from warplens.outputs.document import CorrectedTimes, DocumentKind
from warplens.profiles.describing import definitions, device_line, explanations, find_gpu, headline, trace_facts
from warplens.profiles.on_demand import TablesOnDemand, TableSource, bound
from warplens.profiles.options import Rules, split_rules
from warplens_run.base.units import plural

if TYPE_CHECKING:
    from warplens.analyses.graph.bounds import StepBounds
    from warplens.analyses.graph.plain_step import PlainStep
    from warplens.analyses.graph.what_if import StepModel
    from warplens.analyses.serving.served import Served
    from warplens.model.answer import Answer
    from warplens.model.clock import Clock
    from warplens.model.edits import StepChange
    from warplens.model.fix_subsets import FixSubsets
    from warplens.model.measured import Measured
    from warplens.model.memory_facts import RecordedMemory
    from warplens.model.overview import Overview
    from warplens.model.tree import Tree
    from warplens.profiles.finished import FinishedReport
    from warplens.profiles.sql import FrameMaker
    from warplens_run.formats.proof_result import ProofResult
    from warplens_run.formats.replay_result import ReplayResult

TABLE_NAMES = ("quality", "findings", "evidence", *(name for name in TABLES if name != "quality"))
"""The tables of a trace's report."""
RAW_FRAMES = ("lanes", "specs", "geometries", "collectives")
"""Frames of a trace that a query can name besides its tables."""


class Profile(TablesOnDemand):
    """An opened profile with a timeline: its `trace`, and the tables and trees made from it on demand.

    >>> import warplens
    >>> profile = warplens.open("samples/kineto/gpt2_train_step.json.gz")
    >>> profile.verdict().partition(";")[0]
    'GPU-bound. GEMM takes 21.5 of 62.3 ms a step (58.5 to 67.0, estimated)'
    >>> profile.sql("select kernel_category from kernel_categories where percent > 30").to_dicts()
    [{'kernel_category': 'GEMM'}]
    """

    contains = "a trace"
    kind = "trace"
    has_timeline = True

    def __init__(
        self,
        trace: Trace,
        rules: Rules = (),
        options: Options | None = None,
        gpu: Gpu | None = None,
        counters: tuple[Table, ...] = (),
        replayed: ReplayResult | None = None,
        read_light: Callable[[], Trace | None] | None = None,
        proof: ProofResult | None = None,
        read_memory: Callable[[], RecordedMemory | None] | None = None,
    ) -> None:
        categorizer = load_categorizer(*split_rules(rules))
        work = Workspace(
            trace, categorizer, options or Options(), gpu or find_gpu(trace), counters, replayed, read_light, proof,
            read_memory=read_memory,
        )  # fmt: skip
        self._set_workspace(work)

    def _set_workspace(self, work: Workspace) -> None:
        self.trace, self.replayed = work.trace, work.replayed
        self.workspace = work
        """What the analyses of this trace share."""
        super().__init__(self._table_sources())

    def _table_sources(self) -> dict[str, TableSource]:
        """One registry: which tables there are, how each is made and what it needs."""
        sources = bound(TRACE_TABLES, self.workspace)
        advice = {
            "findings": TableSource(lambda: findings_table(self.findings())),
            "evidence": TableSource(lambda: evidence_table(self.findings())),
        }
        what_if = {"what_if": TableSource(self._findings_together, in_report=False)}
        return {"quality": sources["quality"]} | advice | sources | what_if

    def _contents(self) -> str:
        return plural(self.trace.steps.height, "step")

    @property
    def source(self) -> str:
        """The path that it was opened from."""
        return self.trace.meta.source

    @property
    def meta(self) -> Meta:
        """What the file says of itself: format, size, devices, rank."""
        return self.trace.meta

    @property
    def hardware(self) -> Gpu | None:
        """The GPU whose limits apply: the one that was named, else the trace's own; None where it is unknown."""
        return self.workspace.hardware

    @property
    def min_gain_percent(self) -> float:
        """Findings that win less of a step than this are left out."""
        return self.workspace.options.min_gain_percent

    @cached_property
    def _findings(self) -> list[Finding]:
        from warplens.advice import find
        from warplens.analyses.graph.breakdown import step_parts
        from warplens.analyses.graph.host_code import host_code

        bounds = self.bounds
        findings = find(
            self._advice_tables(), self.min_gain_percent, self.trace.meta.format, self.model_of_gains, bounds,
            host_code(self.workspace) if bounds is not None else None, self.clock, lambda: step_parts(self.workspace),
        )  # fmt: skip
        findings += self._memory_findings()
        if self.workspace.proof is None:
            return findings
        from warplens.proof.applying import with_proofs

        return with_proofs(findings, self.workspace.proof, self.model_of_gains, self._rows_of_kernels)

    def _memory_findings(self) -> list[Finding]:
        # What could go of another run's memory is no finding on this one.
        codes = self.table("quality").frame["code"]
        if "memory_peak" not in self.table_names or "memory_other_run" in codes:
            return []
        from warplens.advice.held_memory import find_in_memory, needed_tables, of_snapshot

        findings = find_in_memory({name: self.table(name) for name in needed_tables(self.table_names)})
        return list(map(of_snapshot, findings)) if "memory_untied" in codes else findings

    def _advice_tables(self) -> dict[str, Table]:
        """The tables that rules and the verdict read."""
        from warplens.advice import NEEDED_TABLES, SERVING_TABLES

        served = [name for name in SERVING_TABLES if self._sources[name].make]
        return {name: self.table(name) for name in (*NEEDED_TABLES, *served)}

    def _rows_of_kernels(self, names: Sequence[str]) -> WorkOfRows:
        kernels = self.table("kernels").frame["kernel"]
        return WorkOfRows("kernels", tuple(row for row, name in enumerate(kernels) if name in names))

    def findings(self) -> list[Finding]:
        """What is worth changing, largest gain first, each with the rows behind it."""
        return self._findings

    def tree(self, context: str = "python", *, weight: str = "gpu", short_names: bool = True) -> Tree:
        """Time by call path, of the GPU or the host (`weight="cpu"`).

        `context` says which callers are shown: python, module, op, annotation, or full with the calls of the GPU's API.
        """
        from warplens.analyses.trees.call_tree import call_tree

        return call_tree(self.workspace, context, weight=weight, short_names=short_names)

    def call_paths(self, context: str = "python") -> CallPaths:
        """The same as a profile of sums, with full names of kernels, FLOPs and bytes where they are known."""
        from warplens.analyses.roofline.costing import work_of_events
        from warplens.analyses.trees.call_tree import call_tree

        # What users said of their scopes goes before what is worked out from shapes.
        own = set(self.trace.metrics["metric"].unique())
        amounts = {name: values for name, values in work_of_events(self.workspace).items() if name not in own}
        tree = call_tree(self.workspace, context, short_names=False, amounts=amounts)
        return CallPaths(self.meta, tree)

    def what_if(self, changes: Sequence[StepChange]) -> Table:
        """How long a step would take with each of these changes, and with all of them; `scaling` describes some."""
        from warplens.analyses.graph.what_if import what_if

        return what_if(self.step_model, changes)

    def _findings_together(self) -> Table:
        """What the findings win one after the other, the best first."""
        from warplens.analyses.graph.what_if import best_first
        from warplens.profiles.what_if import ALL, fixes

        return best_first(self.step_model, fixes(self.findings(), [ALL]))

    def corrected(self) -> Profile:
        """This profile with the times that its steps nearly had without the profiler."""
        from warplens.analyses.graph.corrected import corrected_trace

        work = self.workspace
        options = replace(work.options, is_corrected=True, step_ns=0.0)
        return self._with_workspace(
            msgspec.structs.replace(work, trace=corrected_trace(work), options=options, passes=None)
        )

    def of_phase(self, phase: str) -> Profile:
        """The part of this profile that belongs to one phase of a served model: prefill, decode or mixed.

        >>> import warplens
        >>> profile = warplens.open("samples/serving/bloom_tokens.json.gz")
        >>> profile.of_phase("decode").table("serving_phases").to_polars()["iterations"].to_list()
        [3]
        """
        from warplens.analyses.serving.restricting import one_phase

        part = one_phase(self.trace, phase)
        return self._with_part(part.trace, part.served)

    def of_range(self, chosen: str) -> Profile:
        """The part of this profile that the host began in a range of time, with the GPU work that it launched.

        `chosen` is two times since the trace's start, "1.2s-1.5s", or the calls of an annotation: its name, or part of
        it, for the first, with `#2` for the third, with `#0-3` for the first four.

        >>> import warplens
        >>> profile = warplens.open("samples/faults/dataloader_stall.before.json.gz")
        >>> profile.of_range("ProfilerStep#4").table("steps").to_polars()["step"].to_list()
        [4]
        """
        from warplens.analyses.time.one_range import one_range

        return self._with_part(one_range(self.trace, chosen), None)

    def _with_part(self, part: Trace, passes: Served | None) -> Profile:
        """Further steps of the run have no such part, and what was measured is about the whole trace."""
        work = self.workspace
        return self._with_workspace(
            msgspec.structs.replace(work, trace=part, passes=passes, read_light=None, replayed=None, proof=None)
        )

    @staticmethod
    def _with_workspace(work: Workspace) -> Profile:
        profile = Profile.__new__(Profile)
        profile._set_workspace(work)
        return profile

    @property
    def model_of_gains(self) -> StepModel | None:
        """What simulates the gains of findings; None where much of the trace is waits that nothing recorded explains.

        Gains are then time of the recorded run.
        """
        model = self.step_model
        return None if model is None or model.graph.unexplained_ns else model

    @property
    def bounds(self) -> StepBounds | None:
        """The time of a step if the GPU, the host or communication took none; None where `model_of_gains` is."""
        from warplens.analyses.graph.bounds import step_bounds

        return None if self.model_of_gains is None else step_bounds(self.workspace)

    @property
    def plain_step(self) -> PlainStep | None:
        """How long a step takes without the profiler and while it was recorded; None where that is not known."""
        from warplens.analyses.graph.plain_step import plain_step

        return plain_step(self.workspace)

    @cached_property
    def step_model(self) -> StepModel | None:
        """What simulates the step with changes; None where the trace does not record launches."""
        from warplens.analyses.graph.what_if import step_model
        from warplens.profiles.what_if import members

        return step_model(self.workspace, members(self.workspace, self.table))

    def overview(self) -> Overview:
        """How well the GPU and its memory are used."""
        from warplens.profiles.overview import overview

        memory = self.table("memory_timeline") if "memory_timeline" in self.table_names else None
        return overview(self.workspace, self.clock, memory)

    def fix_subsets(self) -> FixSubsets | None:
        """How long a step takes with any of the first six findings mended; None where that is not simulated."""
        from warplens.profiles.overview import fix_subsets

        return fix_subsets(self.findings(), self.model_of_gains)

    @property
    def clock(self) -> Clock | None:
        """How long one step takes without the profiler, and how that is known; None where no GPU worked."""
        from warplens.analyses.graph.clock import clock

        return clock(self.workspace)

    @cached_property
    def _answer(self) -> Answer:
        from warplens.advice.answering import answer_of_trace
        from warplens.analyses.graph.breakdown import step_parts
        from warplens.analyses.graph.capturing import capture_share

        tables = self._advice_tables()
        distributed = self.meta.distributed
        opened = (self._short_source, *headline(self.meta, device_line(self.workspace)))
        parts = step_parts(self.workspace) if self.clock else ()
        return answer_of_trace(
            opened,
            self.source,
            self.clock,
            parts,
            self.bounds,
            self.findings(),
            tables,
            self._out_of_memory(),
            capture_share(self.workspace),
            (distributed.world_size if distributed else None) or 1,
        )

    def _out_of_memory(self) -> str:
        """Whoever opens the trace of such a program wants to know that first; empty where memory sufficed."""
        endings = [note.detail for note in self.trace.quality.notes if note.code == "capture_ended"]
        if not endings and self.workspace.read_memory is None:
            return ""
        from warplens.analyses.memory.summary import failure_sentence, unrecorded_failure_sentence

        # Only a snapshot records failures; the profiler's memory events have none.
        if self.workspace.read_memory is not None and "memory_other_run" not in self.table("quality").frame["code"]:
            failure = failure_sentence(self.table("memory_failures"))
            if failure:
                return failure
        return unrecorded_failure_sentence(endings[0]) if endings else ""

    def document(
        self, tables: Iterable[str] | None = None, *, command: str = "", mode: DocumentKind = "report", start: str = ""
    ) -> Document:
        """The tables with the facts about the file, as the outputs take them.

        For the page: the `command` that made it, its `mode` (report or gantt) and the view it opens with (`start`).
        """
        return Document(
            title=f"Warplens report: {Path(self.source).name}",
            source=self.source,
            facts=trace_facts(self.workspace),
            tables=[self.table(name) for name in (self.report_names if tables is None else tables)],
            kind=mode,
            extras=lambda: self._extras(command, start, mode),
            answer=self.answer(),
            paths=self.call_paths if tables is None else None,
        )

    def finished(self) -> FinishedReport:
        """What a second report of this trace needs, to be kept."""
        from warplens.profiles.finished import FinishedReport

        document = self.document()
        raw = tuple(name for name in self.frames() if name not in self.table_names)
        tables = {table.name: table for table in document.tables}
        return FinishedReport(dict(document.facts), self.answer(), self.table_names, raw, tables, self.lacking)

    def _extras(self, command: str, start: str, mode: DocumentKind) -> Extras:
        from warplens.analyses.graph.critical_path import path_segments

        codes = dict.fromkeys(finding.code for finding in self.findings())
        return Extras(
            scenes=[self.scene()],
            command=command,
            start=start,
            definitions=definitions(),
            explanations=explanations(codes),
            finding_targets=finding_targets(self.findings()),
            evidence_targets=evidence_targets(self.findings()),
            tables=[self.table("bounds")] if self.step_model else [],
            overview=self.overview() if mode == "report" else None,
            fix_subsets=self.fix_subsets() if mode == "report" else None,
            critical_path=path_segments(self.workspace) if self.step_model else None,
            corrected=self._corrected_times() if mode == "report" else None,
        )

    def _corrected_times(self) -> CorrectedTimes | None:
        """For the page, which can show them instead; only where the step's time without the profiler is known."""
        from warplens.analyses.graph.critical_path import path_segments

        options = self.workspace.options
        if self.step_model is None or options.is_corrected or not (options.step_ns or self.meta.plain_step_ns):
            return None
        corrected = self.corrected()
        return CorrectedTimes(corrected.scene(), path_segments(corrected.workspace))

    def scene(self, *, tables: bool = True) -> Scene:
        """The events as a picture needs them; with `tables`, also which rows of the tables each belongs to."""
        from warplens.analyses.page.members import MEMBER_TABLES
        from warplens.analyses.page.scene import scene

        member_tables = {name: self.table(name) for name in MEMBER_TABLES} if tables else {}
        return scene(self.workspace, Path(self.source).name, device_line(self.workspace), member_tables)

    def gpu_events(self) -> pl.DataFrame:
        """One row per GPU event: names, category, op, device, stream, times in ns, step."""
        return self.workspace.gpu

    def with_timeline(self) -> Profile:
        """This profile itself."""
        return self

    def measured(self) -> Measured:
        """The measured time of each kernel, by name and launch geometry."""
        from warplens.analyses.inside_kernels.measured import measured  # only a check of kernels needs it

        return measured(self.workspace)

    def frames(self) -> dict[str, FrameMaker]:
        """The frames that a query can name: the tables, every event, and the records that events refer to."""
        trace = self.trace
        raw: dict[str, FrameMaker] = {"events": trace.named_events, "memory_events": lambda: trace.memory}
        return super().frames() | raw | {name: partial(getattr, trace, name) for name in RAW_FRAMES}
