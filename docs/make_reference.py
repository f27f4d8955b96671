"""Writes docs/reference/tables.md from the tables' own columns; a test keeps the two equal."""

from __future__ import annotations

from pathlib import Path

from warplens.advice import EXPLAIN, explain
from warplens.analyses.time.gaps import CAUSES
from warplens.analyses.time.timeline import MEANINGS
from warplens.api import Profile
from warplens.cli.explaining.kernel_topics import kernel_tables
from warplens.comparison import compare_profiles
from warplens.kernel_lab.suggesting.explanations import EXPLANATIONS
from warplens.kernel_lab.suggesting.records import CODES
from warplens.kernel_lab.tracing.records import FAULT_KINDS
from warplens.model.quality import MESSAGES
from warplens.model.trace import empty_trace
from warplens.replay.result_file import empty_result

TARGET = Path(__file__).parent / "reference" / "tables.md"
HEAD = """# Tables

Every table and column; `warplens explain NAME` prints the same. CSV, Parquet, JSON and Excel carry these names
verbatim; a column is added, never renamed. Written by docs/make_reference.py.
"""


def reference() -> str:
    parts = [HEAD]
    profile = Profile(empty_trace(), replayed=empty_result())
    tables = [profile.table(name) for name in profile.all_table_names]
    for table in [*tables, *compare_profiles(profile, profile).tables(), *kernel_tables()]:
        parts.append(f"## {table.name}\n\n{table.meaning[0].upper()}{table.meaning[1:]}.\n")
        rows = [f"| `{column.name}` | {column.unit} | {_cell(column.meaning)} |" for column in table.columns]
        parts.append("\n".join(["| column | unit | meaning |", "|---|---|---|", *rows]) + "\n")
    parts.append(_listing("Measures of the timeline", MEANINGS))
    parts.append(_listing("Causes of idleness", CAUSES))
    parts.append(_listing("Finding codes", {code: explain(code) for code in EXPLAIN}))
    parts.append(_listing("Codes of kernel check", {code: f"{CODES[code]}. {EXPLANATIONS[code]}" for code in CODES}))
    parts.append(_listing("Faults of kernel trace", FAULT_KINDS))
    notes = {code: f"{message} ({severity})" for code, (severity, message) in MESSAGES.items()}
    parts.append(_listing("Quality notes", notes))
    return "\n".join(parts)


def _listing(title: str, entries: dict[str, str]) -> str:
    return f"## {title}\n\n" + "\n".join(f"- `{name}`: {text}" for name, text in entries.items()) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    TARGET.write_text(reference())
