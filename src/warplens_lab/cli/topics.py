"""What `warplens explain` knows of the kernel lab: its codes, faults and tables. Needs no Triton."""

from __future__ import annotations

from collections.abc import Iterator

from warplens.model.table import Table
from warplens_lab.checking.checks import CheckResult, suggestions_table
from warplens_lab.checking.measured_tables import measured_tables
from warplens_lab.facts.tables import facts_tables
from warplens_lab.layouts.exploring import Exploration
from warplens_lab.layouts.tables import LAYOUT_TABLES
from warplens_lab.suggesting.rules import RULES
from warplens_lab.tracing.records import FAULT_KINDS, KernelTrace
from warplens_lab.tracing.tables import TABLES


def list_kernel_topics() -> Iterator[str]:
    yield "codes of warplens kernel check: " + ", ".join(RULES.codes)
    yield "faults of warplens kernel trace: " + ", ".join(FAULT_KINDS)


def kernel_topic(topic: str) -> Iterator[str]:
    if topic in FAULT_KINDS:
        yield f"{topic}: {FAULT_KINDS[topic]}"
    if topic.upper() in RULES:
        yield f"{topic.upper()}: {RULES.explain(topic.upper())}"


def kernel_tables() -> list[Table]:
    """Without rows, but with all columns and their meanings."""
    nothing = KernelTrace("count", "", 0, None, ())
    traced = [make(nothing) for make in TABLES.values()]
    layouts = [make(Exploration("", ())) for make in LAYOUT_TABLES.values()]
    return [*facts_tables([]), *measured_tables([]), suggestions_table(CheckResult(())), *traced, *layouts]
