"""`OpTableProfile`: the op table of a training job, with what its slow workers cost."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from warplens.hardware import Gpu
from warplens.model.job_ops import JobOps
from warplens.outputs import Document, Extras
from warplens.profiles.on_demand import TablesOnDemand, bound
from warplens.ranks.op_tables.dependencies import KNOWN_TYPES
from warplens.ranks.op_tables.op_job import OpJob
from warplens.ranks.op_tables.tables import CAUSE, EXPLAINS, OP_JOB_TABLES, Straggler
from warplens.ranks.op_tables.what_if import NS_PER_MS
from warplens.readers import op_table
from warplens.units import format_bytes, format_ms, format_percent, plural

SIZES: Final = {
    # size of the job: what it is called
    "world_size": "ranks in the job",
    "dp_size": "data-parallel ranks",
    "pp_size": "pipeline stages",
    "tp_size": "tensor-parallel ranks",
    "vpp_size": "model chunks per stage",
}


class OpTableProfile(TablesOnDemand):
    """An opened op table: what every worker of a training job ran, and which of them slow the others down."""

    contains = "an op table of a job"

    def __init__(self, job: JobOps) -> None:
        self.work = OpJob(job)
        """What the tables share."""
        super().__init__(bound(OP_JOB_TABLES, self.work))

    def _contents(self) -> str:
        return f"{plural(self._workers, 'worker')}, {plural(self._steps, 'step')}"

    @property
    def _workers(self) -> int:
        return self.job.ops["rank"].n_unique()

    @property
    def _steps(self) -> int:
        return self.job.ops["step"].n_unique()

    @property
    def job(self) -> JobOps:
        """The ops and the sizes of the job."""
        return self.work.job

    @property
    def source(self) -> str:
        """The path that it was opened from."""
        return self.job.source

    @property
    def hardware(self) -> Gpu | None:
        """None: an op table names no GPU."""
        return None

    def verdict(self) -> str:
        """Who slows the job down, by how much, and what mending it would win."""
        answer = self.work.what_if
        step, ideal = format_ms(answer.step_ns / NS_PER_MS), format_ms(answer.ideal_ns / NS_PER_MS)
        found = self.table("stragglers").records(Straggler)
        if not found:
            return f"No stragglers: {step} a step, {ideal} if all workers were alike."
        first = found[0]
        slowdown = f"{step} a step, {answer.slowdown:.2f} × the {ideal} without stragglers"
        share = format_percent(first.explained_percent)
        if first.verdict != CAUSE:
            return f"{slowdown}; no part explains {EXPLAINS:.0%} of it (most: {first.kind}, {first.who}: {share})."
        slower = format_percent(first.op_slower_percent)
        if first.kind.startswith("uneven"):
            name, ops = first.kind, f"{first.op_type} is {slower} off the mean of its worker"
        else:
            name, ops = first.who, f"{first.op_type} takes {slower} longer there"
        return f"{name[0].upper()}{name[1:]} slows the job down: {slowdown}; {ops}."

    def document(self, tables: Iterable[str] | None = None, *, command: str = "") -> Document:
        """The tables with the facts about the job, as the outputs take them."""
        job = self.job
        facts = {"verdict": self.verdict(), "format": "op table"} | ({"job": job.name} if job.name else {})
        facts |= {text: str(job.sizes[name]) for name, text in SIZES.items() if name in job.sizes}
        facts |= {"workers in the table": str(self._workers), "steps": str(self._steps)}
        facts |= {"ops": f"{len(job.ops):,}", "content hash": job.content_hash}
        return Document(
            title=f"Warplens report: {Path(self.source).name}",
            source=self.source,
            facts=facts,
            tables=[self.table(name) for name in (self.report_names if tables is None else tables)],
            kind="paths",
            extras=lambda: Extras(command=command),
            headline=("op table", self._contents(), format_bytes(job.size_bytes)),
        )


def open_op_table(path: Path, max_bytes: int = 0) -> OpTableProfile:
    """`max_bytes`: what it may unpack to."""
    return OpTableProfile(op_table.read(path, KNOWN_TYPES, max_bytes=max_bytes))
