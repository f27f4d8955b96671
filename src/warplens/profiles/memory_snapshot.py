"""`MemoryProfile`: an opened memory snapshot, with who holds the memory."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from pathlib import Path

from warplens.analyses.memory.memory_work import MemoryWork
from warplens.analyses.memory.replaying import snapshot_history
from warplens.analyses.memory.summary import memory_sentence
from warplens.analyses.memory.tables import MEMORY_TABLES
from warplens.analyses.quality import quality_table
from warplens.hardware import Gpu
from warplens.model.clock import MEASURED
from warplens.model.finding import Finding, evidence_table, evidence_targets, finding_targets, findings_table
from warplens.model.memory_snapshot import MemorySnapshot
from warplens.model.quality import Quality
from warplens.outputs import Document, Extras
from warplens.profiles.describing import explanations
from warplens.profiles.on_demand import TablesOnDemand, TableSource, bound
from warplens.readers.memory_snapshot import reader
from warplens_run.base.units import format_bytes, plural


class MemoryProfile(TablesOnDemand):
    """An opened memory snapshot: the history of the GPU's memory, and who holds it at its peak."""

    contains = "a memory snapshot"
    kind = "memory"
    worth_a_look = ("memory_modules", "allocations", "fragmentation")

    def __init__(self, snapshot: MemorySnapshot) -> None:
        self.snapshot = snapshot
        self.work = MemoryWork(snapshot_history(snapshot))
        """What the tables share."""
        sources = {
            "quality": TableSource(lambda: quality_table(Quality(tuple(self.work.quality_notes())).notes)),
            "findings": TableSource(lambda: findings_table(self.findings())),
            "evidence": TableSource(lambda: evidence_table(self.findings())),
        }
        super().__init__(sources | bound(MEMORY_TABLES, self.work))

    def _contents(self) -> str:
        return f"{plural(len(self.snapshot.segments), 'segment')}, {plural(len(self.snapshot.events), 'event')}"

    @property
    def source(self) -> str:
        """The path that it was opened from."""
        return self.snapshot.source

    @property
    def hardware(self) -> Gpu | None:
        """None: a snapshot names no GPU."""
        return None

    @cached_property
    def _findings(self) -> list[Finding]:
        from warplens.advice.held_memory import find_in_memory, needed_tables

        return find_in_memory({name: self.table(name) for name in needed_tables(self.table_names)})

    def findings(self) -> list[Finding]:
        """What memory could go, the most first."""
        return self._findings

    def _conclusion(self) -> tuple[str, str]:
        """Who holds the peak, in a sentence; why memory ran out, where it did, in one before it."""
        tables = (self.table(name) for name in ("memory_timeline", "memory_peak", "memory_failures"))
        return memory_sentence(*tables), MEASURED

    def _headline(self) -> tuple[str, ...]:
        return "memory snapshot", self._contents(), format_bytes(self.snapshot.size_bytes)

    def document(self, tables: Iterable[str] | None = None, *, command: str = "") -> Document:
        """The tables with the facts about the snapshot, as the outputs take them."""
        snapshot = self.snapshot
        facts = {"format": "PyTorch memory snapshot"}
        facts |= {"segments": f"{len(snapshot.segments):,}", "events": f"{len(snapshot.events):,}"}
        allocator = snapshot.settings.get("PYTORCH_CUDA_ALLOC_CONF") or snapshot.settings.get("PYTORCH_ALLOC_CONF")
        facts |= {"allocator settings": allocator} if allocator else {}
        facts |= {"content hash": snapshot.content_hash}
        return Document(
            title=f"Warplens report: {Path(self.source).name}",
            source=self.source,
            facts=facts,
            tables=[self.table(name) for name in (self.report_names if tables is None else tables)],
            kind="paths",
            extras=lambda: self._extras(command),
            answer=self.answer(),
        )

    def _extras(self, command: str) -> Extras:
        findings = self.findings()
        return Extras(
            command=command,
            explanations=explanations(dict.fromkeys(finding.code for finding in findings)),
            finding_targets=finding_targets(findings),
            evidence_targets=evidence_targets(findings),
        )


def open_memory_snapshot(path: Path, max_bytes: int = 0) -> MemoryProfile:
    """`max_bytes`: what it may unpack to."""
    return MemoryProfile(reader.read(path, max_bytes))
