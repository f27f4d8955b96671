"""What is opened as a notebook shows it: the verdict, the findings, the first rows, and the names of its tables."""

from __future__ import annotations

from pathlib import PurePath
from typing import Protocol

from warplens.model.finding import Finding
from warplens.model.notebook import html_text, table_html
from warplens.model.table import Table
from warplens.units import format_ms

MAX_FINDINGS = 5
ROWS = 5
SAID_ELSEWHERE = ("quality", "findings", "evidence", "timeline")
"""Tables that say nothing of their own next to the verdict and the findings."""


class ShownProfile(Protocol):
    """What is shown of an opened object."""

    @property
    def source(self) -> str: ...
    @property
    def table_names(self) -> tuple[str, ...]: ...
    @property
    def report_names(self) -> tuple[str, ...]: ...
    def verdict(self) -> str: ...
    def findings(self) -> list[Finding]: ...
    def table(self, name: str) -> Table: ...


def opened_html(opened: ShownProfile) -> str:
    parts = [f"<p><b>{html_text(PurePath(opened.source).name)}</b><br>{html_text(opened.verdict())}</p>"]
    findings = opened.findings()
    if findings:
        per_step = " per step" if "steps" in opened.table_names and len(opened.table("steps")) else ""
        items = "".join(f"<li>{_finding(finding, per_step)}</li>" for finding in findings[:MAX_FINDINGS])
        rest = len(findings) - MAX_FINDINGS
        parts.append(f"<ol>{items}</ol>" + (f"<p>{rest} more: findings()</p>" if rest > 0 else ""))
    names = (name for name in opened.report_names if name not in SAID_ELSEWHERE)
    first = next((table for table in map(opened.table, names) if len(table)), None)
    if first is not None:
        parts.append(table_html(first, ROWS))
    listed = ", ".join(map(html_text, opened.table_names))
    parts.append(f"<details><summary>{len(opened.table_names)} tables</summary>{listed}</details>")
    return f"<div>{''.join(parts)}</div>"


def _finding(finding: Finding, per_step: str) -> str:
    sign = "≤ " if finding.bound else ""
    gain = f" <small>{sign}{format_ms(finding.gain_ms)}{per_step}</small>" if finding.gain_ms else ""
    place = f"<br><small>{html_text(finding.place)}</small>" if finding.place else ""
    return f"<b>{html_text(finding.code)}</b> {html_text(finding.title)}{gain}{place}"
