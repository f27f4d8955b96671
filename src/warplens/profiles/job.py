"""`JobProfile`: many ranks opened as one run."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from warplens.analyses.missing_data import TORCH
from warplens.analyses.workspace import Options
from warplens.cluster import Item, OnProgress, Runner, runner_for, unpacked_bytes
from warplens.hardware import Gpu
from warplens.model.answer import SIMULATED, Answer
from warplens.model.clock import Clock
from warplens.model.finding import Finding, answered, evidence_table, evidence_targets, finding_targets, findings_table
from warplens.model.quality import notes_of
from warplens.outputs import Document, Extras
from warplens.profiles.describing import explanations
from warplens.profiles.on_demand import TablesOnDemand, TableSource, bound
from warplens.profiles.rank_task import RankTask, digest_rank, kernel_groups_of_rank
from warplens.ranks import digest_cache
from warplens.ranks.coverage import coverage
from warplens.ranks.file_heads import own_rank
from warplens.ranks.finding_files import RankFile, is_job_folder, job_files, rank_files
from warplens.ranks.gathering import gathered
from warplens.ranks.hiding import gain_of_hiding
from warplens.ranks.job import Job, JobNote
from warplens.ranks.job_step import job_clock
from warplens.ranks.own_pace import JobModel
from warplens.ranks.records import RankDigest
from warplens.ranks.scene import job_scene
from warplens.ranks.step_parts import deciding_position, kernels_of, parts_by_rank
from warplens.ranks.tables import JOB_TABLES
from warplens_run.base.errors import UsageError, WarplensError
from warplens_run.base.units import format_bytes, listed, plural

if TYPE_CHECKING:
    from warplens.model.table import Table
    from warplens.profiles.trace import Profile

Result = TypeVar("Result")


@dataclass(frozen=True)
class RankReading:
    """How ranks are read once more, where they were read before: on this machine, on Dask or on an executor."""

    rules: tuple[str, ...] = ()
    cluster: str | Executor = ""
    max_bytes: int = 0

    def each(self, task: Callable[[RankTask], Result], digests: Sequence[RankDigest]) -> list[Result]:
        """What the task makes of each of these ranks; a `WarplensError` where one cannot be read any more."""
        sources = [digest.facts.source for digest in digests]
        tasks = [
            RankTask(source, digest.facts.rank, digest.facts.host, rules=self.rules, max_bytes=self.max_bytes)
            for source, digest in zip(sources, digests, strict=True)
        ]
        items = [Item(task, unpacked_bytes(Path(source))) for task, source in zip(tasks, sources, strict=True)]
        results = []
        with runner_for(self.cluster) as runner:
            for source, outcome in zip(sources, runner.map(task, items), strict=True):
                if outcome.value is None:
                    raise WarplensError(f"{source}: {outcome.reason}", hint=outcome.hint or None)
                results.append(outcome.value)
        return results


class JobProfile(TablesOnDemand):
    """An opened job: its ranks on one clock, their collectives matched, and who delays the others.

    >>> import warplens
    >>> job = warplens.open_ranks(["samples/ranks/nccl4"])
    >>> [(row["rank"], row["cause"], row["since_step"]) for row in job.table("stragglers").to_dicts()]
    [(1, 'host', 7)]
    """

    contains = "the ranks of a job"
    kind = "job"
    worth_a_look = ("stragglers", "collectives", "ranks")

    def __init__(
        self,
        job: Job,
        source: str,
        notes: Sequence[str] = (),
        min_gain_percent: float = Options.min_gain_percent,
        drawn: Sequence[int] = (),
        reading: RankReading | None = None,
    ) -> None:
        self.job = job
        self.reading = reading
        """How its ranks are read again, for what is kept of none of them; None where they are no files."""
        self.notes = tuple(notes)
        """What the user should know of where the ranks were read: a cluster that is set up badly."""
        self.min_gain_percent = min_gain_percent
        """Findings that win less of a step are omitted."""
        self.model = JobModel(job)
        """The job's graph and what is simulated with it."""
        self._source = source
        self.drawn = tuple(job.ranks[position] for position in self.positions_of(drawn))
        """Ranks that were asked for: the page draws their timelines in addition to those that matter."""
        super().__init__(self._table_sources())

    def _table_sources(self) -> dict[str, TableSource]:
        tables = bound(JOB_TABLES, self.model)
        advice = {
            "findings": TableSource(lambda: findings_table(self.findings())),
            "evidence": TableSource(lambda: evidence_table(self.findings())),
        }
        make = self._unique_kernels if self.reading else None
        on_demand = {"unique_kernels": TableSource(make, in_report=False, needs="the files of the ranks")}
        return {"quality": tables["quality"]} | advice | tables | on_demand

    def _unique_kernels(self) -> Table:
        from warplens.ranks.tables.unique import unique_kernels_of_job

        assert self.reading is not None
        groups = self.reading.each(kernel_groups_of_rank, self.job.digests)
        return unique_kernels_of_job(dict(zip(self.job.ranks, groups, strict=True)))

    def _contents(self) -> str:
        return plural(len(self.job.digests), "rank")

    @property
    def source(self) -> str:
        """The folder or files that it was opened from."""
        return self._source

    def positions_of(self, ranks: Iterable[int]) -> list[int]:
        """Where these ranks are in the job, each once; a `UsageError` for one that it does not have."""
        position = {rank: place for place, rank in enumerate(self.job.ranks)}
        unknown = next((rank for rank in ranks if rank not in position), None)
        if unknown is not None:
            hint = f"there is {_spans(sorted(position))}"
            raise UsageError(f"no rank {unknown} in {self.source}", hint=hint)
        return sorted({position[rank] for rank in ranks})

    @property
    def hardware(self) -> Gpu | None:
        """None: ranks may have different GPUs."""
        return None

    @cached_property
    def step_ms(self) -> dict[int, float]:
        """How long each step of the job took, until its last rank was done; empty where ranks share no step."""
        model = self.model
        return dict(zip(model.graph.steps, (model.step_ns / 1e6).tolist(), strict=True)) if model.is_known else {}

    @cached_property
    def _findings(self) -> list[Finding]:
        from warplens.advice.job_figures import NEEDED_JOB_TABLES
        from warplens.advice.rank_rules import find_in_job

        tables = {name: self.table(name) for name in NEEDED_JOB_TABLES}
        formats = {digest.facts.format or TORCH for digest in self.job.digests}
        format = formats.pop() if len(formats) == 1 else ""
        gain = partial(gain_of_hiding, self.model)
        return find_in_job(tables, self.step_ms, self.clock, gain, self._shown_rank, self.min_gain_percent, format)

    def findings(self) -> list[Finding]:
        """What delays the job, the largest gain first."""
        return self._findings

    @cached_property
    def clock(self) -> Clock | None:
        """How long one step of the job takes; None where no step was recorded by all ranks."""
        return job_clock(self.model)

    @property
    def _shown_rank(self) -> int:
        """The one whose step the answer divides into parts; of no account without a step."""
        return self.job.ranks[deciding_position(self.model) if self.clock else 0]

    @cached_property
    def _answer(self) -> Answer:
        from warplens.advice.job_verdict import job_verdict
        from warplens.advice.top_kernels import top_kernels_of_rank

        clock = self.clock
        said = job_verdict(self.table("stragglers"), self.step_ms, clock, coverage(self.model))
        warnings, limits = notes_of(self.table("quality"))
        position = self.job.ranks.index(self._shown_rank)
        parts = parts_by_rank(self.model).get(position, ())
        return Answer(
            kind=self.kind,
            opened=(self._short_source, *self._headline()),
            verdict=said.text,
            certainty=said.certainty,
            clock=clock,
            parts=parts,
            parts_of=f"rank {self._shown_rank}" if clock else "",
            kernels=top_kernels_of_rank(kernels_of(self.model, position), parts, clock) if clock else (),
            findings=tuple(answered(finding, clock, SIMULATED) for finding in self.findings()),
            warnings=warnings,
            limits=(*limits, f"the step is as recorded: {clock.reason}") if clock else limits,
            next=self._next(),
        )

    def _headline(self) -> tuple[str, ...]:
        return "job", self._contents(), format_bytes(sum(digest.facts.size_bytes for digest in self.job.digests))

    def with_timeline(self) -> Profile:
        """A `WarplensError`: each rank has a timeline of its own."""
        hint = "report, advise, show, sql and diff read it; --rank N opens one of its ranks for the other verbs"
        raise WarplensError(f"{self.source} contains {self.contains}, not one timeline", hint=hint)

    def document(self, tables: Iterable[str] | None = None, *, command: str = "") -> Document:
        """The tables with the facts about the job, as the outputs take them."""
        job = self.job
        facts = {"format": "ranks of a job", "ranks": f"{len(job.ranks):,}"}
        gpus = sorted({digest.facts.gpu for digest in job.digests if digest.facts.gpu})
        facts |= {"GPU": ", ".join(gpus)} if gpus else {}
        facts |= {"collectives matched": f"{job.matched['match'].n_unique():,}"}
        return Document(
            title=f"Warplens report: {Path(self.source).name}",
            source=self.source,
            facts=facts,
            tables=[self.table(name) for name in (self.report_names if tables is None else tables)],
            kind="job",
            extras=lambda: self._extras(command),
            answer=self.answer(),
        )

    def _extras(self, command: str) -> Extras:
        findings = self.findings()
        return Extras(
            command=command,
            explanations=explanations(list(dict.fromkeys(finding.code for finding in findings))),
            finding_targets=finding_targets(findings),
            evidence_targets=evidence_targets(findings),
            job=job_scene(self.model, self.drawn),
        )


def open_job(
    paths: Sequence[str | os.PathLike[str]],
    *,
    cache: bool = True,
    rules: Sequence[str] = (),
    gap_ns: int = 10_000,
    min_gain_percent: float = Options.min_gain_percent,
    drawn: Sequence[int] = (),
    cluster: str | Executor = "",
    on_progress: OnProgress | None = None,
    max_bytes: int = 0,
) -> JobProfile:
    """Reads every rank, each in a task of its own, and joins them."""
    files, unused, captures = job_files(paths)
    tasks = [
        RankTask(str(file.path), file.rank, file.host, cache, tuple(rules), gap_ns, calls, max_bytes)
        for file, calls in ((file, str(file.execution_trace or "")) for file in files)
    ]
    left_out = [_unused(len(unused), "not every rank has one that its name shows to be of this rank")] if unused else []
    if captures:
        left_out.append(_unjoined(captures))
    with runner_for(cluster) as runner:
        results = _digests(runner, tasks, on_progress)
        if tasks[0].execution_trace and _are_partly_described(results):
            # Groups that some ranks name cannot be compared with those of ranks that do not.
            left_out.append(_unused(len(files), "they do not describe the collectives of all ranks"))
            results = _digests(runner, [replace(task, execution_trace="") for task in tasks], on_progress)
        notes = list(runner.notes)
    if cache:
        digest_cache.evict()
    named = not any(is_job_folder(Path(path)) for path in paths)
    source = os.fspath(paths[0]) if len(paths) == 1 else f"{os.fspath(paths[0])} and {len(paths) - 1} more"
    reading = RankReading(tuple(rules), cluster, max_bytes)
    return JobProfile(gathered(files, results, named, left_out), source, notes, min_gain_percent, drawn, reading)


def _digests(runner: Runner, tasks: Sequence[RankTask], on_progress: OnProgress | None) -> list[RankDigest | str]:
    """Of each task, or why there is none."""
    items = [
        Item(task, sum(unpacked_bytes(Path(path)) for path in (task.path, task.execution_trace) if path))
        for task in tasks
    ]
    outcomes = runner.map(digest_rank, items, on_progress or (lambda _: None))
    return [outcome.reason if outcome.value is None else outcome.value for outcome in outcomes]


def _are_partly_described(results: Sequence[RankDigest | str]) -> bool:
    digests = [result for result in results if isinstance(result, RankDigest) and result.collectives.height]
    return len({digest.facts.is_described for digest in digests}) > 1


def _unused(count: int, reason: str) -> JobNote:
    return JobNote("info", f"{plural(count, 'ExecutionTrace')} not used: {reason}")


def _unjoined(captures: Sequence[Path]) -> JobNote:
    one = f"one rank is joined with its own: --rank N --graph-capture {captures[0]}"
    return JobNote("info", f"{plural(len(captures), 'trace')} of graph captures not joined in a job; {one}")


def file_of_rank(paths: Sequence[str | os.PathLike[str]], rank: int, *, cache: bool = True, max_bytes: int = 0) -> Path:
    """The file of one rank: by what the traces record, then by their names, and where neither tells by reading all."""
    files: list[RankFile] = rank_files(paths)
    own = [own_rank(file.path) for file in files]
    ranks = [file.rank if known < 0 else known for file, known in zip(files, own, strict=True)]
    chosen = [file.path for file, known in zip(files, ranks, strict=True) if known == rank]
    if len(chosen) == 1:
        return chosen[0]
    if len(chosen) > 1 or min(ranks) < 0:
        job = open_job(paths, cache=cache, max_bytes=max_bytes).job
        ranks, sources = job.ranks, [digest.facts.source for digest in job.digests]
        if rank in ranks:
            return Path(sources[ranks.index(rank)])
    raise UsageError(f"no rank {rank} in {', '.join(map(str, paths))}", hint=f"there is {_spans(sorted(set(ranks)))}")


def _spans(ranks: Sequence[int]) -> str:
    """
    >>> _spans([0, 1, 2, 3]), _spans([0, 2, 3]), _spans([7])
    ('rank 0 to 3', 'rank 0 and 2 to 3', 'rank 7')
    """
    ends = [place for place in range(len(ranks)) if place + 1 == len(ranks) or ranks[place + 1] > ranks[place] + 1]
    firsts = [0, *(place + 1 for place in ends[:-1])]
    texts = [str(ranks[first]) if first == end else f"{ranks[first]} to {ranks[end]}"
             for first, end in zip(firsts, ends, strict=True)]  # fmt: skip
    return f"rank {listed(texts[:8] if len(texts) <= 8 else [*texts[:7], 'others'])}"
