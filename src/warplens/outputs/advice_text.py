"""Findings as terminal text and as JSON, each with the rows behind it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from warplens.outputs.terminal import TableText
from warplens_run.base.printable import clean, encodable
from warplens_run.base.text import fold
from warplens_run.base.units import format_count, format_ms

if TYPE_CHECKING:
    from warplens.model.finding import Evidence, Finding

Line = tuple[str, str]
INDENT = "       "
MAX_ROWS = 4


APART = "These save GPU time, not step time, while the host is the limit:"


@dataclass(frozen=True)
class AdviceScope:
    """What applies to the findings as a whole."""

    verdict: str
    per_step: bool
    min_gain_percent: float
    notes: Sequence[str] = ()
    """What this trace does not record, so that rules cannot fire."""
    gains_of: str = ""
    """What gains are of, the clock of the Answer: `one step: 31 to 52 ms (estimated)`."""
    furthest: str = ""
    """The op that loses most time, for where there are no findings."""


def render_advice(findings: Sequence[Finding], gains: Sequence[str], scope: AdviceScope, *, width: int) -> TableText:
    """The verdict, then one block per finding: what, how much, where, why, what to do, and the rows behind it.

    `gains` are those of the findings in the Answer's words.
    """
    lines: list[Line] = [(line, "bold") for line in fold(clean(scope.verdict), max(20, width))]
    for note in scope.notes:
        lines += [(line, "yellow") for line in fold(clean(f"note: {note}"), max(20, width), "      ")]
    is_apart = False
    pairs = sorted(zip(findings, gains, strict=True), key=lambda pair: _apart_by_energy(pair[0]))
    for number, (finding, gain) in enumerate(pairs, start=1):
        if finding.saves_only_gpu_time and not is_apart:
            is_apart = True
            lines += [("", "none"), *((line, "none") for line in fold(APART, max(20, width)))]
        title = clean(f"{number}. {finding.code}  {finding.title}")
        lines += [("", "none"), *((line, "bold") for line in _hanging(title, width, INDENT))]
        is_time = scope.per_step and finding.gain_ms > 0 and not finding.saves_only_gpu_time
        parts = (
            ("gain", f"{gain} per step" if gain and is_time else gain),
            ("where", finding.place),
            ("why", finding.evidence),
            ("do", finding.advice),
            ("proof", finding.proof),
        )
        for label, text in parts:
            lines += _paragraph(label, text, width)
        for row in finding.rows[:MAX_ROWS]:
            lines += [(line, "dim") for line in _hanging(_row(row, scope.per_step), width, f"{INDENT}  ")]
        if len(finding.rows) > MAX_ROWS:
            lines.append((f"{INDENT}… {len(finding.rows) - MAX_ROWS} more: table evidence", "dim"))
    return TableText((*lines, ("", "none"), *_ending(findings, scope, width)))


def _apart_by_energy(finding: Finding) -> tuple[bool, float]:
    """Those that save GPU time alone come last, by the energy that they were measured to save."""
    return finding.saves_only_gpu_time, -finding.saved_joules if finding.saves_only_gpu_time else 0.0


def _ending(findings: Sequence[Finding], scope: AdviceScope, width: int) -> list[Line]:
    if not findings:
        limit = f"no gain of {scope.min_gain_percent:g} % of the time or more"
        recorded = " in what this trace records" if scope.notes else ""
        base = [(line, "dim") for line in fold(_base(scope), max(20, width))]
        texts = [f"no findings: {limit}{recorded}", scope.furthest]
        return [*base, *((line, "none") for text in texts if text for line in fold(clean(text), max(20, width)))]
    text = f"{_base(scope)}warplens explain CODE shows how a gain is estimated."
    if any(finding.bound for finding in findings):
        text = f"≤: upper bound: the gain if the cause were removed entirely. {text}"
    return [(line, "dim") for line in fold(text, max(20, width))]


def _base(scope: AdviceScope) -> str:
    return f"Gains are of {scope.gains_of}. " if scope.gains_of else ""


def _paragraph(label: str, text: str, width: int) -> list[Line]:
    wrapped = fold(clean(text), max(20, width - len(INDENT) - 7))
    return [(f"{INDENT}{label if number == 0 else '':<7}{line}", "none") for number, line in enumerate(wrapped)]


def _hanging(text: str, width: int, indent: str) -> list[str]:
    """Wrapped, with later lines indented; a wide screen never needs it."""
    return fold(text, max(40, width), indent)


def _row(row: Evidence, per_step: bool) -> str:
    parts = [row.what]
    if row.time_ms:
        count = f", {format_count(row.count)} in the trace" if row.count else ""
        parts.append(f"{format_ms(row.time_ms)}{' per step' if per_step else ''}{count}")
    if row.detail:
        parts.append(row.detail)
    return f"{INDENT}- {clean(' · '.join(parts))}"


def advice_json(findings: Sequence[Finding]) -> bytes:
    """The rows of the table `findings`, each with its `targets` and `evidence_rows`, which have targets as well."""
    import msgspec

    rows = [{**_encodable(finding), "evidence_rows": [_encodable(row) for row in finding.rows]} for finding in findings]
    return msgspec.json.encode(rows)


def _encodable(record: Finding | Evidence) -> dict[str, object]:
    """Rounded as the tables are; text that holds half a character cannot be encoded."""
    names = [field.name for field in fields(record) if field.name not in ("rows", "edits", "slow_steps", "expected_ms")]
    values = {name: getattr(record, name) for name in names}
    return {
        name: encodable(value) if isinstance(value, str) else round(value, 6) if isinstance(value, float) else value
        for name, value in values.items()
    }
